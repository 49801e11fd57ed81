import { CodedFault, type FaultCategory } from '@holdfast/kernel'

/**
 * `UNKNOWN`: no answer came in time; the request may have taken effect. `STALE_PLACEMENT`: the
 * placement group has changed; ask for its newer version. `UNVERIFIED`: the node was away for too
 * long to be a source. `INVALID`: the request itself was refused.
 */
export type BlobFaultCode =
  | 'NOT_FOUND'
  | 'CORRUPT'
  | 'IO'
  | 'FULL'
  | 'UNAVAILABLE'
  | 'CANCELLED'
  | 'CLOSED'
  | 'UNKNOWN'
  | 'STALE_PLACEMENT'
  | 'UNVERIFIED'
  | 'INVALID'

const categories: Record<BlobFaultCode, FaultCategory> = {
  NOT_FOUND: 'not-found',
  CORRUPT: 'corrupt',
  IO: 'unavailable',
  FULL: 'full',
  UNAVAILABLE: 'unavailable',
  CANCELLED: 'cancelled',
  CLOSED: 'unavailable',
  UNKNOWN: 'unknown',
  STALE_PLACEMENT: 'fenced',
  UNVERIFIED: 'unavailable',
  INVALID: 'invalid',
}

export class BlobFault extends CodedFault<BlobFaultCode> {
  override readonly name = 'BlobFault'

  constructor(code: BlobFaultCode, message: string, options?: ErrorOptions) {
    super(code, message, { ...options, category: categories[code] })
  }
}

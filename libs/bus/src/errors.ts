import { CodedFault, type FaultCategory } from '@holdfast/kernel'

export type BusFaultCode =
  | 'NO_RESPONDERS'
  | 'TIMEOUT'
  | 'TOO_LARGE'
  | 'BUSY'
  | 'CLOSED'
  | 'CANCELLED'
  /** The servers refuse the credentials. */
  | 'REFUSED'

const categories: Record<BusFaultCode, FaultCategory> = {
  NO_RESPONDERS: 'unavailable',
  TIMEOUT: 'unknown',
  TOO_LARGE: 'invalid',
  BUSY: 'unavailable',
  CLOSED: 'unavailable',
  CANCELLED: 'cancelled',
  REFUSED: 'invalid',
}

export class BusFault extends CodedFault<BusFaultCode> {
  override readonly name = 'BusFault'

  constructor(code: BusFaultCode, message: string, options?: ErrorOptions) {
    super(code, message, { ...options, category: categories[code] })
  }
}

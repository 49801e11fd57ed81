/**
 * Faults in transit between processes: the code travels as text, so that its category is the same
 * on the other side.
 */
import { type ServiceError, status } from '@grpc/grpc-js'
import { BlobFault, type BlobFaultCode } from '@holdfast/blob-store'

/** Trailer of gRPC calls; header and trailer of byte streams. */
export const faultKey = 'holdfast-fault'

const statusOf: Record<BlobFaultCode, status> = {
  NOT_FOUND: status.NOT_FOUND,
  CORRUPT: status.DATA_LOSS,
  IO: status.INTERNAL,
  FULL: status.RESOURCE_EXHAUSTED,
  UNAVAILABLE: status.UNAVAILABLE,
  CANCELLED: status.CANCELLED,
  CLOSED: status.UNAVAILABLE,
  UNKNOWN: status.DEADLINE_EXCEEDED,
  STALE_PLACEMENT: status.FAILED_PRECONDITION,
  UNVERIFIED: status.FAILED_PRECONDITION,
  INVALID: status.INVALID_ARGUMENT,
}

const httpStatusOf: Record<BlobFaultCode, number> = {
  NOT_FOUND: 404,
  CORRUPT: 500,
  IO: 500,
  FULL: 507,
  UNAVAILABLE: 503,
  CANCELLED: 499,
  CLOSED: 503,
  UNKNOWN: 504,
  STALE_PLACEMENT: 409,
  UNVERIFIED: 409,
  INVALID: 400,
}

function isFaultCode(text: unknown): text is BlobFaultCode {
  return typeof text === 'string' && Object.hasOwn(statusOf, text)
}

/** How a server reports an error of its store. */
export function faultOfStore(error: unknown): BlobFault {
  if (error instanceof BlobFault) return error
  const { code, message } = error as { code?: unknown; message?: string }
  return new BlobFault(isFaultCode(code) ? code : 'UNAVAILABLE', `the node failed: ${message}`, {
    cause: error,
  })
}

export function grpcStatusOf({ code }: BlobFault): status {
  return statusOf[code]
}

export function httpStatusOfFault({ code }: BlobFault): number {
  return httpStatusOf[code]
}

/**
 * A fault reported by a node. `CLOSED` from a node becomes `UNAVAILABLE`: the node's store is
 * closed, not the store of this client.
 */
export function namedFault(code: unknown, message: string): BlobFault | undefined {
  if (!isFaultCode(code)) return undefined
  return new BlobFault(code === 'CLOSED' ? 'UNAVAILABLE' : code, message)
}

const neverSent =
  /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|No connection established|Name resolution failed/

/**
 * @param changes the call may have changed something: without an answer its outcome is unknown,
 *   unless it surely was never sent.
 */
export function faultOfCall(node: string, error: ServiceError, { changes }: { changes: boolean }): BlobFault {
  const text = `${node}: ${error.details || error.message}`
  const named = namedFault(error.metadata?.get(faultKey)[0], text)
  if (named !== undefined) return named
  return new BlobFault(codeOfStatus(error.code, changes && !neverSent.test(text)), text, { cause: error })
}

function codeOfStatus(code: status, perhapsDone: boolean): BlobFaultCode {
  if (code === status.DEADLINE_EXCEEDED) return 'UNKNOWN'
  if (code === status.CANCELLED) return 'CANCELLED'
  const refused: status[] = [status.UNAUTHENTICATED, status.INVALID_ARGUMENT, status.UNIMPLEMENTED]
  if (refused.includes(code)) return 'INVALID'
  return perhapsDone ? 'UNKNOWN' : 'UNAVAILABLE'
}

/** Maps the driver's errors to faults. */
import { JournalFault } from '@holdfast/journal'
import cassandra from 'cassandra-driver'

/**
 * Whether the request of a driver error may have taken effect. A coordinator with too few replicas
 * wrote nothing; everything after a request was sent (a timeout, a broken connection) may have
 * taken effect.
 */
export function faultOfDriver(error: unknown): Error {
  if (error instanceof JournalFault || error instanceof RangeError) return error
  const { message } = error as Error
  const { responseErrorCodes } = cassandra.types
  if (error instanceof cassandra.errors.ResponseError) {
    const untouched: number[] = [
      responseErrorCodes.unavailableException,
      responseErrorCodes.overloaded,
      responseErrorCodes.isBootstrapping,
      responseErrorCodes.readTimeout,
    ]
    if (untouched.includes(error.code)) return new JournalFault('UNAVAILABLE', message, { cause: error })
  }
  if (error instanceof cassandra.errors.NoHostAvailableError && neverSent(error))
    return new JournalFault('UNAVAILABLE', message, { cause: error })
  return new JournalFault('UNKNOWN', message, { cause: error })
}

/** Whether opening failed because a node refused the credentials. */
export function isRefused(fault: unknown): boolean {
  const { cause = fault } = fault as { cause?: unknown }
  const reasons =
    cause instanceof cassandra.errors.NoHostAvailableError ? Object.values(cause.innerErrors ?? {}) : [cause]
  return reasons.some((reason) => reason instanceof cassandra.errors.AuthenticationError)
}

function neverSent(error: cassandra.errors.NoHostAvailableError): boolean {
  return Object.values(
    (error.innerErrors ?? {}) as Record<string, Error & { requestNotWritten?: boolean; code?: string }>,
  ).every(
    (inner) =>
      inner.requestNotWritten === true || inner.code === 'ECONNREFUSED' || inner.code === 'ETIMEDOUT',
  )
}

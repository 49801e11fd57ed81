/**
 * The contract's statuses and their HTTP codes, in one table. A status outside the table names a
 * parameter: 400.
 */
const httpCodes = {
  'error-body': 400,
  'error-host': 400,
  'error-idempotencyKey': 400,
  'error-request': 400,
  'error-token': 401,
  'error-notPremium': 401,
  'error-owner': 401,
  'error-notOwner': 401,
  'error-passwordRequired': 401,
  'error-passwordWrong': 401,
  'error-accountId': 403,
  'error-limits': 403,
  'error-rootFolder': 403,
  'error-protectedFolder': 403,
  'error-forbidden': 403,
  'error-notFound': 404,
  'error-method': 405,
  'error-timeout': 408,
  'error-alreadyDone': 409,
  'error-precondition': 412,
  'error-bodySize': 413,
  'error-range': 416,
  'error-expect': 417,
  'error-rateLimit': 429,
  'error-headerSize': 431,
  'error-blocked': 451,
  'error-internal': 500,
  'error-unavailable': 503,
  'error-storageFull': 507,
} as const satisfies Record<`error-${string}`, number>

/** A status of the table. */
export type KnownStatus = keyof typeof httpCodes

export function httpCodeOf(status: string): number {
  return Object.hasOwn(httpCodes, status) ? httpCodes[status as KnownStatus] : 400
}

/** Seconds after which a client may retry a busy part, where no better value is known. */
const busyRetrySeconds = 1

/** Thrown by handlers; the host's error handler writes it as the envelope. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: string
  /** For Retry-After, seconds. */
  readonly retryAfter: number | undefined

  constructor(status: string, options: { retryAfter?: number } = {}) {
    super(status)
    this.status = status
    this.retryAfter = options.retryAfter ?? (status === 'error-rateLimit' ? busyRetrySeconds : undefined)
  }
}

/** Seconds after which an unavailable part may be back. */
export const unavailableRetrySeconds = 2

/**
 * How a client sees an exception. Refusals stay; faults map by their category, fastify's errors by
 * their code; all else is `error-internal`.
 */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const { code, category, overloaded } = (error ?? {}) as Record<string, unknown>
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new Refusal('error-bodySize')
  if (typeof code === 'string' && (code.startsWith('FST_ERR_CTP_') || code === 'ECONNRESET')) {
    return new Refusal('error-body')
  }
  if (overloaded === true) return new Refusal('error-rateLimit', { retryAfter: busyRetrySeconds })
  if (category === 'full') return new Refusal('error-storageFull', { retryAfter: 60 })
  if (category === 'unavailable' || category === 'unknown' || category === 'fenced') {
    return new Refusal('error-unavailable', { retryAfter: unavailableRetrySeconds })
  }
  return new Refusal('error-internal')
}

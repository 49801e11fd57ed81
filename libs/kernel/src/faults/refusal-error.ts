/** Seconds after which a client may retry a busy part, where no better value is known. */
export const busyRetrySeconds = 1

/** The service refuses a request, with a status of the contract: `error-…`. */
export class RefusalError extends Error {
  override readonly name = 'RefusalError'
  readonly status: string
  /** For Retry-After, seconds. */
  readonly retryAfter: number | undefined

  constructor(status: string, options: { retryAfter?: number } = {}) {
    super(status)
    this.status = status
    this.retryAfter = options.retryAfter ?? (status === 'error-rateLimit' ? busyRetrySeconds : undefined)
  }
}

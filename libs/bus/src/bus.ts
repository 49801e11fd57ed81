/**
 * Request/reply and publish between processes. At most once: a request may be lost, delivered late
 * or twice (through a retry of the caller's); nothing here is ever the reason why something is
 * durable.
 */
export interface Bus {
  /**
   * Sends one message and waits for one answer. Messages are copied: nothing is shared between the
   * two sides.
   *
   * @param message at most `maxMessageBytes`. The answer may be of any number of parts, each within
   *   the bound; they arrive joined.
   * @throws BusFault `NO_RESPONDERS` at once when nobody serves the subject; `TIMEOUT` when the
   *   answer did not come in time: the outcome is unknown; `TOO_LARGE` and `BUSY` (too many
   *   requests under way here) before anything is sent; `CANCELLED` when the signal ended the wait:
   *   the outcome is unknown unless it was aborted before; `CLOSED`.
   */
  request(
    subject: string,
    message: Uint8Array,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Uint8Array>

  /**
   * Serves a subject; several servers of one subject share its requests, each goes to one of them.
   * The handler's rejection reaches the caller as a `TIMEOUT`: handlers answer errors themselves.
   */
  serve(subject: string, handler: (message: Uint8Array) => Promise<Uint8Array>): Subscription

  /**
   * To whoever listens now; nobody is told whether it arrived. One publisher's messages arrive in
   * order. After `close` they are dropped.
   * @throws BusFault `TOO_LARGE`.
   */
  publish(subject: string, message: Uint8Array): void
  subscribe(subject: string, handler: (message: Uint8Array) => void): Subscription

  /**
   * Stops serving, lets requests under way end, both those served and those sent, then disconnects.
   */
  close(): Promise<void>
}

export interface Subscription {
  close(): void
}

/** Bound of one message, equal in every adapter, below the default of NATS (1 MiB). */
export const maxMessageBytes = 512 * 1024

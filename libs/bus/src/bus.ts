import type { Subscription } from '@holdfast/kernel'

/**
 * Request/reply and publish between processes. At most once: a request may be lost, delivered late
 * or twice (through a retry of the caller). Durability never depends on the bus.
 */
export interface Bus {
  /**
   * Sends one message and waits for one answer. Messages are copied: the two sides share nothing.
   *
   * @param message at most `maxMessageBytes`. The answer may have any number of parts, each within
   *   the bound; they arrive joined.
   * @throws BusFault `NO_RESPONDERS` at once when the subject has no server; `TIMEOUT` when the
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
   * Serves a subject. Several servers of one subject share its requests; each request goes to one
   * of them. The handler's rejection reaches the caller as a `TIMEOUT`: handlers answer errors
   * themselves.
   */
  serve(subject: string, handler: (message: Uint8Array) => Promise<Uint8Array>): Subscription

  /**
   * Sends to all current subscribers, without confirmation. One publisher's messages arrive in
   * order. After `close` they are dropped.
   * @throws BusFault `TOO_LARGE`.
   */
  publish(subject: string, message: Uint8Array): void
  /** A subject that ends in `.>` stands for all subjects below it. */
  subscribe(subject: string, handler: (message: Uint8Array) => void): Subscription

  /** Stops serving, lets running requests end, both served and sent ones, then disconnects. */
  close(): Promise<void>
}

/** Bound of one message, equal in every adapter, below the default of NATS (1 MiB). */
export const maxMessageBytes = 512 * 1024

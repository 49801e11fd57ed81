/**
 * Who may upload where, remembered for a moment, so that a client who sends many small files is not
 * asked about twice for each.
 *
 * It only spares the look before the bytes are read. Whether the file is added is decided by its
 * account all the same, so a token that was reset or a folder that is gone is noticed there at
 * once; what such an upload has stored by then is collected like any other that was refused.
 */
import type { Clock } from '@holdfast/kernel'

const lifetimeMs = 1_000
/** About 200 bytes each. */
const permitsMax = 10_000

export class RecentPermits {
  readonly #clock: Clock
  /** When it was asked for, by token and folder; oldest first. */
  readonly #permits = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  has(token: Buffer, folderId: string | undefined): boolean {
    const askedMs = this.#permits.get(nameOf(token, folderId))
    return askedMs !== undefined && this.#clock.monotonic() - askedMs < lifetimeMs
  }

  /** @param askedMs monotonic: the answer may have been true only then. */
  add(token: Buffer, folderId: string | undefined, askedMs: number): void {
    const name = nameOf(token, folderId)
    this.#permits.delete(name)
    this.#permits.set(name, askedMs)
    for (const [oldest, ms] of this.#permits) {
      if (this.#permits.size <= permitsMax && askedMs - ms < lifetimeMs) return
      this.#permits.delete(oldest)
    }
  }
}

function nameOf(token: Buffer, folderId: string | undefined): string {
  return token.toString('latin1') + (folderId ?? '')
}

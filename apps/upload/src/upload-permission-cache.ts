/**
 * Recent upload permissions, so that a client that sends many small files causes one request per
 * file instead of two.
 *
 * It only saves the check before the bytes are read. The account still decides whether the file is
 * added, so a token reset or a deleted folder takes effect at once; the bytes of such an upload are
 * collected like any other refused one.
 */
import type { Clock } from '@holdfast/kernel'

const lifetimeMs = 1_000
/** About 200 bytes each. */
const permitsMax = 10_000

export class UploadPermissionCache {
  readonly #clock: Clock
  /** Time of the request, by token and folder; oldest first. */
  readonly #permits = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  has(token: Buffer, folderId: string | undefined): boolean {
    const askedMs = this.#permits.get(permissionKey(token, folderId))
    return askedMs !== undefined && this.#clock.monotonic() - askedMs < lifetimeMs
  }

  /** @param askedMs monotonic: the answer may have been true only then. */
  add(token: Buffer, folderId: string | undefined, askedMs: number): void {
    const name = permissionKey(token, folderId)
    this.#permits.delete(name)
    this.#permits.set(name, askedMs)
    for (const [oldest, ms] of this.#permits) {
      if (this.#permits.size <= permitsMax && askedMs - ms < lifetimeMs) return
      this.#permits.delete(oldest)
    }
  }
}

function permissionKey(token: Buffer, folderId: string | undefined): string {
  return token.toString('latin1') + (folderId ?? '')
}

/**
 * Whether an upload may be dropped in favour of an existing copy.
 *
 * After the upload its bytes are gone, and they may be the only correct ones. So, once all bytes of
 * the upload have arrived, the old copy is read from the disk, unless the store has read or written
 * it since then. Uploads that end at one time share one read. A copy is replaced if it is damaged,
 * on an unreadable sector, or in a file that cannot be opened.
 */
import { BlobFault } from '@holdfast/blob-store'
import type { Copy, RowEntry } from '../catalogue/rows.ts'
import { isUnopenable } from '../disk/faults.ts'

/**
 * Large copies that are read at once for this; more wait. The device has other users, and each
 * reader needs a MiB of memory.
 */
const largeReadsMax = 2

export interface KnownCopiesDeps {
  /** Reads all of it. @throws BlobFault `CORRUPT` once it is marked, `IO`. */
  verify(entry: RowEntry, copy: Copy): Promise<void>
  /** Marks the copy as damaged. */
  damaged(entry: RowEntry, copy: Copy, fault: BlobFault): void
}

export class KnownCopies {
  readonly #deps: KnownCopiesDeps
  readonly #running = new Map<Copy, Promise<void>>()
  #largeReads = 0
  readonly #line: (() => void)[] = []

  constructor(deps: KnownCopiesDeps) {
    this.#deps = deps
  }

  /**
   * Verifies a copy, once for all concurrent callers.
   * @throws BlobFault `CORRUPT`: it is marked; `IO`.
   */
  verify(entry: RowEntry, copy: Copy): Promise<void> {
    let running = this.#running.get(copy)
    if (running === undefined) {
      running = this.#inTurn(entry, copy).finally(() => this.#running.delete(copy))
      this.#running.set(copy, running)
    }
    return running
  }

  /**
   * The result for an upload of this content. It is `undefined` when nothing has to be done: there
   * is no copy, or one that was whole since the upload's last byte. Otherwise copies are verified
   * until one is whole.
   *
   * @returns a damaged copy to be replaced when none is whole, and `unsure` when one could not be
   *   read for a reason that says nothing about the disk: the upload becomes its own copy.
   */
  look(entry: RowEntry, wanted: CopyUpload): undefined | Promise<Copy | 'unsure' | undefined> {
    if (entry.copies.length === 0) return undefined
    const known = knownCopyOf(entry, wanted)
    return known !== undefined && wasWhole(known, wanted) ? undefined : this.#look(entry, wanted)
  }

  async #look(entry: RowEntry, wanted: CopyUpload): Promise<Copy | 'unsure' | undefined> {
    for (;;) {
      const known = knownCopyOf(entry, wanted)
      if (known === undefined) return knownCopyOf(entry, wanted, { quarantined: true })
      if (wasWhole(known, wanted)) return undefined
      try {
        await this.verify(entry, known)
      } catch (error) {
        if (!(error instanceof BlobFault) || error.code === 'CLOSED') throw error
        if (error.code === 'CORRUPT') continue
        if (!saysUnreadable(error)) return 'unsure'
        // It may become readable again; whole bytes are here now.
        this.#deps.damaged(entry, known, error)
      }
      if (!known.quarantined && entry.copies.includes(known) && !wasWhole(known, wanted)) return 'unsure'
    }
  }

  async #inTurn(entry: RowEntry, copy: Copy): Promise<void> {
    const large = copy.inlineOffset === undefined
    if (large) await this.#takeTurn()
    try {
      await this.#deps.verify(entry, copy)
    } finally {
      if (large) this.#endTurn()
    }
  }

  async #takeTurn(): Promise<void> {
    if (this.#largeReads < largeReadsMax) this.#largeReads++
    // at most as many as uploads may be open
    else await new Promise<void>((resolve) => this.#line.push(resolve))
  }

  #endTurn(): void {
    const next = this.#line.shift()
    if (next === undefined) this.#largeReads--
    else next()
  }
}

/** The disk, or the permissions of its file, keep the copy from being read. */
function saysUnreadable({ cause }: BlobFault): boolean {
  const { path = '' } = (cause ?? {}) as NodeJS.ErrnoException
  return cause !== undefined && isUnopenable(cause, path)
}

function wasWhole({ verifiedAt }: Copy, { endedAt }: CopyUpload): boolean {
  return verifiedAt >= endedAt
}

interface CopyUpload extends CopyProperties {
  /** When all of its bytes were here; monotonic milliseconds. */
  endedAt: number
}

/** The properties that a copy must share with the upload that is dropped for it. */
export interface CopyProperties {
  size: number
  placementGroup: number
}

/** The copy with the lowest incarnation, as every node of the group chooses. */
export function knownCopyOf(
  { copies, deleting }: RowEntry,
  { size, placementGroup }: CopyProperties,
  { quarantined = false } = {},
): Copy | undefined {
  let chosen: Copy | undefined
  for (const copy of copies) {
    if (copy.quarantined !== quarantined || copy.size !== size || copy.placementGroup !== placementGroup)
      continue
    if (deleting.includes(copy)) continue
    if (chosen === undefined || copy.incarnation.compare(chosen.incarnation) < 0) chosen = copy
  }
  return chosen
}

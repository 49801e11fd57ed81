/**
 * Protects a copy from deletion. It is in the queue of writes, so it is decided before or after a
 * deletion, never during one.
 */
import type { RowEntry } from '../catalogue/rows.ts'
import type { Intent, WriterDeps } from './group.ts'

export class PinIntent implements Intent {
  readonly #writer: WriterDeps
  readonly #entry: RowEntry
  readonly #incarnation: Uint8Array
  readonly #ttlMs: number
  readonly #whole: boolean
  readonly done: Promise<boolean>
  #resolve!: (pinned: boolean) => void
  #reject!: (error: Error) => void

  /** @param options.whole true: a damaged copy is not pinned. */
  constructor(
    deps: WriterDeps,
    entry: RowEntry,
    incarnation: Uint8Array,
    { ttlMs, whole }: { ttlMs: number; whole: boolean },
  ) {
    this.#writer = deps
    this.#entry = entry
    this.#incarnation = incarnation
    this.#ttlMs = ttlMs
    this.#whole = whole
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  join(): boolean {
    const copy = this.#entry.copies.find(({ incarnation }) => incarnation.equals(this.#incarnation))
    const here =
      copy !== undefined && !this.#entry.deleting.includes(copy) && !(this.#whole && copy.quarantined)
    if (here) this.#writer.pins.extend(this.#entry.id, copy.incarnation, this.#ttlMs)
    this.#resolve(here)
    return true
  }

  refuse(error: Error): void {
    this.#reject(error)
  }
}

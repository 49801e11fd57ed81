/**
 * The account's pending effects: sign-in mails and releases of blobs. Part of the state: a change
 * adds them, the change that reports them done ends them. Numbers rise and are never reused.
 */
import type { Effect } from '@holdfast/wire'
import type { BlobTable } from '../tree/blobs.ts'

export class Effects {
  readonly #blobs: BlobTable
  /** Mails, in the order of numbers; releases are in the blob table. */
  readonly #pending = new Map<number, Effect>()
  next = 1

  constructor(blobs: BlobTable) {
    this.#blobs = blobs
  }

  get bytes(): number {
    return this.#pending.size * 400
  }

  addMail(mail: { email: string; tokenKeyId: number; tokenCounter: number }): void {
    this.#add({ $case: 'signInMail', value: mail })
  }

  addRelease(blobRow: number): void {
    this.#blobs.owe(blobRow, this.next++)
  }

  done(number: number): void {
    if (!this.#pending.delete(number)) this.#blobs.released(number)
  }

  /** The greatest number so far; 0: none. */
  get last(): number {
    return this.next - 1
  }

  /**
   * Oldest first, of the numbers after `after` up to `through`. Where that range has fewer numbers
   * than there are pending effects, which is the case after every change, they are looked up one by
   * one; else the others are skipped without being made.
   */
  *all(after = 0, through = this.last): Generator<Effect> {
    if (through - after > this.#pending.size + this.#blobs.releaseCount) {
      for (const effect of this.#merged(after)) {
        if (effect.number > through) return
        yield effect
      }
      return
    }
    for (let number = after + 1; number <= through; number++) {
      const row = this.#blobs.rowOfRelease(number)
      const effect = row === undefined ? this.#pending.get(number) : this.#release([number, row])
      if (effect !== undefined) yield effect
    }
  }

  *#merged(after: number): Generator<Effect> {
    const releases = this.#blobs.releases()[Symbol.iterator]()
    let release = releases.next()
    while (!release.done && release.value[0] <= after) release = releases.next()
    for (const [number, effect] of this.#pending) {
      if (number <= after) continue
      for (; !release.done && release.value[0] < number; release = releases.next())
        yield this.#release(release.value)
      yield effect
    }
    for (; !release.done; release = releases.next()) yield this.#release(release.value)
  }

  /** Those that are not releases. */
  kept(): Iterable<Effect> {
    return this.#pending.values()
  }

  restore(effect: Effect): void {
    this.#pending.set(effect.number, effect)
  }

  #add(effect: NonNullable<Effect['effect']>): void {
    const number = this.next++
    this.#pending.set(number, { number, effect })
  }

  #release([number, row]: [number, number]): Effect {
    return { number, effect: { $case: 'blobReleased', value: { blob: this.#blobs.blob(row) } } }
  }
}

/**
 * The lookup rows that an account keeps beside its journal while it is active, and what of them is there already: `active` as long as effects
 * may be left, `wake` for its next timer, references of blobs it uses, routes of its share codes.
 */
import { type JournalHold, type LookupChange, writesPerEpochMax, writeTimeOf } from '@holdfast/journal'
import type { Batch } from './batch.ts'
import { activeKey, dueOf, wakeKey, wakeRow, writeRows } from './lookup-rows.ts'
import type { Services } from './services.ts'

/** The write times of one activation, each once. */
export class WriteTimes {
  readonly #hold: JournalHold
  readonly #writesMax: number
  readonly #onSpent: () => void
  #writes = 0

  /**
   * @param options.onSpent told when there is none left: the activation has to end, the next one has times of its own.
   * @throws JournalFault `UNAVAILABLE` when this epoch has none.
   */
  constructor(hold: JournalHold, options: { writesMax: number; onSpent: () => void }) {
    writeTimeOf(hold, 1)
    this.#hold = hold
    this.#writesMax = Math.min(options.writesMax, writesPerEpochMax)
    this.#onSpent = options.onSpent
  }

  /** Later than all before. @throws JournalFault `UNAVAILABLE` when there is none left. */
  next(): bigint {
    if (this.#writes >= this.#writesMax) this.#onSpent()
    return writeTimeOf(this.#hold, ++this.#writes)
  }
}

export class AccountRows {
  readonly #services: Services
  readonly #hold: JournalHold
  readonly #times: WriteTimes
  #active = false
  #wake: number | undefined
  /** The wake row is this activation's: an earlier owner's delete that is under way cannot remove it. */
  #ownWake = false

  /** @param wake the row as it was read. */
  constructor(
    services: Services,
    hold: JournalHold,
    { times, wake }: { times: WriteTimes; wake: Uint8Array | undefined },
  ) {
    this.#services = services
    this.#hold = hold
    this.#times = times
    this.#wake = wake && dueOf(wake)
  }

  /** Effects were found that are not done: the owner that left them has written the row, and did not delete it. */
  foundActive(): void {
    this.#active = true
  }

  /** After a recovery: the timer is durable again before any reply. */
  async resume(due: number | undefined): Promise<void> {
    const isClean = this.#hold.previousOwner === undefined
    if (!isClean || this.#isEarlier(due)) await this.#writeWake(due)
  }

  /** In the order in which they are issued, all at once. */
  before({ uses, routes }: Batch): Promise<void> {
    const rows: LookupChange[] = [...uses].map((key) => ({ put: key, value: new Uint8Array() }))
    for (const route of routes) rows.push(route)
    if (!this.#active)
      rows.push({ put: activeKey(this.#hold.account), value: Buffer.from(this.#services.hostId) })
    return this.#write(rows)
  }

  /** References of blobs that the account uses, which were missing. */
  restore(keys: readonly string[]): Promise<void> {
    return this.#write(keys.map((key) => ({ put: key, value: new Uint8Array() })))
  }

  async beside({ due }: Batch): Promise<void> {
    if (!this.#ownWake || this.#isEarlier(due)) await this.#writeWake(due)
  }

  /** The rows before and beside are durable. */
  written(): void {
    this.#active = true
  }

  /** When it leaves. */
  async last({ due, keepActive }: { due: number | undefined; keepActive: boolean }): Promise<void> {
    const { account } = this.#hold
    const rows: LookupChange[] = []
    if (due !== this.#wake)
      rows.push(due === undefined ? { delete: wakeKey(account) } : wakeRow(account, due))
    const isLeftOver = this.#hold.previousOwner !== undefined
    if ((this.#active || isLeftOver) && !keepActive) rows.push({ delete: activeKey(account) })
    await this.#write(rows)
  }

  async #writeWake(due: number | undefined): Promise<void> {
    if (due === undefined) return
    await this.#write([wakeRow(this.#hold.account, due)])
    this.#wake = due
    this.#ownWake = true
  }

  #isEarlier(due: number | undefined): boolean {
    return due !== undefined && (this.#wake === undefined || due < this.#wake)
  }

  /** All are issued at once, ahead of whatever is issued next. */
  async #write(rows: readonly LookupChange[]): Promise<void> {
    if (rows.length === 0) return
    const { lookups, limits } = this.#services
    await writeRows(lookups, rows, { rowsMax: limits.lookupRowsMax, writeTime: this.#times.next() })
  }
}

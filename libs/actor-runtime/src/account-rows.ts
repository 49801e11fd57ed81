/**
 * The lookup rows that an account keeps beside its journal while it is active, and what of them is there already: `active` as long as effects
 * may be left, `wake` for its next timer, references of blobs it uses, codes it has given out.
 */
import type { JournalHold, LookupChange } from '@holdfast/journal'
import type { Effect } from '@holdfast/wire'
import type { Batch } from './batch.ts'
import { activeKey, codeRows, dueOf, wakeKey, wakeRow, writeRows } from './lookup-rows.ts'
import type { Services } from './services.ts'

export class AccountRows {
  readonly #services: Services
  readonly #hold: JournalHold
  #active: boolean
  #wake: number | undefined

  /** @param wake the row as it was read. */
  constructor(services: Services, hold: JournalHold, wake: Uint8Array | undefined) {
    this.#services = services
    this.#hold = hold
    // After an unclean end the row may be there, whoever wrote it.
    this.#active = hold.previousOwner !== undefined
    this.#wake = wake && dueOf(wake)
  }

  /** Effects were found that are not done: whoever left them had the row. */
  foundActive(): void {
    this.#active = true
  }

  /** After a recovery: rows that are due before any reply are durable again. */
  async resume(effects: Iterable<Effect>, due: number | undefined): Promise<void> {
    await this.#writePromised(effects, due)
    this.#woken(due)
  }

  /** In the order in which they are issued, all at once. */
  before({ uses }: Batch): Promise<void> {
    const rows: LookupChange[] = [...uses].map((key) => ({ put: key, value: new Uint8Array() }))
    if (!this.#active) rows.push(this.#activePut)
    return this.#write(rows)
  }

  /** References of blobs that the account uses, which were missing. */
  restore(keys: readonly string[]): Promise<void> {
    return this.#write(keys.map((key) => ({ put: key, value: new Uint8Array() })))
  }

  beside({ codeRows: effects, due }: Batch): Promise<void> {
    return this.#writePromised(effects, due)
  }

  /** The rows before and beside are durable. */
  written({ due }: Batch): void {
    this.#active = true
    this.#woken(due)
  }

  /** When it leaves. */
  async last({ due, keepActive }: { due: number | undefined; keepActive: boolean }): Promise<void> {
    const { account } = this.#hold
    const rows: LookupChange[] = []
    if (due !== this.#wake)
      rows.push(due === undefined ? { delete: wakeKey(account) } : wakeRow(account, due))
    if (this.#active && !keepActive) rows.push({ delete: activeKey(account) })
    await this.#write(rows)
  }

  /** Somebody took over in between: the row that `last` removed may have been his. */
  async giveBackActive(): Promise<void> {
    if (this.#active) await this.#write([this.#activePut])
  }

  /** Due before the reply. They may be many, and none has to be ahead of anything: others have their turns. */
  #writePromised(effects: Iterable<Effect>, due: number | undefined): Promise<void> {
    const { lookups, limits, timers } = this.#services
    const turn = () => timers.turn()
    return writeRows(lookups, this.#promised(effects, due), { rowsMax: limits.lookupRowsMax, turn })
  }

  *#promised(effects: Iterable<Effect>, due: number | undefined): Generator<LookupChange> {
    if (this.#isEarlier(due)) yield wakeRow(this.#hold.account, due)
    yield* codeRows(effects)
  }

  #isEarlier(due: number | undefined): due is number {
    return due !== undefined && (this.#wake === undefined || due < this.#wake)
  }

  #woken(due: number | undefined): void {
    if (this.#isEarlier(due)) this.#wake = due
  }

  /** All are issued at once, ahead of whatever is issued next. */
  #write(rows: readonly LookupChange[]): Promise<void> {
    return writeRows(this.#services.lookups, rows, { rowsMax: this.#services.limits.lookupRowsMax })
  }

  get #activePut(): LookupChange {
    return { put: activeKey(this.#hold.account), value: Buffer.from(this.#services.hostId) }
  }
}

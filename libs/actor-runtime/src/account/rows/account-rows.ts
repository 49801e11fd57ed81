/**
 * The lookup rows that an account keeps beside its journal while it is active, and which of them
 * exist: `active` while effects may be pending, `wake` for its next timer, references of its blobs,
 * routes of its share codes.
 */
import {
  epochsPerTerm,
  type JournalOwnership,
  type LookupChange,
  writesPerEpochMax,
  writeTimeOf,
} from '@holdfast/journal'
import { activeSegmentPrefix, writeRows } from '../../lookups/lookup-rows.ts'
import type { Services } from '../../services.ts'
import type { Batch } from './batch.ts'

/** The write times of one activation, each once. */
export class WriteTimes {
  readonly #ownership: JournalOwnership
  readonly #writesMax: number
  readonly #onSpent: () => void
  #writes = 0

  /**
   * @param options.onSpent called when none is left: the activation must end, and the next one has
   *   its own times.
   * @throws JournalFault `UNAVAILABLE` when this epoch has none.
   */
  constructor(ownership: JournalOwnership, options: { writesMax: number; onSpent: () => void }) {
    writeTimeOf(ownership, 1)
    this.#ownership = ownership
    this.#writesMax = Math.min(options.writesMax, writesPerEpochMax)
    this.#onSpent = options.onSpent
  }

  /**
   * Later than all write times before it. @throws JournalFault `UNAVAILABLE` when there is none
   * left.
   */
  next(): bigint {
    if (this.#writes >= this.#writesMax) this.#onSpent()
    return writeTimeOf(this.#ownership, ++this.#writes)
  }
}

export class AccountRows {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #times: WriteTimes
  readonly #home: string
  /** Segment of the existing active row, and of the one that is written with the next append. */
  #active: number | undefined
  #nextActive: number | undefined
  #taking: Promise<number> | undefined
  #wake: { due: number; key: string } | undefined
  /** The wake row is this activation's: a running delete of an earlier owner cannot remove it. */
  #ownWake = false
  /** Wake rows to be deleted. */
  readonly #spentWakes = new Set<string>()

  constructor(services: Services, ownership: JournalOwnership, times: WriteTimes) {
    this.#services = services
    this.#ownership = ownership
    this.#times = times
    this.#home = services.homes.of(ownership.account)
  }

  /** Keys of active rows that this activation has put, or may have put. */
  get activeRows(): string[] {
    return [this.#active, this.#nextActive].flatMap((segment) =>
      segment === undefined ? [] : [this.#activeKey(segment)],
    )
  }

  /** After a recovery: the timer is durable again before any reply. */
  async resume(due: number | undefined): Promise<void> {
    const { account, epoch, previousOwner } = this.#ownership
    // What another region wrote may not have arrived.
    const isFirstOfTerm = epoch % epochsPerTerm === 1
    if (previousOwner !== undefined || isFirstOfTerm) await this.#writeWake(due)
    else if (due !== undefined)
      this.#wake = { due, key: this.#services.wakeHours.expectedKey({ home: this.#home, account }, due) }
  }

  /** Call it before each append: it reserves a place for the active row. May be repeated. */
  async prepare(): Promise<void> {
    const { activeSegments } = this.#services
    if (this.#active !== undefined && !activeSegments.isOld(this.#home, this.#active)) return
    if (this.#nextActive !== undefined) return
    this.#taking ??= activeSegments.take(this.#home).finally(() => {
      this.#taking = undefined
    })
    this.#nextActive = await this.#taking
  }

  /** All are issued at once, in this order. */
  async before({ uses, routes }: Pick<Batch, 'uses' | 'routes'>): Promise<void> {
    const rows: LookupChange[] = [...uses].map((key) => ({ put: key, value: new Uint8Array() }))
    for (const route of routes) rows.push(route)
    const segment = this.#nextActive
    if (segment !== undefined) rows.push({ put: this.#activeKey(segment), value: new Uint8Array() })
    await this.#write(rows)
    if (segment !== undefined) await this.#services.activeSegments.confirmAfterBreak(this.#home)
  }

  /** References of blobs that the account uses, and routes to it. */
  restore(rows: readonly LookupChange[]): Promise<void> {
    return this.#write(rows)
  }

  async beside({ due }: Batch): Promise<void> {
    if (!this.#ownWake || this.#isEarlier(due)) await this.#writeWake(due)
  }

  /** Called when the rows of `before` and `beside` are durable. */
  written(): void {
    if (this.#nextActive === undefined) return
    const before = this.#active
    this.#active = this.#nextActive
    this.#nextActive = undefined
    if (before === undefined) return
    this.#removeActive(before).catch((err: unknown) => {
      const { log } = this.#services
      log.warn(
        { account: this.#ownership.account, err },
        'cannot delete the active row; it is removed after this host leaves',
      )
    })
  }

  /** Writes an active row without an append. */
  async keepActive(): Promise<void> {
    await this.prepare()
    await this.before({ uses: new Set(), routes: [] })
    this.written()
  }

  /**
   * Removes an active or wake row that an earlier owner left, or that is no longer needed. While
   * effects or timers are pending, this activation first writes a row of its own.
   */
  async clear(row: string, { pending, due }: { pending: boolean; due: number | undefined }): Promise<void> {
    if (row.startsWith('wake/')) {
      await this.#writeWake(due)
      if (due !== undefined && row === this.#wake?.key) return
      if (row === this.#wake?.key) this.#wake = undefined
      await this.#write([{ delete: row }])
      return
    }
    if (this.activeRows.includes(row)) return
    if (pending) await this.keepActive()
    if (!this.activeRows.includes(row)) await this.#write([{ delete: row }])
  }

  /** Called at passivation, when nothing more is appended. */
  async last({ due, keepActive }: { due: number | undefined; keepActive: boolean }): Promise<void> {
    if (due === undefined) {
      if (this.#wake !== undefined) this.#spentWakes.add(this.#wake.key)
    } else if (due !== this.#wake?.due) await this.#writeWake(due)
    await this.#write([...this.#spentWakes].map((key) => ({ delete: key })))
    if (keepActive) await this.keepActive()
    else if (this.#active !== undefined) {
      await this.#removeActive(this.#active)
      this.#active = undefined
    }
  }

  async #removeActive(segment: number): Promise<void> {
    await this.#write([{ delete: this.#activeKey(segment) }])
    this.#services.activeSegments.left(this.#home, segment)
  }

  #activeKey(segment: number): string {
    const { hostId: host } = this.#services
    return `${activeSegmentPrefix({ home: this.#home, host, segment })}${this.#ownership.account}`
  }

  async #writeWake(due: number | undefined): Promise<void> {
    if (due === undefined) return
    const { wakeHours } = this.#services
    const at = { home: this.#home, account: this.#ownership.account }
    for (;;) {
      const key = wakeHours.keyFor(at, due)
      this.#spentWakes.delete(key)
      await this.#write([{ put: key, value: Buffer.from(String(due)) }])
      const holds = await wakeHours.holds(key)
      const spent = holds ? this.#wake?.key : key
      if (spent !== undefined && !(holds && spent === key)) this.#spentWakes.add(spent)
      if (!holds) continue
      this.#wake = { due, key }
      this.#ownWake = true
      return
    }
  }

  #isEarlier(due: number | undefined): boolean {
    return due !== undefined && (this.#wake === undefined || due < this.#wake.due)
  }

  /** All are issued at once, ahead of everything issued later. */
  async #write(rows: readonly LookupChange[]): Promise<void> {
    if (rows.length === 0) return
    const { lookups, bounds } = this.#services
    await writeRows(lookups, rows, { rowsMax: bounds.lookupRowsMax, writeTime: this.#times.next() })
  }
}

/**
 * The `active` rows that accounts left behind: those of this host whose accounts left memory with
 * something pending, those of its earlier starts, and those of hosts that are gone. Each row is
 * removed by the owner of its account, which is woken for that.
 */
import { clearSubjectOf, livingSubjectOf } from '@holdfast/accounts'
import type { Bus } from '@holdfast/bus'
import { accountOfRow, activePlaceOf } from '../lookups/lookup-rows.ts'
import { forEachAtMost } from '../queues/semaphore.ts'
import type { Services } from '../services.ts'
import type { BackgroundWork } from './background-work.ts'
import type { LocalActors } from './local-actors.ts'

/** The answer about an active row that does not exist any more. */
const clearedAnswer = 'cleared'

export interface LeftRowsContext {
  bus: Bus
  actors: LocalActors
  background: BackgroundWork
  isClockOff: () => boolean
}

export class LeftRows {
  readonly #services: Services
  readonly #bus: Bus
  readonly #actors: LocalActors
  readonly #background: BackgroundWork
  readonly #isClockOff: () => boolean
  /**
   * Rows that stayed when their accounts left memory. `atMs` (monotonic) is when the account is
   * woken to remove its row.
   */
  readonly #keptRows = new Map<string, { atMs: number; owed: boolean }>()
  /** There were more of them than are remembered: they are read. */
  #rowsForgotten = false
  #relisting: Promise<void> | undefined

  constructor(services: Services, { bus, actors, background, isClockOff }: LeftRowsContext) {
    this.#services = services
    this.#bus = bus
    this.#actors = actors
    this.#background = background
    this.#isClockOff = isClockOff
  }

  /**
   * Wakes accounts that dead hosts may have left with pending effects, and those that this host
   * had before its last start; a few at a time.
   */
  async wakeListed(): Promise<void> {
    const { activeSegments, homes } = this.#services
    for (const home of homes.served()) {
      await activeSegments.confirm(home)
      const past = await activeSegments.past(home)
      if (past !== undefined && (await this.#clearAll(activeSegments.rowsIn({ home, range: past }))))
        activeSegments.pastCleared(home)
      if (this.#rowsForgotten) await this.#findForgotten(home)
      for await (const { host, range } of activeSegments.others(home))
        if (await this.#isGone(host)) {
          await this.#clearAll(activeSegments.rowsIn({ home, host, range }))
          if (!this.#isClockOff()) await activeSegments.prune(home, { host, range })
        }
    }
  }

  /** Finds this host's rows whose accounts are not in memory here. */
  async #findForgotten(home: string): Promise<void> {
    const { activeSegments, clock, bounds } = this.#services
    this.#rowsForgotten = false
    for await (const { key, account } of activeSegments.rowsIn({
      home,
      range: await activeSegments.own(home),
    })) {
      if (this.#actors.isActive(account) || this.#keptRows.has(key)) continue
      if (this.#keptRows.size >= bounds.failingAccountsMax) this.#rowsForgotten = true
      else this.#keptRows.set(key, { atMs: clock.monotonic(), owed: true })
    }
  }

  /** @returns whether none is left that this host must clear. */
  async #clearAll(rows: AsyncIterable<{ key: string }>): Promise<boolean> {
    let all = true
    await forEachAtMost(this.#services.bounds.wakesAtOnceMax, rows, async ({ key }) => {
      if (!this.#keptRows.has(key)) all = (await this.#clear(key)) && all
    })
    return all
  }

  /** A host that does not answer is only suspected: checking what it may have left is harmless. */
  async #isGone(host: string): Promise<boolean> {
    const { journal, bounds } = this.#services
    if (journal.capabilities.exclusive) return true
    return this.#bus
      .request(livingSubjectOf(host), new Uint8Array(), { timeoutMs: bounds.releaseWaitMs })
      .then(
        () => false,
        () => true,
      )
  }

  /** The owner removes the row, here or elsewhere. @returns false: retry */
  async #clear(key: string): Promise<boolean> {
    if (this.#actors.isClosing) return false
    const { hostId, bounds, activeSegments, log } = this.#services
    const { home, host, segment } = activePlaceOf(key)
    const account = accountOfRow(key)
    const elsewhere = this.#actors.elsewhere(account)
    if (elsewhere !== undefined) {
      // The host that has the account finds the rows of dead hosts itself.
      if (host !== hostId) return true
      const timeoutMs = bounds.releaseWaitMs
      try {
        const answer = await this.#bus.request(clearSubjectOf(elsewhere), Buffer.from(key), { timeoutMs })
        if (answer.length !== clearedAnswer.length) return false
      } catch (err) {
        log.warn({ account, err }, 'an active row is not cleared by its host yet')
        return false
      }
    } else if (!(await this.#actors.of(account, { uses: false }).clear(key))) return false
    if (host === hostId) activeSegments.left(home, segment)
    return true
  }

  async handleClear(message: Uint8Array): Promise<Uint8Array> {
    const key = Buffer.from(message).toString()
    const account = accountOfRow(key)
    if (!this.#actors.isOurs(account)) return new Uint8Array()
    const cleared = await this.#actors.of(account, { uses: false }).clear(key)
    return cleared ? Buffer.from(clearedAnswer) : new Uint8Array()
  }

  /**
   * Accounts move to this host without a message: from a dead one, or one that lost them with
   * pending effects.
   */
  relist(): void {
    this.#relisting ??= this.#background
      .run('waking accounts', () => this.wakeListed())
      .finally(() => {
        this.#relisting = undefined
      })
  }

  left({ pendingEffects, activeRows }: { pendingEffects: boolean; activeRows: readonly string[] }): void {
    const { clock, bounds } = this.#services
    const atMs = clock.monotonic() + (pendingEffects ? bounds.effectsWakeMs : bounds.relistMs)
    for (const row of activeRows) {
      if (this.#keptRows.size >= bounds.failingAccountsMax) this.#rowsForgotten = true
      else this.#keptRows.set(row, { atMs, owed: pendingEffects })
    }
  }

  clearOverdue(nowMs: number): void {
    for (const [row, { atMs, owed }] of this.#keptRows) {
      // An account that waits only for the second region is woken when that has everything.
      if (atMs > nowMs || (!owed && this.#services.arrivals.has(accountOfRow(row)))) continue
      void this.#clearKept(row)
    }
  }

  async #clearKept(row: string): Promise<void> {
    this.#keptRows.delete(row)
    if (await this.#clear(row)) return
    const atMs = this.#services.clock.monotonic() + this.#services.bounds.relistMs
    this.#keptRows.set(row, { atMs, owed: false })
  }

  /** Removes the rows that an account left behind; the account may leave cleanly now. */
  async clearKeptOf(account: string): Promise<void> {
    const rows = [...this.#keptRows.keys()].filter((row) => accountOfRow(row) === account)
    await Promise.all(rows.map((row) => this.#clearKept(row)))
  }
}

/**
 * What the next activation of an account would have to repair: changes that may be missing in the
 * second region, and dead pages of earlier epochs.
 */
import type { AccountState } from '@holdfast/content-tree'
import { JournalFault, type JournalOwnership } from '@holdfast/journal'
import type { Services } from '../../services.ts'
import type { AccountTurn } from '../account-turn.ts'
import { end, routesFrom } from '../effects/reference-look.ts'
import type { AccountRows } from './account-rows.ts'
import { type RecoveredAccount, sweepPages } from './recovery.ts'

export class Leftovers {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #state: AccountState
  readonly #rows: AccountRows
  readonly #turn: AccountTurn
  /** Part of it may be missing in the second region. */
  #hasChanged = false
  /** Whether all unnamed pages of earlier epochs are deleted. */
  #swept: Promise<boolean> = Promise.resolve(true)

  constructor(
    services: Services,
    ownership: JournalOwnership,
    { state, rows, turn }: { state: AccountState; rows: AccountRows; turn: AccountTurn },
  ) {
    this.#services = services
    this.#ownership = ownership
    this.#state = state
    this.#rows = rows
    this.#turn = turn
  }

  get hasChanged(): boolean {
    return this.#hasChanged
  }

  /** Something became durable here. */
  changed(): void {
    this.#hasChanged = true
    this.#services.arrivals.changed(this.#ownership.account)
  }

  /** The account had another owner before. */
  takenOver(recovered: RecoveredAccount): void {
    // It is unknown how much of it is in the second region.
    this.changed()
    this.#swept = this.#sweepPages(recovered)
  }

  /** @returns whether no dead pages are left. */
  async #sweepPages(recovered: RecoveredAccount): Promise<boolean> {
    try {
      await sweepPages(this.#services, this.#ownership, recovered)
      return true
    } catch (error) {
      this.#services.log.warn(
        { account: this.#ownership.account, err: error },
        'unused checkpoint pages could not be removed; retried later',
      )
      return false
    }
  }

  /**
   * Whether the next activation has nothing to repair. @param options.leftPages pages of this
   * activation could not be deleted.
   */
  async areNone({ leftPages }: { leftPages: boolean }): Promise<boolean> {
    const { arrivals } = this.#services
    const sendRoutes = () => this.sendRoutes()
    const hasArrived = !this.#hasChanged || (await arrivals.confirm(this.#ownership.account, sendRoutes))
    const isSwept = (await this.#swept) && !leftPages
    return hasArrived && isSwept
  }

  /**
   * Writes the routes of all its share codes again.
   * @throws JournalFault `UNAVAILABLE` when some may not be written.
   */
  async sendRoutes(): Promise<void> {
    const { account } = this.#ownership
    const { timers } = this.#services
    for (let content = 0; content !== end && this.#turn.loss === undefined; ) {
      const { routes, next } = routesFrom(this.#state, account, content)
      await this.#rows.restore(routes)
      content = next
      await timers.turn()
    }
    if (this.#turn.loss !== undefined) throw new JournalFault('UNAVAILABLE', `${account} left memory`)
  }
}

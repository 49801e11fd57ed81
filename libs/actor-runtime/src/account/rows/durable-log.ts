/**
 * Writes the rows of an account's journal, and those around them, to the stores: repeatable work is
 * repeated, and unknown outcomes are settled by a serial read of the head.
 */
import { JournalFault, type JournalOwnership, rowBehind } from '@holdfast/journal'
import { backoffMs } from '@holdfast/kernel'
import type { Services } from '../../services.ts'
import { Pauses } from '../../timers.ts'

/** Faults that a retry cannot fix. */
const final = new Set<unknown>(['FENCED', 'CORRUPT', 'TOO_LARGE', 'CLOSED'])

export interface RowsAround {
  /** Must be durable before the row. */
  before: () => Promise<void>
  /** Must be durable when the append is. */
  beside: () => Promise<void>
}

export class DurableLog {
  readonly #services: Services
  readonly #ownership: JournalOwnership
  readonly #onStall: () => void
  readonly #requestIds: () => string[]
  readonly #pauses: Pauses
  #ended = false

  /**
   * @param options.onStall the stores refuse, or the outcome of a row is unknown: called each time
   *   before a retry.
   * @param options.requestIds the clients' requests that wait for what is written now, for the log.
   */
  constructor(
    services: Services,
    ownership: JournalOwnership,
    { onStall, requestIds }: { onStall: () => void; requestIds: () => string[] },
  ) {
    this.#services = services
    this.#ownership = ownership
    this.#onStall = onStall
    this.#requestIds = requestIds
    this.#pauses = new Pauses(services.timers)
  }

  /** Pending retries are abandoned with `UNAVAILABLE`. */
  end(): void {
    this.#ended = true
    this.#pauses.endAll()
  }

  /**
   * Resolves when the row and all rows around it are durable. An append that certainly was not
   * written is issued again, with its rows before it, a bounded number of times.
   * @throws JournalFault: the activation is over.
   */
  async append(row: Uint8Array, { before, beside }: RowsAround): Promise<void> {
    const { ordered } = this.#services.journal.capabilities
    if (!ordered) await this.until(before)
    const missing = new Set(ordered ? [before, beside] : [beside])
    const write = async (rows: () => Promise<void>) => {
      if (!missing.has(rows)) return
      await rows()
      missing.delete(rows)
    }
    for (let attempt = 1; ; attempt++) {
      const written = await Promise.allSettled([write(before), this.#tryAppend(row), write(beside)])
      if (written[1].status === 'rejected') throw written[1].reason
      if (written[1].value) break
      if (attempt >= this.#services.bounds.appendAttemptsMax) {
        throw new JournalFault(
          'UNAVAILABLE',
          `${attempts(attempt)} to append to ${this.#ownership.account} failed`,
        )
      }
      await this.#stall(attempt)
    }
    for (const rows of missing) await this.until(rows)
  }

  /**
   * When it resolves, this host was still the owner, so earlier reads were current. @throws
   * JournalFault.
   */
  async confirm(): Promise<void> {
    const { account, epoch } = this.#ownership
    const now = await this.until(() => this.#services.journal.head(account))
    if (now.epoch !== epoch)
      throw new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`)
  }

  /**
   * Repeats repeatable work until it is done, the fault is final or all has ended.
   * @throws JournalFault the last one, after `attemptsMax` attempts
   */
  async until<T>(work: () => Promise<T>, attemptsMax = Number.POSITIVE_INFINITY): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        const code = codeOf(error)
        if ((code !== 'UNAVAILABLE' && code !== 'UNKNOWN') || attempt + 1 >= attemptsMax) throw error
        this.#services.log.warn(
          { requestIds: this.#requestIds(), account: this.#ownership.account, attempt, err: error },
          'a call to the stores failed and is retried',
        )
        await this.#stall(attempt)
      }
    }
  }

  /** @returns whether the row is in. @throws when the activation is over. */
  async #tryAppend(row: Uint8Array): Promise<boolean> {
    try {
      await this.#services.journal.append(this.#ownership, row)
      return true
    } catch (error) {
      const code = codeOf(error)
      if (final.has(code)) throw error
      if (code === 'UNAVAILABLE') return false
      this.#services.log.warn(
        { requestIds: this.#requestIds(), account: this.#ownership.account, err: error },
        'the outcome of an append is unknown',
      )
      return this.#settle(row)
    }
  }

  /**
   * Asks the serial head until it answers. A first row may be another host's: the chain shows it.
   *
   * Where this process alone has the store, an activation that cannot be settled ends like one of a
   * process that was killed, and the next one finds what was written. Until then the account is
   * read as it is stored.
   */
  async #settle(row: Uint8Array): Promise<boolean> {
    const { journal, bounds, metrics } = this.#services
    const attemptsMax = journal.capabilities.exclusive ? bounds.appendAttemptsMax : undefined
    const { account, epoch, head } = this.#ownership
    const written = rowBehind(this.#ownership, row)
    this.#onStall()
    const now = await this.until(() => journal.head(account), attemptsMax)
    const isOut = now.epoch === epoch && now.head === head
    const isIn =
      now.epoch === written.epoch &&
      now.head === written.seq &&
      Buffer.compare(now.chain, written.checksum) === 0
    if (!isOut && !isIn) {
      if (now.epoch === epoch)
        throw new JournalFault('CORRUPT', `${account} is at another row ${now.head}, our hold at ${head}`)
      metrics.unknown({ outcome: 'fenced' })
      throw new JournalFault('FENCED', `${account} is in epoch ${now.epoch}, not in ours, ${epoch}`)
    }
    Object.assign(this.#ownership, now)
    metrics.unknown({ outcome: isOut ? 'out' : 'in' })
    return isIn
  }

  async #stall(attempt: number): Promise<void> {
    const { bounds, randomness } = this.#services
    this.#onStall()
    const backoff = {
      firstMs: bounds.retryFirstMs,
      maxMs: bounds.retryMaxMs,
      fraction: randomness.fraction(),
    }
    await this.#pauses.pause(backoffMs(attempt, backoff))
    if (this.#ended) throw new JournalFault('UNAVAILABLE', `${this.#ownership.account} was abandoned`)
  }
}

export function codeOf(error: unknown): string | undefined {
  return (error as { code?: string }).code
}

function attempts(count: number): string {
  return count === 1 ? 'one attempt' : `${count} attempts`
}

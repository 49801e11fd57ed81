/**
 * The share codes available to one active account: the rest of its last block, then blocks that its
 * host leases to it.
 *
 * A block has one route to the account, which is durable before the first change that uses a code
 * of it. So a code needs no row, and a crash leaves nothing to repair: the account knows which of
 * its codes exist. If a change is refused, the next one uses its codes, because no client has seen
 * them.
 *
 * The account keeps the rest of a block in its next activation, but not in another home term:
 * changes that did not arrive when the home moved may have used it.
 */
import type { LookupChange } from '@holdfast/journal'
import { codesPerBlock } from '@holdfast/kernel'
import { type CodeLeases, type CodeRange, widthOf } from '../../lookups/code-leases.ts'
import { routeRow } from '../../lookups/lookup-rows.ts'

/**
 * Blocks of one lease, unless a request needs more: the maximum that a growing account gets ahead
 * of its needs.
 */
const blocksAheadMax = 64

/** An available range. */
export interface CodeLease extends CodeRange {
  readonly term: number
  /** After the last block whose route is durable, or part of a durable change. */
  routed: number
}

export class CodeBlocks {
  readonly #leases: CodeLeases
  readonly #account: string
  readonly #term: number
  #held: CodeLease
  /** Blocks of the next lease: twice the last one's. */
  #blocks = 1

  /**
   * @param options.last behind the last code of the account. @param options.term its current home
   *   term.
   */
  constructor(
    leases: CodeLeases,
    account: string,
    { last, term }: { last: { next: number; term: number }; term: number },
  ) {
    this.#leases = leases
    this.#account = account
    this.#term = term
    const next = last.term === term ? last.next : 0
    const end = Math.ceil(next / codesPerBlock) * codesPerBlock
    this.#held = { next, end, term, routed: end }
  }

  /** The codes that a decision may use; `used` is called with the number that its change uses. */
  show(): CodeLease {
    return this.#held
  }

  /**
   * Leases what is missing for this many codes, if the host has it. @returns whether they are
   * available now
   */
  leaseNow(count: number): boolean {
    if (widthOf(this.#held) >= count) return true
    const needed = Math.ceil(count / codesPerBlock)
    const range = this.#leases.takeNow(Math.max(needed, this.#blocks)) ?? this.#leases.takeNow(needed)
    if (range === undefined) return false
    this.#hold(range)
    return true
  }

  /** The same, and waits for it. @throws what the lookups throw. */
  async lease(count: number): Promise<void> {
    if (this.leaseNow(count)) return
    const range = await this.#leases.take(Math.max(Math.ceil(count / codesPerBlock), this.#blocks))
    if (widthOf(range) > widthOf(this.#held)) this.#hold(range)
  }

  #hold({ next, end }: CodeRange): void {
    this.#held = { next, end, term: this.#term, routed: next }
    this.#blocks = Math.min(this.#blocks * 2, blocksAheadMax)
  }

  /**
   * A change uses the first `count` codes available to its decision.
   * @returns the routes that must be durable before it.
   */
  used(lease: CodeLease, count: number): LookupChange[] {
    if (count > widthOf(lease)) throw new RangeError(`${count} codes were used of ${widthOf(lease)}`)
    lease.next += count
    const rows: LookupChange[] = []
    for (; lease.routed < lease.next; lease.routed += codesPerBlock)
      rows.push(routeRow(8, lease.routed / codesPerBlock, this.#account))
    return rows
  }
}

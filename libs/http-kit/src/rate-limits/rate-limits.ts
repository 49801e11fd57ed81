/**
 * Budgets of requests per endpoint and address, per endpoint and account, and of wrong guesses per
 * address; bans after repeated excess. DESIGN.md has the numbers and reasons.
 */
import { hash } from 'node:crypto'
import type { Clock } from '@holdfast/kernel'
import { RefusalError } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import type { Guess, GuessKind, RateLimits } from '../contract.ts'
import { clientAddress, networkOf, normalAddress, outerNetworkOf, siteOf } from './addresses.ts'
import { type Ban, Bans } from './bans.ts'
import { CounterTable, type CountResult, type ReportedCounts } from './counter-table.ts'
import { freeGuess, GuessGates } from './guesses.ts'

export interface Budget {
  quota: number
  windowSeconds: number
}

export interface RateLimitPolicies {
  /** For endpoints that are not named below. */
  standard: Budget
  /** Per address. */
  endpoints: Record<string, Budget>
  /** Per account; endpoints not named have the budget of an address. */
  accounts: Record<string, Budget>
  guesses: Record<GuessKind, Budget>
  /** This many refusals within the window cause a ban of the address. */
  excess: Budget
}

/**
 * A sync of thousands of files stays below 100 calls a second per endpoint. Windows are short, so
 * that a client that reaches one waits seconds. Costly endpoints (search, accounts, mails) have
 * less.
 */
export const defaultPolicies: RateLimitPolicies = {
  standard: { quota: 1_000, windowSeconds: 10 },
  endpoints: {
    createAccount: { quota: 120, windowSeconds: 60 },
    // Drawn on once for 4,096 pieces of a few bytes in uploads: 20,000 of them a second take 4 % of
    // the loop.
    smallPieces: { quota: 50, windowSeconds: 10 },
    resetToken: { quota: 20, windowSeconds: 60 },
    searchContents: { quota: 200, windowSeconds: 10 },
    copyContents: { quota: 300, windowSeconds: 10 },
    importContents: { quota: 300, windowSeconds: 10 },
    // A person reports a few things; an office shares an address.
    report: { quota: 10, windowSeconds: 600 },
    webSearch: { quota: 200, windowSeconds: 10 },
    webCopy: { quota: 300, windowSeconds: 10 },
    webArchive: { quota: 200, windowSeconds: 10 },
    webContents: { quota: 500, windowSeconds: 10 },
    // Mails that clients of one network can cause by naming addresses: enough for an office that
    // signs up.
    sendSignIn: { quota: 20, windowSeconds: 600 },
  },
  accounts: {
    resetToken: { quota: 10, windowSeconds: 600 },
    // By mailbox, in any spelling of its address: a lost mail and two more attempts.
    sendSignIn: { quota: 3, windowSeconds: 600 },
  },
  guesses: {
    token: { quota: 100, windowSeconds: 60 },
    code: { quota: 100, windowSeconds: 60 },
    password: { quota: 30, windowSeconds: 60 },
  },
  excess: { quota: 3_000, windowSeconds: 300 },
}

/**
 * A /48 of v6 has the budget of this many networks. Customers of a provider may share it, so it is
 * more than one; one client may have all 65,536 of its networks, so it is not more.
 */
const siteNetworks = 16

/** Addresses or accounts counted at a time per table: 100,000 keys are about 15 MB. */
const keysMax = 100_000

export interface RateLimitsOptions {
  mode: 'default' | 'off'
  clock: Clock
  policies?: RateLimitPolicies
}

export function createRateLimits(options: RateLimitsOptions): CountingRateLimits {
  return new CountingRateLimits(options)
}

export class CountingRateLimits implements RateLimits {
  readonly #off: boolean
  readonly #clock: Clock
  readonly #policies: RateLimitPolicies
  readonly #tables = new Map<number, CounterTable>()
  readonly #bans = new Bans()
  readonly #gates = new GuessGates()
  readonly #windowsMs: ReadonlySet<number>

  constructor({ mode, clock, policies = defaultPolicies }: RateLimitsOptions) {
    this.#off = mode === 'off'
    this.#clock = clock
    this.#policies = policies
    const { standard, endpoints, accounts, guesses } = policies
    this.#windowsMs = new Set(
      [standard, ...[endpoints, accounts, guesses].flatMap((named) => Object.values(named))].map(
        ({ windowSeconds }) => windowSeconds * 1000,
      ),
    )
  }

  takeAddress(request: FastifyRequest, endpoint: string): Promise<void> | undefined {
    if (this.#off) return undefined
    try {
      const address = clientAddress(request)
      this.#refuseBanned(networkOf(address))
      const budget = this.#policies.endpoints[endpoint] ?? this.#policies.standard
      const counted = this.#count(`a ${endpoint} `, address, budget, 1)
      this.#show(request, 'address', budget, counted)
      if (counted.count > counted.quota) this.#exceeded(address, counted)
      return undefined
    } catch (error) {
      return Promise.reject(error)
    }
  }

  charge(request: FastifyRequest, endpoint: string, requests: number): void {
    if (this.#off || requests === 0) return
    const budget = this.#policies.endpoints[endpoint] ?? this.#policies.standard
    this.#count(`a ${endpoint} `, clientAddress(request), budget, requests)
  }

  refundAddress(request: FastifyRequest, endpoint: string, drawnMs: number): void {
    if (this.#off) return
    const { windowSeconds } = this.#policies.endpoints[endpoint] ?? this.#policies.standard
    const address = clientAddress(request)
    const prefix = `a ${endpoint} `
    const drawn = { outerKey: prefix + outerNetworkOf(address), drawnMs, nowMs: this.#clock.now() }
    const table = this.#tables.get(windowSeconds * 1000)
    table?.refund(prefix + networkOf(address), drawn)
    const site = siteOf(address)
    if (site !== undefined) table?.refund(prefix + site, drawn)
  }

  async takeAccount(request: FastifyRequest, endpoint: string, accountId: string): Promise<void> {
    if (this.#off) return
    const { accounts, endpoints, standard } = this.#policies
    const budget = accounts[endpoint] ?? endpoints[endpoint] ?? standard
    const counted = this.#count(`k ${endpoint} `, accountId, budget, 1)
    this.#show(request, 'account', budget, counted)
    if (counted.count > counted.quota) this.#exceeded(clientAddress(request), counted)
  }

  async beginGuess(request: FastifyRequest, kind: GuessKind): Promise<Guess> {
    if (this.#off) return freeGuess
    const address = clientAddress(request)
    const networks = [networkOf(address), siteOf(address)].filter((one) => one !== undefined)
    const gates = networks.map((network) => this.#guessGate(kind, { network, address }))
    for (const [at, gate] of gates.entries()) {
      if (await gate.begin()) continue
      for (const begun of gates.slice(0, at)) begun.end({ wrong: false })
      this.#exceeded(address, gate.counted(0))
    }
    return {
      end: (guess) => {
        for (const gate of gates) gate.end(guess)
      },
    }
  }

  #guessGate(kind: GuessKind, { network, address }: { network: string; address: string }) {
    const own = this.#policies.guesses[kind]
    const budget = network.endsWith('/48') ? budgetOfSite(own) : own
    const counted = (points: number) =>
      this.#countIn(network, { prefix: `g ${kind} `, key: address, budget, points })
    const room = () => {
      const { quota, count } = counted(0)
      return quota - count
    }
    const { counter } = counted(0)
    return {
      counted,
      begin: () => this.#gates.begin(counter, room),
      end: ({ wrong }: { wrong: boolean }) => {
        if (wrong) counted(1)
        this.#gates.end(counter, room)
      },
    }
  }

  networkKey(request: FastifyRequest): string | undefined {
    return this.#off ? undefined : hash('sha256', networkOf(clientAddress(request)), 'base64url').slice(0, 16)
  }

  /** Active bans, to be sent to other frontends. */
  bans(): Ban[] {
    return this.#bans.active(this.#clock.now())
  }

  /** Adds bans that other frontends made. */
  takeBans(bans: readonly Ban[]): void {
    if (!this.#off) this.#bans.take(bans, this.#clock.now())
  }

  /**
   * What was counted since the last call of counters near their quota, to be sent to other
   * frontends.
   */
  countNews(): ReportedCounts[] {
    return [...this.#tables.values()]
      .map((table) => table.news(this.#clock.now()))
      .filter(({ counts }) => counts.length > 0)
  }

  /** Adds what another frontend has counted. */
  takeCounts(from: string, reported: ReportedCounts): void {
    // Creates tables at the first count; ignores windows that no budget has.
    if (!this.#off && this.#windowsMs.has(reported.windowMs))
      this.#table(reported.windowMs).take(from, reported, this.#clock.now())
  }

  /** @param address an address or a network as `bans` names it. */
  liftBan(address: string): boolean {
    return this.#bans.lift(address) || this.#bans.lift(networkOf(normalAddress(address) ?? address))
  }

  /** Keys counted now. */
  get size(): number {
    return this.#tables.values().reduce((sum, table) => sum + table.size, 0)
  }

  close(): void {
    this.#tables.clear()
  }

  /** In the counter of its network, and of its /48: the fuller one counts. */
  #count(prefix: string, key: string, budget: Budget, points: number): CountResult {
    const own = this.#countIn(networkOf(key), { prefix, key, budget, points })
    const site = siteOf(key)
    if (site === undefined) return own
    const all = this.#countIn(site, { prefix, key, budget: budgetOfSite(budget), points })
    return all.quota - all.count < own.quota - own.count ? all : own
  }

  #countIn(
    network: string,
    { prefix, key, budget, points }: { prefix: string; key: string; budget: Budget; points: number },
  ): CountResult {
    const windowMs = budget.windowSeconds * 1000
    return this.#table(windowMs).add(prefix + network, {
      outerKey: prefix + outerNetworkOf(key),
      quota: budget.quota,
      points,
      nowMs: this.#clock.now(),
      // Each frontend bans by its own refusals, and sends the ban to others.
      shared: budget !== this.#policies.excess,
    })
  }

  #table(windowMs: number): CounterTable {
    const table = this.#tables.get(windowMs) ?? new CounterTable({ windowMs, keysMax })
    this.#tables.set(windowMs, table)
    return table
  }

  #exceeded(address: string, counted: CountResult): never {
    const network = networkOf(address)
    const budget = this.#policies.excess
    const { count, quota } = this.#countIn(network, { prefix: 'x ', key: address, budget, points: 1 })
    if (count >= quota && count % quota === 0) this.#bans.add(network, this.#clock.now())
    throw new RefusalError('error-rateLimit', { retryAfter: secondsOf(counted.resetMs) })
  }

  #refuseBanned(network: string) {
    const remainingMs = this.#bans.remainingMs(network, this.#clock.now())
    if (remainingMs > 0) throw new RefusalError('error-rateLimit', { retryAfter: secondsOf(remainingMs) })
  }

  #show(request: FastifyRequest, policy: string, budget: Budget, counted: CountResult) {
    const remaining = Math.max(0, counted.quota - counted.count)
    const shown = request.rateLimit
    if (shown !== null && shown !== undefined && shown.remaining <= remaining) return
    request.rateLimit = {
      policy,
      quota: counted.quota,
      windowSeconds: budget.windowSeconds,
      remaining,
      resetSeconds: secondsOf(counted.resetMs),
    }
  }
}

function budgetOfSite({ quota, windowSeconds }: Budget): Budget {
  return { quota: quota * siteNetworks, windowSeconds }
}

function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

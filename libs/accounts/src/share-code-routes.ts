/**
 * Share code → content id. The code leads to its block, the block's route to an account, and the
 * account answers which of its contents has it. A code is never reused, so a hit is kept for long;
 * a miss is asked again each time.
 */
import type { LookupStore } from '@holdfast/journal'
import { type Clock, isReservedWord, RefusalError, type ShareCodes, systemClock } from '@holdfast/kernel'
import { LRUCache } from 'lru-cache'
import { ask, asVisitor, viewOf } from './ask.ts'
import type { AccountClient } from './contract.ts'

const routesMax = 50_000

export interface CodeKeyring {
  readonly codes: ShareCodes
  readonly legacyCodes: ShareCodes
}

export class ShareCodeRoutes {
  readonly #lookups: LookupStore
  readonly #accounts: AccountClient
  readonly #keyring: CodeKeyring
  readonly #clock: Clock
  readonly #known = new LRUCache<string, string>({ max: routesMax })

  constructor({
    lookups,
    accounts,
    keyring,
    clock = systemClock,
  }: {
    lookups: LookupStore
    accounts: AccountClient
    keyring: CodeKeyring
    clock?: Clock
  }) {
    this.#lookups = lookups
    this.#accounts = accounts
    this.#keyring = keyring
    this.#clock = clock
  }

  /**
   * @param code of the form of share codes. @param options.clientNetwork whose turn it takes at the
   *   account.
   * @returns undefined: no content has it. @throws AccountsUnavailable, and what the lookups throw
   */
  async contentOf(
    code: string,
    { clientNetwork }: { clientNetwork?: string | undefined } = {},
  ): Promise<string | undefined> {
    const known = this.#known.get(code)
    if (known !== undefined) return known
    const key = routeOfCode(this.#keyring, code)
    const route = key === undefined ? undefined : await this.#lookups.get(key)
    if (route === undefined) return undefined
    const contentId = await this.#ask(Buffer.from(route).toString(), code, clientNetwork)
    if (contentId === undefined) return undefined
    this.#known.set(code, contentId)
    return contentId
  }

  async #ask(
    accountId: string,
    code: string,
    clientNetwork: string | undefined,
  ): Promise<string | undefined> {
    const asking = { accounts: this.#accounts, clock: this.#clock }
    const operation = { $case: 'findCode', value: { code } } as const
    try {
      const result = await ask(asking, { accountId, who: asVisitor(), operation, clientNetwork })
      return viewOf(result, 'code').contentId
    } catch (error) {
      if (error instanceof RefusalError) return undefined
      throw error
    }
  }
}

/** The route of a share code. Undefined: nothing can have this code, like a reserved word. */
export function routeOfCode({ codes, legacyCodes }: CodeKeyring, code: string): string | undefined {
  const of = [codes, legacyCodes].find(({ length }) => length === code.length)
  if (of === undefined || isReservedWord(code)) return undefined
  return routeKey(of.length, Math.floor(of.counterOf(code) / of.perBlock))
}

/** The route of an address: `email/<address>` → account. It is claimed. */
export function emailKey(email: string): string {
  return `email/${email.toLowerCase()}`
}

/** Routes that are stored together: blocks of one lease. */
const routesTogether = 64

/**
 * The route of a block of share codes: `code/<length>-<group>/<place>` → account. It is written
 * once.
 *
 * @param length of the codes. @param block the counters of its codes, divided by their number.
 */
export function routeKey(length: 6 | 8, block: number): string {
  const group = Math.floor(block / routesTogether)
  return `code/${length}-${group.toString(16)}/${block % routesTogether}`
}

/**
 * Share code → content id. The code leads to its block, the block's route to an account, and the
 * account answers which of its contents has it. A code is never reused, so a hit is kept for long;
 * a miss is asked again each time.
 */
import type { LookupStore } from '@holdfast/journal'
import { type Clock, mintRequestId, type ShareCodes, systemClock } from '@holdfast/kernel'
import { LRUCache } from 'lru-cache'
import { routeKey } from '../lookups/lookup-rows.ts'
import type { AccountClient } from './contract.ts'

const routesMax = 50_000

export class ShareCodeRoutes {
  readonly #lookups: LookupStore
  readonly #accounts: AccountClient
  readonly #codes: readonly ShareCodes[]
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
    keyring: { readonly codes: ShareCodes; readonly legacyCodes: ShareCodes }
    clock?: Clock
  }) {
    this.#lookups = lookups
    this.#accounts = accounts
    this.#codes = [keyring.codes, keyring.legacyCodes]
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
    const route = await this.#lookups.get(this.#routeOf(code))
    if (route === undefined) return undefined
    const reply = await this.#accounts.call(
      {
        accountId: Buffer.from(route).toString(),
        requestId: mintRequestId(this.#clock.now()),
        caller: { who: { $case: 'visitor', value: { accountId: '' } } },
        tierNeeded: '',
        clientNetwork,
        operation: { $case: 'findCode', value: { code } },
      },
      {},
    )
    if (reply.result?.$case !== 'code') return undefined
    const { contentId } = reply.result.value
    this.#known.set(code, contentId)
    return contentId
  }

  #routeOf(code: string): string {
    const codes = this.#codes.find(({ length }) => length === code.length)
    if (codes === undefined) throw new RangeError(`${code} is no share code`)
    return routeKey(codes.length, Math.floor(codes.counterOf(code) / codes.perBlock))
  }
}

/**
 * Recently accepted tokens. A hint about whose budget a request may draw on, never proof: the
 * account checks the token in the turn that uses it. Without it anyone could spend an account's
 * budget with a forged token.
 */
import { LRUCache } from 'lru-cache'

const tokensMax = 50_000
const keptMs = 10 * 60 * 1000

export class AcceptedTokens {
  readonly #tokens = new LRUCache<string, true>({ max: tokensMax, ttl: keptMs })

  has(token: string): boolean {
    return this.#tokens.has(token)
  }

  add(token: string): void {
    this.#tokens.set(token, true)
  }

  forget(token: string | undefined): void {
    if (token !== undefined) this.#tokens.delete(token)
  }
}

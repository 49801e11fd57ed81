/**
 * Pending visitors' requests of a host: in all, of each account, of each network. Requests beyond a
 * bound are refused at once.
 */
import type { AccountRequest } from '@holdfast/wire'
import { clientNetworkOf } from '../account/requests/mailbox.ts'
import type { RuntimeBounds } from '../bounds.ts'

type Bounds = Pick<RuntimeBounds, 'visitorsMax' | 'visitorsPerAccountMax' | 'visitorsPerNetworkMax'>

export class Visitors {
  readonly #bounds: Bounds
  readonly #byAccount = new Map<string, number>()
  readonly #byNetwork = new Map<string, number>()
  #all = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  /** @returns false: there are too many. True: `left` must be called once. */
  enter(request: AccountRequest): boolean {
    const { visitorsMax, visitorsPerAccountMax, visitorsPerNetworkMax } = this.#bounds
    const network = clientNetworkOf(request)
    const ofAccount = this.#byAccount.get(request.accountId) ?? 0
    const ofNetwork = this.#byNetwork.get(network) ?? 0
    if (this.#all >= visitorsMax || ofAccount >= visitorsPerAccountMax) return false
    if (network !== '' && ofNetwork >= visitorsPerNetworkMax) return false
    this.#all++
    this.#byAccount.set(request.accountId, ofAccount + 1)
    this.#byNetwork.set(network, ofNetwork + 1)
    return true
  }

  left(request: AccountRequest): void {
    this.#all--
    lessOne(this.#byAccount, request.accountId)
    lessOne(this.#byNetwork, clientNetworkOf(request))
  }
}

function lessOne(counts: Map<string, number>, key: string): void {
  const count = (counts.get(key) ?? 0) - 1
  if (count > 0) counts.set(key, count)
  else counts.delete(key)
}

/**
 * Requests of one account that wait for its turn, in two lanes.
 *
 * The first has the requests of the owner, the operator and the service, in order of arrival: so
 * the account's changes have one order. The second has those of visitors. Anyone with a link can
 * send any number of those, so they wait behind the first lane, and in theirs networks take turns.
 * Visitors do not starve: after `ownersInARowMax` requests of the first lane one of theirs is
 * taken.
 */
import { RoundRobin } from '@holdfast/kernel'
import type { AccountRequest } from '@holdfast/wire'
import type { PendingRequest } from './pending-request.ts'

/** A visitor's read waits for at most as many of the owner's: some milliseconds. */
const ownersInARowMax = 16

export class Mailbox {
  readonly #owners: PendingRequest[] = []
  /** By network. */
  readonly #visitors = new RoundRobin<string, PendingRequest>()
  #ownersInARow = 0

  get length(): number {
    return this.#owners.length + this.#visitors.size
  }

  push(ask: PendingRequest): void {
    if (isVisitors(ask.request)) this.#visitors.push(clientNetworkOf(ask.request), ask)
    else this.#owners.push(ask)
  }

  shift(): PendingRequest | undefined {
    const ownersTurn = this.#visitors.size === 0 || this.#ownersInARow < ownersInARowMax
    if (this.#owners.length > 0 && ownersTurn) {
      this.#ownersInARow++
      return this.#owners.shift()
    }
    this.#ownersInARow = 0
    return this.#visitors.shift()
  }

  /** Removes and returns everything that waits. */
  clear(): PendingRequest[] {
    return [...this.#owners.splice(0), ...this.#visitors.clear()]
  }
}

/**
 * Whether the caller is not the owner, as far as the request says. Tokens are checked in the turn.
 */
export function isVisitors({ caller }: AccountRequest): boolean {
  const who = caller?.who
  if (who?.$case === 'visitor') return true
  return who?.$case === 'grant' && who.value.ownerTokenCounter === undefined
}

/** Names longer than a frontend makes them would be unbounded keys. */
const networkNameMax = 32

/** Empty: not known. */
export function clientNetworkOf({ clientNetwork = '' }: AccountRequest): string {
  return clientNetwork.length > networkNameMax ? '' : clientNetwork
}

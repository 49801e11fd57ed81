/**
 * Recent refusals of commands.
 *
 * A request may reach its account twice: the bus repeats it, or its sender asks again while the
 * first copy waits for something. A command that was carried out is known by its outcome. Nothing
 * of a refusal is durable, so the second copy could be carried out after the sender got a refusal.
 * So copies get the same refusal until their deadline, also those of earlier attempts, whose
 * deadlines are earlier. A later attempt is decided again; one through a frontend whose clock is
 * behind may count as an earlier one meanwhile.
 */
import type { AccountReply, AccountRequest } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import { mayChange } from './full-accounts.ts'

interface RefusalRecord {
  /** The refusal counts only for this activation: another one may decide on another state. */
  activation: symbol
  deadlineMs: number
  reply: AccountReply
}

export class Refusals {
  readonly #given: LRUCache<string, RefusalRecord>

  constructor({ max }: { max: number }) {
    this.#given = new LRUCache({ max })
  }

  /** The refusal that this activation gave to a copy of the request. */
  find(request: AccountRequest, activation: symbol): AccountReply | undefined {
    if (this.#given.size === 0 || !mayChange(request)) return undefined
    const given = this.#given.get(requestKey(request))
    if (given?.activation !== activation || given.deadlineMs < request.deadlineMs) return undefined
    return given.reply
  }

  /** The oldest one is dropped when there are too many. */
  keep(request: AccountRequest, activation: symbol, reply: AccountReply): void {
    if (reply.result?.$case !== 'refusal' || !mayChange(request)) return
    this.#given.set(requestKey(request), { activation, deadlineMs: request.deadlineMs, reply })
  }
}

/**
 * By the whole id: a client may send one key with other parameters, and the refusal of that is not
 * the answer to the right repetition.
 */
function requestKey({ accountId, requestId }: AccountRequest): string {
  return `${accountId} ${Buffer.from(requestId).toString('latin1')}`
}

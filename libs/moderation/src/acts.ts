/**
 * What operators did: rows that are added and never changed. A row is durable before its act has
 * any effect; only a `call` also runs while the log cannot be written. An act that failed half-way
 * is repeated, and has then two rows.
 *
 * Keys are `acts/all/<id>`. Ids begin with the time counted backwards, so that the newest come
 * first.
 */
import { randomBytes } from 'node:crypto'
import type { LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import { ModerationFault } from './fault.ts'

export interface Act {
  id: string
  /** Unix seconds. */
  time: number
  /** Who did it: the operator's name for themselves, and where the call came from. */
  by: string
  /** Such as `block`, `unblock`, `undo`; `call` for other changes by the admin host. */
  kind: string
  /** What it was done to, in words of the operator. */
  what: string
  reason: string
  /** The id of the act that it undoes. */
  undoes?: string
}

export interface ActsPage {
  acts: Act[]
  /** Where the next page begins; undefined: this is the last. */
  next: string | undefined
}

const prefix = 'acts/all/'
const timeMax = 10 ** 13
const idPattern = /^\d{13}-[0-9a-f]{16}$/
export const actsPerPage = 100
export const undoMs = 30 * 24 * 60 * 60 * 1000

export class OperatorActs {
  readonly #lookups: LookupStore
  readonly #clock: Clock

  constructor({ lookups, clock }: { lookups: LookupStore; clock: Clock }) {
    this.#lookups = lookups
    this.#clock = clock
  }

  /** Durable when it resolves. */
  async add(act: Omit<Act, 'id' | 'time'>): Promise<Act> {
    const nowMs = this.#clock.now()
    const id = `${String(timeMax - 1 - nowMs).padStart(13, '0')}-${randomBytes(8).toString('hex')}`
    const { by, kind, what, reason, undoes } = act
    const time = Math.floor(nowMs / 1000)
    const row: Act = { id, time, by, kind, what, reason, ...(undoes === undefined ? {} : { undoes }) }
    await this.#lookups.write([{ put: prefix + id, value: Buffer.from(JSON.stringify(row)) }])
    return row
  }

  /** @throws ModerationFault NOT_FOUND; TOO_LATE when it is older than 30 days. */
  async undoable(id: string): Promise<Act> {
    const value = idPattern.test(id) ? await this.#lookups.get(prefix + id) : undefined
    if (value === undefined) throw new ModerationFault('NOT_FOUND', `there is no act ${id}`)
    const act = parse(value)
    if (this.#clock.now() - act.time * 1000 > undoMs)
      throw new ModerationFault('TOO_LATE', `${id} was done more than 30 days ago`)
    return act
  }

  /** The newest first. @param after where the page before said that this one begins. */
  async page({
    after = '',
    limit = actsPerPage,
  }: {
    after?: string
    limit?: number
  } = {}): Promise<ActsPage> {
    const acts: Act[] = []
    for await (const { value } of this.#lookups.scan(prefix, { after: prefix + after, limit: limit + 1 }))
      acts.push(parse(value))
    const more = acts.length > limit
    return { acts: acts.slice(0, limit), next: more ? acts[limit - 1]?.id : undefined }
  }
}

function parse(value: Uint8Array): Act {
  return JSON.parse(Buffer.from(value).toString()) as Act
}

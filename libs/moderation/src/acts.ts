/**
 * The log of operators' acts: rows that are added and never changed. A row is durable before its
 * act has any effect; only a `call` also runs while the log cannot be written. An act that failed
 * half-way is repeated and then has two rows.
 *
 * Keys are `acts/all/<id>`. Ids begin with the time counted backwards, so that the newest come
 * first. Deleted contents are listed in separate rows, `acts/<id>/<account>/<number>`, each written
 * before the deletion. An undo uses them.
 */
import { randomBytes } from 'node:crypto'
import type { LookupStore } from '@holdfast/journal'
import { bytesOfUuid, type Clock, hex, uuidOfBytes } from '@holdfast/kernel'
import { ModerationFault } from './fault.ts'
import { idPattern, newestFirst } from './newest-first.ts'

export interface Act {
  id: string
  /** Unix seconds. */
  time: number
  /** Who did it: the operator's name for themselves, and where the call came from. */
  by: string
  /**
   * Such as `block`, `unblock`, `undo`; `delete`, and `restore` of what was deleted; `call` for
   * other changes by the admin host.
   */
  kind: string
  /** The subject of the act, as the operator named it. */
  what: string
  reason: string
  /** The id of the act that it undoes. */
  undoes: string | undefined
  /** Its deletions can be undone until then, Unix seconds. */
  heldUntil: number | undefined
  /** The account that it deleted as a whole. */
  account: string | undefined
}

/** The fields of an act that is no undo and deletes nothing. */
export const aboutNothingElse = { undoes: undefined, heldUntil: undefined, account: undefined } as const

/** Contents of one account that an act deleted. */
export interface DeletedContents {
  account: string
  contents: string[]
}

export interface ActsPage {
  acts: Act[]
  /** Where the next page begins; undefined: this is the last. */
  next: string | undefined
}

const prefix = 'acts/all/'
/** As many as fit into a row. */
export const deletedPerRow = 200
const actsPerPage = 100
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
    const id = `${newestFirst(nowMs)}-${hex(randomBytes(8))}`
    const row: Act = { id, time: Math.floor(nowMs / 1000), ...act }
    await this.#lookups.write([{ put: prefix + id, value: Buffer.from(JSON.stringify(row)) }])
    return row
  }

  /** @throws ModerationFault NOT_FOUND */
  async get(id: string): Promise<Act> {
    const value = idPattern.test(id) ? await this.#lookups.get(prefix + id) : undefined
    if (value === undefined) throw new ModerationFault('NOT_FOUND', `there is no act ${id}`)
    return parse(value)
  }

  /** @throws ModerationFault NOT_FOUND; TOO_LATE when it is older than 30 days. */
  async undoable(id: string): Promise<Act> {
    const act = await this.get(id)
    if (this.#clock.now() - act.time * 1000 > undoMs)
      throw new ModerationFault('TOO_LATE', `${id} was done more than 30 days ago`)
    return act
  }

  /** Called before the act deletes them; at most `deletedPerRow`. Durable when it resolves. */
  async noteDeleted(id: string, { account, contents }: DeletedContents): Promise<void> {
    const put = `acts/${id}/${account}/${hex(randomBytes(8))}`
    await this.#lookups.write([
      { put, value: Buffer.concat(contents.map((content) => bytesOfUuid(content))) },
    ])
  }

  /**
   * Contents that an act deleted or was about to delete. @param after the `place` of an earlier
   * one.
   */
  async *deleted(
    id: string,
    { after = '' }: { after?: string },
  ): AsyncGenerator<DeletedContents & { place: string }> {
    const from = `acts/${id}/`
    for await (const { key, value } of this.#lookups.scan(from, { after: from + after })) {
      const place = key.slice(from.length)
      const contents: string[] = []
      for (let at = 0; at < value.length; at += 16) contents.push(uuidOfBytes(value.subarray(at, at + 16)))
      yield { account: place.split('/')[0] as string, contents, place }
    }
  }

  /** The newest first. @param after the `next` of the previous page. */
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

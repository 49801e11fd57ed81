/**
 * Searches and deletions of operators in all accounts, in steps. A step takes seconds and says
 * where the next one begins, so that no call is long and a search can be resumed.
 *
 * By a hash: the references say which accounts have a copy of the bytes; each of these is asked. By
 * a name: every account is asked, one after the other, at a bounded rate.
 */
import { setImmediate } from 'node:timers/promises'
import { viewOf } from '@holdfast/accounts'
import { RefusalError, refusalOf } from '@holdfast/http-kit'
import { type AccountId, pause, systemTimers } from '@holdfast/kernel'
import { type Act, type Attribution, aboutNothingElse, deletedPerRow } from '@holdfast/moderation'
import { blank, type Copy, FindContents, type SearchView } from '@holdfast/wire'
import { askAsOperator } from '../calls.ts'
import { unlessFault } from '../moderation/moderation.ts'
import type { ContentDeps } from './contents.ts'
import { deletedAs, heldSeconds } from './deletions.ts'

/** Content of any account. */
export interface Hit {
  account: string
  id: string
  type: 'file' | 'folder'
  name: string
  /** Names of the folders above it, and its own. */
  path: string
  createTime: number
  size: number
  /** It lies in the bin of its account. */
  inBin: boolean
}

export interface HitsPage {
  hits: Hit[]
  /** Accounts that gave no answer, and why. */
  failed: { account: string; status: string }[]
  /** References, or accounts, that were read. */
  looked: number
  /** Where the next piece begins; null: there is none. */
  next: string | null
}

export type ContentQuery = { hash: string } | { text: string }

/** A position in a walk of keys: the next page of a key; page 0: the walk is past the key. */
interface WalkPosition {
  place: string
  key: string
  page: number
}

/** @returns the page to continue with, or 0: the key is done. */
type Take = (key: string, page: number, piece: HitsPage) => Promise<number>

interface Walk {
  list: (after: string | undefined) => AsyncIterable<{ key: string; place: string }>
  isWanted: (key: string) => boolean
  take: Take
}

const pieceMs = 2_000
const hitsPerPage = 200
/** References that count as one request. */
const keysPerTurn = 2_000
/** A millisecond or two. */
const keysPerSlice = 200
const askTimeoutMs = 15_000

export class AllAccounts {
  readonly #deps: ContentDeps
  #nextMs = Number.NEGATIVE_INFINITY

  constructor(deps: ContentDeps) {
    this.#deps = deps
  }

  /** @param after the `next` of the piece before. @throws RefusalError error-after */
  find(sought: ContentQuery, after: string | undefined): Promise<HitsPage> {
    const from = placeOf(after)
    if ('hash' in sought)
      return this.#walk(
        this.#copiesOf(sought.hash, (...of) => this.#hits(...of)),
        from,
      )
    const by = { $case: 'text', value: sought.text } as const
    const list = async function* (this: AllAccounts, place: string | undefined) {
      for await (const row of this.#deps.listAccounts(place)) yield { key: row.account, place: row.place }
    }
    const take: Take = (account, page, piece) => this.#hits(account, by, page, piece)
    return this.#walk({ list: list.bind(this), isWanted: () => true, take }, from)
  }

  /**
   * Deletes a piece of all files with a hash. The first step makes the act, which the others
   * continue.
   * @param asked.final it cannot be undone.
   */
  async deleteHash(
    hash: string,
    { final, ...asked }: Attribution & { final: boolean },
    after: string | undefined,
  ): Promise<HitsPage & { act: Act }> {
    const what = `content ${hash} of all accounts`
    const { acts } = this.#deps.lists
    const [id, rest] = after?.split('.') ?? []
    const act =
      id === undefined
        ? await acts.add({
            ...asked,
            kind: 'delete',
            what,
            ...aboutNothingElse,
            ...deletedAs(this.#deps, final),
          })
        : await unlessFault(acts.get(id))
    if (act.kind !== 'delete' || act.what !== what) throw new RefusalError('error-act')
    const walk = this.#copiesOf(hash, (account, by, _page, piece) => this.#delete(act, account, by, piece))
    const piece = await this.#walk(walk, placeOf(rest))
    return { ...piece, act, next: piece.next === null ? null : `${act.id}.${piece.next}` }
  }

  #copiesOf(
    hash: string,
    take: (account: string, by: CopyQuery, page: number, piece: HitsPage) => Promise<number>,
  ): Walk {
    return {
      list: (after) => this.#deps.listReferences(after),
      isWanted: (key) => {
        const id = key.split('/', 2)[1] ?? ''
        return hash.length === 32 ? id.startsWith(hash) : id.slice(32) === hash
      },
      take: (key, page, piece) => {
        const [, id = '', incarnation = '', account = ''] = key.split('/')
        const value: Copy = { id: Buffer.from(id, 'hex'), incarnation: Buffer.from(incarnation, 'hex') }
        return take(account, { $case: 'copy', value }, page, piece)
      },
    }
  }

  async #walk({ list, isWanted, take }: Walk, from: WalkPosition | undefined): Promise<HitsPage> {
    const { clock } = this.#deps
    const piece: HitsPage = { hits: [], failed: [], looked: 0, next: null }
    const end = clock.monotonic() + pieceMs
    const isFull = () => piece.hits.length >= hitsPerPage || clock.monotonic() >= end
    let last = from
    /** @returns whether the piece ends here. */
    const whole = async (key: string, place: string, first: number): Promise<boolean> => {
      let page = first
      do page = await take(key, page, piece)
      while (page !== 0 && !isFull())
      last = { key, place, page }
      return page !== 0 || isFull()
    }
    const ended = () => ({ ...piece, next: last === undefined ? null : textOf(last) })
    if (from !== undefined && from.page > 0 && (await whole(from.key, from.place, from.page))) return ended()
    const behind = last
    for await (const { key, place } of list(behind?.place)) {
      // A store may begin with all rows of the place, also those that were read before.
      if (place === behind?.place && key <= behind.key) continue
      piece.looked++
      if (piece.looked % keysPerTurn === 0) await this.#turn()
      else if (piece.looked % keysPerSlice === 0) await setImmediate()
      if (isWanted(key)) {
        if (await whole(key, place, 1)) return ended()
      } else {
        last = { key, place, page: 0 }
        if (piece.looked % keysPerTurn === 0 && isFull()) return ended()
      }
    }
    return piece
  }

  async #hits(account: string, by: QueryCase, page: number, piece: HitsPage): Promise<number> {
    const view = await this.#ask(account, by, { page, pageSize: hitsPerPage }, piece)
    if (view === undefined) return 0
    piece.hits.push(...hitsOf(account, view))
    return page * hitsPerPage < (view.page?.totalCount ?? 0) ? page + 1 : 0
  }

  /** Always the first page: what was deleted is not found again. */
  async #delete(act: Act, account: string, by: QueryCase, piece: HitsPage): Promise<number> {
    const view = await this.#ask(account, by, { page: 1, pageSize: deletedPerRow }, piece)
    if (view === undefined || view.hits.length === 0) return 0
    const contents = view.hits.map(({ id }) => id)
    const isHeld = act.heldUntil !== undefined
    if (isHeld) await this.#deps.lists.acts.noteDeleted(act.id, { account, contents })
    const value = {
      contentIds: contents,
      representation: undefined,
      heldSeconds: isHeld ? heldSeconds : 0,
    }
    try {
      await askAsOperator(this.#deps, account as AccountId, { $case: 'deleteContents', value })
    } catch (error) {
      // Its owner deleted one of them first: the others are searched again.
      if (error instanceof RefusalError && error.status === 'error-notFound') return 1
      piece.failed.push({ account, status: refusalOf(error).status })
      return 0
    }
    piece.hits.push(...hitsOf(account, view))
    return 1
  }

  /** @returns undefined: the account has nothing, or it failed and is named. */
  async #ask(
    account: string,
    by: QueryCase,
    page: { page: number; pageSize: number },
    piece: HitsPage,
  ): Promise<SearchView | undefined> {
    const accountId = this.#deps.ids.parseAccount(account)
    if (accountId === undefined) return undefined
    await this.#turn()
    try {
      const value = { ...blank(FindContents), by, ...page }
      const asked = askAsOperator(this.#deps, accountId, { $case: 'findContents', value }, askTimeoutMs)
      return viewOf(await asked, 'search')
    } catch (error) {
      const { status } = refusalOf(error)
      // Not found: there is a journal, but its account was never made.
      if (status !== 'error-notFound') piece.failed.push({ account, status })
      return undefined
    }
  }

  /** Waits for its turn among all searches of this process. */
  async #turn(): Promise<void> {
    const { clock, questionsPerSecond } = this.#deps
    const nowMs = clock.monotonic()
    const turnMs = Math.max(nowMs, this.#nextMs)
    this.#nextMs = turnMs + 1000 / questionsPerSecond
    if (turnMs > nowMs) await pause(systemTimers, turnMs - nowMs)
  }
}

type QueryCase = NonNullable<FindContents['by']>
type CopyQuery = Extract<QueryCase, { $case: 'copy' }>

function hitsOf(account: string, { hits }: SearchView): Hit[] {
  return hits.map(({ id, isFolder, name, path, createTime, size, inBin }) => {
    return { account, id, type: isFolder ? 'folder' : 'file', name, path, createTime, size, inBin }
  })
}

function textOf({ place, key, page }: WalkPosition): string {
  const deps = place === key ? [page, key] : [page, key, place]
  return Buffer.from(JSON.stringify(deps)).toString('base64url')
}

function placeOf(text: string | undefined): WalkPosition | undefined {
  if (text === undefined || text === '') return undefined
  try {
    const [page, key, place = key] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[]
    if (typeof place === 'string' && typeof key === 'string' && Number.isSafeInteger(page))
      return { place, key, page: page as number }
  } catch {
    // As any other text.
  }
  throw new RefusalError('error-after')
}

/**
 * What operators block, held in memory by each process that serves users.
 *
 * A name is a row `moderation/<list>/<name>`. The row has the act that blocked the name and, once
 * the block is lifted, the act that lifted it. So every act can be undone, an undo too, and an undo
 * does not change rows of other acts. A lifted row is removed when it can no longer be undone.
 *
 * Each change ends with a new stamp in a row of its own. A process reads the stamp every few
 * seconds and the lists only when it is new. Rows may arrive in another region after their stamp,
 * so the lists are read again for some seconds, and at longer intervals after that.
 */

import { randomUUID } from 'node:crypto'
import { type AddressRange, rangesOf } from '@holdfast/access'
import type { LookupChange, LookupStore } from '@holdfast/journal'
import type { Clock } from '@holdfast/kernel'
import { latin1 } from '@holdfast/kernel'
import { type Act, aboutNothingElse, OperatorActs, undoMs } from './acts.ts'
import { ModerationFault } from './fault.ts'
import { type BlockList, blockLists, listedName, namesMax } from './names.ts'

/** The checks that public hosts make. */
export interface BlockChecks {
  /** @param id md5 and BLAKE3 of the bytes. */
  blocksBlob(id: Uint8Array): boolean
  /** Changes with each change of the lists: a check stays valid while the version is the same. */
  readonly version: number
  blocksAccount(id: string): boolean
  /** @param address of a client. */
  blocksAddress(address: string): boolean
  /** Invitations of this e-mail address do not count. */
  blocksInvitation(email: string): boolean
}

export const nothingBlocked: BlockChecks = {
  version: 0,
  blocksBlob: () => false,
  blocksAccount: () => false,
  blocksAddress: () => false,
  blocksInvitation: () => false,
}

export interface BlockListsOptions {
  lookups: LookupStore
  clock: Clock
  /**
   * Called after each change of this process: others read the lists again. Undefined: there are no
   * others.
   */
  onChange: (() => void) | undefined
}

/** Who does it, and why. */
export interface Attribution {
  by: string
  reason: string
}

/** Names that an act changed, and names that already had the requested state. */
export interface ActResult {
  act: Act
  changed: number
  unchanged: number
}

interface Row {
  /** The act that blocked it. */
  act: string
  /** The act that lifted it. */
  lifted: string | undefined
  /** When it was lifted, Unix seconds. */
  liftedTime: number | undefined
}

type Lists = Readonly<Record<BlockList, ReadonlyMap<string, Row>>>

const prefix = 'moderation/'
const stampKey = `${prefix}stamp`
/** After a new stamp its rows may still be on their way. */
const unsettledMs = 10_000
const rereadMs = 10 * 60_000
/** Kinds of acts that change the lists, and nothing else. */
const ofLists: ReadonlySet<string> = new Set(['block', 'unblock', 'undo'])
/** Names that an act's row shows. */
const shownMax = 10

/** Whether acts of its kind can be undone; `OperatorActs.undoable` checks its age. */
export function isUndoable({ kind, heldUntil }: Act): boolean {
  return ofLists.has(kind) || heldUntil !== undefined
}

export class BlockLists implements BlockChecks {
  readonly acts: OperatorActs
  readonly #options: BlockListsOptions
  #lists: Lists = emptyLists()
  /** Names in force, as `blocksBlob` asks for them. */
  #hashes: ReadonlySet<string> = new Set()
  #networks: AddressRange | undefined
  #version = 0
  #stamp: string | undefined
  #stampMs = 0
  #readMs = Number.NEGATIVE_INFINITY
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: BlockListsOptions) {
    this.#options = options
    this.acts = new OperatorActs(options)
  }

  /** Reads the lists. @throws what the lookups throw. */
  static async open(options: BlockListsOptions): Promise<BlockLists> {
    const lists = new BlockLists(options)
    await lists.refresh()
    return lists
  }

  blocksBlob(id: Uint8Array): boolean {
    if (this.#hashes.size === 0) return false
    const text = latin1(id)
    return this.#hashes.has(text.slice(0, 16)) || this.#hashes.has(text.slice(16))
  }

  get version(): number {
    return this.#version
  }

  blocksAccount(id: string): boolean {
    return this.actOf('account', id) !== undefined
  }

  blocksAddress(address: string): boolean {
    return this.#networks?.has(address) ?? false
  }

  blocksInvitation(email: string): boolean {
    return this.actOf('invitation', email.toLowerCase()) !== undefined
  }

  /** How many names of a list are in force. */
  count(list: BlockList): number {
    return active(this.#lists[list]).size
  }

  /** Names in force, in order. @param after the last name of the page before. */
  names(list: BlockList, { after = '', limit }: { after?: string; limit: number }): string[] {
    const later = [...active(this.#lists[list])].filter((name) => name > after)
    return later.sort().slice(0, limit)
  }

  /** The act that blocks a name now. */
  actOf(list: BlockList, name: string): string | undefined {
    const row = this.#lists[list].get(name)
    return row?.lifted === undefined ? row?.act : undefined
  }

  /** Whether something is blocked now by this act. */
  holds(act: string): boolean {
    return blockLists.some((list) =>
      [...this.#lists[list].values()].some((row) => row.act === act && row.lifted === undefined),
    )
  }

  /** Its block was lifted in the last 30 days, and is not in force again. */
  wasLifted(list: BlockList, name: string): boolean {
    return this.#lists[list].get(name)?.lifted !== undefined
  }

  /**
   * In force here and durable when it resolves; elsewhere within seconds.
   * @param names as `listedName` spells them.
   * @param as the act, where blocking is only a part of it.
   * @throws ModerationFault FULL
   */
  block(
    list: BlockList,
    names: readonly string[],
    asked: Attribution,
    as: Omit<Act, 'id' | 'time' | keyof Attribution> = {
      kind: 'block',
      what: namesInWords(list, names),
      ...aboutNothingElse,
    },
  ): Promise<ActResult> {
    return this.#inTurn(async () => {
      await this.#read()
      const rows = this.#lists[list]
      const fresh = [...new Set(names)].filter((name) => this.actOf(list, name) === undefined)
      const unknown = fresh.filter((name) => !rows.has(name)).length
      if (rows.size + unknown > namesMax[list])
        throw new ModerationFault('FULL', `the list ${list} has at most ${namesMax[list]} names`)
      const act = await this.acts.add({ ...asked, ...as })
      return this.#write(act, list, new Map(fresh.map((name) => [name, blockedBy(act)])), names.length)
    })
  }

  unblock(list: BlockList, names: readonly string[], asked: Attribution): Promise<ActResult> {
    return this.#inTurn(async () => {
      await this.#read()
      const act = await this.acts.add({
        ...asked,
        kind: 'unblock',
        what: namesInWords(list, names),
        ...aboutNothingElse,
      })
      const lifted = new Map<string, Row>()
      for (const name of this.#spellings(list, names)) {
        const by = this.actOf(list, name)
        if (by !== undefined) lifted.set(name, { act: by, lifted: act.id, liftedTime: act.time })
      }
      return this.#write(act, list, lifted, names.length)
    })
  }

  /**
   * Undoes the changes of an act to the lists. The caller restores deleted content.
   * @throws ModerationFault NOT_FOUND, TOO_LATE, FINAL
   */
  undo(id: string, asked: Attribution): Promise<ActResult> {
    return this.#inTurn(async () => {
      await this.#read()
      const undone = await this.acts.undoable(id)
      const { kind, what } = undone
      if (!isUndoable(undone)) throw new ModerationFault('FINAL', `${kind} cannot be undone`)
      const as = ofLists.has(kind) ? 'undo' : 'restore'
      const act = await this.acts.add({
        ...asked,
        kind: as,
        what: `${kind} ${what}`,
        ...aboutNothingElse,
        undoes: id,
      })
      let done: ActResult = { act, changed: 0, unchanged: 0 }
      for (const list of blockLists) {
        const rows = new Map<string, Row>()
        for (const [name, row] of this.#lists[list]) {
          if (row.lifted === id) rows.set(name, blockedBy(act))
          else if (row.act === id && row.lifted === undefined)
            rows.set(name, { act: id, lifted: act.id, liftedTime: act.time })
        }
        if (rows.size > 0)
          done = { ...done, changed: done.changed + (await this.#write(act, list, rows, rows.size)).changed }
      }
      return done
    })
  }

  /** With those of networks under which releases up to 0.1.0 kept them. */
  #spellings(list: BlockList, names: readonly string[]): Set<string> {
    const all = new Set(names)
    if (list === 'network')
      for (const name of this.#lists.network.keys()) if (all.has(listedName(list, name) ?? '')) all.add(name)
    return all
  }

  /**
   * Reads the rows again when they may have changed. Each act does it first: what it changes may
   * have been blocked or lifted by another process a moment ago.
   * @throws what the lookups throw.
   */
  refresh(): Promise<void> {
    return this.#inTurn(() => this.#read())
  }

  async #read(): Promise<void> {
    const { lookups, clock } = this.#options
    const nowMs = clock.monotonic()
    const value = await lookups.get(stampKey)
    const stamp = value === undefined ? '' : Buffer.from(value).toString()
    if (stamp !== this.#stamp) this.#stampMs = nowMs
    else if (nowMs - this.#stampMs > unsettledMs && nowMs - this.#readMs < rereadMs) return
    const lists = emptyLists()
    for (const list of blockLists) {
      const from = `${prefix}${list}/`
      for await (const { key, value } of lookups.scan(from))
        lists[list].set(key.slice(from.length), JSON.parse(Buffer.from(value).toString()) as Row)
    }
    this.#stamp = stamp
    this.#readMs = nowMs
    this.#use(lists)
  }

  #use(lists: Lists): void {
    this.#lists = lists
    this.#hashes = new Set(
      [...active(lists.content)].map((hex) => Buffer.from(hex, 'hex').toString('latin1')),
    )
    const networks = active(lists.network)
    this.#networks = networks.size === 0 ? undefined : rangesOf(networks)
    this.#version++
  }

  async #write(act: Act, list: BlockList, rows: ReadonlyMap<string, Row>, asked: number): Promise<ActResult> {
    const at = (name: string) => `${prefix}${list}/${name}`
    const changes: LookupChange[] = [...rows].map(([name, row]) => ({
      put: at(name),
      value: Buffer.from(JSON.stringify(row)),
    }))
    const kept = new Map([...this.#lists[list], ...rows])
    for (const [name, { liftedTime }] of this.#lists[list]) {
      if (rows.has(name) || liftedTime === undefined || (act.time - liftedTime) * 1000 <= undoMs) continue
      changes.push({ delete: at(name) })
      kept.delete(name)
    }
    if (changes.length > 0) {
      // After a fault some of the rows may have been written, so they are read again.
      this.#stamp = undefined
      await this.#options.lookups.write(changes)
      const stamp = randomUUID()
      await this.#options.lookups.write([{ put: stampKey, value: Buffer.from(stamp) }])
      this.#use({ ...this.#lists, [list]: kept })
      const { onChange } = this.#options
      // Of several processes another one may have changed rows since they were read.
      if (onChange === undefined) this.#stamp = stamp
      else onChange()
    }
    return { act, changed: rows.size, unchanged: Math.max(0, asked - rows.size) }
  }

  /** Changes and reads of one process, one after the other. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined)
    return turn
  }
}

function blockedBy({ id }: Act): Row {
  return { act: id, lifted: undefined, liftedTime: undefined }
}

function emptyLists(): Record<BlockList, Map<string, Row>> {
  return Object.fromEntries(blockLists.map((list) => [list, new Map()])) as Record<
    BlockList,
    Map<string, Row>
  >
}

function active(rows: ReadonlyMap<string, Row>): Set<string> {
  const names = new Set<string>()
  for (const [name, { lifted }] of rows) if (lifted === undefined) names.add(name)
  return names
}

function namesInWords(list: BlockList, names: readonly string[]): string {
  const more = names.length > shownMax ? ` and ${names.length - shownMax} more` : ''
  return `${list} ${names.slice(0, shownMax).join(' ')}${more}`
}

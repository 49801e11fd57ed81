/**
 * Faults planted between the parts, one per name: each breaks one rule that a promise depends on,
 * and must be found.
 */
import type { AccountStates } from '@holdfast/content-tree'
import {
  type AcquireOptions,
  isUnwritten,
  type JournalOwnership,
  type JournalRow,
  type JournalStore,
  type LookupChange,
  type LookupRow,
  type LookupStore,
} from '@holdfast/journal'
import { hex, requestTime } from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'
import type { Plants } from './cluster.ts'
import { type DiskPlants, HastyMachine, ShortSightedMachine } from './disk.ts'
import type { Exchange } from './network.ts'
import { wrapped } from './observed-states.ts'
import type { SimProcess } from './sim-process.ts'
import type { StoragePlants } from './storage.ts'

export type ClusterPlants = Plants & { storage?: StoragePlants }

/** Which of the simulations it is planted in, and what plants it; made again for each run. */
export type PlantedDefect =
  | { in: 'cluster'; make: () => ClusterPlants }
  | { in: 'evacuation' }
  | { in: 'disk'; make: () => DiskPlants }

export const planted: Record<string, PlantedDefect> = {
  /** Appends succeed with any epoch, if the head is the expected one. */
  fence: { in: 'cluster', make: () => ({ sharedJournal: (journal) => new UnfencedAppends(journal) }) },
  /**
   * The reference of a blob is written in the background, so that the append need not wait for it.
   */
  'reference-after-append': {
    in: 'cluster',
    make: () => ({ lookups: (lookups, host) => new LazyReferences(lookups, host) }),
  },
  /** Rows that one account owns are ordered by the clocks of their writers. */
  'rows-by-clock': { in: 'cluster', make: () => ({ lookups: (lookups) => new UntimedRows(lookups) }) },
  /** The same for wake rows alone: a stale host that leaves removes the row of the new owner. */
  'wake-rows-by-clock': {
    in: 'cluster',
    make: () => ({ lookups: (lookups) => new UntimedRows(lookups, 'wake/') }),
  },
  /** After an owner that did not leave cleanly no active row is written: it is assumed to exist. */
  'active-row-assumed': {
    in: 'cluster',
    make: () => {
      const assumed = new Set<string>()
      return {
        journal: (journal) => new NotingOwners(journal, assumed),
        lookups: (lookups) =>
          new FewerRows(lookups, (change) => 'put' in change && assumed.has(accountOf(change.put))),
      }
    },
  },
  /** An active row is removed only by the host that wrote it. */
  'stray-rows-stay': {
    in: 'cluster',
    make: () => ({
      lookups: (lookups, host) =>
        new FewerRows(lookups, (change) => 'delete' in change && !change.delete.includes(`/${host.id}/`)),
    }),
  },
  /** Pages are named by checkpoint and page alone, and overwritten. */
  'unfenced-page': { in: 'cluster', make: () => ({ sharedJournal: (journal) => new SharedPages(journal) }) },
  /** Refusals are sent at once, from the state of that moment. */
  'tentative-refusal': {
    in: 'cluster',
    make: () => {
      const early = new EarlyRefusals()
      return { states: (states, host, exchange) => early.around(states, host, exchange) }
    },
  },
  /** What was carried out under a key is forgotten after some other keys. */
  'forgotten-keys': {
    in: 'cluster',
    make: () => {
      const keys = new ForgottenKeys()
      return { states: (states) => keys.around(states) }
    },
  },
  /** Timers fire by the clock of the host, however far it is from all others. */
  'expiry-by-one-clock': { in: 'cluster', make: () => ({ isClockOff: () => false }) },
  /**
   * After a crash the positions of a node's log continue in its old life, behind a tail that was
   * lost.
   */
  'reused-log-position': {
    in: 'cluster',
    make: () => ({ storage: { memory: { plant: { reusePositions: { lost: 3 } } } } }),
  },
  /** A deletion covers the content, even if it was uploaded again since. */
  'tombstone-without-incarnation': {
    in: 'cluster',
    make: () => ({
      storage: {
        deletedAtSource: async (store, { id }) => {
          for (const copy of await store.find(id)) await store.delete(copy)
        },
      },
    }),
  },
  /** Partitions of journals are named by their account alone: rows of two terms are mixed. */
  'merged-terms': { in: 'evacuation' },
  /** A start looks for records up to the first place without one. */
  'stop-at-first-hole': {
    in: 'disk',
    make: () => ({ recovery: (random, base) => new ShortSightedMachine(random, base) }),
  },
  /**
   * An extent is used again before its copies elsewhere, and the catalogue that names them, are
   * synced.
   */
  'recycle-before-synced-index': {
    in: 'disk',
    make: () => ({ load: (random, base) => new HastyMachine(random, base) }),
  },
}

/** A journal based on the given one, for planted faults to change one part of. */
class SameJournal implements JournalStore {
  protected readonly journal: JournalStore

  constructor(journal: JournalStore) {
    this.journal = journal
  }

  get capabilities(): JournalStore['capabilities'] {
    return this.journal.capabilities
  }

  acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    return this.journal.acquire(account, options)
  }

  rows(ownership: JournalOwnership, after: number): AsyncIterable<JournalRow> {
    return this.journal.rows(ownership, after)
  }

  append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    return this.journal.append(ownership, row)
  }

  head(account: string): ReturnType<JournalStore['head']> {
    return this.journal.head(account)
  }

  putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    return this.journal.putPage(account, name, bytes)
  }

  page(account: string, name: string): Promise<Uint8Array | undefined> {
    return this.journal.page(account, name)
  }

  deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void> {
    return this.journal.deletePages(ownership, names)
  }

  pageNames(account: string): AsyncIterable<string> {
    return this.journal.pageNames(account)
  }

  setRoot(ownership: JournalOwnership, options: { root: Uint8Array; through: number }): Promise<void> {
    return this.journal.setRoot(ownership, options)
  }

  trim(ownership: JournalOwnership, through: number): Promise<void> {
    return this.journal.trim(ownership, through)
  }

  release(ownership: JournalOwnership): Promise<void> {
    return this.journal.release(ownership)
  }
}

class UnfencedAppends extends SameJournal {
  override async append(ownership: JournalOwnership, row: Uint8Array): Promise<void> {
    const { epoch } = await this.journal.head(ownership.account)
    const forged = { ...ownership, epoch }
    await this.journal.append(forged, row)
    if (isUnwritten(ownership)) ownership.epoch = forged.epoch
    ownership.head = forged.head
    ownership.chain = forged.chain
  }
}

class SharedPages extends SameJournal {
  /** By shared name: the name it was last written under. */
  readonly #written = new Map<string, string>()

  override async putPage(account: string, name: string, bytes: Uint8Array): Promise<void> {
    const shared = sharedName(name)
    await this.journal.deletePages({ account } as JournalOwnership, [shared])
    await this.journal.putPage(account, shared, bytes)
    this.#written.set(`${account}/${shared}`, name)
  }

  override page(account: string, name: string): Promise<Uint8Array | undefined> {
    return this.journal.page(account, sharedName(name))
  }

  override async deletePages(ownership: JournalOwnership, names: readonly string[]): Promise<void> {
    const { account } = ownership
    // An overwritten name belongs to another page.
    const own = names.filter((name) => this.#written.get(`${account}/${sharedName(name)}`) === name)
    await this.journal.deletePages(ownership, own.map(sharedName))
  }

  override async *pageNames(account: string): AsyncIterable<string> {
    for await (const shared of this.journal.pageNames(account))
      yield this.#written.get(`${account}/${shared}`) ?? shared
  }
}

/** Two names take turns, as in a store with one active page and one being written. */
function sharedName(name: string): string {
  const [, count = '', page = ''] = name.split('-')
  return `0-${Number(count) % 2}-${page}`
}

/** Lookups based on the given ones, for planted faults to change one part of. */
class SameLookups implements LookupStore {
  protected readonly lookups: LookupStore

  constructor(lookups: LookupStore) {
    this.lookups = lookups
  }

  write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    return this.lookups.write(changes, writeTime)
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.lookups.get(key)
  }

  scan(prefix: string, options?: { after?: string; limit?: number }): AsyncIterable<LookupRow> {
    return this.lookups.scan(prefix, options)
  }

  firstOf(prefixes: readonly string[]): Promise<(LookupRow | undefined)[]> {
    return this.lookups.firstOf(prefixes)
  }

  claim(key: string, value: Uint8Array): Promise<Uint8Array> {
    return this.lookups.claim(key, value)
  }

  take(counter: string, count: number): Promise<number> {
    return this.lookups.take(counter, count)
  }
}

class LazyReferences extends SameLookups {
  readonly #host: SimProcess

  constructor(lookups: LookupStore, host: SimProcess) {
    super(lookups)
    this.#host = host
  }

  override async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    const isNewReference = (change: LookupChange) => 'put' in change && change.put.startsWith('ref/')
    const later = changes.filter(isNewReference)
    if (later.length > 0)
      this.#host.after(20, () => void this.lookups.write(later, writeTime).catch(() => {}))
    await this.lookups.write(
      changes.filter((change) => !isNewReference(change)),
      writeTime,
    )
  }
}

class UntimedRows extends SameLookups {
  readonly #prefix: string

  constructor(lookups: LookupStore, prefix = '') {
    super(lookups)
    this.#prefix = prefix
  }

  override async write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    const isUntimed = (change: LookupChange) => keyOfRow(change).startsWith(this.#prefix)
    const timed = changes.filter((change) => !isUntimed(change))
    await Promise.all([
      this.lookups.write(changes.filter(isUntimed)),
      timed.length > 0 && this.lookups.write(timed, writeTime),
    ])
  }
}

/** Some changes of active rows are not made. */
class FewerRows extends SameLookups {
  readonly #without: (change: LookupChange) => boolean

  constructor(lookups: LookupStore, without: (change: LookupChange) => boolean) {
    super(lookups)
    this.#without = without
  }

  override write(changes: readonly LookupChange[], writeTime?: bigint): Promise<void> {
    const isActive = (change: LookupChange) => keyOfRow(change).startsWith('active/')
    return this.lookups.write(
      changes.filter((change) => !(isActive(change) && this.#without(change))),
      writeTime,
    )
  }
}

class NotingOwners extends SameJournal {
  readonly #unclean: Set<string>

  constructor(journal: JournalStore, unclean: Set<string>) {
    super(journal)
    this.#unclean = unclean
  }

  override async acquire(account: string, options: AcquireOptions): Promise<JournalOwnership> {
    const ownership = await super.acquire(account, options)
    if (ownership.previousOwner === undefined) this.#unclean.delete(account)
    else this.#unclean.add(account)
    return ownership
  }
}

function keyOfRow(change: LookupChange): string {
  return 'put' in change ? change.put : change.delete
}

function accountOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1)
}

/** Requests inside a host; a refusal among the decisions is sent before the host would. */
class EarlyRefusals {
  readonly #answers = new Map<string, (bytes: Uint8Array) => void>()

  around(states: AccountStates, host: SimProcess, exchange: Exchange): AccountStates {
    exchange.intercept = (at, { subject, message }, answer) => {
      if (subject !== `accounts.${at.id}`) return
      this.#answers.set(processRequestKey(at, AccountRequest.decode(message)), answer)
    }
    return wrapped(states, (state) => ({
      decide: (request, context) => {
        const outcome = state.decide(request, context)
        if (outcome.kind === 'reply' && outcome.reply.result?.$case === 'refusal')
          this.#answers.get(processRequestKey(host, request))?.(AccountReply.encode(outcome.reply).finish())
        return outcome
      },
    }))
  }
}

/** A key that is sent again after this many others is carried out again. */
const keysRemembered = 4

class ForgottenKeys {
  /** By account: keys and when each was carried out first, in this order. */
  readonly #carriedOut = new Map<string, Map<string, number>>()

  around(states: AccountStates): AccountStates {
    return wrapped(states, (state, account) => {
      const keys = this.#carriedOut.get(account) ?? new Map<string, number>()
      this.#carriedOut.set(account, keys)
      return {
        decide: (request, context) => {
          const { requestId } = request
          const later = [...keys.keys()].reverse().indexOf(hexOf(requestId))
          if (later < keysRemembered) return state.decide(request, context)
          const outcome = state.decide({ ...request, requestId: otherKey(requestId, context.nowMs) }, context)
          return outcome.kind === 'change'
            ? { ...outcome, change: { ...outcome.change, requestId } }
            : outcome
        },
        applying: (change) => {
          const { requestId, timeMs } = change
          if (requestId.length === 0 || requestTime(requestId) !== undefined) return state.applying(change)
          const firstMs = keys.get(hexOf(requestId)) ?? timeMs
          keys.set(hexOf(requestId), firstMs)
          if (firstMs === timeMs) return state.applying(change)
          return state.applying({ ...change, requestId: otherKey(requestId, timeMs) })
        },
      }
    })
  }
}

function otherKey(id: Uint8Array, timeMs: number): Buffer {
  const other = Buffer.from(id)
  other.writeUIntBE(timeMs, 6, 6)
  return other
}

function hexOf(id: Uint8Array): string {
  return hex(id)
}

function processRequestKey(process: SimProcess, { requestId }: AccountRequest): string {
  return `${process.name} ${hex(requestId)}`
}

/** A seed that found it recently: tried first, because any change may give the seeds other runs. */
export const near: Record<string, number> = {
  fence: 141,
  'rows-by-clock': 11,
  'wake-rows-by-clock': 385,
  'active-row-assumed': 47,
  'stray-rows-stay': 10,
  'unfenced-page': 4,
  'tentative-refusal': 1,
  'forgotten-keys': 5,
  'expiry-by-one-clock': 549,
  'reused-log-position': 10,
  'tombstone-without-incarnation': 1,
  'merged-terms': 2,
  'stop-at-first-hole': 2,
  'recycle-before-synced-index': 1,
}

/**
 * A cluster in one process: hosts on one bus over one pair of memory stores; the test controls
 * faults and order.
 */

import { RoutedAccountClient, routeKey } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { MemoryBus } from '@holdfast/bus'
import { MemoryJournalStore, MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { type Clock, codesPerBlock, IdCodec, mintRequestId, silentLog, systemClock } from '@holdfast/kernel'
import type { AccountOperation, AccountReply, AccountRequest, Item } from '@holdfast/wire'
import { AccountHost, type AccountHostOptions, type LoopTimers } from '../src/index.ts'
import { plainHost } from '../src/testing.ts'
import { systemLoop } from '../src/timers.ts'
import { TinyStates } from './tiny-core.ts'

const ids = new IdCodec({ contentKey: Buffer.alloc(32, 1), accountKey: Buffer.alloc(32, 2) })

export class World {
  readonly medium: MemoryMedium
  readonly journal: MemoryJournalStore
  readonly lookups: MemoryLookupStore
  readonly bus = new MemoryBus()
  readonly states = new TinyStates()
  readonly account = ids.account('eu-par')
  readonly hosts: AccountHost[] = []
  /** Mails accepted, by id. */
  readonly mails: string[] = []
  readonly released: string[] = []
  readonly warnings: string[] = []
  readonly client: RoutedAccountClient
  /** The clock of the host that was started last. */
  clock: Clock = systemClock
  /** Where the client sends requests. */
  hostId = 'one'
  mailer: AccountHostOptions['mailer'] = { send: async ({ id }) => void this.mails.push(id) }

  constructor(capabilities: { ordered?: boolean; exclusive?: boolean } = {}) {
    this.medium = new MemoryMedium(capabilities)
    this.journal = new MemoryJournalStore(this.medium)
    this.lookups = new MemoryLookupStore(this.medium)
    this.client = new RoutedAccountClient({
      ...plainClient,
      bus: this.bus,
      hostOf: () => this.hostId,
      // Deadlines are in the hosts' time, but waits are real.
      clock: { now: () => this.clock.now(), monotonic: () => performance.now() },
    })
  }

  host(hostId = 'one', options: Partial<AccountHostOptions> = {}): AccountHost {
    const note = (_: object, message: string) => void this.warnings.push(message)
    const host = new AccountHost({
      ...plainHost,
      sweepMs: 2_000,
      hostId,
      bus: this.bus,
      journal: this.journal,
      lookups: this.lookups,
      states: this.states,
      mailer: { send: (mail) => this.mailer.send(mail) },
      onBlobReleased: ({ blob }) => void this.released.push(`${blob.id[0]}`),
      log: { ...silentLog, warn: note, error: note },
      ...options,
      bounds: { retryFirstMs: 1, retryMaxMs: 4, fencedPauseMs: 1, ...options.bounds },
    })
    this.clock = options.clock ?? systemClock
    host.start()
    this.hosts.push(host)
    return host
  }

  ask(
    operation: AccountOperation,
    {
      id = mintRequestId(Date.now()),
      timeoutMs = 10_000,
      account = this.account as string,
      signal,
      clientRequest,
    }: {
      id?: Buffer
      timeoutMs?: number
      account?: string
      signal?: AbortSignal
      clientRequest?: string
    } = {},
  ) {
    const request: Omit<AccountRequest, 'deadlineMs'> = {
      accountId: account,
      requestId: id,
      caller: { who: { $case: 'operator', value: {} } },
      clientNetwork: undefined,
      clientRequest,
      traceparent: undefined,
      tierNeeded: '',
      operation,
    }
    return this.client.call(request, signal === undefined ? { timeoutMs } : { timeoutMs, signal })
  }

  create(options?: Parameters<World['ask']>[1]): Promise<AccountReply> {
    return this.ask(
      { $case: 'createAccount', value: { tokenKeyId: 1, email: undefined, isNewId: true } },
      options,
    )
  }

  folder(name: string, options?: Parameters<World['ask']>[1]): Promise<AccountReply> {
    return this.ask(
      { $case: 'createFolder', value: { parentFolderId: '', name, isPublic: undefined, modTime: undefined } },
      options,
    )
  }

  /** A report of one download of a file. */
  report(name: string, sequence: number, options?: Parameters<World['ask']>[1]): Promise<AccountReply> {
    const counts = [{ contentId: name, count: 1 }]
    const value = { source: Buffer.alloc(16, 1), sequence, counts, trafficDirect: 0, trafficWeb: 0 }
    return this.ask({ $case: 'reportDownloads', value }, options)
  }

  /** The downloads of a file. */
  async downloads(name: string): Promise<number | undefined> {
    const items = itemsOf(await this.ask({ $case: 'getAccount', value: {} }))
    return items.find((item) => item.name === name)?.downloads
  }

  /** Names of what the account holds. */
  async names(options?: Parameters<World['ask']>[1]): Promise<string[]> {
    return itemsOf(await this.ask({ $case: 'getAccount', value: {} }, options)).map(({ name }) => name)
  }

  async keys(prefix: string): Promise<string[]> {
    const keys: string[] = []
    for await (const { key } of this.lookups.scan(prefix)) keys.push(key)
    return keys
  }

  async head(): Promise<number> {
    return (await this.journal.head(this.account)).head
  }

  /**
   * Like `kill -9`: the process is gone from the bus and does nothing more; what it issued may
   * still happen.
   */
  kill(host: AccountHost): void {
    void host.close({ drainMs: 0 })
  }

  async close(): Promise<void> {
    await Promise.all(this.hosts.map((host) => host.close({ drainMs: 0 })))
    await this.bus.close()
  }
}

/** Where a code of the tiny core leads. */
export async function routeOf(world: World, code: string | undefined): Promise<string | undefined> {
  const route = await world.lookups.get(routeKey(8, Math.floor(Number(code?.slice(1)) / codesPerBlock)))
  return route && Buffer.from(route).toString()
}

export function itemsOf(reply: AccountReply): Item[] {
  if (reply.result?.$case !== 'items') throw new Error(`not items: ${JSON.stringify(reply)}`)
  return reply.result.value.items
}

export function statusOf(reply: AccountReply): string {
  return reply.result?.$case === 'refusal' ? reply.result.value.status : 'ok'
}

/** Time that advances only when the test moves it. */
export class ManualTime implements Clock, LoopTimers {
  #now = Date.now()
  #monotonic = 1000
  readonly #timers = new Set<{ atMs: number; run: () => void }>()

  now(): number {
    return Math.floor(this.#now)
  }

  monotonic(): number {
    return this.#monotonic
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#monotonic + ms, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  turn(): Promise<void> {
    return systemLoop.turn()
  }

  /** Advances time, firing what comes due in its order, and lets its effects happen. */
  async advance(ms: number): Promise<void> {
    const until = this.#monotonic + ms
    for (;;) {
      const due = [...this.#timers]
        .filter(({ atMs }) => atMs <= until)
        .sort((one, other) => one.atMs - other.atMs)[0]
      if (due === undefined) break
      this.#timers.delete(due)
      this.#move(due.atMs)
      due.run()
      await settled()
    }
    this.#move(until)
    await settled()
  }

  #move(toMs: number): void {
    const ms = Math.max(0, toMs - this.#monotonic)
    this.#monotonic += ms
    this.#now += ms
  }
}

/** Everything that can happen without time passing has happened. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await systemLoop.turn()
}

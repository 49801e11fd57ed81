/** A region under the scheduler: actor hosts, frontends, the metadata stores, and their faults. */

import { RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { AccountHost, type ReleasedBlob, type RuntimeBounds } from '@holdfast/actor-runtime'
import { plainHost } from '@holdfast/actor-runtime/testing'
import { type AccountStates, createAccountStates } from '@holdfast/content-tree'
import { plainSettings } from '@holdfast/content-tree/testing'
import type { JournalStore, LookupStore } from '@holdfast/journal'
import { Keyring, silentLog } from '@holdfast/kernel'
import { clockOffsets, isClockOff } from '@holdfast/membership'
import { Placement } from '@holdfast/placement'
import { calm, Exchange, Network, SimBus } from './network.ts'
import { type DecisionTimes, observed, sliced, type WaitingRequest } from './observed-states.ts'
import type { Dice } from './random.ts'
import type { Scheduler } from './scheduler.ts'
import { SimProcess } from './sim-process.ts'
import { calmStores, SharedStores, SimJournal, SimLookups, StoreLine } from './stores.ts'

export const keyring = new Keyring(Buffer.alloc(32, 7))

const tier = { storage: 400_000, contents: 40, traffic: undefined }
export const states: AccountStates = createAccountStates(
  plainSettings(keyring, { tiers: { guest: tier, standard: tier, premium: tier }, openListing: true }),
)

/** What a planted fault puts between the parts. Each is the real one unless it is planted. */
export interface Plants {
  /** Around the journals themselves, for all. */
  sharedJournal?: (journal: JournalStore) => JournalStore
  /** Around what one host sees. */
  journal?: (journal: JournalStore, host: SimProcess) => JournalStore
  lookups?: (lookups: LookupStore, host: SimProcess) => LookupStore
  states?: (states: AccountStates, host: SimProcess, exchange: Exchange) => AccountStates
  /** Replaces the comparison of clocks. */
  isClockOff?: () => boolean
}

/** This host applies every change in slices, with the loop turning between them. */
const slicingHost = 'h1'

const beatMs = 1_000
/** With fewer one clock that is far off is not outvoted. */
const clocksToCompare = 3
const deadAfterMs = 4_000

/** Small bounds, so that a short run reaches them. */
const bounds: Partial<RuntimeBounds> = {
  checkpointBytesMin: 2_500,
  tailFlushesMax: 24,
  idleMs: 6_000,
  codesDrawn: 128,
  effectsIdleMs: 200,
  waitingMs: 2_000,
  waitingBytesMax: 400,
  effectsWakeMs: 5_000,
  relistMs: 3_000,
  wakeBuckets: 2,
  activeRowsPerSegment: 4,
  activeSegmentsBack: 2,
  mailRetryFirstMs: 200,
  mailRetryMaxMs: 5_000,
  takeoversPerMinuteMax: 1_000,
  quarantineFirstMs: 500,
  quarantineMaxMs: 5_000,
}

/** The others that each process received a heartbeat from recently. */
class View {
  readonly #process: SimProcess
  readonly #self: string | undefined
  readonly #heard = new Map<string, number>()
  /**
   * By how much wall clocks are ahead of our monotonic one, of members that sent a heartbeat
   * recently.
   */
  readonly #clocksMs = new Map<string, number>()
  #placement = new Placement([])

  constructor(process: SimProcess, { self, ids }: { self?: string; ids: readonly string[] }) {
    this.#process = process
    this.#self = self
    for (const id of ids) this.#heard.set(id, process.monotonic())
    this.look()
  }

  hear(id: string, wallMs: number): void {
    const monotonicMs = this.#process.monotonic()
    this.#heard.set(id, monotonicMs)
    this.#clocksMs.set(id, wallMs - monotonicMs)
    this.look()
  }

  /** The clocks it compares, including its own. */
  get clocks(): number {
    return 1 + this.#clocksMs.size
  }

  get isClockOff(): boolean {
    const [clockOffsetMs = 0] = this.#offsetsMs
    return isClockOff({ clockOffsetMs })
  }

  /** Whether the clocks of all members agree, by the heartbeats that it received. */
  get clocksAgree(): boolean {
    return this.#offsetsMs.every((clockOffsetMs) => !isClockOff({ clockOffsetMs }))
  }

  /** Its own first. */
  get #offsetsMs(): number[] {
    const own = this.#process.now() - this.#process.monotonic()
    return clockOffsets([own, ...this.#clocksMs.values()])
  }

  look(): void {
    const sinceMs = this.#process.monotonic() - deadAfterMs
    const alive = [...this.#heard].filter(([, atMs]) => atMs > sinceMs).map(([id]) => id)
    for (const id of this.#clocksMs.keys()) if (!alive.includes(id)) this.#clocksMs.delete(id)
    if (this.#self !== undefined) alive.push(this.#self)
    this.#placement = new Placement(alive)
  }

  hostOf(account: string): string | undefined {
    return this.#placement.hostOf(account)
  }
}

export interface Mail {
  id: string
  accountId: string
  tokenCounter: number
}

interface Node {
  process: SimProcess
  view: View
}

interface HostNode extends Node {
  host: AccountHost
}

export interface Frontend extends Node {
  client: RoutedAccountClient
  /** Rejects when the process dies: its clients see the connection break. */
  died: Promise<never>
  die: () => void
}

export class Cluster {
  readonly scheduler: Scheduler
  readonly dice: Dice
  readonly network: Network
  readonly exchange: Exchange
  readonly shared = new SharedStores()
  readonly decided: DecisionTimes = new Map()
  /** Changes that may wait for a row, as hosts decided them. */
  readonly waiting: (WaitingRequest & { host: string; step: number })[] = []
  readonly mails: Mail[] = []
  readonly hosts = new Map<string, HostNode>()
  readonly frontends = new Map<string, Frontend>()
  readonly hostIds = ['h1', 'h2', 'h3']
  readonly frontendIds = ['f1', 'f2']
  onBlobReleased: (released: ReleasedBlob) => void = () => {}
  /** Chance of the mail server to refuse, or to accept without an answer. */
  mailTrouble = 0
  skewMsMax = 0
  /** Where a storm returns to. */
  readonly usual = { network: calm, stores: calmStores }
  readonly #plants: Plants
  readonly #bounds: Partial<RuntimeBounds>
  #far: { view: View; end: () => void } | undefined
  #lives = 0

  constructor(scheduler: Scheduler, dice: Dice, plants: Plants = {}, own: Partial<RuntimeBounds> = {}) {
    this.#bounds = { ...bounds, ...own }
    this.scheduler = scheduler
    this.dice = dice
    this.#plants = plants
    this.network = new Network(dice.fork())
    this.exchange = new Exchange(this.network)
    this.shared.journal = plants.sharedJournal?.(this.shared.journal) ?? this.shared.journal
  }

  start(): void {
    for (const id of this.hostIds) this.startHost(id)
    for (const id of this.frontendIds) this.startFrontend(id)
  }

  startHost(id: string): void {
    if (this.hosts.has(id)) return
    const process = this.newProcess(id)
    const view = new View(process, { self: id, ids: this.hostIds })
    const line = new StoreLine(process, this.network, this.shared)
    const journal = new SimJournal(line)
    const lookups = new SimLookups(line)
    const { plants, decided } = { plants: this.#plants, decided: this.decided }
    const slices = id === slicingHost
    const waits = (change: WaitingRequest) => {
      const step = this.scheduler.note(`${process.name} may keep ${change.id.slice(-6)} waiting`)
      this.waiting.push({ ...change, host: process.name, step })
    }
    const seen = observed(slices ? sliced(states) : states, { decided, waits })
    const host = new AccountHost({
      ...plainHost,
      hostId: id,
      bus: new SimBus(process, this.exchange),
      journal: plants.journal?.(journal, process) ?? journal,
      lookups: plants.lookups?.(lookups, process) ?? lookups,
      states: plants.states?.(seen, process, this.exchange) ?? seen,
      mailer: { send: (mail) => this.#mail(process, mail) },
      onBlobReleased: (released) => this.onBlobReleased(released),
      hostOf: (account) => view.hostOf(account),
      isClockOff: plants.isClockOff ?? (() => view.isClockOff),
      sweepMs: 1_000,
      bounds: slices ? { ...this.#bounds, turnMs: 0 } : this.#bounds,
      clock: process,
      timers: process,
      randomness: process.dice,
      log: this.#log(process),
      checkPassword: async (verifier, password) => {
        await process.wait(50)
        return Buffer.from(verifier.hash).toString() === password
      },
    })
    host.start()
    this.hosts.set(id, { process, view, host })
    this.#beat(process, id)
    this.watch(process, view)
    this.scheduler.note(`${process.name} starts`)
  }

  startFrontend(id: string): void {
    if (this.frontends.has(id)) return
    const process = this.newProcess(id)
    const view = new View(process, { ids: this.hostIds })
    const client = new RoutedAccountClient({
      ...plainClient,
      bus: new SimBus(process, this.exchange),
      hostOf: (account) => view.hostOf(account),
      clock: process,
      timers: process,
      randomness: process.dice,
    })
    const { promise: died, reject } = Promise.withResolvers<never>()
    died.catch(() => {})
    this.frontends.set(id, { process, view, client, died, die: () => reject(new Error(`${id} died`)) })
    this.watch(process, view)
    this.scheduler.note(`${process.name} starts`)
  }

  newProcess(id: string): SimProcess {
    const skewMs = this.dice.between(-this.skewMsMax, this.skewMsMax)
    return new SimProcess(id, {
      life: ++this.#lives,
      scheduler: this.scheduler,
      dice: this.dice.fork(),
      skewMs,
    })
  }

  /** Killed in the middle of its work. */
  crash(id: string): void {
    const node = this.hosts.get(id) ?? this.frontends.get(id)
    if (node === undefined) return
    this.scheduler.note(`${node.process.name} crashes`)
    node.process.kill()
    this.exchange.drop(node.process)
    if (!this.hosts.delete(id)) {
      this.frontends.get(id)?.die()
      this.frontends.delete(id)
    }
  }

  /** Leaves cleanly. */
  async stopHost(id: string): Promise<void> {
    const node = this.hosts.get(id)
    if (node === undefined) return
    this.scheduler.note(`${node.process.name} drains`)
    await Promise.race([node.host.close({ drainMs: 3_000 }), this.scheduler.wait(20_000)])
    if (this.hosts.get(id) === node) this.crash(id)
  }

  /** Everything works again, and all processes run. */
  heal(): void {
    this.scheduler.note('everything heals')
    this.network.healAll()
    this.#far?.end()
    this.usual.network = calm
    this.usual.stores = calmStores
    this.network.weather = calm
    this.shared.weather = calmStores
    this.shared.onRowsSent = () => false
    this.mailTrouble = 0
    for (const { process } of [...this.hosts.values(), ...this.frontends.values()]) {
      process.resume()
      process.settleClock()
    }
    this.skewMsMax = 0
    for (const id of this.hostIds) this.startHost(id)
    for (const id of this.frontendIds) this.startFrontend(id)
  }

  get processes(): SimProcess[] {
    return [...this.hosts.values(), ...this.frontends.values()].map(({ process }) => process)
  }

  #beat(process: SimProcess, id: string): void {
    const wallMs = process.now()
    for (const node of [...this.hosts.values(), ...this.frontends.values()])
      if (node.process !== process) this.network.send(process, node.process, () => node.view.hear(id, wallMs))
    process.after(beatMs, () => this.#beat(process, id))
  }

  /**
   * Sets the clock of a host far ahead for a while, if the host can notice that: it must hear at
   * least two other members, and the clocks that it hears must agree. Only one clock is far ahead
   * at a time, because with more it is unknown which clocks are right. An earlier clock that was
   * far ahead also counts until the host has heard its corrected time.
   */
  farClock(id: string, aheadMs: number, ms: number): void {
    const host = this.hosts.get(id)
    if (host === undefined || this.#far !== undefined) return
    if (host.view.clocks < clocksToCompare || !host.view.clocksAgree) return
    this.scheduler.note(`the clock of ${host.process.name} jumps ${aheadMs} ms ahead`)
    host.process.jump(aheadMs)
    const far = { view: host.view, end: () => {} }
    far.end = () => {
      if (this.#far !== far) return
      this.#far = undefined
      host.process.jump(-aheadMs)
    }
    this.#far = far
    this.scheduler.after(ms, far.end)
  }

  watch(process: SimProcess, view: View): void {
    process.after(beatMs, () => {
      view.look()
      if (this.#far?.view === view && view.clocks < clocksToCompare) this.#far.end()
      this.watch(process, view)
    })
  }

  async #mail(process: SimProcess, mail: Mail): Promise<void> {
    await process.wait(this.dice.between(5, 60))
    if (this.dice.chance(this.mailTrouble)) throw new Error('the mail server is busy')
    this.scheduler.note(`mail ${mail.id} with counter ${mail.tokenCounter}`)
    this.mails.push({ id: mail.id, accountId: mail.accountId, tokenCounter: mail.tokenCounter })
    await process.wait(1)
    if (this.dice.chance(this.mailTrouble)) throw new Error('the mail server hung up')
  }

  #log(process: SimProcess) {
    const note = (fields: object, message: string) => {
      const { err } = fields as { err?: { code?: string; message: string; stack?: string } }
      const bug = err !== undefined && err.code === undefined ? err.stack : err?.message
      this.scheduler.note(`${process.name} log: ${message}${err === undefined ? '' : `: ${bug}`}`)
    }
    return { ...silentLog, warn: note, error: note }
  }
}

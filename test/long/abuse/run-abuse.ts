/**
 * Runs each attack against a new service, beside three ordinary users, and measures what it costs
 * them. The service has 1,024 descriptors, a heap of 512 MiB and default settings, rate limits
 * included.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hostsOf, Instances } from '../../acceptance/instances.ts'
import { type Account, World } from '../../acceptance/world.ts'
import { Standalone } from '../../support/standalone.ts'
import type { Attack, AttackInput, Target } from './attack.ts'
import type { Order, SendCounts } from './generator.ts'
import {
  type AttackResult,
  lastTroubleMs,
  lineOf,
  type ProcessSample,
  type Row,
  rowOf,
  type Window,
} from './row.ts'
import type { Question, UsersReport } from './users-process.ts'

const bounds = { openFilesMax: 1_024, heapMiB: 512 }
const userAddresses = ['127.10.0.1', '127.20.0.1', '127.30.0.1']
const readEveryMs = 100
const pageBytes = 4_096
/** The unit of times in `/proc/<pid>/stat`. */
const ticksPerSecond = 100
/**
 * After the last trouble the users continue for this long, so that calm is observed and not
 * assumed.
 */
const calmMs = 1_500
/** A longer recovery is not awaited. */
const recoveryMaxMs = 30_000
/** A generator that has to end answers within this time, or is killed without its counts. */
const endingMs = 5_000

export interface AbuseOptions {
  attacks: readonly Attack[]
  secondsOf: (attack: Attack) => number
  /** How long normal latency is measured. */
  beforeSeconds: number
  /** How long the attack runs against the sink; 0: not at all. */
  referenceSeconds: number
  /** Kills the service after each attack, starts it and looks for everything once more. */
  restart: boolean
  lenient: boolean
  report: (line: string) => void
}

export async function runAbuse(options: AbuseOptions): Promise<Row[]> {
  const rows: Row[] = []
  for (const attack of options.attacks) {
    const measured = await play(attack, options)
    const row = rowOf(measured, { lenient: options.lenient, latencyJudged: attack.byOperator !== true })
    options.report(lineOf(row))
    rows.push(row)
  }
  return rows
}

async function play(attack: Attack, options: AbuseOptions): Promise<AttackResult> {
  const settings = {
    HOLDFAST_RATE_LIMITS: 'default',
    // Every address of the machine, v6 too; the admin host keeps its default.
    ...(attack.manyIpv6 ? { HOLDFAST_BIND: '::', HOLDFAST_ADMIN_BIND: '127.0.0.1' } : {}),
  }
  const service = await Standalone.start({ settings, bounds })
  const users = child('users-process.ts')
  try {
    return await new Trial(attack, options, service, users).run()
  } finally {
    users.disconnect()
    await service.stop()
  }
}

class Trial {
  readonly #attack: Attack
  readonly #options: AbuseOptions
  readonly #service: Standalone
  readonly #users: ChildProcess
  readonly #readings: ProcessSample[] = []
  readonly #faults: string[] = []
  #seen: UsersReport = { samples: [], acknowledged: 0, lost: [], strange: [] }
  #restarts = 0

  constructor(attack: Attack, options: AbuseOptions, service: Standalone, users: ChildProcess) {
    this.#attack = attack
    this.#options = options
    this.#service = service
    this.#users = users
  }

  async run(): Promise<AttackResult> {
    const accounts = await Promise.all(userAddresses.map((from) => this.#world(from).premium()))
    const prepared = await this.#prepare(accounts)
    await this.#ask({ ask: 'begin', users: this.#usersOf(accounts, prepared) })
    const reading = new AbortController()
    const read = this.#read(reading.signal)
    await sleep(1_000)
    const before = await windowOf(() => sleep(this.#options.beforeSeconds * 1_000))
    const reference = await this.#reference(prepared)
    let sent = emptySent
    const seconds = this.#options.secondsOf(this.#attack)
    const during = await windowOf(async () => {
      sent = await this.#send(this.#target(), prepared, seconds)
    })
    await this.#recover(before, during)
    await this.#ask({ ask: 'end' })
    reading.abort()
    await read
    await this.#verify()
    this.#faults.push(...this.#seen.strange.slice(0, 5))
    const details = { service: this.#service, seconds, tally: sent.tally }
    this.#faults.push(...((await this.#attack.judge?.(details)) ?? []))
    const { samples, acknowledged, lost } = this.#seen
    return {
      attack: this.#attack.name,
      ...sent,
      ...{ samples, acknowledged, lost, before, reference, during },
      readings: this.#readings,
      faults: this.#faults,
      restarts: this.#restarts,
    }
  }

  #world(from: string): World {
    return new World(hostsOf(this.#service), new Instances(), { from })
  }

  async #prepare(accounts: readonly Account[]): Promise<AttackInput> {
    const world = (from: string) => this.#world(from)
    return (await this.#attack.prepare?.({ service: this.#service, world, users: accounts })) ?? {}
  }

  #usersOf(accounts: readonly Account[], { visits = [] }: AttackInput) {
    const { api, upload, download } = this.#service
    return accounts.map(({ token, root }, at) => ({
      from: userAddresses[at] as string,
      hosts: { api, upload, download },
      ...{ token, root },
      visits: visits.filter((_, number) => number % accounts.length === at),
      seed: at * 1_000_000,
    }))
  }

  #target(): Target {
    const [api, upload, download, admin] = this.#service.ports
    return { ports: { api, upload, download, admin }, pid: this.#service.pid }
  }

  async #reference(prepared: AttackInput): Promise<Window | undefined> {
    const { referenceSeconds } = this.#options
    if (referenceSeconds === 0 || this.#attack.byOperator) return undefined
    const sink = child('sink.ts')
    const [target] = (await once(sink, 'message')) as [Target]
    const window = await windowOf(() => this.#send(target, prepared, referenceSeconds))
    sink.disconnect()
    await sleep(500)
    return window
  }

  /** Runs the attack in a separate process; its connections are closed at the end. */
  async #send(target: Target, prepared: AttackInput, seconds: number): Promise<SendCounts> {
    const generator = child('generator.ts')
    const ended = once(generator, 'exit')
    let broke = false
    void ended.then(() => {
      broke = true
    })
    generator.send({ attack: this.#attack.name, target, prepared } satisfies Order)
    await sleep(seconds * 1_000)
    if (broke) {
      this.#faults.push('the generator broke')
      return emptySent
    }
    const reported = Promise.race([
      once(generator, 'message').then(([sent]) => sent as SendCounts),
      sleep(endingMs).then(() => emptySent),
      ended.then(() => emptySent),
    ])
    generator.send('end')
    const sent = await reported
    generator.kill('SIGKILL')
    await ended
    return sent
  }

  async #recover(before: Window, during: Window): Promise<void> {
    const deadline = during.toMs + recoveryMaxMs
    for (;;) {
      await sleep(250)
      await this.#ask({ ask: 'progress' })
      const { samples } = this.#seen
      const lastMs = lastTroubleMs({ samples, readings: this.#readings, before, during })
      if (Date.now() - lastMs >= calmMs || Date.now() > deadline) return
    }
  }

  /** Looks for everything acknowledged, and once more after a kill where that is configured. */
  async #verify(): Promise<void> {
    if (!this.#service.running) await this.#startAgain()
    await this.#ask({ ask: 'verify' })
    if (!this.#options.restart) return
    await this.#service.kill()
    await this.#service.start()
    await this.#ask({ ask: 'verify' })
  }

  async #startAgain(): Promise<void> {
    this.#restarts++
    this.#faults.push(`the service said: ${this.#service.output.slice(-500)}`)
    await this.#service.start()
  }

  async #read(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // A process that has ended is not read, but reported by its restart.
      const reading = await readingOf(this.#service.pid).catch(() => undefined)
      if (reading !== undefined) this.#readings.push(reading)
      await sleep(readEveryMs)
    }
  }

  async #ask(question: Question): Promise<void> {
    const answered = once(this.#users, 'message')
    this.#users.send(question)
    const [{ samples, ...rest }] = (await answered) as [UsersReport]
    this.#seen = { ...rest, samples: [...this.#seen.samples, ...samples] }
  }
}

const emptySent: SendCounts = { inputs: 0, connections: 0, tally: {} }

function child(file: string): ChildProcess {
  return fork(join(import.meta.dirname, file), { execArgv: [] })
}

async function windowOf(work: () => Promise<unknown>): Promise<Window> {
  const fromMs = Date.now()
  await work()
  return { fromMs, toMs: Date.now() }
}

async function readingOf(pid: number | undefined): Promise<ProcessSample> {
  const [descriptors, memory, stat] = await Promise.all([
    readdir(`/proc/${pid}/fd`),
    readFile(`/proc/${pid}/statm`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
  ])
  const pages = Number(memory.split(' ')[1])
  // The name in parentheses may contain spaces; time in user mode and in the kernel are the 14th
  // and 15th field.
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return {
    atMs: Date.now(),
    rssBytes: pages * pageBytes,
    descriptors: descriptors.length,
    cpuMs: ((user + system) * 1_000) / ticksPerSecond,
  }
}

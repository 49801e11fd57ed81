/**
 * Starts the processes of a plan, one kind after the other, and stops them in reverse. A dead
 * process stays dead until a command restarts it.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addRegions, joinRegion, openMetadata } from '@holdfast/cluster'
import { readClusterConfig, SettingsFault } from '@holdfast/config'
import { rebuild, repair } from '../regions/growth.ts'
import { serverPorts } from '../regions/roles.ts'
import { type ConfiguredCassandra, nodetool, startConfiguredCassandra } from '../servers/cassandra.ts'
import { startConfiguredNats } from '../servers/nats.ts'
import { freePort } from '../servers/ports.ts'
import { endOf, type ServerProcess, startProcess } from '../servers/server.ts'
import { recordRunning } from './leftovers.ts'
import { linksOf } from './links.ts'
import type { LocalPlan, LocalProcess, Role } from './planned-processes.ts'
import { natsPorts } from './platform.ts'
import { settingsOf } from './settings.ts'
import { Wan } from './wan.ts'

export interface SupervisorOptions {
  plan: LocalPlan
  dataDir: string
  /** The operator's settings, for every process. */
  env: Record<string, string>
  /** Between the regions, one way, milliseconds. */
  delayMs: number
  say: (line: string) => void
}

const repository = fileURLToPath(new URL('../../', import.meta.url))
const launcher = join(repository, 'infra/launch.sh')
const routes = fileURLToPath(new URL('routes.ts', import.meta.url))
/** Its Cassandras are on this machine alone: they ask for no login and do not encrypt. */
const access = { credentials: undefined, tls: undefined }
/** A busy machine starts ten processes slowly. */
const readyMs = 120_000
/** After the drain time a process is killed. */
const stopMs = 40_000
/** Each kind depends on those before it. */
const order: Role[][] = [
  ['cassandra', 'nats'],
  ['storage-node', 'actor-host'],
  ['upload', 'api'],
]
/** MiB of JavaScript's heap: byte buffers come on top. */
const heapMiB: Partial<Record<Role, number>> = { 'actor-host': 384 }
const heapMiBDefault = 192

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #running = new Map<string, ServerProcess>()
  /** Ports of nodetool, by the names of Cassandra's processes. */
  readonly #jmxPorts = new Map<string, number>()
  readonly #stopping = new AbortController()
  #wan: Wan | undefined

  constructor(options: SupervisorOptions) {
    this.#options = options
    mkdirSync(this.#logs, { recursive: true })
  }

  get #logs(): string {
    return join(this.#options.dataDir, 'logs')
  }

  /**
   * Everything is ready when it resolves. @throws Error naming the process that was not, and its
   * log; or when it is stopped meanwhile
   */
  async start(): Promise<void> {
    const [servers = [], ...ours] = order
    const { plan, delayMs } = this.#options
    this.#wan = await Wan.open(linksOf(plan), { delayMs })
    if (this.#stopping.signal.aborted) this.#wan.close()
    await Promise.all(this.#of(servers).map((process) => this.#launch(process)))
    await this.#makeTables()
    for (const roles of ours) await Promise.all(this.#of(roles).map((process) => this.#launch(process)))
    this.write()
  }

  /**
   * Stops the process if it still runs, and starts it again at its place. @throws Error when there
   * is no such process
   */
  async restart(name: string): Promise<void> {
    const process = this.#options.plan.processes.find((planned) => planned.name === name)
    if (process === undefined)
      throw new Error(
        `there is no process ${name}; there are ${this.#options.plan.processes.map((one) => one.name).join(', ')}`,
      )
    await this.#end(name)
    await this.#launch(process)
    this.write()
  }

  /**
   * Cuts or restores traffic from one region to another. @throws Error when there is no such region
   */
  link({ from, to, cut }: { from: string; to: string; cut: boolean }): void {
    for (const code of [from, to])
      if (!this.#options.plan.regions.some((region) => region.code === code))
        throw new Error(`there is no region ${code}`)
    if (cut) this.#wan?.cut(from, to)
    else this.#wan?.join(from, to)
  }

  /**
   * Nothing is started from now on; running processes, ready or not, have ended when it resolves.
   */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the cluster is stopping'))
    for (const roles of [...order].reverse())
      await Promise.all(this.#of(roles).map(({ name }) => this.#end(name)))
    this.#wan?.close()
  }

  /** `cluster.json`: whole or absent. */
  write(): void {
    const { plan, dataDir } = this.#options
    const regions = plan.regions.map(({ code, api, upload, download, admin }) => ({
      code,
      api,
      upload,
      download,
      admin,
      processes: plan.processes
        .filter(({ region }) => region === code)
        .map(({ name, role, admin: own }) => ({
          name,
          role,
          pid: this.#running.get(name)?.pid ?? null,
          admin: own,
          ...(this.#jmxPorts.has(name) ? { jmx: this.#jmxPorts.get(name) } : {}),
        })),
    }))
    const path = join(dataDir, 'cluster.json')
    writeFileSync(`${path}.new`, `${JSON.stringify({ supervisor: process.pid, regions }, null, 2)}\n`)
    renameSync(`${path}.new`, path)
  }

  #record(): void {
    recordRunning(
      this.#options.dataDir,
      [...this.#running].map(([name, { pid }]) => [name, pid] as const),
    )
  }

  #of(roles: readonly Role[]): LocalProcess[] {
    return this.#options.plan.processes.filter(({ role }) => roles.includes(role))
  }

  async #launch(planned: LocalProcess): Promise<void> {
    this.#stopping.signal.throwIfAborted()
    const running = await this.#spawn(planned)
    if (planned.admin !== null) await this.#ready(planned, running)
  }

  #started(name: string, running: ServerProcess): void {
    this.#running.set(name, running)
    this.#record()
    void running.ended.then((code) => {
      if (this.#running.get(name) !== running) return
      this.#running.delete(name)
      this.#options.say(`${name} ended (${code ?? 'by a signal'}); npm run cluster -- --restart ${name}`)
    })
  }

  /** It counts as running from its first moment. */
  async #spawn(planned: LocalProcess): Promise<ServerProcess> {
    const { name, role, region: code } = planned
    const { plan, dataDir, env } = this.#options
    const region = plan.regions.find((one) => one.code === code)
    const wan = this.#wan
    if (region === undefined || wan === undefined) throw new Error(`${name} is in no region, or too early`)
    const directory = join(dataDir, name)
    const started = (running: ServerProcess) => this.#started(name, running)
    const { signal } = this.#stopping
    if (role === 'cassandra') {
      const jmxPort = await freePort()
      this.#jmxPorts.set(name, jmxPort)
      return startConfiguredCassandra({
        directory,
        jmxPort,
        address: { host: region.address, port: serverPorts.cassandra.client },
        files: planned.files as ConfiguredCassandra['files'],
        started,
        signal,
      })
    }
    if (role === 'nats')
      return startConfiguredNats({
        directory,
        address: { host: region.address, port: plan.choices.ports[natsPorts.client] ?? 0 },
        files: planned.files ?? {},
        started,
        signal,
      })
    const running = startProcess(
      launcher,
      [
        `--max-old-space-size=${heapMiB[role] ?? heapMiBDefault}`,
        '--import',
        routes,
        join(repository, `apps/${role}/src/main.ts`),
      ],
      {
        log: join(this.#logs, `${name}.log`),
        cwd: dataDir,
        env: {
          ...inheritedEnvironment(),
          ...settingsOf(planned, env),
          CLUSTER_ROUTES: JSON.stringify(wan.routesOf(code)),
        },
      },
    )
    started(running)
    return running
  }

  async #ready({ name, admin }: LocalProcess, running: ServerProcess): Promise<void> {
    const log = join(this.#logs, `${name}.log`)
    const until = performance.now() + readyMs
    let dead = false
    void running.ended.then(() => {
      dead = true
    })
    for (;;) {
      const answer = await fetch(`${admin}/readyz`, { signal: AbortSignal.timeout(3_000) }).catch(
        () => undefined,
      )
      await answer?.arrayBuffer()
      if (answer?.ok) return
      if (dead) throw new Error(`${name} ended at its start; ${endOf(log)}`)
      if (performance.now() > until)
        throw new Error(`${name} was not ready within ${readyMs} ms; ${endOf(log)}`)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }

  /** Once, before ten processes wait for them and keep the machine busy meanwhile. */
  async #makeTables(): Promise<void> {
    await this.#addRegions()
    for (const { settings } of this.#of(['actor-host'])) {
      const { config } = readClusterConfig(settings, { readSecret: () => '' })
      await this.#repeatedly(async () => {
        const metadata = await openMetadata(config, {
          ...access,
          journals: true,
          termOf: () => 1,
          handedOver: () => false,
          onRequest: () => {},
        })
        await metadata.close()
      })
    }
  }

  /** Regions that the data lacks get the rows of the others before any process runs. */
  async #addRegions(): Promise<void> {
    const [{ settings } = { settings: {} }] = this.#of(['actor-host'])
    const { config } = readClusterConfig(settings, { readSecret: () => '' })
    const joining = await this.#repeatedly(() => addRegions(config, access))
    for (const { region, from, keyspaces } of joining) {
      const port = this.#jmxPorts.get(`${region}-cassandra`) ?? 0
      for (const keyspace of keyspaces) await nodetool(port, rebuild(keyspace, from))
      for (const keyspace of keyspaces) await nodetool(port, repair(keyspace))
      await joinRegion(config, region, access)
      this.#options.say(`${region} has joined, with the rows of ${from}`)
    }
  }

  /** Data centres that started together know each other a moment later. */
  async #repeatedly<Result>(work: () => Promise<Result>): Promise<Result> {
    const until = performance.now() + readyMs
    for (;;) {
      this.#stopping.signal.throwIfAborted()
      try {
        return await work()
      } catch (error) {
        if (error instanceof SettingsFault || performance.now() > until) throw error
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
    }
  }

  async #end(name: string): Promise<void> {
    const running = this.#running.get(name)
    if (running === undefined) return
    this.#running.delete(name)
    const late = setTimeout(() => running.signal('SIGKILL'), stopMs)
    await running.stop('SIGTERM')
    clearTimeout(late)
    this.#record()
  }
}

/** Only the given variables are inherited. */
function inheritedEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {}
  for (const name of ['PATH', 'HOME', 'TMPDIR', 'LANG', 'XDG_CACHE_HOME', 'TZ', 'NODE_OPTIONS'])
    if (process.env[name] !== undefined) kept[name] = process.env[name]
  return kept
}

/** `npm run cluster` as an operator runs it, on free ports and a separate data directory. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LocalPlan } from '../../infra/cluster/planned-processes.ts'
import { nodetool } from '../../infra/servers/cassandra.ts'
import { endOf } from '../../infra/servers/server.ts'
import { unpack } from '../support/earlier-code.ts'
import { SmallDisk } from './faults/small-disk.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))

export interface ClusterRegion {
  code: string
  api: string
  upload: string
  download: string
  admin: string
  processes: { name: string; role: string; pid: number | null; admin: string | null; jmx?: number }[]
}

export class LocalCluster {
  readonly dataDir: string
  /** By the storage node that owns the data directory. */
  readonly smallDisks = new Map<string, SmallDisk>()
  readonly #env: Record<string, string>
  /** The checkout whose code runs. */
  #code = repository

  /** Ready when it resolves. */
  static async start({
    smallDisk,
    from,
    regions,
    plan,
  }: {
    smallDisk?: { node: string; mebibytes: number }
    /** A commit whose code runs the whole cluster. Default: what is checked out. */
    from?: string
    regions?: number
    /** `plan.json` of a cluster whose names, addresses and secrets this one gets; default: new. */
    plan?: Buffer
  } = {}): Promise<LocalCluster> {
    const cluster = new LocalCluster(await mkdtemp(join(tmpdir(), 'holdfast-cluster-')))
    try {
      if (from !== undefined) {
        cluster.#code = join(cluster.dataDir, 'code')
        unpack(from, cluster.#code)
      }
      const disk = smallDisk && SmallDisk.mount(join(cluster.dataDir, smallDisk.node), smallDisk)
      if (smallDisk && disk) cluster.smallDisks.set(smallDisk.node, disk)
      if (plan !== undefined) await writeFile(join(cluster.dataDir, 'plan.json'), plan, { mode: 0o600 })
      await cluster.#run('--detach', ...(regions === undefined ? [] : ['--regions', String(regions)]))
    } catch (error) {
      await cluster.stop()
      throw error
    }
    return cluster
  }

  private constructor(dataDir: string) {
    this.dataDir = dataDir
    this.#env = {
      HOLDFAST_DATA_DIR: dataDir,
      HOLDFAST_API_PORT: '0',
      HOLDFAST_UPLOAD_PORT: '0',
      HOLDFAST_DOWNLOAD_PORT: '0',
      HOLDFAST_ADMIN_PORT: '0',
      HOLDFAST_RATE_LIMITS: 'off',
    }
  }

  async regions(): Promise<ClusterRegion[]> {
    return JSON.parse(await readFile(join(this.dataDir, 'cluster.json'), 'utf8')).regions
  }

  /** `host:port` by data centre. */
  async cassandraAddresses(): Promise<ReadonlyMap<string, string>> {
    const { regions } = await this.#plan()
    return new Map(regions.map(({ code, address }) => [code, `${address}:9042`]))
  }

  /** The settings of a process at its start. */
  async settingsOf(name: string): Promise<Record<string, string>> {
    const planned = (await this.#plan()).processes.find((process) => process.name === name)
    if (planned === undefined) throw new Error(`there is no process ${name}`)
    return { HOLDFAST_RATE_LIMITS: 'off', ...planned.settings }
  }

  /** The files of a third-party server, by their names. */
  async filesOf(name: string): Promise<Record<string, string>> {
    return (await this.#plan()).processes.find((process) => process.name === name)?.files ?? {}
  }

  /** nodetool of a region's node of Cassandra. @returns what it printed */
  async nodetool(region: string, ...words: string[]): Promise<string> {
    const all = (await this.regions()).flatMap(({ processes }) => processes)
    const port = all.find(({ name }) => name === `${region}-cassandra`)?.jmx
    if (port === undefined) throw new Error(`${region} has no Cassandra that nodetool reaches`)
    return nodetool(port, words)
  }

  async pidOf(name: string): Promise<number> {
    const all = (await this.regions()).flatMap(({ processes }) => processes)
    const pid = all.find((process) => process.name === name)?.pid
    if (typeof pid !== 'number') throw new Error(`${name} does not run`)
    return pid
  }

  /** Processes that should run and do not. */
  async ended(): Promise<{ name: string; lastWords: string }[]> {
    const all = (await this.regions()).flatMap(({ processes }) => processes)
    return all
      .filter(({ pid }) => pid === null || !existsSync(`/proc/${pid}`))
      .map(({ name }) => ({ name, lastWords: endOf(join(this.dataDir, 'logs', `${name}.log`)) }))
  }

  restart(name: string): Promise<void> {
    return this.#run('--restart', name)
  }

  /** Ends it, and starts it with this number of regions. */
  async grow(regions: number): Promise<void> {
    await this.#run('--stop')
    await this.#run('--detach', '--regions', String(regions))
  }

  /** Ends it and removes the directory. */
  async stop(): Promise<void> {
    await this.#run('--stop').catch(() => {})
    for (const disk of this.smallDisks.values()) disk.unmount()
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 5 })
  }

  async #plan(): Promise<LocalPlan> {
    return JSON.parse(await readFile(join(this.dataDir, 'plan.json'), 'utf8')) as LocalPlan
  }

  async #run(...words: string[]): Promise<void> {
    const inherited: Record<string, string> = {}
    for (const name of ['PATH', 'HOME', 'TMPDIR', 'LANG', 'XDG_CACHE_HOME'])
      if (process.env[name] !== undefined) inherited[name] = process.env[name]
    const inInfra = (path: string) => join(this.#code, 'infra', path)
    const child = spawn(inInfra('launch.sh'), [inInfra('cluster/main.ts'), ...words], {
      env: { ...inherited, ...this.#env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text) => {
        said += text
      })
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    if (code !== 0) throw new Error(`cluster ${words.join(' ')} ended with ${code}: ${said}`)
  }
}

/** An operator's desk: the commands of a running cluster, and what it says about itself. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ctl } from '@holdfast/ctl'
import { freePorts } from '../../../infra/servers/ports.ts'
import { type ServerProcess, startProcess } from '../../../infra/servers/server.ts'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { sleep } from '../../acceptance/world.ts'
import { arrive, dataOf } from '../../cluster/faults/people.ts'
import type { ClusterRegion, LocalCluster } from '../../cluster/local-cluster.ts'

const repository = join(import.meta.dirname, '../../..')

export interface Status {
  regions: { code: string; serving: string; term: number; actorHosts: number }[]
  nodes: { id: string; role: string; ready: boolean; placementGroups?: number; accounts?: number }[]
  replication: { full: boolean; says: string }
  backup: { accounts: number }
}

export interface Store {
  blobs: number
  liveBytes: number
}

export class Office {
  readonly cluster: LocalCluster
  readonly home: ClusterRegion
  readonly other: ClusterRegion
  /** Processes beside those of the cluster. */
  readonly #guests = new Map<string, ServerProcess>()
  /** Others than the first, which warmed it up. */
  isWarm = false

  static async of(cluster: LocalCluster): Promise<Office> {
    return new Office(cluster, (await cluster.regions()) as [ClusterRegion, ClusterRegion])
  }

  private constructor(cluster: LocalCluster, [home, other]: [ClusterRegion, ClusterRegion]) {
    this.cluster = cluster
    this.home = home
    this.other = other
  }

  get regions(): readonly ClusterRegion[] {
    return [this.home, this.other]
  }

  /** @returns the answer. @throws Error when the command is refused */
  async ctl<T>(...words: string[]): Promise<T> {
    const out: string[] = []
    const err: string[] = []
    const code = await ctl([...words, '--admin', this.home.admin], {
      env: {},
      readSecret: () => '',
      print: (line) => out.push(line),
      complain: (line) => err.push(line),
    })
    if (code !== 0) throw new Error(`ctl ${words.join(' ')}: ${err.join('\n')}`)
    return JSON.parse(out.join('\n')) as T
  }

  async status(): Promise<Status> {
    return (await this.ctl<{ cluster: Status }>('status')).cluster
  }

  /** @returns how long it took, ms */
  async until(what: string, holds: () => Promise<boolean>, withinMs = 240_000): Promise<number> {
    const startedMs = performance.now()
    for (;;) {
      const passedMs = performance.now() - startedMs
      if (await holds().catch(() => false)) return passedMs
      if (passedMs > withinMs) {
        const said = await this.status().then(
          ({ replication }) => replication.says,
          (error: Error) => error.message,
        )
        throw new Error(`${what}: not within ${withinMs} ms; ${said}`)
      }
      await sleep(200)
    }
  }

  async isFull(): Promise<boolean> {
    return (await this.status()).replication.full
  }

  async groupsOf(node: string): Promise<number> {
    const { nodes } = await this.status()
    return nodes.find(({ id }) => id === node)?.placementGroups ?? 0
  }

  namesOf(role: string, { processes }: ClusterRegion): string[] {
    return processes.filter((process) => process.role === role).map(({ name }) => name)
  }

  /** @param node a process of the cluster, or the address of a guest's admin host */
  async storeOf(node: string): Promise<Store> {
    const known = this.regions.flatMap(({ processes }) => processes).find(({ name }) => name === node)
    return (await dataOf<{ store: Store }>(`${known?.admin ?? node}/admin/status`, {})).store
  }

  /** Uploads of one account, random bytes. */
  async fill({ files, bytesEach }: { files: number; bytesEach: number }): Promise<void> {
    const { token, root } = await arrive(this.home)
    for (let at = 0; at < files; at++) {
      const form = multipart([
        { name: 'folderId', value: root },
        { name: 'file', filename: `${at}.bin`, content: randomBytes(bytesEach) },
      ])
      const { code, body } = await send(`${this.home.upload}/uploadfile`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': form.contentType },
        body: form.body,
      })
      if (code !== 200) throw new Error(`an upload was answered with ${code} ${body}`)
    }
    await this.until('everything is copied', () => this.isFull())
  }

  /** A storage node beside those that the cluster began with. @returns its admin host */
  async addStorageNode(name: string, like: string): Promise<string> {
    const names = ['DOWNLOAD', 'CONTROL', 'BYTES', 'ADMIN']
    const ports = await freePorts(names.length)
    const settings = {
      ...(await this.cluster.settingsOf(like)),
      ...Object.fromEntries(names.map((port, at) => [`HOLDFAST_${port}_PORT`, String(ports[at])])),
      HOLDFAST_NODE_NAME: name,
      HOLDFAST_DATA_DIR: join(this.cluster.dataDir, name),
      HOLDFAST_PUBLIC_DOWNLOAD_URL: '',
    }
    const admin = `http://127.0.0.1:${ports[3]}`
    await this.#startGuest({ name, role: 'storage-node', admin }, settings)
    return admin
  }

  /**
   * Ends a process of the cluster, and starts what is checked out here in its place. What it sends
   * to other regions is not delayed.
   */
  async startOurs(name: string): Promise<void> {
    const planned = this.regions.flatMap(({ processes }) => processes).find((one) => one.name === name)
    if (!planned?.admin) throw new Error(`${name} is no process of Holdfast`)
    const pid = await this.cluster.pidOf(name)
    process.kill(pid, 'SIGTERM')
    await this.until(`${name} has ended`, async () => !existsSync(`/proc/${pid}`))
    await this.#startGuest({ ...planned, admin: planned.admin }, await this.cluster.settingsOf(name))
  }

  /** Ends what was started in the place of a process, and lets the cluster start its own again. */
  async endOurs(name: string): Promise<void> {
    await this.#guests.get(name)?.stop('SIGTERM')
    this.#guests.delete(name)
    await this.cluster.restart(name)
  }

  async #startGuest(
    { name, role, admin }: { name: string; role: string; admin: string },
    settings: Record<string, string>,
  ): Promise<void> {
    const main = join(repository, `apps/${role}/src/main.ts`)
    const guest = startProcess(join(repository, 'infra/launch.sh'), [main], {
      log: join(this.cluster.dataDir, 'logs', `${name}.log`),
      cwd: this.cluster.dataDir,
      env: { PATH: process.env.PATH ?? '', ...settings },
    })
    this.keep(name, guest)
    await this.until(`${name} is ready`, async () => (await send(`${admin}/readyz`)).code === 200)
  }

  /** A process that ends with the cluster. */
  keep(name: string, guest: ServerProcess): void {
    this.#guests.set(name, guest)
  }

  /** Ends the cluster. */
  async close(): Promise<void> {
    await Promise.all([...this.#guests.values()].map((guest) => guest.stop('SIGKILL')))
    await this.cluster.stop()
  }
}

/** A rate in binary units: GB is 2^30 bytes. */
export function gbPerMinute(bytes: number, ms: number): string {
  return `${((bytes / 2 ** 30) * (60_000 / ms)).toFixed(2)} GB/min`
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

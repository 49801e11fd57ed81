/**
 * What a fault works with: the processes of a running cluster, and the users that it may affect.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Placement } from '@holdfast/placement'
import { sendCommand } from '../../../infra/cluster/control.ts'
import { readPlan } from '../../../infra/cluster/plan-file.ts'
import type { LocalPlan } from '../../../infra/cluster/planned-processes.ts'
import { sleep } from '../../acceptance/world.ts'
import type { ClusterRegion, LocalCluster } from '../local-cluster.ts'
import type { Kind, Load } from './load.ts'
import { dataOf, type Person } from './people.ts'
import type { SmallDisk } from './small-disk.ts'

const comingAndGoing = fileURLToPath(new URL('coming-and-going.ts', import.meta.url))

export class Stage {
  readonly cluster: LocalCluster
  readonly regions: readonly ClusterRegion[]
  readonly people: readonly Person[]
  /** Longer in the full form. */
  readonly long: boolean
  readonly load: Load
  beganMs = 0
  endedMs = 0

  constructor(parts: Pick<Stage, 'cluster' | 'regions' | 'people' | 'long' | 'load'>) {
    this.cluster = parts.cluster
    this.regions = parts.regions
    this.people = parts.people
    this.long = parts.long
    this.load = parts.load
  }

  /** The fault begins to have an effect. */
  began(): void {
    this.beganMs = performance.now()
  }

  /** The fault has no effect from here on. */
  ended(): void {
    this.endedMs = performance.now()
  }

  async signal(name: string, signal: NodeJS.Signals): Promise<void> {
    process.kill(await this.cluster.pidOf(name), signal)
  }

  async kill(name: string): Promise<void> {
    const pid = await this.cluster.pidOf(name)
    this.began()
    process.kill(pid, 'SIGKILL')
  }

  async restart(name: string): Promise<void> {
    await sendCommand(this.cluster.dataDir, { do: 'restart', name })
    this.ended()
  }

  link(way: { from: string; to: string; cut: boolean }): Promise<void> {
    return sendCommand(this.cluster.dataDir, { do: 'link', ...way })
  }

  pause(ms: number): Promise<void> {
    return sleep(ms)
  }

  /**
   * Resolves when each of these users had a success of each kind with a call made after this time,
   * in the other region if `abroad`.
   */
  async untilServed(
    people: readonly Person[],
    {
      since,
      kinds,
      abroad = false,
      withinMs = 90_000,
    }: { since: number; kinds: readonly Kind[]; abroad?: boolean; withinMs?: number },
  ): Promise<void> {
    const until = performance.now() + withinMs
    for (;;) {
      const waiting = people.flatMap(({ id, region }) =>
        kinds
          .filter(
            (kind) =>
              this.firstSuccess(id, { kind, since, notBy: abroad ? region : undefined }) === undefined,
          )
          .map((kind) => `${kind} of ${id} (${region})`),
      )
      if (waiting.length === 0) return
      if (performance.now() > until)
        throw new Error(`not served within ${withinMs} ms: ${waiting.join(', ')}`)
      await sleep(50)
    }
  }

  /** When the first call since then succeeded; by a client of the other region. */
  firstSuccess(
    account: string,
    { kind, since, notBy }: { kind: Kind; since: number; notBy?: string | undefined },
  ): number | undefined {
    return this.load.successes.find(
      (success) =>
        success.account === account &&
        success.kind === kind &&
        success.asked >= since &&
        success.by !== notBy,
    )?.answered
  }

  /** The host that has an account while all are alive. */
  hostOf({ id, region }: Person): string {
    return new Placement(this.namesOf('actor-host', region)).hostOf(id) as string
  }

  namesOf(role: string, region: string): string[] {
    const { processes } = this.regions.find(({ code }) => code === region) as ClusterRegion
    return processes.filter((process) => process.role === role).map(({ name }) => name)
  }

  /** A region's nats-server, for its client. */
  async natsOf(region: string): Promise<{ servers: string; user: string; pass: string }> {
    const { processes } = this.#plan()
    const host = this.namesOf('actor-host', region)[0]
    const settings = processes.find(({ name }) => name === host)?.settings ?? {}
    return {
      servers: settings.HOLDFAST_NATS_SERVERS ?? '',
      user: settings.HOLDFAST_NATS_USER ?? '',
      pass: settings.HOLDFAST_NATS_PASSWORD ?? '',
    }
  }

  /**
   * Another actor host beside this one that joins and leaves, repeatedly. @returns ends it and
   * reports how often it joined
   */
  async comeAndGo(beside: string, name: string): Promise<{ end: () => Promise<number> }> {
    const { processes } = this.#plan()
    const settings = processes.find((process) => process.name === beside)?.settings
    const child = spawn(process.execPath, [comingAndGoing], {
      env: { ...process.env, ...settings, HOLDFAST_NODE_NAME: name, HOLDFAST_ADMIN_PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let times = 0
    child.stdout.on('data', () => {
      times++
    })
    const ended = once(child, 'exit')
    await Promise.race([once(child.stdout, 'data'), ended])
    return {
      end: async () => {
        child.kill('SIGTERM')
        const [code] = await ended
        if (code !== 0) throw new Error(`${name} ended with ${code}`)
        return times
      },
    }
  }

  /** The disk of this node, if it has a small one of its own. */
  smallDisk(name: string): SmallDisk | undefined {
    return this.cluster.smallDisks.get(name)
  }

  async blobsOf(name: string): Promise<number> {
    return (await this.#statusOf(name)).store?.blobs ?? 0
  }

  async isReady(name: string): Promise<boolean> {
    return (await this.#statusOf(name)).ready
  }

  async allGroupsFull(): Promise<boolean> {
    const statuses = await Promise.all(
      this.regions.map(({ code }) => this.#statusOf(this.namesOf('api', code)[0] as string)),
    )
    return statuses.every(({ cluster }) => cluster.placementGroups.every(({ full }) => full))
  }

  async until(what: string, holds: () => Promise<boolean>, withinMs = 90_000): Promise<void> {
    const until = performance.now() + withinMs
    while (!(await holds().catch(() => false))) {
      if (performance.now() > until) throw new Error(`not within ${withinMs} ms: ${what}`)
      await sleep(200)
    }
  }

  /** However long it takes on a busy machine, while it makes progress. */
  async untilReached(
    what: string,
    wanted: number,
    count: () => Promise<number>,
    stalledMs = 60_000,
  ): Promise<void> {
    let most = 0
    let sinceMs = performance.now()
    while (most < wanted) {
      const now = await count().catch(() => 0)
      if (now > most) {
        most = now
        sinceMs = performance.now()
      }
      if (performance.now() - sinceMs > stalledMs)
        throw new Error(`${what}: ${most} of ${wanted}, and no more for ${stalledMs} ms`)
      await sleep(200)
    }
  }

  #statusOf(name: string): Promise<{
    ready: boolean
    cluster: { placementGroups: { full: boolean }[] }
    store?: { blobs: number }
  }> {
    const process = this.regions.flatMap(({ processes }) => processes).find((one) => one.name === name)
    return dataOf(`${process?.admin}/admin/status`, {})
  }

  #plan(): LocalPlan {
    const plan = readPlan(this.cluster.dataDir)
    if (plan === undefined) throw new Error('the cluster was never started')
    return plan
  }

  /** Activations that were found fenced when they wrote, since the logs began. */
  async fencedWrites(): Promise<number> {
    let count = 0
    for (const { code } of this.regions)
      for (const name of this.namesOf('actor-host', code)) {
        const text = await readFile(join(this.cluster.dataDir, 'logs', `${name}.log`), 'utf8')
        count += text.split('an activation was fenced').length - 1
      }
    return count
  }
}

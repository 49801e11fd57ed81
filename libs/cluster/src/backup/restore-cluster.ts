/**
 * Writes a backup of a cluster into an empty one of the same regions.
 *
 * 1. Settings, homes and counters; then the placement groups, with nodes of this cluster. Each gets
 *    a version above that of the backup and above that of the empty cluster.
 * 2. The copies. Each is sent to one member of its group, under its name; the others pull it.
 * 3. The rows. The statics of an account are written after its other rows.
 *
 * A row names the backup from the first write to the last, so that a run that was killed can be
 * repeated. No host of accounts runs meanwhile: it would serve accounts whose rows are not all
 * there. Processes know the keys of the empty cluster until they are restarted.
 */
import { setTimeout as delay } from 'node:timers/promises'
import {
  type BackupDirectory,
  BackupFault,
  readSegments,
  restoreCopies,
  restoreOne,
  type SegmentRow,
  type Snapshot,
} from '@holdfast/backup'
import { BlobFault, type BlobInfo, nameOfCopy } from '@holdfast/blob-store'
import { masterRow, openKeyring } from '@holdfast/bootstrap'
import {
  type EntryWriter,
  type LookupEntry,
  lookupKindOf,
  type StoredEntry,
  type WholeStore,
} from '@holdfast/journal'
import { entriesOfRows } from '@holdfast/journal-level/entries'
import type { AccountId, RegionCode } from '@holdfast/kernel'
import { type GroupNode, nodesOf, type PlacementGroup, planGroups } from '@holdfast/replication'
import { PlacementGroup as PlacementGroupRow } from '@holdfast/wire/cluster'
import type { ClusterPart } from '../cluster-part.ts'
import { homeKinds } from '../regions/regional-lookups.ts'
import { restoringKey } from '../row-keys.ts'
import type { WholeKeyspaces } from '../servers/whole-keyspaces.ts'

/** Small files that are written at the same time share a sync. */
const copiesAtOnce = 32
/** Each after a longer pause, about a minute in all. */
const putAttempts = 12
/** How long groups of other regions may be on their way. */
const groupLooksMax = 300
const groupLookMs = 200
/** Names in a report. */
const leftOutMax = 1_000
/** What an empty cluster writes by itself. */
const ownKinds = new Set(['setting', 'pg', 'nodes', 'reconcile', 'restoring', 'hosts', 'hours', 'acts'])
/** Written at the beginning. */
const firstKinds = new Set(['setting', 'pg', 'region'])

export interface RestoreClusterOptions {
  directory: BackupDirectory
  snapshot: Snapshot
  keyspaces: WholeKeyspaces
  /** What is damaged in the backup is left out. Otherwise it ends the restore. */
  withoutDamaged: boolean
  signal: AbortSignal
  onProgress: (progress: { copies: number; bytes: number; rows: number }) => void
}

/** @throws BackupFault, BlobFault, JournalFault */
export async function restoreCluster(cluster: ClusterPart, options: RestoreClusterOptions): Promise<object> {
  const { directory, snapshot, keyspaces, signal, onProgress } = options
  await assertRestorable(cluster, options)
  const marker = Buffer.from(JSON.stringify({ takenMs: snapshot.takenMs }))
  await cluster.lookups.write([{ put: restoringKey, value: marker }])

  const progress = { copies: 0, bytes: 0, rows: 0 }
  const left: string[] = []
  let damaged = 0
  const leaveOut = (what: string, { message }: Error) => {
    if (!options.withoutDamaged)
      throw new BackupFault(
        'DAMAGED',
        `${message}: ctl verify names what is damaged, --without-damaged restores the rest`,
      )
    damaged++
    if (left.length < leftOutMax) left.push(what)
  }
  const entries = () =>
    entriesOfRows(stopping(readSegments(directory, snapshot.rows), signal), {
      onDamaged: (fault) => leaveOut(fault.message, fault),
    })

  await restoreFoundation(cluster, { entries: entries(), keyspaces, atMs: snapshot.takenMs })
  // All rows are read once more.
  damaged = 0
  left.length = 0
  const store = new GroupStore(cluster, signal)
  await restoreCopies(directory, snapshot, {
    put: async (copy, bytes) => {
      await store.put(copy, bytes)
      progress.copies++
      progress.bytes += copy.size
      onProgress(progress)
    },
    onDamaged: (copy, fault) => leaveOut(nameOfCopy(copy), fault),
    atOnce: copiesAtOnce,
  })
  // The region of an id is found with the key of the backup, which is not that of this process.
  const { ids } = await openKeyring(cluster.lookups)
  const birthOf = (account: string) => ids.birthRegion(account as AccountId)
  const writers = new Writers(cluster, { keyspaces, atMs: snapshot.takenMs, birthOf })
  for await (const entry of entries()) {
    if (entry.kind === 'counter' || (entry.kind === 'lookup' && firstKinds.has(lookupKindOf(entry.key))))
      continue
    await writers.add(entry)
    progress.rows++
    onProgress(progress)
  }
  await writers.end()
  await cluster.lookups.write([{ delete: restoringKey }])
  const { takenMs, unreadable } = snapshot
  return { takenMs, ...progress, unreadable, damaged, leftOut: left }
}

async function assertRestorable(
  cluster: ClusterPart,
  { snapshot, keyspaces }: Pick<RestoreClusterOptions, 'snapshot' | 'keyspaces'>,
): Promise<void> {
  const { config, membership, peers, lookups } = cluster
  if (snapshot.regions === undefined)
    throw new BackupFault(
      'UNUSABLE',
      'the backup is of one machine: ctl restore makes a data directory of it',
    )
  const [theirs, ours] = [snapshot.regions.join(', '), config.regions.join(', ')]
  if (theirs !== ours)
    throw new BackupFault('UNUSABLE', `the backup is of the regions ${theirs}, this cluster has ${ours}`)
  const hosts = membership.beats().filter(({ roles }) => roles.includes('actor-host'))
  if (hosts.length > 0)
    throw new BackupFault('UNUSABLE', `stop the actor hosts first: ${hosts.map(({ id }) => id).join(', ')}`)
  for (const region of config.regions)
    if (!peers.beats().some((beat) => beat.region === region && beat.ready))
      throw new BackupFault('UNUSABLE', `${region} has no storage node that is ready`)
  const marker = await lookups.get(restoringKey)
  if (marker === undefined) return assertEmpty(cluster, keyspaces)
  const { takenMs } = JSON.parse(Buffer.from(marker).toString()) as { takenMs: number }
  if (takenMs !== snapshot.takenMs)
    throw new BackupFault(
      'UNUSABLE',
      `a restore of the backup of ${new Date(takenMs).toISOString()} was begun here: repeat it, or begin with an empty cluster`,
    )
}

/** @throws BackupFault `UNUSABLE` */
async function assertEmpty({ config, regions }: ClusterPart, keyspaces: WholeKeyspaces): Promise<void> {
  const notEmpty = (what: string) => new BackupFault('UNUSABLE', `the cluster is not empty: it has ${what}`)
  const accounts = { term: 1, onDamaged: () => {} }
  for (const birth of config.regions) {
    const store = await keyspaces.accounts(birth, regions.homeOf(birth).serving)
    for await (const { account } of store.accounts(accounts)) throw notEmpty(`the account ${account}`)
  }
  for (const region of config.regions)
    for await (const { key } of (await keyspaces.lookups(region)).lookups())
      if (!ownKinds.has(lookupKindOf(key))) throw notEmpty(`the row ${key}`)
}

/** What everything else depends on. */
async function restoreFoundation(
  cluster: ClusterPart,
  {
    entries,
    keyspaces,
    atMs,
  }: { entries: AsyncIterable<StoredEntry>; keyspaces: WholeKeyspaces; atMs: number },
): Promise<void> {
  const { config, lookups, regions } = cluster
  const own = (await keyspaces.lookups(config.region)).restoring({ atMs })
  const groups = new Map<number, PlacementGroup>()
  let hasKey = false
  for await (const entry of entries) {
    if (entry.kind === 'counter') await raise(entry, { cluster, keyspaces, atMs })
    if (entry.kind !== 'lookup') continue
    const kind = lookupKindOf(entry.key)
    if (entry.key === masterRow) hasKey = true
    if (kind === 'setting') await lookups.write([{ put: entry.key, value: entry.value }])
    if (kind === 'region') await own.add(entry)
    if (kind !== 'pg') continue
    const group = PlacementGroupRow.decode(entry.value)
    if ((groups.get(group.number)?.version ?? 0) < group.version) groups.set(group.number, group)
  }
  await own.end()
  if (!hasKey) throw new BackupFault('DAMAGED', 'the key of all ids is missing in the backup')
  await regions.refresh()
  assertKept(regions, config.regions)
  await restoreGroups(cluster, [...groups.values()])
}

/**
 * The pairs of regions follow the order in which the regions came, which is that of this cluster.
 * @throws BackupFault `UNUSABLE`
 */
function assertKept(
  map: Pick<ClusterPart['regions'], 'homeOf' | 'keepersOf'>,
  regions: readonly RegionCode[],
): void {
  for (const birth of regions) {
    const { serving } = map.homeOf(birth)
    if (map.keepersOf(birth).includes(serving)) continue
    throw new BackupFault(
      'UNUSABLE',
      `${serving} serves the accounts of ${birth} in the backup, and keeps none of them here: begin with the regions that were first, and add the others`,
    )
  }
}

/** Raises the counter in the region that takes numbers from it. */
async function raise(
  entry: Extract<StoredEntry, { kind: 'counter' }>,
  { cluster, keyspaces, atMs }: { cluster: ClusterPart; keyspaces: WholeKeyspaces; atMs: number },
): Promise<void> {
  const { config } = cluster
  const region = config.regions.find((code) => entry.counter.endsWith(`/${code}`)) ?? config.region
  const writer = (await keyspaces.lookups(region)).restoring({ atMs })
  await writer.add(entry)
  await writer.end()
}

/** Writes the groups. They keep their nodes that this cluster has; the others are replaced. */
async function restoreGroups(
  { config, groups, peers }: ClusterPart,
  restored: readonly PlacementGroup[],
): Promise<void> {
  await groups.refresh()
  const versions = new Map<number, number>()
  for (const region of config.regions) {
    const own = restored.filter((group) => group.region === region)
    const living = peers.beats().map(({ id, region, ready, freeBytes }) => ({
      id,
      region,
      machine: peers.machineOf(id),
      ready,
      lost: false,
      draining: false,
      freeBytes,
    }))
    const here = new Set(living.map(({ id }) => id))
    const away = [...new Set(own.flatMap(nodesOf))].filter((id) => !here.has(id))
    const nodes: GroupNode[] = [
      ...living,
      ...away.map((id) => ({
        id,
        region: '',
        machine: undefined,
        ready: false,
        lost: true,
        draining: false,
        freeBytes: 0,
      })),
    ]
    const changed = planGroups({ region, regions: config.regions, nodes, groups: own })
    for (const group of own) {
      const { members, remote } = changed.find(({ number }) => number === group.number) ?? group
      const version = Math.max(group.version, groups.map.get(group.number)?.version ?? 0) + 1
      versions.set(group.number, version)
      await groups.propose(region, { ...group, members, remote, version, writable: true })
    }
  }
  // Those of other regions arrive later.
  const isKnown = ([number, version]: [number, number]) => (groups.map.get(number)?.version ?? 0) >= version
  for (let looks = 0; looks < groupLooksMax; looks++) {
    await groups.refresh()
    if ([...versions].every(isKnown)) return
    await delay(groupLookMs)
  }
  throw new BackupFault('UNUSABLE', 'placement groups of other regions do not arrive')
}

/** The nodes of the cluster as a target of copies. */
class GroupStore {
  readonly #cluster: Pick<ClusterPart, 'groups' | 'peers'>
  readonly #signal: AbortSignal

  constructor(cluster: Pick<ClusterPart, 'groups' | 'peers'>, signal: AbortSignal) {
    this.#cluster = cluster
    this.#signal = signal
  }

  /** To one member of its group. Repeated while none of them takes it. */
  async put(copy: BlobInfo, bytes: () => AsyncIterable<Uint8Array>): Promise<void> {
    const { groups, peers } = this.#cluster
    const number = copy.placementGroup ?? 0
    let fault: Error | undefined
    for (let attempt = 0; attempt < putAttempts; attempt++) {
      this.#signal.throwIfAborted()
      if (attempt > 0) {
        await delay(1_000 * attempt, undefined, { signal: this.#signal })
        await groups.refresh()
      }
      const group = groups.map.get(number)
      if (group === undefined)
        throw new BackupFault('UNUSABLE', `${nameOfCopy(copy)} is of the unknown placement group ${number}`)
      const members = group.members.filter((id) => peers.isAlive(id))
      const first = (copy.id[0] ?? 0) % Math.max(1, members.length)
      for (const id of [...members.slice(first), ...members.slice(0, first)]) {
        const node = peers.node(id)
        if (node === undefined) continue
        try {
          await restoreOne(node, copy, bytes, { group: number, version: group.version })
          return
        } catch (error) {
          if (!(error instanceof BlobFault) || error.code === 'CORRUPT') throw error
          fault = error
        }
      }
    }
    throw new BackupFault(
      'UNUSABLE',
      `no node of placement group ${number} takes a copy: ${fault?.message}`,
      {
        cause: fault,
      },
    )
  }
}

type RestoredEntry = Exclude<StoredEntry, { kind: 'counter' }>

interface WritersOptions {
  keyspaces: WholeKeyspaces
  atMs: number
  birthOf: (account: string) => RegionCode
}

/** Writes each entry to its keyspace. */
class Writers {
  readonly #cluster: ClusterPart
  readonly #options: WritersOptions
  /** By birth region; undefined: what all regions keep. */
  readonly #open = new Map<RegionCode | undefined, EntryWriter>()

  constructor(cluster: ClusterPart, options: WritersOptions) {
    this.#cluster = cluster
    this.#options = options
  }

  async add(entry: RestoredEntry): Promise<void> {
    const birth = entry.kind === 'lookup' ? homeOfLookup(entry) : this.#options.birthOf(entry.account)
    const writer = this.#open.get(birth) ?? (await this.#storeOf(birth)).restoring(this.#options)
    this.#open.set(birth, writer)
    await writer.add(entry)
  }

  async end(): Promise<void> {
    for (const writer of this.#open.values()) await writer.end()
  }

  #storeOf(birth: RegionCode | undefined): Promise<WholeStore> {
    const { config, regions } = this.#cluster
    const { keyspaces } = this.#options
    if (birth === undefined) return keyspaces.lookups(config.region)
    return keyspaces.accounts(birth, regions.homeOf(birth).serving)
  }
}

function homeOfLookup({ key }: LookupEntry): RegionCode | undefined {
  return homeKinds.has(lookupKindOf(key)) ? (key.split('/')[1] as RegionCode) : undefined
}

async function* stopping(
  rows: AsyncIterable<SegmentRow>,
  signal: AbortSignal,
): AsyncGenerator<[Uint8Array, Uint8Array]> {
  for await (const row of rows) {
    signal.throwIfAborted()
    yield row
  }
}

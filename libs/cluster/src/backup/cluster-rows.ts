/**
 * The rows of a cluster for a backup, in the form of one machine's.
 *
 * The partitions of a cluster have no common moment. Each account is copied in its state at one
 * moment. Lookups are read before the accounts: this includes the lookups that an account loses
 * during the run. They are read again after the accounts: this includes the lookups that an account
 * gets during the run. References are read only after the accounts: after a restore every account
 * writes the references that it lacks.
 */
import {
  type JournalFault,
  type LookupEntry,
  lookupKindOf,
  referencesKind,
  type StoredEntry,
} from '@holdfast/journal'
import { rowsOfEntry, rowsOfStore } from '@holdfast/journal-level/entries'
import type { RegionCode } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { isOfOrder } from '../regions/region-order.ts'
import type { WholeKeyspaces } from '../servers/whole-keyspaces.ts'

/**
 * Rows about the cluster that runs and not about its accounts: nodes that are drained, rounds,
 * backups, restores, and the order in which its regions came.
 */
const notKept = new Set(['nodes', 'reconcile', 'backup', 'restoring'])

export interface ClusterRowsOptions {
  cluster: Pick<ClusterPart, 'config' | 'regions'>
  keyspaces: WholeKeyspaces
  onDamaged: (fault: JournalFault) => void
}

export async function* rowsOfCluster(options: ClusterRowsOptions): AsyncGenerator<[Uint8Array, Uint8Array]> {
  yield* rowsOfStore('a cluster')
  for await (const entry of entriesOfCluster(options)) yield* rowsOfEntry(entry)
}

async function* entriesOfCluster({
  cluster,
  keyspaces,
  onDamaged,
}: ClusterRowsOptions): AsyncGenerator<StoredEntry> {
  const { config, regions } = cluster
  const homes = config.regions.map((birth) => ({ birth, ...regions.homeOf(birth) }))
  const isKept = ({ key }: LookupEntry) => !notKept.has(lookupKindOf(key)) && !isOfOrder(key)
  const lookups = () => lookupsOf({ cluster, keyspaces })
  for await (const entry of lookups())
    if (isKept(entry) && lookupKindOf(entry.key) !== referencesKind) yield entry
  for (const { birth, serving, term } of homes)
    yield* (await keyspaces.accounts(birth, serving)).accounts({ term, onDamaged })
  for await (const entry of lookups()) if (isKept(entry)) yield entry
  for (const region of reachedRegions(cluster)) yield* (await keyspaces.lookups(region)).counters()
}

/** Lookups of all regions, and those that stay with the accounts. */
async function* lookupsOf({
  cluster,
  keyspaces,
}: Omit<ClusterRowsOptions, 'onDamaged'>): AsyncGenerator<LookupEntry> {
  const shared = await Promise.all(reachedRegions(cluster).map((region) => keyspaces.lookups(region)))
  yield* eachOnce(shared.map((store) => store.lookups()))
  for (const birth of cluster.config.regions) {
    const { serving } = cluster.regions.homeOf(birth)
    yield* (await keyspaces.accounts(birth, serving)).lookups()
  }
}

/**
 * The regions whose rows are read. A region whose homes have moved away may be gone: the rows that
 * reached other regions count.
 */
function reachedRegions({ config, regions }: ClusterRowsOptions['cluster']): RegionCode[] {
  return config.regions.filter((region) => !regions.isGivenUp(region))
}

/**
 * Yields the rows of several lists, each row once. The lists have nearly the same rows in nearly
 * the same order. If the lists have different values for a key, each of the values is yielded.
 */
export async function* eachOnce(lists: readonly AsyncIterable<LookupEntry>[]): AsyncGenerator<LookupEntry> {
  const open = lists.map((list) => list[Symbol.asyncIterator]())
  /** Seen in some of the lists, with the number of those where it was not. */
  const seen = new Map<string, number>()
  try {
    while (open.length > 0) {
      const steps = await Promise.all(open.map((list) => list.next()))
      for (const { done, value } of steps) {
        if (done === true) continue
        const row = `${value.key}\n${Buffer.from(value.value).toString('latin1')}`
        const missing = seen.get(row) ?? lists.length
        if (missing === lists.length) yield value
        if (missing === 1) seen.delete(row)
        else seen.set(row, missing - 1)
      }
      for (let at = open.length - 1; at >= 0; at--) if (steps[at]?.done === true) open.splice(at, 1)
    }
  } finally {
    for (const list of open) await list.return?.()
  }
}

/**
 * Adds regions to an installation that has data. This file has steps 1 and 4; the tools of an
 * operator do the others:
 *
 * 1. `addRegions`: the order of regions names the new ones, and the keyspaces that they keep get
 *    their data centres. From now on Cassandra sends new writes to these.
 * 2. All processes of the other regions start with settings that name the new regions. Without
 *    these settings they would not find accounts of the new regions, and would collect without
 *    reading the references of the new regions.
 * 3. The nodes of the new regions get the existing rows (`nodetool rebuild`), and then the rows
 *    that a single replica lacks (`nodetool repair`).
 * 4. `joinRegion`: the processes of the new regions may start.
 *
 * Each step may be repeated, also from the beginning. No data centre loses rows.
 */
import { type ClusterConfig, SettingsFault } from '@holdfast/config'
import { CassandraMetadataStore, type CassandraOptions } from '@holdfast/journal-cassandra'
import type { RegionCode } from '@holdfast/kernel'
import { regionJoinedKey } from '../row-keys.ts'
import {
  keyspaceOf,
  keyspaceOptions,
  lookupsKeyspace,
  startFaultOf,
  withoutJournals,
} from '../servers/metadata.ts'
import { addToOrder, homeRegions, knownOrder } from './region-order.ts'

/** A region that has not joined. */
export interface JoiningRegion {
  region: RegionCode
  /** What its data centre lacks rows of. */
  keyspaces: string[]
  /** The data centre that has all of these rows. */
  from: RegionCode
}

/** Settings of the first region, which decides. */
export type AddingConfig = Pick<ClusterConfig, 'regions' | 'cassandra'>
type Access = Pick<CassandraOptions, 'credentials' | 'tls'>

/**
 * Adds the regions that the settings name at the end. In a new installation it makes the rows that
 * all regions have.
 * @returns those that have not joined. @throws StartFault; SettingsFault when others than the last
 *   ones are new, or rows have fewer replicas than the settings say
 */
export function addRegions(config: AddingConfig, access: Access): Promise<JoiningRegion[]> {
  return withLookups(config, access, async ({ first, lookups, open }) => {
    await assertReplicas(lookups, config)
    const order = { region: first, regions: config.regions, stores: new Map([[first, lookups.lookups]]) }
    const keeping = () => lookups.dataCentres()
    await addToOrder(order, await knownOrder({ ...order, keeping }))
    const { founders, joined } = await knownOrder({ ...order, keeping })
    const joining = config.regions.filter((code) => !founders.includes(code) && !joined.has(code))
    if (joining.length === 0) return []
    const replicasIn = (kept: readonly RegionCode[]) =>
      Object.fromEntries(kept.map((code) => [code, config.cassandra.replicas]))
    await lookups.addDataCentres(replicasIn(config.regions))
    const kept = homeRegions({ regions: config.regions, founders }, first)
    const home = await open(keyspaceOf(first), kept)
    // Among the existing homes only that of a single founder gets a backup.
    await home.addDataCentres(replicasIn(kept))
    return joining.map((region) => ({
      region,
      keyspaces: [lookupsKeyspace, ...(kept.includes(region) ? [keyspaceOf(first)] : [])],
      from: first,
    }))
  })
}

/**
 * A setting alone makes no replicas: those that a keyspace gets are empty until a repair, and a
 * quorum of empty ones answers that there are no accounts.
 * @throws SettingsFault with the next statement for each keyspace that lacks some
 */
export async function assertReplicas(
  store: Pick<CassandraMetadataStore, 'replicasOf'>,
  { regions, cassandra }: Pick<AddingConfig, 'regions'> & { cassandra: { replicas: number } },
): Promise<void> {
  const faults: string[] = []
  for (const keyspace of [lookupsKeyspace, ...regions.map(keyspaceOf)]) {
    const all = Object.entries((await store.replicasOf(keyspace)) ?? {})
    const lacks = all.filter(([, count]) => count < cassandra.replicas)
    if (lacks.length === 0) continue
    const had = lacks.map(([region, count]) => `${count} in ${region}`).join(', ')
    const next = all.map(
      ([region, count]) => `'${region}': ${count < cassandra.replicas ? count + 1 : count}`,
    )
    faults.push(
      `replicas are ${cassandra.replicas}, but ${keyspace} has ${had}: ALTER KEYSPACE ${keyspace} WITH replication = {'class': 'NetworkTopologyStrategy', ${next.join(', ')}}`,
    )
  }
  if (faults.length > 0)
    throw new SettingsFault([
      ...faults,
      'after these statements repair every node, then repeat: infra/OPERATING.md, "Nodes of Cassandra", "More replicas"',
    ])
}

/** The nodes of the region have all rows. @throws StartFault */
export function joinRegion(config: AddingConfig, region: RegionCode, access: Access): Promise<void> {
  return withLookups(config, access, async ({ lookups: { lookups } }) => {
    await lookups.claim(regionJoinedKey(region), Buffer.from('yes'))
  })
}

async function withLookups<Result>(
  { regions, cassandra }: AddingConfig,
  access: Access,
  work: (parts: {
    first: RegionCode
    lookups: CassandraMetadataStore
    open: (keyspace: string, kept: readonly RegionCode[]) => Promise<CassandraMetadataStore>
  }) => Promise<Result>,
): Promise<Result> {
  const first = regions[0] as RegionCode
  const config = { region: first, regions, cassandra }
  const opened: CassandraMetadataStore[] = []
  const open = async (keyspace: string, kept: readonly RegionCode[]) => {
    const store = await CassandraMetadataStore.open({
      ...keyspaceOptions(config, { region: first, keyspace, kept }),
      ...access,
      onRequest: undefined,
      ...withoutJournals,
    })
    opened.push(store)
    return store
  }
  try {
    return await work({ first, open, lookups: await open(lookupsKeyspace, regions) })
  } catch (error) {
    throw startFaultOf(error, config, access.credentials)
  } finally {
    await Promise.all(opened.map((store) => store.close()))
  }
}

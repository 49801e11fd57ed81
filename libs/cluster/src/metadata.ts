/** The connections to Cassandra: the lookups of every region, and the journals that this process works on. */
import type { LookupStore } from '@holdfast/journal'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import type { RegionCode } from '@holdfast/kernel'
import type { ClusterConfig } from '@holdfast/process'

export interface MetadataConnections {
  /** By region, as its data centre answers. */
  lookups: ReadonlyMap<RegionCode, LookupStore>
  /** By birth region: of those whose keyspace this region has a replica of. */
  homes: ReadonlyMap<RegionCode, CassandraMetadataStore>
  close(): Promise<void>
}

/** First segments of the keys that are claimed. */
const claimed = ['email', 'setting', 'pg', 'region']

/**
 * @param options.journals whether journals are needed. @param options.termOf the home term of an account.
 * @throws JournalFault when a region cannot be reached.
 */
export async function openMetadata(
  config: Pick<ClusterConfig, 'region' | 'regions' | 'cassandra'>,
  { journals, termOf }: { journals: boolean; termOf: (account: string) => number },
): Promise<MetadataConnections> {
  const opened: CassandraMetadataStore[] = []
  const open = async (region: RegionCode, keyspace: string, kept: readonly RegionCode[], more: object) => {
    const nodes = config.cassandra.nodes[region] ?? []
    const store = await CassandraMetadataStore.open({
      contactPoints: nodes.map(({ host, port }) => `${host}:${port}`),
      ...(nodes[0] === undefined ? {} : { port: nodes[0].port }),
      dataCentre: region,
      keyspace,
      replication: Object.fromEntries(kept.map((code) => [code, config.cassandra.replicas])),
      ...more,
    })
    opened.push(store)
    return store
  }
  try {
    const lookups = new Map<RegionCode, LookupStore>()
    for (const region of config.regions)
      lookups.set(region, (await open(region, 'holdfast_lookups', config.regions, { claimed })).lookups)
    const homes = new Map<RegionCode, CassandraMetadataStore>()
    for (const birth of journals ? config.regions : []) {
      const kept = homeRegions(config.regions, birth)
      if (kept.includes(config.region))
        homes.set(birth, await open(config.region, keyspaceOf(birth), kept, { termOf }))
    }
    return { lookups, homes, close: () => closeAll(opened) }
  } catch (error) {
    await closeAll(opened)
    throw error
  }
}

/** The region itself and its backup, which is the next one. */
export function homeRegions(regions: readonly RegionCode[], birth: RegionCode): RegionCode[] {
  const backup = regions[(regions.indexOf(birth) + 1) % regions.length] as RegionCode
  return [...new Set([birth, backup])]
}

export function keyspaceOf(region: RegionCode): string {
  return `holdfast_${region.replaceAll('-', '_')}`
}

async function closeAll(stores: readonly CassandraMetadataStore[]): Promise<void> {
  await Promise.all(stores.map((store) => store.close()))
}

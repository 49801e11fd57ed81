/**
 * The connections to Cassandra: the lookups of every region, and the journals that this process
 * works on.
 */

import { StartFault } from '@holdfast/bootstrap'
import { type ClusterConfig, type Credentials, SettingsFault } from '@holdfast/config'
import {
  type JournalAccounts,
  type JournalBackup,
  JournalFault,
  type JournalRepair,
  type JournalStore,
  type LookupStore,
  type LookupWalk,
} from '@holdfast/journal'
import { CassandraMetadataStore, type CassandraOptions, isRefused } from '@holdfast/journal-cassandra'
import type { RegionCode } from '@holdfast/kernel'
import { LazyConnection, LazyLookups } from './lazy-connection.ts'

export interface MetadataConnections {
  /**
   * By region, from its own data centre. Those of another region are unavailable while it cannot be
   * reached.
   */
  lookups: ReadonlyMap<RegionCode, LookupStore>
  /** All references from this region's data centre. */
  references: LookupWalk
  /** By birth region: of those whose keyspace has a replica in this region. */
  homes: ReadonlyMap<RegionCode, KeptHome>
  /** Nodes of each region, and those with a connection of this process. */
  nodes(): { region: RegionCode; known: number; connected: number }[]
  close(): Promise<void>
}

export interface KeptHome {
  journals: JournalStore &
    JournalRepair &
    JournalBackup &
    JournalAccounts &
    Pick<CassandraMetadataStore['journals'], 'replica' | 'takeAll'>
  lookups: LookupStore
}

export interface MetadataOptions {
  /** Called with each request that ended. */
  onRequest: (figures: { region: RegionCode; ms: number; failed: boolean }) => void
  /** Whether journals are needed. */
  journals: boolean
  /** The home term of an account. */
  termOf: (account: string) => number
  /** Whether the region that served it in the term before is asked for it. */
  handedOver: (account: string) => boolean
}

/** First segments of the keys that are claimed. */
const claimed = ['email', 'setting', 'pg', 'region']

/**
 * @throws StartFault SERVER_AWAY when this region's own data centre cannot be used. @throws
 *   SettingsFault when it refuses the credentials.
 */
export async function openMetadata(
  config: Pick<ClusterConfig, 'region' | 'regions' | 'cassandra'>,
  {
    journals,
    termOf,
    handedOver,
    credentials,
    onRequest,
    tls,
  }: MetadataOptions & Pick<CassandraOptions, 'credentials' | 'tls'>,
): Promise<MetadataConnections> {
  const opened: { close(): Promise<void> }[] = []
  const open = (region: RegionCode, keyspace: string, kept: readonly RegionCode[], more: object) =>
    CassandraMetadataStore.open({
      ...storeOptions(config, { region, keyspace, kept }),
      credentials,
      tls,
      onRequest: (figures) => onRequest({ region, ...figures }),
      ...more,
    })
  const late = (...what: Parameters<typeof open>) => {
    const store = new LazyConnection(() => open(...what))
    opened.push(store)
    return store
  }
  const own = async (...[keyspace, kept, more]: [string, readonly RegionCode[], object]) => {
    const store = await open(config.region, keyspace, kept, more)
    opened.push(store)
    return store
  }
  try {
    const lookups = new Map<RegionCode, LookupStore>()
    const hereStore = await own('holdfast_lookups', config.regions, { claimed })
    const here = hereStore.lookups
    lookups.set(config.region, here)
    const others = config.regions
      .filter((region) => region !== config.region)
      .map((region) => ({ region, store: late(region, 'holdfast_lookups', config.regions, { claimed }) }))
    for (const { region, store } of others) lookups.set(region, new LazyLookups(region, store))
    await Promise.all(others.map(({ store }) => store.tried))
    const homes = new Map<RegionCode, KeptHome>()
    for (const birth of journals ? config.regions : []) {
      const kept = homeRegions(config.regions, birth)
      if (!kept.includes(config.region)) continue
      const [other] = kept.filter((region) => region !== config.region)
      const backup = other && late(other, keyspaceOf(birth), kept, {})
      const backedUp = backup === undefined ? {} : { backup: () => backup.now }
      homes.set(birth, await own(keyspaceOf(birth), kept, { termOf, handedOver, ...backedUp }))
    }
    const nodes = () => [
      { region: config.region, ...hereStore.nodes() },
      ...others.map(({ region, store }) => ({
        region,
        ...(store.now?.nodes() ?? { known: 0, connected: 0 }),
      })),
    ]
    return { lookups, references: here, homes, nodes, close: () => closeAll(opened) }
  } catch (error) {
    await closeAll(opened)
    const [server] = config.cassandra.nodes[config.region] ?? []
    const servers = `Cassandra at ${server?.host}:${server?.port}`
    if (isRefused(error)) throw refusal({ what: 'CASSANDRA', servers, credentials: credentials?.() })
    if (!(error instanceof JournalFault)) throw error
    throw new StartFault('SERVER_AWAY', `${servers} cannot be used (HOLDFAST_CASSANDRA): ${error.message}`, {
      cause: error,
    })
  }
}

/** A keyspace as the data centre of a region has it. @param kept the regions that keep it */
export function storeOptions(
  { cassandra }: Pick<ClusterConfig, 'cassandra'>,
  { region, keyspace, kept }: { region: RegionCode; keyspace: string; kept: readonly RegionCode[] },
) {
  const nodes = cassandra.nodes[region] ?? []
  return {
    contactPoints: nodes.map(({ host, port }) => `${host}:${port}`),
    ...(nodes[0] === undefined ? {} : { port: nodes[0].port }),
    dataCentre: region,
    keyspace,
    replication: Object.fromEntries(kept.map((code) => [code, cassandra.replicas])),
  }
}

/** Refused credentials are a wrong setting: a restarted process fails again. */
export function refusal({
  what,
  servers,
  credentials,
}: {
  what: 'NATS' | 'CASSANDRA'
  servers: string
  credentials: Credentials | undefined
}): SettingsFault {
  const names = `HOLDFAST_${what}_USER and HOLDFAST_${what}_PASSWORD`
  return new SettingsFault([
    credentials === undefined
      ? `${names} are not set, and ${servers} requires them`
      : `${names} are wrong: ${servers} refuses them`,
  ])
}

/** The region itself and its backup, which is the next one. */
export function homeRegions(regions: readonly RegionCode[], birth: RegionCode): RegionCode[] {
  const backup = backupOf(regions, birth)
  return backup === undefined ? [birth] : [birth, backup]
}

/** The region that also keeps the journals of another one; undefined where there is only one. */
export function backupOf(regions: readonly RegionCode[], birth: RegionCode): RegionCode | undefined {
  const backup = regions[(regions.indexOf(birth) + 1) % regions.length]
  return backup === birth ? undefined : backup
}

export function keyspaceOf(region: RegionCode): string {
  return `holdfast_${region.replaceAll('-', '_')}`
}

async function closeAll(stores: readonly { close(): Promise<void> }[]): Promise<void> {
  const closed = await Promise.allSettled(stores.map((store) => store.close()))
  for (const outcome of closed) if (outcome.status === 'rejected') throw outcome.reason
}

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
import {
  CassandraMetadataStore,
  type CassandraOptions,
  isRefused,
  type MetadataStoreOptions,
} from '@holdfast/journal-cassandra'
import type { RegionCode } from '@holdfast/kernel'
import { assertOrder, homeRegions, knownOrder } from '../regions/region-order.ts'
import { LazyConnection, LazyLookups } from './lazy-connection.ts'

export interface MetadataConnections {
  /**
   * By region, from its own data centre. Those of another region are unavailable while it cannot be
   * reached.
   */
  lookups: ReadonlyMap<RegionCode, LookupStore>
  /** All references from this region's data centre. */
  references: LookupWalk
  /** The regions with which the installation was made. */
  founders: readonly RegionCode[]
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

type MetadataConfig = Pick<ClusterConfig, 'region' | 'regions' | 'cassandra'>

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

/** First segments of the keys of lookups that are claimed. */
const claimed = ['email', 'setting', 'pg', 'region']

/** The options of a store that is not asked for journals. */
export const withoutJournals: MetadataStoreOptions = {
  termOf: () => 1,
  claimed,
  backup: undefined,
  handedOver: () => false,
}

/**
 * @throws StartFault SERVER_AWAY when this region's own data centre cannot be used. @throws
 *   SettingsFault when it refuses the credentials, or the installation has other regions.
 */
export async function openMetadata(
  config: MetadataConfig,
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
  const open = (
    region: RegionCode,
    keyspace: string,
    kept: readonly RegionCode[],
    more: MetadataStoreOptions,
  ) =>
    CassandraMetadataStore.open({
      ...keyspaceOptions(config, { region, keyspace, kept }),
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
  const own = async (...[keyspace, kept, more]: [string, readonly RegionCode[], MetadataStoreOptions]) => {
    const store = await open(config.region, keyspace, kept, more)
    opened.push(store)
    return store
  }
  try {
    const lookups = new Map<RegionCode, LookupStore>()
    const hereStore = await own(lookupsKeyspace, config.regions, withoutJournals)
    const here = hereStore.lookups
    lookups.set(config.region, here)
    const others = config.regions
      .filter((region) => region !== config.region)
      .map((region) => ({ region, store: late(region, lookupsKeyspace, config.regions, withoutJournals) }))
    for (const { region, store } of others) lookups.set(region, new LazyLookups(region, store))
    await Promise.all(others.map(({ store }) => store.tried))
    const known = await knownOrder({
      ...config,
      stores: lookups,
      keeping: () => hereStore.dataCentres(),
    })
    assertOrder(config, known)
    const order = { regions: config.regions, founders: known.founders }
    const homes = new Map<RegionCode, KeptHome>()
    for (const birth of journals ? config.regions : []) {
      const kept = homeRegions(order, birth)
      if (!kept.includes(config.region)) continue
      const [other] = kept.filter((region) => region !== config.region)
      const away = other && late(other, keyspaceOf(birth), kept, withoutJournals)
      const backup = away && (() => away.now)
      homes.set(birth, await own(keyspaceOf(birth), kept, { termOf, handedOver, claimed, backup }))
    }
    const nodes = () => [
      { region: config.region, ...hereStore.nodes() },
      ...others.map(({ region, store }) => ({
        region,
        ...(store.now?.nodes() ?? { known: 0, connected: 0 }),
      })),
    ]
    const { founders } = order
    return { lookups, references: here, founders, homes, nodes, close: () => closeAll(opened) }
  } catch (error) {
    await closeAll(opened)
    throw startFaultOf(error, config, credentials)
  }
}

export const lookupsKeyspace = 'holdfast_lookups'

/** The options of a keyspace that a region asks. @param kept the regions that have it */
export function keyspaceOptions(
  { cassandra: { nodes, replicas } }: Pick<ClusterConfig, 'cassandra'>,
  { region, keyspace, kept }: { region: RegionCode; keyspace: string; kept: readonly RegionCode[] },
): Omit<CassandraOptions, 'credentials' | 'tls' | 'onRequest'> {
  const own = nodes[region] ?? []
  return {
    contactPoints: own.map(({ host, port }) => `${host}:${port}`),
    port: own[0]?.port,
    dataCentre: region,
    keyspace,
    replication: Object.fromEntries(kept.map((code) => [code, replicas])),
  }
}

/** What an operator reads of it. */
export function startFaultOf(
  error: unknown,
  config: MetadataConfig,
  credentials: CassandraOptions['credentials'],
): unknown {
  const [server] = config.cassandra.nodes[config.region] ?? []
  const servers = `Cassandra at ${server?.host}:${server?.port}`
  if (isRefused(error))
    return refusedCredentials({ what: 'CASSANDRA', servers, credentials: credentials?.() })
  if (!(error instanceof JournalFault)) return error
  return new StartFault('SERVER_AWAY', `${servers} cannot be used (HOLDFAST_CASSANDRA): ${error.message}`, {
    cause: error,
  })
}

/** Refused credentials are a wrong setting: a restarted process fails again. */
export function refusedCredentials({
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

export function keyspaceOf(region: RegionCode): string {
  return `holdfast_${region.replaceAll('-', '_')}`
}

async function closeAll(stores: readonly { close(): Promise<void> }[]): Promise<void> {
  const closed = await Promise.allSettled(stores.map((store) => store.close()))
  for (const outcome of closed) if (outcome.status === 'rejected') throw outcome.reason
}

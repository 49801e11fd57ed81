/** Whole keyspaces, each from the data centre that is asked for. Opened when they are needed. */
import type { ClusterConfig } from '@holdfast/config'
import type { WholeStore } from '@holdfast/journal'
import { CassandraMetadataStore, type CassandraOptions } from '@holdfast/journal-cassandra'
import type { RegionCode } from '@holdfast/kernel'
import { homeRegions, type RegionOrder } from '../regions/region-order.ts'
import { keyspaceOf, keyspaceOptions, lookupsKeyspace, withoutJournals } from './metadata.ts'

export interface WholeKeyspaces {
  /** The lookups that all regions keep. */
  lookups(region: RegionCode): Promise<WholeStore>
  /** The accounts born in a region. @param region one that keeps them */
  accounts(birth: RegionCode, region: RegionCode): Promise<WholeStore>
  close(): Promise<void>
}

/** Makes keyspaces that do not exist. */
export function openWholeKeyspaces(
  { order, ...config }: Pick<ClusterConfig, 'cassandra'> & { order: RegionOrder },
  access: Pick<CassandraOptions, 'credentials' | 'tls'>,
): WholeKeyspaces {
  const opened = new Map<string, Promise<CassandraMetadataStore>>()
  const open = async (region: RegionCode, keyspace: string, kept: readonly RegionCode[]) => {
    const name = `${region} ${keyspace}`
    const opening =
      opened.get(name) ??
      CassandraMetadataStore.open({
        ...keyspaceOptions(config, { region, keyspace, kept }),
        ...access,
        onRequest: undefined,
        ...withoutJournals,
      })
    opened.set(name, opening)
    return (await opening).whole
  }
  return {
    lookups: (region) => open(region, lookupsKeyspace, order.regions),
    accounts: (birth, region) => open(region, keyspaceOf(birth), homeRegions(order, birth)),
    async close() {
      for (const opening of opened.values())
        await opening.then(
          (store) => store.close(),
          () => {},
        )
    },
  }
}

/** The journals that this region keeps, by the region where their accounts were born. */
import type { AccountId, Keyring, RegionCode } from '@holdfast/kernel'
import { accountsOf } from '../accounts/account-rounds.ts'
import type { ClusterPart } from '../cluster-part.ts'
import type { MetadataConnections } from '../servers/metadata.ts'
import { pagesNamedBy } from './evacuation.ts'
import type { RegionMap } from './region-map.ts'
import { RegionalJournals } from './regional-journals.ts'

export function keptAccounts({
  region,
  regionCodes,
  metadata,
  regions,
  ids,
}: {
  region: RegionCode
  regionCodes: readonly RegionCode[]
  metadata: MetadataConnections
  regions: RegionMap
  ids: Keyring['ids']
}): Pick<ClusterPart, 'journals' | 'homes' | 'takeAll' | 'listAccounts' | 'listReferences' | 'replicaOf'> {
  const journalsOf = (births: Iterable<RegionCode>) =>
    new Map(
      [...births].flatMap((birth) => {
        const home = metadata.homes.get(birth)
        return home === undefined ? [] : [[birth, home.journals] as const]
      }),
    )
  const isServed = (birth: RegionCode) => regions.homeOf(birth).serving === region
  const served = () => [...metadata.homes.keys()].filter(isServed)
  return {
    journals: new RegionalJournals(journalsOf(metadata.homes.keys()), {
      regions: regionCodes,
      ids,
      isServed,
      fresh: () => regions.fresh(),
    }),
    homes: { of: (account) => ids.birthRegion(account as AccountId), served },
    takeAll(birth, after) {
      const home = metadata.homes.get(birth)
      if (home === undefined) throw new Error(`the journals of ${birth} are not kept in ${region}`)
      const { term, handedOver } = regions.homeOf(birth)
      return home.journals.takeAll(term, { pagesNamedBy, handedOver, after })
    },
    async *listAccounts(after) {
      yield* accountsOf(journalsOf(served()), after)
    },
    listReferences: (after) => metadata.references.walk('ref', after === undefined ? {} : { after }),
    replicaOf: async (account) =>
      metadata.homes.get(ids.birthRegion(account as AccountId))?.journals.replica(account),
  }
}

/**
 * All accounts of all regions, for processes that keep no journals: the first actor host of each
 * region lists those that the region serves, a page a request.
 */
import { Fault, type RegionCode } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { accountListSubjectOf } from '../subjects.ts'
import { leaderOf } from './reconciling.ts'

/** The parts of a cluster that a list needs. */
export interface AccountsOf {
  bus: Pick<ClusterPart['bus'], 'request'>
  config: Pick<ClusterPart['config'], 'regions'>
  regions: { homeOf(birth: RegionCode): { serving: RegionCode } }
  membership: Parameters<typeof leaderOf>[0]['membership']
}

interface ListedAccount {
  account: string
  place: string
}

class ListFault extends Fault {
  override readonly name = 'ListFault'
  readonly code = 'LIST'
  readonly category = 'unavailable'
}

const accountsPerPage = 500
const answerMs = 15_000

/** For an actor host. */
export function serveAccountLists(cluster: {
  bus: Pick<ClusterPart['bus'], 'serve'>
  config: Pick<ClusterPart['config'], 'nodeName'>
  listAccounts: ClusterPart['listAccounts']
}): { close(): void } {
  return cluster.bus.serve(accountListSubjectOf(cluster.config.nodeName), async (message) => {
    const { after } = JSON.parse(Buffer.from(message).toString()) as { after?: string }
    const listed: ListedAccount[] = []
    for await (const one of cluster.listAccounts(after)) {
      listed.push(one)
      if (listed.length === accountsPerPage) break
    }
    return Buffer.from(JSON.stringify(listed))
  })
}

/**
 * From a place on. An account whose home has moved may come more than once.
 * @throws ListFault when a region has no actor host that is ready; what the bus throws.
 */
export async function* accountsEverywhere(
  cluster: AccountsOf,
  after: string | undefined,
): AsyncGenerator<ListedAccount> {
  const { config, regions } = cluster
  const [from, behind] = cut(after ?? '')
  const serving = [...new Set(config.regions.map((birth) => regions.homeOf(birth).serving))].sort()
  for (const region of serving) {
    if (region < from) continue
    for (let place = region === from ? behind : undefined; ; ) {
      const listed = await listedBy(cluster, region, place)
      for (const one of listed) yield { account: one.account, place: `${region} ${one.place}` }
      const next = listed.at(-1)?.place
      // A page may begin with the last one of the page before.
      if (listed.length < accountsPerPage || next === place) break
      place = next
    }
  }
}

async function listedBy(
  { bus, membership }: AccountsOf,
  region: RegionCode,
  after: string | undefined,
): Promise<ListedAccount[]> {
  const host = leaderOf({ membership }, region)
  if (host === undefined) throw new ListFault(`${region} has no actor host that is ready`)
  const question = Buffer.from(JSON.stringify({ after }))
  const answer = await bus.request(accountListSubjectOf(host), question, { timeoutMs: answerMs })
  return JSON.parse(Buffer.from(answer).toString()) as ListedAccount[]
}

function cut(place: string): [string, string | undefined] {
  const at = place.indexOf(' ')
  return at < 0 ? ['', undefined] : [place.slice(0, at), place.slice(at + 1)]
}

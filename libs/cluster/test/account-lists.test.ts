/** All accounts of a cluster, from any process: region after region, a page a request. */
import { MemoryBus } from '@holdfast/bus'
import type { RegionCode } from '@holdfast/kernel'
import t from 'tap'
import { accountsEverywhere, serveAccountLists } from '../src/accounts/account-lists.ts'

const regions: RegionCode[] = ['na-nyc', 'eu-par', 'ap-sgp']
const accountsOf = { 'eu-par': 1_203, 'na-nyc': 500 }

/** As a store that begins with the row of the place itself. */
function listing(region: keyof typeof accountsOf) {
  return async function* (after: string | undefined) {
    for (let at = Number(after ?? 0); at < accountsOf[region]; at++)
      yield { account: `${region}-${String(at).padStart(4, '0')}`, place: String(at) }
  }
}

const bus = new MemoryBus()
const beats = (['eu-par', 'na-nyc'] as const).map((region) => {
  const nodeName = `host-${region}`
  const lists = serveAccountLists({ bus: bus.connect(), config: { nodeName }, listAccounts: listing(region) })
  t.teardown(() => lists.close())
  return { id: nodeName, region: region as RegionCode, roles: ['actor-host' as const], ready: true }
})
// The third was taken over.
const homeOf = (birth: RegionCode) => ({ serving: birth === 'ap-sgp' ? ('eu-par' as const) : birth })
const cluster = { bus, config: { regions }, regions: { homeOf }, membership: { beats: () => beats } }

async function all(after?: string, max = Number.POSITIVE_INFINITY) {
  const found: { account: string; place: string }[] = []
  for await (const one of accountsEverywhere(cluster, after)) {
    found.push(one)
    if (found.length >= max) break
  }
  return found
}

t.test('every account comes, and a break costs none', async (t) => {
  const whole = await all()
  const distinct = new Set(whole.map(({ account }) => account))
  t.equal(distinct.size, 1_703)
  t.ok(whole.length - distinct.size < 10, 'only the ends of pages come twice')
  const first = await all(undefined, 777)
  const rest = await all(first.at(-1)?.place)
  t.equal(new Set([...first, ...rest].map(({ account }) => account)).size, 1_703)
  t.ok(rest.length < 1_703 - 777 + 10)
})

t.test('a region without a host is a fault, not an empty one', async (t) => {
  const absent = { ...cluster, membership: { beats: () => beats.slice(0, 1) } }
  await t.rejects(async () => {
    for await (const _ of accountsEverywhere(absent, undefined));
  }, /na-nyc has no actor host/)
})

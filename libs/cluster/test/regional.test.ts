import type { LookupStore } from '@holdfast/journal'
import {
  journalStoreContract,
  lookupStoreContract,
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
} from '@holdfast/journal/testing'
import { codesPerBlock, Keyring, type RegionCode, systemClock } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { RegionMap } from '../src/regions/region-map.ts'
import { RegionalJournals } from '../src/regions/regional-journals.ts'
import { RegionalLookups } from '../src/regions/regional-lookups.ts'

const regions: RegionCode[] = ['eu-par', 'na-nyc', 'ap-tyo']
const keyring = new Keyring(Buffer.alloc(32, 3))

/** Data centres without replication: the location of each row is visible. */
function world() {
  const stores = new Map<RegionCode, LookupStore>(regions.map((region) => [region, new MemoryLookupStore()]))
  const homes = new Map<RegionCode, LookupStore>(regions.map((region) => [region, new MemoryLookupStore()]))
  const at = (region: RegionCode, reach: Map<RegionCode, LookupStore> = stores) => {
    const lookups = new RegionalLookups({ region, regions, founders: regions, stores: reach, homes })
    return lookups
  }
  return { stores, homes, at }
}

const away = new Proxy({} as LookupStore, {
  get: (_, method) => (): unknown => {
    const fault = Object.assign(new Error('away'), { code: 'UNAVAILABLE' })
    if (method === 'scan') throw fault
    return Promise.reject(fault)
  },
})

t.test('lookups of several regions behave like one store of lookups', async (t) => {
  lookupStoreContract({
    test: t.test,
    open: async (_: Test) => ({ lookups: world().at('na-nyc') }),
  })
})

t.test('a claim has one winner, in whichever region it is made', async (t) => {
  const { at } = world()
  for (let number = 0; number < 40; number++) {
    const key = `email/${number}@example.org`
    await at(regions[number % 3] as RegionCode).claim(key, Buffer.from('first'))
    const second = await at(regions[(number + 1) % 3] as RegionCode).claim(key, Buffer.from('second'))
    t.equal(Buffer.from(second).toString(), 'first')
    t.equal(Buffer.from((await at('eu-par').get(key)) ?? []).toString(), 'first')
  }
  await at('ap-tyo').claim('setting/master', Buffer.from('a'))
  t.equal(Buffer.from(await at('eu-par').claim('setting/master', Buffer.from('b'))).toString(), 'a')
})

t.test('who decides about an address does not change when a region is added', async (t) => {
  const { stores, at } = world()
  const before = new RegionalLookups({
    ...{ region: 'eu-par', stores, homes: new Map() },
    ...{ regions: regions.slice(0, 2), founders: regions.slice(0, 2) },
  })
  for (let number = 0; number < 40; number++) {
    const key = `email/${number}@example.org`
    await before.claim(key, Buffer.from('before'))
    const grown = new RegionalLookups({
      region: 'ap-tyo',
      homes: new Map(),
      regions,
      founders: regions.slice(0, 2),
      stores,
    })
    t.equal(Buffer.from(await grown.claim(key, Buffer.from('after'))).toString(), 'before')
  }
  t.equal(await at('ap-tyo').get('email/none@example.org'), undefined)
})

t.test('no two regions make one code, and a region’s numbers end', async (t) => {
  const { at, stores } = world()
  const taken = await Promise.all(regions.map((region) => at(region).take('codes', 1000)))
  const ranges = taken.map((first) => [first, first + 1000] as const).sort((one, other) => one[0] - other[0])
  for (const [index, [first]] of ranges.entries()) if (index > 0) t.ok(first >= (ranges[index - 1]?.[1] ?? 0))
  t.equal(await at('eu-par').take('codes', 1), 1000, 'the first region continues where an embedded one would')
  for (const first of taken) t.ok(keyring.codes.code(first).length === 8)
  for (const first of taken) t.equal(first % codesPerBlock, 0, 'whole blocks')
  const legacy = Math.floor(62 ** 6 / 8)
  stores.set('eu-par', Object.assign(new MemoryLookupStore(), { take: async () => legacy - 1 }))
  t.ok((await at('eu-par').take('legacy-codes', 1)) === legacy - 1)
  await t.rejects(at('eu-par').take('legacy-codes', 2), { code: 'UNAVAILABLE' })
})

t.test(
  'a route that is missing here is looked up elsewhere before it is denied; unavailable is no absence',
  async (t) => {
    const { at, stores } = world()
    await at('na-nyc').write([{ put: 'code/abcdefgh', value: Buffer.from('there') }])
    t.equal(await stores.get('eu-par')?.get('code/abcdefgh'), undefined)
    t.equal(Buffer.from((await at('eu-par').get('code/abcdefgh')) ?? []).toString(), 'there')
    t.equal(await at('eu-par').get('code/unknown1'), undefined)
    const cut = new Map(stores).set('ap-tyo', away)
    t.equal(Buffer.from((await at('eu-par', cut).get('code/abcdefgh')) ?? []).toString(), 'there')
    await t.rejects(at('eu-par', cut).get('code/unknown1'), { code: 'UNAVAILABLE' })
  },
)

t.test(
  'references are those of all regions, each once; with a region unavailable they are unknown',
  async (t) => {
    const { at, stores } = world()
    const row = (account: string) => ({ put: `ref/aa/bb/${account}`, value: new Uint8Array() })
    await at('eu-par').write([row('1'), row('2')])
    await at('na-nyc').write([row('2'), row('3')])
    const keys = async (lookups: LookupStore, limit = 10) => {
      const found: string[] = []
      for await (const { key } of lookups.scan('ref/aa/bb/', { limit })) found.push(key.slice(-1))
      return found.sort()
    }
    for (const region of regions) t.strictSame(await keys(at(region)), ['1', '2', '3'])
    t.equal((await keys(at('ap-tyo'), 1)).length, 1)
    const cut = new Map(stores).set('na-nyc', away)
    await t.rejects(keys(at('ap-tyo', cut)), { code: 'UNAVAILABLE' })
  },
)

t.test('tasks of an account stay where its journal is', async (t) => {
  const { at, homes } = world()
  const row = (home: string, hour: number) => ({
    put: `wake/${home}/7/${hour}/${hour}/account`,
    value: Buffer.from('5'),
  })
  await at('eu-par').write([row('na-nyc', 1), row('eu-par', 2)], 9n)
  t.equal(Buffer.from((await homes.get('na-nyc')?.get('wake/na-nyc/7/1/1/account')) ?? []).toString(), '5')
  t.equal(await homes.get('eu-par')?.get('wake/na-nyc/7/1/1/account'), undefined)
  const found: string[] = []
  for await (const { key } of at('eu-par').scan('wake/na-nyc/7/1/')) found.push(key)
  t.strictSame(found, ['wake/na-nyc/7/1/1/account'])
  const first = await at('eu-par').firstOf(['wake/na-nyc/7/2/', 'wake/na-nyc/7/1/'])
  t.strictSame(
    first.map((one) => one?.key),
    [undefined, 'wake/na-nyc/7/1/1/account'],
  )
  await t.rejects(at('eu-par').firstOf(['wake/na-nyc/7/2/', 'wake/eu-par/7/2/']), RangeError)
})

t.test('settings can be read from the own region while the deciding one is unavailable', async (t) => {
  const { at, stores } = world()
  await stores.get('na-nyc')?.claim('setting/master', Buffer.from('replicated'))
  const cut = new Map(stores).set('eu-par', away)
  t.equal(Buffer.from((await at('na-nyc', cut).get('setting/master')) ?? []).toString(), 'replicated')
  await t.rejects(at('ap-tyo', cut).get('setting/master'), { code: 'UNAVAILABLE' })
})

function mapAt(
  region: RegionCode,
  stores: ReadonlyMap<RegionCode, LookupStore>,
  t: Test,
): Promise<RegionMap> {
  const map = RegionMap.open({
    region,
    regions,
    founders: regions,
    stores,
    clock: systemClock,
    onFault: (error) => t.fail(String(error)),
  })
  t.teardown(async () => (await map).close())
  return map
}

t.test('the homes of a lost region move to its backup, and all reachable regions learn it', async (t) => {
  const { stores } = world()
  const cut = new Map(stores).set('na-nyc', away)
  const paris = await mapAt('eu-par', cut, t)
  t.strictSame(paris.homeOf('na-nyc'), { serving: 'na-nyc', term: 1, handedOver: false })
  t.strictSame(
    paris.homeOf('sa-sao'),
    { serving: 'eu-par', term: 1, handedOver: false },
    'no account was born there',
  )
  const moved = { serving: 'ap-tyo', term: 2, handedOver: false }
  t.strictSame(await paris.moveHome('na-nyc'), { home: moved, heard: ['eu-par', 'ap-tyo'] })
  t.strictSame(
    await paris.moveHome('na-nyc'),
    { home: moved, heard: ['eu-par', 'ap-tyo'] },
    'a repeat changes nothing',
  )
  const tokyo = await mapAt('ap-tyo', cut, t)
  t.strictSame(tokyo.homeOf('na-nyc'), moved)
  t.ok(tokyo.isGivenUp('na-nyc'))
  t.notOk(tokyo.isGivenUp('eu-par'))
  await t.rejects(paris.moveHome('eu-par'), { code: 'UNAVAILABLE' }, 'no region takes it over')
  t.strictSame((await mapAt('na-nyc', stores, t)).homeOf('na-nyc'), moved, 'it learns it when it is back')
})

t.test('homes return under the next term; concurrent ways back agree on one', async (t) => {
  const { stores } = world()
  const maps = await Promise.all(regions.map((region) => mapAt(region, stores, t)))
  const [paris, york, tokyo] = maps as [RegionMap, RegionMap, RegionMap]
  await paris.moveHome('na-nyc')
  await york.refresh()
  const ways = await Promise.all([
    york.moveHome('na-nyc', { to: 'na-nyc', handedOver: true }),
    paris.moveHome('na-nyc', { to: 'na-nyc', handedOver: false }),
  ])
  t.strictSame(ways[0].home, ways[1].home)
  await tokyo.refresh()
  t.strictSame(tokyo.homeOf('na-nyc'), ways[0].home)
  t.match(tokyo.homeOf('na-nyc'), { serving: 'na-nyc', term: 3 })

  await paris.moveHome('na-nyc')
  const handed = { serving: 'na-nyc', term: 5, handedOver: true }
  t.strictSame((await york.moveHome('na-nyc', { to: 'na-nyc', handedOver: true })).home, handed)
  await tokyo.refresh()
  t.strictSame(tokyo.homeOf('na-nyc'), handed)
  const ended = { serving: 'na-nyc', term: 5, handedOver: false }
  t.strictSame(await york.endHandover('na-nyc'), ended)
  for (const map of [paris, tokyo]) {
    await map.refresh()
    t.strictSame(map.homeOf('na-nyc'), ended)
  }
  t.strictSame((await york.moveHome('na-nyc', { to: 'na-nyc', handedOver: true })).home, ended, 'again')
})

t.test(
  'an address that was claimed while its region was taken over stays claimed when it is back',
  async (t) => {
    const { stores, at } = world()
    const map = await mapAt('eu-par', stores, t)
    const lookups = at('eu-par')
    lookups.useHomes(map)
    const keys = Array.from({ length: 40 }, (_, number) => `email/${number}@example.org`)
    await map.moveHome('na-nyc')
    for (const key of keys) await lookups.claim(key, Buffer.from('meanwhile'))
    await map.moveHome('na-nyc', { to: 'na-nyc', handedOver: true })
    for (const key of keys) {
      t.equal(Buffer.from((await lookups.get(key)) ?? []).toString(), 'meanwhile')
      t.equal(Buffer.from(await lookups.claim(key, Buffer.from('back'))).toString(), 'meanwhile')
    }
  },
)

t.test('a region without heartbeats of another one does not consider itself in charge', async (t) => {
  const { stores } = world()
  const alone = new Map(stores).set('na-nyc', away).set('ap-tyo', away)
  const map = await mapAt('eu-par', alone, t)
  t.notOk(map.heardElsewhere)
  alone.set('ap-tyo', stores.get('ap-tyo') as LookupStore)
  await map.refresh()
  t.ok(map.heardElsewhere)
  alone.set('ap-tyo', away)
  await map.refresh()
  t.notOk(map.heardElsewhere)
})

t.test(
  'a successor decides for the region it took over, and missing routes there are no fault any more',
  async (t) => {
    const { stores } = world()
    const key = Array.from({ length: 100 }, (_, number) => `email/${number}@example.org`)
    const cut = new Map(stores).set('na-nyc', away)
    const lookups = new RegionalLookups({
      region: 'eu-par',
      regions,
      founders: regions,
      stores: cut,
      homes: new Map(),
    })
    const claimAll = () => Promise.allSettled(key.map((one) => lookups.claim(one, Buffer.from('claimed'))))
    t.ok((await claimAll()).some(({ status }) => status === 'rejected'))
    await t.rejects(lookups.get('code/unknown1'), { code: 'UNAVAILABLE' })
    const map = await mapAt('eu-par', cut, t)
    lookups.useHomes(map)
    await map.moveHome('na-nyc')
    t.ok((await claimAll()).every(({ status }) => status === 'fulfilled'))
    t.equal(await lookups.get('code/unknown1'), undefined)
  },
)

t.test('journals of several regions are journals', async (t) => {
  const ids = { birthRegion: () => 'eu-par' as const }
  journalStoreContract({
    test: t.test,
    open: async (_: Test) => {
      const paris = new MemoryJournalStore(new MemoryMedium({ ordered: false, exclusive: false }))
      return { journals: new RegionalJournals(new Map([['eu-par', paris]]), { regions, ids }) }
    },
  })
})

t.test('journals are those of the birth region; elsewhere nothing was written', async (t) => {
  const medium = new MemoryMedium()
  const [paris, york] = [new MemoryJournalStore(medium), new MemoryJournalStore(new MemoryMedium())]
  const journals = new RegionalJournals(
    new Map([
      ['eu-par', paris],
      ['na-nyc', york],
    ]),
    { regions: ['eu-par', 'na-nyc', 'ap-tyo'], ids: keyring.ids },
  )
  const account = keyring.ids.account('na-nyc')
  const ownership = await journals.acquire(account, { owner: 'one' })
  await journals.append(ownership, Buffer.from('row'))
  t.equal((await york.head(account)).head, 1)
  t.equal((await paris.head(account)).head, 0)
  t.equal((await journals.head(keyring.ids.account('sa-sao'))).head, 0)
  await t.rejects(journals.head(keyring.ids.account('ap-tyo')), { code: 'UNAVAILABLE' })
  await t.rejects(journals.acquire(keyring.ids.account('sa-sao'), { owner: 'one' }), { code: 'UNAVAILABLE' })
  const options = { owner: 'one', unwritten: 'leave' } as const
  t.equal((await journals.acquire(keyring.ids.account('sa-sao'), options)).epoch, 0)
  await t.rejects(journals.acquire(keyring.ids.account('ap-tyo'), options), { code: 'UNAVAILABLE' })
})

t.test('a map that was not read recently is read again before it is used', async (t) => {
  const { stores } = world()
  let nowMs = 0
  const clock = { ...systemClock, monotonic: () => nowMs }
  const onFault = (error: unknown) => t.fail(String(error))
  const map = await RegionMap.open({ region: 'na-nyc', regions, founders: regions, stores, clock, onFault })
  t.teardown(() => map.close())
  await (await mapAt('eu-par', stores, t)).moveHome('na-nyc')
  await map.fresh()
  t.notOk(map.isGivenUp('na-nyc'))
  nowMs = 60_000
  await map.fresh()
  t.ok(map.isGivenUp('na-nyc'))
})

t.test('journals of accounts that are served elsewhere are fenced', async (t) => {
  let served = true
  const stores = new Map([['eu-par' as RegionCode, new MemoryJournalStore(new MemoryMedium())]])
  const journals = new RegionalJournals(stores, { regions, ids: keyring.ids, isServed: () => served })
  const ownership = await journals.acquire(keyring.ids.account('eu-par'), { owner: 'one' })
  served = false
  await t.rejects(journals.append(ownership, Buffer.from('row')), { code: 'FENCED' })
  await t.rejects(journals.head(ownership.account), { code: 'FENCED' })
})

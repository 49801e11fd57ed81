/** Regions that are added to an installation: what stays, and what a start refuses. */
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import t from 'tap'
import {
  addToOrder,
  assertOrder,
  backupOf,
  copyOrder,
  homeRegions,
  type KnownOrder,
  knownOrder,
} from '../src/regions/region-order.ts'
import { clusterFormatPrefix, regionJoinedKey } from '../src/row-keys.ts'

const three: RegionCode[] = ['eu-par', 'na-nyc', 'ap-sgp']

t.test('founders back each other up in a ring, an added region is backed up by the one before', async (t) => {
  const ring = { regions: three, founders: three }
  t.strictSame(homeRegions(ring, 'eu-par'), ['eu-par', 'na-nyc'])
  t.strictSame(homeRegions(ring, 'ap-sgp'), ['ap-sgp', 'eu-par'])
  const grown = { regions: three, founders: three.slice(0, 2) }
  t.strictSame(
    three.map((code) => homeRegions(grown, code)),
    [
      ['eu-par', 'na-nyc'],
      ['na-nyc', 'eu-par'],
      ['ap-sgp', 'na-nyc'],
    ],
  )
  const alone = three.slice(0, 1)
  t.strictSame(homeRegions({ regions: alone, founders: alone }, 'eu-par'), ['eu-par'])
  t.strictSame(homeRegions({ regions: three, founders: alone }, 'eu-par'), ['eu-par', 'na-nyc'])
})

t.test('a region that has a backup keeps it when others are added', async (t) => {
  for (let made = 1; made <= 8; made++)
    for (let now = made; now < 8; now++) {
      const founders = regionCodes.slice(0, made)
      const before = { founders, regions: regionCodes.slice(0, now) }
      const after = { founders, regions: regionCodes.slice(0, now + 1) }
      for (const code of before.regions) {
        const had = backupOf(before, code)
        if (had !== undefined) t.equal(backupOf(after, code), had, `${code} of ${made}, ${now}`)
        t.not(backupOf(after, code), undefined)
      }
      for (const code of after.regions) {
        const order = copyOrder(after, code)
        t.strictSame(order.slice(0, 2), homeRegions(after, code), 'files are copied to the backup first')
        t.strictSame([...order].sort(), [...after.regions].sort())
      }
    }
})

/** Data centres without replication; the first one decides. */
function world(keeping: RegionCode[]) {
  const stores = new Map(regionCodes.map((code) => [code, new MemoryLookupStore()]))
  const known = (regions: RegionCode[], region: RegionCode = regions[0] as RegionCode) =>
    knownOrder({ region, regions, stores, keeping: async () => keeping })
  const add = async (regions: RegionCode[]) =>
    addToOrder({ region: regions[0] as RegionCode, regions, stores }, await known(regions))
  return { stores, known, add }
}

t.test('the founders are those whose keyspaces exist, and stay', async (t) => {
  const { known, add } = world(['na-nyc', 'eu-par'])
  t.match(await known(three), { founders: ['eu-par', 'na-nyc'], added: [] }, 'not all that the settings name')
  await add(three)
  await add(three)
  const { founders, added, joined } = await known(three)
  t.strictSame([founders, added, [...joined]], [['eu-par', 'na-nyc'], ['ap-sgp'], []])
  t.match(await known(three, 'ap-sgp'), { founders, added }, 'asked from another region')
  await t.rejects(add(['eu-par', 'na-nyc', 'ap-tyo']), { name: 'SettingsFault' })
  await t.rejects(add(['eu-par', 'na-nyc']), { name: 'SettingsFault' }, 'none is taken away')
})

t.test('settings that name fewer regions than the first tables have are refused', async (t) => {
  const { known } = world(three)
  await t.rejects(known(['eu-par', 'na-nyc']), { name: 'SettingsFault' })
})

t.test('no founders are written down while the first region cannot be reached', async (t) => {
  const { stores, known } = world(['na-nyc', 'eu-par'])
  const away = () => Promise.reject(new Error('away'))
  stores.set('eu-par', Object.assign(new MemoryLookupStore(), { get: away, claim: away }))
  await t.rejects(known(['eu-par', 'na-nyc'], 'na-nyc'), { message: 'away' })
  await stores.get('na-nyc')?.claim('setting/regions', Buffer.from('eu-par,na-nyc'))
  t.match(
    await known(['eu-par', 'na-nyc'], 'na-nyc'),
    { founders: ['eu-par', 'na-nyc'] },
    'the own row counts',
  )
})

t.test('what a start refuses', async (t) => {
  const grown: KnownOrder = { founders: ['eu-par', 'na-nyc'], added: ['ap-sgp'], joined: new Set() }
  const joined: KnownOrder = { ...grown, joined: new Set<RegionCode>(['ap-sgp']) }
  const start = (regions: RegionCode[], known: KnownOrder, region: RegionCode = 'eu-par') =>
    assertOrder({ region, regions }, known)
  t.doesNotThrow(() => start(['eu-par', 'na-nyc'], grown), 'it may still be missing')
  t.doesNotThrow(() => start(three, grown))
  t.doesNotThrow(() => start(three, joined, 'ap-sgp'))
  const refused: [RegionCode[], KnownOrder, RegionCode, RegExp][] = [
    [three, grown, 'ap-sgp', /^ap-sgp has not joined this installation yet/],
    [['eu-par', 'na-nyc'], joined, 'eu-par', /this installation has eu-par,na-nyc,ap-sgp: the order stays/],
    [['na-nyc', 'eu-par', 'ap-sgp'], joined, 'eu-par', /the order stays/],
    [['eu-par', 'ap-sgp', 'na-nyc'], grown, 'eu-par', /the order stays/],
    [['eu-par'], grown, 'eu-par', /the order stays/],
    [[...three, 'ap-tyo'], joined, 'eu-par', /^HOLDFAST_REGIONS names ap-tyo, which this installation lacks/],
  ]
  for (const [regions, known, region, says] of refused)
    t.throws(() => start(regions, known, region), { name: 'SettingsFault', faults: [says] })
  t.equal(regionJoinedKey('ap-sgp'), 'setting/regions-joined/ap-sgp')
})

t.test('an installation whose format a newer release has raised is refused', async (t) => {
  const { stores, known } = world(['eu-par'])
  const settings: RegionCode[] = ['eu-par', 'na-nyc']
  await known(settings)
  const first = stores.get('eu-par') as MemoryLookupStore
  await first.claim(`${clusterFormatPrefix}2`, Buffer.from('9.8.0'))
  const refusal = { name: 'StartFault', code: 'DATA_FORMAT', message: /release 9\.8\.0 .* reads up to 1/ }
  await t.rejects(known(settings), refusal)
  await t.rejects(known(settings, 'na-nyc'), refusal, 'also where the row has not arrived')
})

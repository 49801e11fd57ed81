/**
 * When collecting may continue: by the regions' reports of their rounds, and the accounts they
 * cover.
 */
import { Collector, MemoryBlobStore } from '@holdfast/blob-store'
import { plainCollector, put } from '@holdfast/blob-store/testing'
import { type JournalAccounts, type LookupStore, referencedOf, referencesOf } from '@holdfast/journal'
import { MemoryJournalStore, MemoryLookupStore } from '@holdfast/journal/testing'
import type { RegionCode } from '@holdfast/kernel'
import pino from 'pino'
import t from 'tap'
import { AccountRounds, accountsOf, scopeOf } from '../src/accounts/account-rounds.ts'
import type { Home } from '../src/regions/region-map.ts'
import { homeRegions } from '../src/regions/region-order.ts'
import { RegionalLookups } from '../src/regions/regional-lookups.ts'
import { roundsKey } from '../src/row-keys.ts'

const regions: RegionCode[] = ['eu-par', 'na-nyc', 'ap-tyo']

/** As a storage node in eu-par sees it; na-nyc cannot be reached. */
function world() {
  const here = new MemoryLookupStore()
  const there = new MemoryLookupStore()
  const away = new Proxy({} as LookupStore, {
    get: () => () => Promise.reject(Object.assign(new Error('away'), { code: 'UNAVAILABLE' })),
  })
  const homes = new Map<RegionCode, Omit<Home, 'handedOver'>>()
  const map = {
    homeOf: (birth: RegionCode) => ({
      handedOver: false,
      ...(homes.get(birth) ?? { serving: birth, term: 1 }),
    }),
    keepersOf: (birth: RegionCode) => homeRegions({ regions, founders: regions }, birth),
  }
  const time = { ms: Date.UTC(2030, 0, 1) }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  const lookups = new RegionalLookups({
    region: 'eu-par',
    homes: new Map(),
    regions,
    founders: regions,
    stores: new Map<RegionCode, LookupStore>([
      ['eu-par', here],
      ['na-nyc', away],
      ['ap-tyo', there],
    ]),
  })
  lookups.useHomes(map)
  const self = { clockIsOff: false }
  const rounds = new AccountRounds({ regions, map, lookups, clock, isClockOff: () => self.clockIsOff })
  lookups.useRounds(rounds)
  /** A round of the region has ended, and its row has arrived. */
  const ended = (region: RegionCode, confirmedMs: number) => {
    const confirmedScope = scopeOf(region, { regions, map })
    const value = Buffer.from(JSON.stringify({ version: 1, confirmedMs, confirmedScope }))
    return here.write([{ put: roundsKey(region), value }])
  }
  return { here, there, homes, time, clock, lookups, rounds, ended, self }
}

t.test(
  'a region that was taken over blocks collecting until its accounts were asked elsewhere',
  async (t) => {
    const { there, homes, time, clock, lookups, rounds, ended } = world()
    const blobs = new MemoryBlobStore({ clock })
    const collector = new Collector({
      ...plainCollector,
      blobs,
      referenced: (some) => referencedOf(lookups, some),
      accounts: { confirmedMs: () => rounds.confirmedMs(), wanted() {} },
      distrust: () => undefined,
      graceMs: 1_000,
      everyMs: 3_600_000,
      clock,
      log: pino({ level: 'silent' }),
    })
    const theirs = await put(blobs, Buffer.from('an account that was moved uses it'), { pinMs: 0 })
    const nobodys = await put(blobs, Buffer.from('not in use'), { pinMs: 0 })
    const minute = () => {
      time.ms += 60_000
    }
    minute()
    await ended('eu-par', time.ms)
    await ended('ap-tyo', time.ms)
    await t.rejects(collector.collect(), { message: 'away' }, 'it is lost')

    homes.set('na-nyc', { serving: 'ap-tyo', term: 2 })
    minute()
    await t.rejects(
      collector.collect(),
      { message: 'away' },
      'its accounts have moved, and reported nothing yet',
    )
    t.equal(await rounds.confirmedMs(), undefined)

    // The new owner restores the reference where it serves, before the round ends.
    await there.write([{ put: `${referencesOf(theirs)}account`, value: Buffer.alloc(0) }])
    await ended('ap-tyo', time.ms)
    minute()
    t.match(await collector.collect(), { deleted: 0, waiting: 1 })
    minute()
    t.match(await collector.collect(), { deleted: 0, unconfirmed: 1 }, 'no round began since')
    await ended('eu-par', time.ms)
    await ended('ap-tyo', time.ms)
    minute()
    t.match(await collector.collect(), { deleted: 1 })
    t.ok(await blobs.stat(theirs))
    t.equal(await blobs.stat(nobodys), undefined)
    t.equal(collector.paused, undefined)

    homes.set('na-nyc', { serving: 'na-nyc', term: 3 })
    minute()
    await t.rejects(collector.collect(), { message: 'away' }, 'it serves again, and must be asked')
  },
)

t.test('a round counts from the earliest region on, less the possible difference of clocks', async (t) => {
  const { rounds, time, ended } = world()
  await ended('eu-par', time.ms + 9_000)
  await ended('na-nyc', time.ms + 7_000)
  t.equal(await rounds.confirmedMs(), undefined)
  await ended('ap-tyo', time.ms + 8_000)
  t.equal(await rounds.confirmedMs(), undefined, 'a read result is valid for some seconds')
  time.ms += 60_000
  t.equal(await rounds.confirmedMs(), time.ms - 60_000 + 7_000 - 5_000)
})

t.test('accounts of several regions are listed one region after the other, from any cursor on', async (t) => {
  const stores = new Map<RegionCode, JournalAccounts>()
  const all: string[] = []
  for (const region of regions) {
    const journals = new MemoryJournalStore()
    for (const name of ['a', 'b', 'c']) {
      await journals.acquire(`${region}/${name}`, { owner: 'one' })
      all.push(`${region}/${name}`)
    }
    stores.set(region, journals)
  }
  const listed = await Array.fromAsync(accountsOf(stores, undefined))
  t.same(listed.map(({ account }) => account).sort(), all.sort())
  for (const [at, { place }] of listed.entries())
    t.same(await Array.fromAsync(accountsOf(stores, place)), listed.slice(at + 1))
})

t.test('for a node whose clock is far off no round counts', async (t) => {
  const { homes, time, rounds, ended, self } = world()
  homes.set('na-nyc', { serving: 'ap-tyo', term: 2 })
  await ended('eu-par', time.ms)
  await ended('ap-tyo', time.ms)
  self.clockIsOff = true
  t.equal(await rounds.confirmedMs(), undefined)
  self.clockIsOff = false
  t.equal(await rounds.confirmedMs(), time.ms - 5_000)
})

/**
 * Wake rows by hour: none is lost, whichever process closes an hour, and none is read before its
 * time or after it.
 */

import { MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { LevelMetadataStore } from '@holdfast/journal-level'
import { testMetadataStore } from '@holdfast/journal-level/testing'
import t from 'tap'
import { hourOf, WakeHours } from '../src/lookups/wake-hours.ts'
import { wakeRowsOfBeginnings } from './beginnings.ts'

const at = { home: 'home', account: '11111111-1111-4111-8111-111111111111' }
const start = 1_000_000 * 3600

function world() {
  const medium = new MemoryMedium({ ordered: false, exclusive: false })
  const lookups = new MemoryLookupStore(medium)
  const host = (clock: { seconds: number }, buckets = 4) =>
    new WakeHours(lookups, { buckets, nowSeconds: () => clock.seconds })
  const put = async (hours: WakeHours, due: number, account = at.account) => {
    for (;;) {
      const key = hours.keyFor({ ...at, account }, due)
      await lookups.write([{ put: key, value: Buffer.from(String(due)) }], 1n << 56n)
      if (await hours.holds(key)) return key
    }
  }
  const found = async (hours: WakeHours, seconds: number) =>
    (await Array.fromAsync(hours.rows('home', hourOf(seconds)))).map(({ account, due }) => [account, due])
  return { medium, lookups, host, put, found }
}

t.test('a row is found from its hour on, and survives the close of hours', async (t) => {
  const { host, put, found, lookups } = world()
  const clock = { seconds: start }
  const hours = host(clock)
  const centuries = start + 300 * 365 * 24 * 3600
  await put(hours, centuries, 'later')
  await put(hours, start + 7300)
  t.same(await found(hours, start), [])
  t.same(await found(hours, start + 7200), [[at.account, start + 7300]])
  for (let hour = 1; hour <= 30; hour++) {
    clock.seconds = start + hour * 3600
    await hours.close('home')
    if (hour >= 2) t.same(await found(hours, clock.seconds), [[at.account, start + 7300]], `in hour ${hour}`)
  }
  clock.seconds = centuries
  // No process ran for 300 years: nothing was closed in between.
  const late = host(clock, 4)
  t.ok((await found(late, start + 40 * 3600)).length >= 1)
  t.equal(
    String(
      (await lookups.get('hours/home/0/done')) ??
        (await lookups.get('hours/home/1/done')) ??
        (await lookups.get('hours/home/2/done')) ??
        (await lookups.get('hours/home/3/done')),
    ) > '0',
    true,
  )
})

t.test('an hour that was done is not read again', async (t) => {
  const { host, put, medium } = world()
  const clock = { seconds: start }
  const hours = host(clock, 1)
  await put(hours, start + 10)
  clock.seconds = start + 100 * 3600
  await hours.close('home')
  const before = medium.operations
  await Array.fromAsync(hours.rows('home', hourOf(clock.seconds)))
  // The cursors, and the places of two hours, of which one has the row that was moved.
  t.ok(medium.operations - before <= 5, `${medium.operations - before} operations`)
})

t.test('a row that is put while its hour closes is put again', async (t) => {
  const { host, put, found, medium } = world()
  const clock = { seconds: start }
  const slow = host({ seconds: start })
  await put(slow, start + 5, '22222222-2222-4222-8222-222222222222')
  await put(slow, start + 5)
  for (const point of ['before', 'after'] as const) {
    const due = clock.seconds + 20
    const paused = host({ seconds: clock.seconds })
    const held = medium.hold('lookup.write', { at: point, target: (key) => key.startsWith('wake/') })
    const putting = put(paused, due)
    await held.reached
    clock.seconds += 5 * 3600
    const other = host(clock)
    await other.close('home')
    held.release()
    await putting
    t.ok(
      (await found(other, clock.seconds)).some(([, seconds]) => seconds === due),
      point,
    )
  }
})

t.test('wrong clocks make rows late, and lose none', async (t) => {
  const { host, put, found } = world()
  const ahead = host({ seconds: start + 1000 * 3600 })
  const right = { seconds: start }
  const hours = host(right)
  const behind = host({ seconds: start - 1000 * 3600 })
  await put(hours, start + 3600)
  await ahead.close('home')
  await put(behind, start + 60, at.account.replaceAll('1', '2'))
  await put(hours, start + 90, at.account.replaceAll('1', '3'))
  await behind.close('home')
  await hours.close('home')
  const dues = (await found(hours, start + 3600)).map(([, due]) => due)
  t.ok(dues.includes(start + 3600), 'put on by the one that is ahead')
})

for (const apart of [72, -72, 365 * 24, -365 * 24])
  for (const where of ['first', 'open'])
    for (const point of ['before', 'after'] as const)
      t.test(`two hosts begin at once, ${apart} h apart, paused ${point} ${where}`, async (t) => {
        const { host, put, found, medium } = world()
        const one = host({ seconds: start }, 1)
        const other = host({ seconds: start + apart * 3600 }, 1)
        const held = medium.hold('lookup.write', { at: point, target: (key) => key.endsWith(`/${where}`) })
        const putting = put(one, start + 5)
        await held.reached
        await put(other, start + apart * 3600 + 5, 'other')
        await other.close('home')
        held.release()
        await putting
        const rows = await found(host({ seconds: start }, 1), start + Math.max(0, apart) * 3600)
        t.strictSame([...new Set(rows.map(([account]) => account))].sort(), [at.account, 'other'])
      })

t.test('a host that dies while it begins hides no row', async (t) => {
  for (const apart of [72, -72])
    for (const point of ['before', 'after'] as const) {
      const { host, put, found, medium, lookups } = world()
      const clock = { seconds: start }
      const dead = host({ seconds: start + apart * 3600 }, 1)
      const held = medium.hold('lookup.write', { at: point, target: (key) => key.endsWith('/first') })
      void put(dead, start + apart * 3600, 'dead')
      await held.reached
      t.equal(await lookups.get('hours/home/0/open'), undefined)
      await put(host(clock, 1), start + 5)
      const rows = await found(host(clock, 1), start)
      t.ok(
        rows.some(([account]) => account === at.account),
        `${apart} h, ${point}`,
      )
    }
})

t.test('two hosts begin, with each of their operations last, before hours are closed', async (t) => {
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path: t.testdir() })
  t.teardown(() => store.close())
  await wakeRowsOfBeginnings(t, store.lookups, { hours: 72 })
})

t.test('hours are closed by a host that reads the rows of a bucket one after the other', async (t) => {
  const { host, put, found, medium, lookups } = world()
  const ahead = medium.hold('lookup.write', { target: (key) => key.endsWith('/open') })
  const beginning = put(host({ seconds: start + 72 * 3600 }, 1), start + 72 * 3600, 'ahead')
  await ahead.reached
  const [paused, reading] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const torn = Object.assign(Object.create(lookups) as typeof lookups, {
    async *scan(prefix: string) {
      const early = await Array.fromAsync(lookups.scan(prefix))
      reading.resolve()
      await paused.promise
      yield* early
      for await (const row of lookups.scan(prefix)) if (early.every(({ key }) => key !== row.key)) yield row
    },
    write: lookups.write.bind(lookups),
    get: lookups.get.bind(lookups),
    firstOf: lookups.firstOf.bind(lookups),
  })
  const closing = new WakeHours(torn, { buckets: 1, nowSeconds: () => start + 100 * 3600 }).close('home')
  await reading.promise
  await put(host({ seconds: start }, 1), start + 5)
  ahead.release()
  await beginning
  paused.resolve()
  await closing
  const rows = await found(host({ seconds: start }, 1), start + 100 * 3600)
  t.strictSame([...new Set(rows.map(([account]) => account))].sort(), [at.account, 'ahead'])
})

t.test('hours without rows are read once, however far apart the clocks were', async (t) => {
  const { host, put, medium, found } = world()
  const year = 365 * 24 * 3600
  const held = medium.hold('lookup.write', { target: (key) => key.endsWith('/first') })
  const putting = put(host({ seconds: start }, 1), start + 60)
  await held.reached
  await put(host({ seconds: start + year }, 1), start + 60, 'ahead')
  held.release()
  await putting
  const hours = host({ seconds: start }, 1)
  await hours.close('home')
  const before = medium.operations
  t.ok((await found(hours, start)).length >= 2)
  t.ok(medium.operations - before <= 3, `${medium.operations - before} operations`)
})

t.test('a clock of 1970 begins no hours before those of the first release', async (t) => {
  const { host, put, found, lookups } = world()
  const early = { seconds: 0 }
  const due = Date.UTC(2026, 5) / 1_000
  await put(host(early), due)
  const first = hourOf(Date.UTC(2026, 0) / 1_000)
  const begun = await Array.fromAsync(lookups.scan('hours/'))
  t.strictSame(new Set(begun.map(({ value }) => Number(Buffer.from(value)))), new Set([first]))
  t.same(await found(host({ seconds: due }), due), [[at.account, due]])
})

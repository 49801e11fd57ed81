/**
 * A region of any size is taken over in portions, and the next call continues an interrupted one.
 */
import { MemoryBus } from '@holdfast/bus'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import t from 'tap'
import { portionOf, takenOver } from '../src/regions/evacuation.ts'

const changedMs = Date.UTC(2030, 0, 1)

/**
 * Accounts 1 … count after a cursor; each takes a second, every tenth lost a row, the 15th cannot
 * be opened.
 */
function region(count: number) {
  const time = { ms: 0 }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  async function* accounts(after: string | undefined) {
    for (let at = Number(after ?? 0) + 1; at <= count; at++) {
      time.ms += 1_000
      const [account, place] = [`a${at}`, String(at)]
      if (at === 15) yield { account, place, fault: new Error('a page did not arrive') }
      else yield { account, place, cut: 5, known: at % 10 === 0 ? 6 : 5, changedMs: changedMs + at }
    }
  }
  const bus = new MemoryBus()
  const lookups = new MemoryLookupStore()
  const asked: (string | undefined)[] = []
  let breaks = (_question: number) => false
  bus.serve('takeover.eu-par', async (message) => {
    const { after } = JSON.parse(Buffer.from(message).toString()) as { after?: string }
    asked.push(after)
    if (breaks(asked.length)) return Buffer.from(JSON.stringify({ fault: 'the host went' }))
    return Buffer.from(JSON.stringify(await portionOf(accounts(after), { clock, ms: 15_000, after })))
  })
  const home = { birth: 'na-nyc' as const, serving: 'eu-par' as const, term: 2 }
  const take = () => takenOver({ bus, clock, lookups } as unknown as Parameters<typeof takenOver>[0], home, 1)
  const breakAt = (which: typeof breaks) => {
    breaks = which
  }
  return { bus, lookups, asked, take, breakAt }
}

t.test('a small region in one call', async (t) => {
  const { bus, take, lookups } = region(14)
  t.teardown(() => bus.close())
  t.strictSame(await take(), {
    accounts: 14,
    lostRows: 1,
    cutShort: [{ account: 'a10', cut: 5, known: 6 }],
    failures: [],
    newestChange: '2030-01-01T00:00:00.014Z',
    complete: true,
  })
  t.equal(await lookups.get('takeover/na-nyc/2'), undefined)
})

t.test('a large one in several calls, which add up', async (t) => {
  const { bus, take, asked } = region(1_000)
  t.teardown(() => bus.close())
  const first = await take()
  t.match(first, { accounts: 59, complete: false }, 'a minute, and one that failed')
  t.match(await take(), { accounts: 119, complete: false })
  let all = await take()
  while (!all.complete) all = await take()
  t.match(all, { accounts: 999, lostRows: 100, complete: true, newestChange: '2030-01-01T00:00:01.000Z' })
  t.strictSame(all.failures, [{ account: 'a15', fault: 'a page did not arrive' }])
  t.equal(new Set(asked).size, asked.length, 'nothing twice')
  t.match(await take(), { complete: false }, 'repeated afterwards it visits all of them again')
})

t.test('an interrupted pass continues where it was', async (t) => {
  const { bus, take, asked, breakAt } = region(100)
  t.teardown(() => bus.close())
  breakAt((question) => question >= 4 && question <= 6)
  await t.rejects(take(), /the host went/)
  t.match(await take(), { accounts: 99, complete: true })
  t.strictSame(asked, [undefined, '15', '30', '45', '45', '45', '45', '60', '75', '90'])
})

t.test('a call survives a host that goes', async (t) => {
  const { bus, take, asked, breakAt } = region(50)
  t.teardown(() => bus.close())
  breakAt((question) => [1, 3, 5].includes(question))
  t.match(await take(), { accounts: 49, complete: true })
  t.strictSame(asked, [undefined, undefined, '15', '15', '30', '30', '45'])
})

t.test('a portion ends in time where there is nothing to move', async (t) => {
  const time = { ms: 0 }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  async function* gaps(after: string | undefined) {
    for (let at = Number(after ?? 0); at < 100; at++) {
      time.ms += 1_000
      yield { place: String(at) }
    }
  }
  const first = await portionOf(gaps(undefined), { clock, ms: 15_000, after: undefined })
  t.match(first, { taken: { accounts: 0 }, next: '14' })
  t.match(await portionOf(gaps('14'), { clock, ms: 15_000, after: '14' }), { next: '28' })
  const slow = await portionOf(gaps('28'), { clock, ms: 1_000, after: '28' })
  t.equal(slow.next, '29', 'it never ends where it began')
})

import { MemoryLookupStore } from '@holdfast/journal/testing'
import { dayMs } from '@holdfast/kernel'
import t from 'tap'
import { OperatorActs, Reports } from '../src/index.ts'

const asked = { by: 'ann', reason: 'a mail' }
const report = {
  content: 'one',
  account: 'bob',
  category: 'other',
  text: 'bad',
  contact: '',
  address: '::1',
} as const

function start() {
  const lookups = new MemoryLookupStore()
  const time = { ms: 1_700_000_000_000 }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  const acts = new OperatorActs({ lookups, clock })
  const networkOf = (address: string) => address.split(':', 1)[0] as string
  return { lookups, time, acts, reports: new Reports({ lookups, clock, acts, networkOf }) }
}

t.test('a report waits, is decided, and can be decided again; each decision is an act', async (t) => {
  const { reports, acts, time } = start()
  const first = await reports.add(report)
  time.ms += 1_000
  const second = await reports.add({ ...report, content: 'two' })
  const ids = async (state: 'new' | 'accepted' | 'rejected') =>
    (await reports.page(state)).reports.map(({ id }) => id)
  t.same(await ids('new'), [second.id, first.id], 'the newest first')
  const decided = await reports.decide(first.id, 'accepted', asked)
  t.match((await acts.page()).acts, [
    { id: decided.act, kind: 'accept', by: 'ann', what: /content one of account bob/ },
  ])
  t.same([await ids('new'), await ids('accepted')], [[second.id], [first.id]])
  await reports.decide(first.id, 'rejected', asked)
  t.same([await ids('accepted'), await ids('rejected')], [[], [first.id]])
  t.match(await reports.get(first.id), { state: 'rejected', content: 'one' })
  t.notOk((await reports.get(first.id)).takedown, 'nothing was taken down')
  await reports.decide(first.id, 'accepted', asked, ['a', 'b'])
  await reports.decide(first.id, 'accepted', asked, ['c'])
  await reports.decide(first.id, 'rejected', asked)
  t.same((await reports.get(first.id)).takedown, ['a', 'b', 'c'], 'a rejection undoes nothing')
  await reports.took(second.id, ['d'])
  t.match(await reports.get(second.id), { state: 'new', act: '', takedown: ['d'] })
  t.same((await reports.decide(second.id, 'rejected', asked)).takedown, ['d'], 'of an accept that failed')
  await t.rejects(reports.get('nothing'), { code: 'NOT_FOUND' })
  await t.rejects(reports.decide(`${'0'.repeat(13)}-${'0'.repeat(16)}`, 'accepted', asked), {
    code: 'NOT_FOUND',
  })
  const page = await reports.page('new', { limit: 1 })
  t.equal(page.next, undefined)
})

t.test('the queue has a bound, and closed reports are removed after 180 days', async (t) => {
  const { reports, time, lookups } = start()
  const old = await reports.add(report)
  await reports.decide(old.id, 'rejected', asked)
  const rows = Array.from({ length: 5_000 }, (_, at) => ({
    put: `reports/new/${String(at).padStart(13, '0')}-${'0'.repeat(16)}`,
    value: Buffer.from(
      JSON.stringify({ ...report, content: `${at}`, account: `${at % 100}`, address: `${at % 50}::1` }),
    ),
  }))
  await lookups.write(rows)
  time.ms += 181 * dayMs
  await t.rejects(reports.add(report), { code: 'FULL' })
  await lookups.write(rows.slice(0, 2).map(({ put }) => ({ delete: put })))
  time.ms += 11_000
  const fresh = await reports.add(report)
  t.same(reports.counts, { added: 2, repeated: 0, full: 1 })
  t.match(await reports.get(old.id), { state: 'rejected' })
  await reports.decide(fresh.id, 'rejected', asked)
  await t.rejects(reports.get(old.id), { code: 'NOT_FOUND' })
  t.match(await reports.get(fresh.id), { state: 'rejected' })
})

t.test('repeated reports fill a part of the queue, not all of it', async (t) => {
  const { reports, time } = start()
  const taken = async (changes: (at: number) => object, count: number) => {
    const added = await Promise.allSettled(
      Array.from({ length: count }, (_, at) => reports.add({ ...report, ...changes(at) })),
    )
    time.ms += 11_000
    return added.filter(({ status }) => status === 'fulfilled').length
  }
  const far = (at: number) => ({ address: `${at}::1` })
  t.equal(await taken((at) => far(at), 300), 20, 'of one content')
  t.equal(await taken((at) => ({ ...far(at), content: `of bob ${at}` }), 300), 230, 'of one account')
  const others = (at: number) => ({ content: `other ${at}`, account: `other ${at}`, address: 'near::1' })
  t.equal(await taken(others, 600), 500, 'from one network')
  t.equal(await taken(() => ({ content: 'new', account: 'new', address: 'new::1' }), 1), 1, 'anybody else')
  t.equal((await reports.page('new', { limit: 5_000 })).reports.length, 751)
  t.same(reports.counts, { added: 751, repeated: 450, full: 0 })
})

t.test('concurrent reports do not pass the bounds', async (t) => {
  const { reports } = start()
  const added = await Promise.allSettled(Array.from({ length: 30 }, () => reports.add(report)))
  t.equal(added.filter(({ status }) => status === 'fulfilled').length, 20)
})

t.test('a count knows of reports that are not written yet', async (t) => {
  const { reports, lookups, time } = start()
  const write = lookups.write.bind(lookups)
  const held = Promise.withResolvers<void>()
  lookups.write = async (...words) => {
    await held.promise
    await write(...words)
  }
  const first = Array.from({ length: 20 }, () => reports.add(report))
  await new Promise(setImmediate)
  time.ms += 11_000
  await t.rejects(reports.add(report), { code: 'FULL' })
  held.resolve()
  await Promise.all(first)
})

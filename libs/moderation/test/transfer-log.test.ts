import { MemoryLookupStore } from '@holdfast/journal/testing'
import { dayMs } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { type Transfer, TransferLog, type TransferLogOptions, type TransferQuestion } from '../src/index.ts'

const any: TransferQuestion = {
  address: undefined,
  account: undefined,
  content: undefined,
  name: undefined,
  hash: undefined,
}

function start(_: Test, options: Partial<TransferLogOptions> = {}) {
  const lookups = new MemoryLookupStore()
  const time = { ms: 1_700_000_000_000 }
  const faults: unknown[] = []
  const waiting: (() => void)[] = []
  const open = (more: Partial<TransferLogOptions> = {}) =>
    new TransferLog({
      lookups,
      clock: { now: () => time.ms, monotonic: () => time.ms },
      timers: {
        after: (_ms, run) => {
          waiting.push(run)
          return () => waiting.splice(waiting.indexOf(run), 1)
        },
      },
      days: { upload: 7, download: 0 },
      rowsPerHourMax: 1_000,
      networkOf: (address) => address,
      isClockOff: () => false,
      onFault: (error) => faults.push(error),
      ...options,
      ...more,
    })
  return { lookups, time, faults, waiting, open, log: open() }
}

const transfer = (more: Partial<Transfer> = {}): Transfer => ({
  kind: 'upload',
  address: '192.0.2.7',
  account: 'ann',
  content: 'one',
  name: 'Holiday.zip',
  size: 5,
  blob: Buffer.concat([Buffer.alloc(16, 1), Buffer.alloc(32, 2)]),
  ...more,
})

t.test('what was uploaded is found by each of its attributes, the newest first', async (t) => {
  const { log, time } = start(t)
  log.note(transfer())
  time.ms += 2 * 3_600_000
  log.note(transfer({ account: 'bob', content: 'two', name: 'ÉTÉ.txt', address: '2001:db8::7' }))
  const found = async (question: Partial<TransferQuestion>) =>
    (await log.find('upload', { ...any, ...question })).rows.map(({ content }) => content)
  t.same(await found({}), ['two', 'one'])
  t.same(await found({ address: '192.0.2.0/24' }), ['one'])
  t.same(await found({ address: '2001:db8::7' }), ['two'])
  t.same(await found({ account: 'ann' }), ['one'])
  t.same(await found({ content: 'two' }), ['two'])
  t.same(await found({ name: 'été' }), ['two'])
  t.same(await found({ hash: '01'.repeat(16) }), ['two', 'one'])
  t.same(await found({ hash: '02'.repeat(32), account: 'bob' }), ['two'])
  t.same(await found({ hash: '03'.repeat(32) }), [])
  t.match((await log.find('upload', any)).rows[1], {
    time: 1_700_000_000,
    address: '192.0.2.7',
    name: 'Holiday.zip',
    size: 5,
    md5: '01'.repeat(16),
  })
  t.same((await log.find('download', any)).rows, [], 'downloads are kept only when asked for')
})

t.test('a search is done in pages, which repeat and skip nothing', async (t) => {
  const { log, time } = start(t)
  for (let number = 0; number < 7; number++) {
    log.note(transfer({ content: String(number) }))
    time.ms += 40 * 60_000
  }
  const seen: string[] = []
  for (let after: string | undefined; ; ) {
    const page = await log.find('upload', any, { after, limit: 2 })
    seen.push(...page.rows.map(({ content }) => content))
    after = page.next
    if (after === undefined) break
  }
  t.same(seen, ['6', '5', '4', '3', '2', '1', '0'])
  t.same((await log.find('upload', any, { after: 'nonsense' })).rows.length, 7)
})

t.test('rows of a second share rows of the store, and a page may end between them', async (t) => {
  const { log, lookups, time, open } = start(t, { days: { upload: 7, download: 7 } })
  for (let number = 0; number < 40; number++) {
    const kind = number % 4 === 3 ? 'download' : 'upload'
    // 255 characters of three bytes, or six in JSON
    log.note(
      transfer({ kind, content: String(number), name: (number % 2 === 0 ? 'あ' : '\u0001').repeat(300) }),
    )
    time.ms += 7
  }
  await log.flush()
  let stored = 0
  for await (const { value } of lookups.scan('uploads/')) {
    t.ok(value.length <= 4_096)
    stored++
  }
  t.ok(stored > 1 && stored <= 15, `${stored} rows of the store for 30 uploads`)
  const uploads = Array.from({ length: 40 }, (_, at) => 39 - at).filter((number) => number % 4 !== 3)
  for (const limit of [1, 2, 3, 7, 30]) {
    const seen: string[] = []
    let pages = 0
    for (let after: string | undefined; pages === 0 || after !== undefined; pages++) {
      const page = await open({ days: { upload: 7, download: 7 } }).find('upload', any, { after, limit })
      t.ok(page.rows.length <= limit)
      seen.push(...page.rows.map(({ content }) => content))
      after = page.next
    }
    t.same(seen, uploads.map(String), `${limit} a page`)
  }
  const alone = {
    time: 1,
    address: '::1',
    account: 'ann',
    content: 'alone',
    name: 'a',
    size: 1,
    md5: null,
    blake3: null,
  }
  const hour = String(Math.floor(time.ms / 3_600_000)).padStart(8, '0')
  await lookups.write([{ put: `uploads/${hour}/9`, value: Buffer.from(JSON.stringify(alone)) }])
  t.same((await log.find('upload', any)).rows.at(-1), alone, 'as an earlier release wrote it')
  const first = await log.find('upload', any, { limit: 1 })
  for await (const { key } of lookups.scan('uploads/')) await lookups.write([{ delete: key }])
  t.same(
    await log.find('upload', any, { after: first.next }),
    { rows: [], next: undefined },
    'its rows are gone',
  )
})

t.test('a write that was done and reported as failed leaves no row twice', async (t) => {
  const { log, lookups, waiting, faults, time } = start(t)
  const write = lookups.write.bind(lookups)
  lookups.write = async (...words) => {
    await write(...words)
    throw new Error('no answer came')
  }
  for (let number = 0; number < 30; number++) log.note(transfer({ content: String(number) }))
  waiting.shift()?.()
  await log.flush()
  t.match(faults, [/no answer/])
  lookups.write = write
  for (let number = 30; number < 45; number++) {
    time.ms += 1
    log.note(transfer({ content: String(number) }))
  }
  const { rows } = await log.find('upload', any)
  t.same(
    rows.map(({ content }) => Number(content)).sort((a, b) => a - b),
    [...Array(45).keys()],
  )
})

t.test('rows that come during a write wait for the next one', async (t) => {
  const { lookups, waiting, log } = start(t)
  const writes: number[] = []
  const write = lookups.write.bind(lookups)
  lookups.write = async (changes, writeTime) => {
    writes.push(changes.length)
    if (writes.length < 50) log.note(transfer())
    await write(changes, writeTime)
  }
  log.note(transfer())
  log.note(transfer())
  waiting.shift()?.()
  await log.flush()
  t.strictSame(writes, [1, 1], 'two share a row')
  t.equal(waiting.length, 1, 'what came meanwhile is written a second later')
})

t.test('rows are removed when they are older than they are kept, also after a time off', async (t) => {
  const { log, open, time, lookups, faults } = start(t)
  const rows = async () => {
    let count = 0
    for await (const _ of lookups.scan('uploads/')) count++
    return count
  }
  log.note(transfer())
  await log.flush()
  time.ms += 6 * dayMs
  log.note(transfer())
  await log.flush()
  await log.sweep()
  t.equal(await rows(), 2)
  time.ms += 2 * dayMs
  await log.sweep()
  t.equal(await rows(), 1)
  time.ms += 200 * dayMs
  let isOff = true
  const later = open({ isClockOff: () => isOff })
  await later.sweep()
  t.equal(await rows(), 1, 'a wrong clock removes nothing')
  isOff = false
  await later.sweep()
  t.same(faults, [])
  t.equal(await rows(), 0)
  const none = open({ days: { upload: 0, download: 0 } })
  log.note(transfer())
  await log.flush()
  t.equal(await rows(), 1)
  none.note(transfer())
  await none.sweep()
  t.equal(await rows(), 0, 'with 0 days nothing is kept')
})

t.test('a network that uploads a lot leaves rows for others', async (t) => {
  const { log } = start(t)
  for (let number = 0; number < 2_000; number++) log.note(transfer())
  t.same(log.counts('upload'), { written: 750, lost: 1_250 })
  for (let number = 0; number < 101; number++) log.note(transfer({ address: '198.51.100.1' }))
  t.same(log.counts('upload'), { written: 850, lost: 1_251 })
})

t.test('an hour has a bound, and a store that fails loses nothing that fits', async (t) => {
  const { log, time, faults, lookups, waiting } = start(t, { rowsPerHourMax: 3 })
  for (let number = 0; number < 5; number++) log.note(transfer())
  t.same(log.counts('upload'), { written: 3, lost: 2 })
  t.equal(waiting.length, 1, 'one timer for all of them')
  const write = lookups.write.bind(lookups)
  lookups.write = async () => {
    throw new Error('the disk is full')
  }
  waiting.shift()?.()
  await log.flush()
  t.match(faults, [/full/])
  lookups.write = write
  t.equal((await log.find('upload', any)).rows.length, 3)
  time.ms += 3_600_000
  log.note(transfer())
  t.same(log.counts('upload'), { written: 4, lost: 2 }, 'the next hour has its own')
  await log.close()
  log.note(transfer())
  t.equal(log.counts('upload').written, 4)
})

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JournalFault } from '@holdfast/journal'
import { Level } from 'level'
import t, { type Test } from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import { LevelLookups } from '../src/level-lookups.ts'
import { Rows } from '../src/opening/rows.ts'
import { encodeSmall, keys } from '../src/rows/format.ts'
import { LostRanges } from '../src/rows/lost-ranges.ts'
import { testMetadataStore } from '../src/testing.ts'
import { Suspicions } from '../src/writing/commit-audit.ts'
import { GroupWriter, groupBytesMax, queuedBytesMax, type RowChange } from '../src/writing/group-writer.ts'
import { UncommittedRows } from '../src/writing/uncommitted-rows.ts'
import { directory } from './directories.ts'

const owner = 'host'
const bytes = (text: string) => Buffer.from(text)

async function rejected(t: Test, work: Promise<unknown>, code: string): Promise<void> {
  await t.rejects(
    work.then(() => {}),
    { code },
  )
}

/** A store whose batches a test releases one by one, once it began to hold them. */
async function gated(t: Test) {
  const path = await directory(t)
  const batches: { changes: RowChange[]; pass: () => void; fail: (error: Error) => void }[] = []
  const failures: JournalFault[] = []
  const gate = { closed: false, arrived: Promise.withResolvers<void>() }
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onFailure: (fault) => failures.push(fault),
    commit: async (changes, commit) => {
      const verdict = Promise.withResolvers<void>()
      if (!gate.closed) verdict.resolve()
      batches.push({ changes, pass: verdict.resolve, fail: verdict.reject })
      gate.arrived.resolve()
      gate.arrived = Promise.withResolvers<void>()
      await verdict.promise
      await commit()
    },
  })
  t.teardown(() => store.close())
  return { path, store, batches, gate, failures }
}

t.test(
  'writes that gather while a batch is in flight go with the next one, in the order of issue',
  async (t) => {
    const { store, batches, gate } = await gated(t)
    const accounts = Array.from({ length: 20 }, (_, at) => `account-${at}`)
    const ownerships = await Promise.all(
      accounts.map((account) => store.journals.acquire(account, { owner })),
    )
    gate.closed = true
    const { promise: arrived } = gate.arrived
    const first = store.lookups.write([{ put: 'first', value: bytes('1') }])
    await arrived
    const before = batches.length
    const work: Promise<unknown>[] = [
      ...ownerships.map((ownership) => store.journals.append(ownership, bytes('row'))),
      store.lookups.write([{ put: 'key', value: bytes('1') }]),
    ]
    await store.lookups.get('first')
    gate.closed = false
    batches.at(-1)?.pass()
    await Promise.all([first, ...work])
    t.equal(batches.length, before + 1, 'all of it is one batch')
    const order = (batches.at(-1)?.changes ?? []).map(({ key }) => Buffer.from(key).toString('latin1'))
    const rows = accounts.flatMap((account) => [`j${account}\0e\0\0\0\0\0\x01`, `j${account}\0s`])
    t.same(order.slice(0, -1), [...rows, 'lkey'])
  },
)

t.test('batches are bounded by bytes, one larger change goes alone', async (t) => {
  const sizes: number[] = []
  const writer = new GroupWriter(
    {
      commit: async (changes) => void sizes.push(changes.length - 1),
      seal: () => ({ type: 'del', key: Buffer.alloc(1) }),
      audit: async () => {},
      onFailure: () => t.fail('nothing fails'),
    },
    { nextBatch: 1 },
  )
  const put = (length: number): RowChange[] => [{ type: 'put', key: bytes('k'), value: Buffer.alloc(length) }]
  const third = Math.floor(groupBytesMax / 3)
  await Promise.all([third, third, third, 2 * groupBytesMax, 1, 1].map((length) => writer.write(put(length))))
  t.same(sizes, [2, 1, 1, 2])
})

t.test('a full queue refuses writes, and accepts again when it is written', async (t) => {
  const writer = new GroupWriter(
    {
      commit: async () => {},
      seal: () => ({ type: 'del', key: Buffer.alloc(1) }),
      audit: async () => {},
      onFailure: () => t.fail('nothing fails'),
    },
    { nextBatch: 1 },
  )
  const value = Buffer.alloc(groupBytesMax)
  const queued: Promise<void>[] = []
  for (let bytes = 0; bytes < queuedBytesMax; bytes += value.length) {
    queued.push(writer.write([{ type: 'put', key: Buffer.alloc(1), value }]))
  }
  await t.rejects(writer.write([{ type: 'del', key: Buffer.alloc(1) }]), { code: 'UNAVAILABLE' })
  await Promise.all(queued)
  await writer.write([{ type: 'del', key: Buffer.alloc(1) }])
})

t.test('after a failed batch nothing is written any more, and no caller gets a guess', async (t) => {
  const { path, store, batches, gate, failures } = await gated(t)
  const { journals, lookups } = store
  const ownership = await journals.acquire('one', { owner })
  const other = await journals.acquire('two', { owner })
  await journals.append(ownership, bytes('row 1'))
  gate.closed = true
  const { promise: arrived } = gate.arrived
  const inFlight = journals.append(ownership, bytes('row 2'))
  await arrived
  const behind: Promise<unknown>[] = [
    journals.append(other, bytes('row 1')),
    lookups.take('codes', 1),
    journals.head('one'),
  ]
  await lookups.get('any')
  const refusals = behind.map((work) => rejected(t, work, 'UNAVAILABLE'))
  batches.at(-1)?.fail(new Error('EIO'))
  await t.rejects(inFlight, { code: 'UNKNOWN', category: 'unknown' })
  await Promise.all(refusals)
  const later: (() => Promise<unknown>)[] = [
    () => journals.append(ownership, bytes('row 2')),
    () => journals.acquire('one', { owner }),
    () => journals.head('one'),
    () => journals.setRoot(ownership, { root: bytes('root'), through: 1 }),
    () => journals.putPage('one', 'page', bytes('page')),
    () => lookups.write([{ delete: 'key' }]),
    () => lookups.claim('key', bytes('value')),
    () => lookups.take('codes', 1),
  ]
  for (const work of later) await rejected(t, work(), 'UNAVAILABLE')
  t.equal(batches.length, 4, 'no batch was tried again or after it')
  t.match(failures, [{ code: 'UNAVAILABLE', message: /EIO/ }])
  t.equal(failures.length, 1)
  t.match(store.failure, { code: 'UNAVAILABLE' })
  t.same(
    await Array.fromAsync(journals.rows(ownership, 0), (row) => String(row.bytes)),
    ['row 1'],
    'reads continue',
  )
  await store.close()
  const again = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => again.close())
  const next = await again.journals.acquire('one', { owner })
  t.equal(next.head, 1)
  await again.journals.append(next, bytes('row 2'))
})

t.test('every write to LevelDB is one synced batch', async (t) => {
  const calls: unknown[] = []
  const forbidden = ['put', 'del', 'clear'] as const
  const { batch } = Level.prototype
  t.intercept(Level.prototype, 'batch', {
    value(this: Level, ...given: never[]) {
      t.equal(given.length, 0, 'rows are added one by one')
      const chained = (batch as () => ReturnType<Level['batch']>).apply(this)
      const write = chained.write.bind(chained)
      chained.write = (options: { sync?: boolean | undefined } = {}) => {
        calls.push(options.sync)
        return write({ sync: options.sync === true })
      }
      return chained
    },
  })
  for (const name of forbidden) {
    t.intercept(Level.prototype, name, { value: () => t.fail(`${name} was called`) })
  }
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path: await directory(t) })
  const ownership = await store.journals.acquire('one', { owner })
  await store.journals.append(ownership, bytes('row'))
  await store.journals.putPage('one', 'page', bytes('page'))
  await store.journals.setRoot(ownership, { root: bytes('root'), through: 1 })
  await store.journals.trim(ownership, 1)
  await store.journals.deletePages(ownership, ['page'])
  await store.lookups.write([{ put: 'key', value: bytes('value') }])
  await store.lookups.claim('claim', bytes('value'))
  await store.lookups.take('codes', 1)
  await store.journals.release(ownership)
  await store.close()
  t.equal(calls.length, 2 + 10, 'two at opening, one for each operation')
  t.ok(calls.every((sync) => sync === true))
})

t.test("a directory is held by one store, and the other one's error names the holder", async (t) => {
  const path = await directory(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  const second = LevelMetadataStore.open({ ...testMetadataStore, path })
  await t.rejects(second, { code: 'UNAVAILABLE', message: new RegExp(`process ${process.pid} on `) })
  await store.close()
  const third = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await third.close()
})

t.test('a closed store has written what was queued and refuses everything else', async (t) => {
  const path = await directory(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  const ownership = await store.journals.acquire('one', { owner })
  const last = store.lookups.write([{ put: 'key', value: bytes('value') }])
  await Promise.all([store.close(), last])
  const late: Promise<unknown>[] = [
    store.journals.append(ownership, bytes('row')),
    store.journals.acquire('two', { owner }),
    store.journals.head('one'),
    Array.fromAsync(store.journals.rows({ ...ownership, head: 1 }, 0)),
    store.journals.page('one', 'page'),
    store.lookups.get('key'),
    Array.fromAsync(store.lookups.scan('')),
    store.lookups.write([{ delete: 'key' }]),
  ]
  await Promise.all(late.map((work) => rejected(t, work, 'CLOSED')))
  await store.close()
  const again = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.equal(String(await again.lookups.get('key')), 'value')
  await again.close()
})

t.test('a foreign store, or one of a newer release, is not opened', async (t) => {
  const strange = await directory(t)
  const level = new Level(join(strange, 'rows'))
  await level.put('some', 'row')
  await level.close()
  await t.rejects(LevelMetadataStore.open({ ...testMetadataStore, path: strange }), { code: 'CORRUPT' })
  const file = join(await directory(t), 'file')
  await writeFile(file, '')
  await t.rejects(LevelMetadataStore.open({ ...testMetadataStore, path: file }))
})

t.test('rows in memory are dropped by age, never while a write of theirs is queued', async (t) => {
  const stored = new Map<string, number>()
  const loads: string[] = []
  const cells = new UncommittedRows<number>(
    async (key) => {
      loads.push(key)
      return stored.get(key) ?? 0
    },
    { max: 2 },
  )
  const queued = Promise.withResolvers<void>()
  const { written } = await cells.decide('a', (cell) => ({ written: cell.change(1, queued.promise) }))
  for (const key of ['b', 'c', 'd', 'b']) await cells.decide(key, ({ value }) => t.equal(value, 0))
  t.equal(await cells.decide('a', ({ value }) => value), 1, 'the tentative value, not the stored one')
  stored.set('a', 1)
  queued.resolve()
  await written
  for (const key of ['b', 'c', 'd', 'a']) await cells.decide(key, () => {})
  t.equal(loads.filter((key) => key === 'a').length, 2)
  const both = await Promise.all([1, 2].map(() => cells.decide('e', (cell) => cell)))
  t.equal(both[0], both[1], 'one load, one cell')
})

t.test('more accounts than are kept in memory stay fenced', async (t) => {
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path: await directory(t),
    cachedAccounts: 10,
  })
  const old = await store.journals.acquire('one', { owner })
  const ownership = await store.journals.acquire('one', { owner })
  await store.journals.append(ownership, bytes('row'))
  const others = Array.from({ length: 100 }, (_, at) => `other-${at}`)
  await Promise.all(others.map((account) => store.journals.head(account)))
  await t.rejects(store.journals.append(old, bytes('stale')), { code: 'FENCED' })
  await store.journals.append(ownership, bytes('row'))
  await store.close()
})

t.test('prefixes without rows cost one look at the disk together', async (t) => {
  const rows = await Rows.open(await directory(t))
  t.teardown(() => rows.close())
  const key = keys.lookup('hours/00000500/a')
  await rows.commit([{ type: 'put', key, value: encodeSmall(key, bytes('1')) }])
  let scans = 0
  const counting: Pick<Rows, 'scan'> = {
    scan(range, options) {
      scans++
      return rows.scan(range, options)
    },
  }
  const lookups = new LevelLookups({
    rows: counting as Rows,
    writer: {} as GroupWriter,
    suspicions: new Suspicions(),
    lostRanges: new LostRanges(),
  })
  const prefixes = Array.from({ length: 1000 }, (_, hour) => `hours/${String(999 - hour).padStart(8, '0')}/`)
  const found = await lookups.firstOf(prefixes)
  t.strictSame(
    found.flatMap((row, at) => (row === undefined ? [] : [[at, row.key]])),
    [[499, 'hours/00000500/a']],
  )
  t.equal(scans, 2)
})

/** Entries of another store as rows: they come back, and this store opens them. */

import type { StoredEntry } from '@holdfast/journal'
import { MemoryJournalStore, MemoryLookupStore, MemoryWholeStore } from '@holdfast/journal/testing'
import { hex } from '@holdfast/kernel'
import t from 'tap'
import { LevelMetadataStore, referenceOfRow } from '../src/index.ts'
import { entriesOfRows, rowsOfEntry, rowsOfStore } from '../src/rows/entries-as-rows.ts'
import { testMetadataStore } from '../src/testing.ts'

const bytes = (text: string) => Buffer.from(text)

async function entriesOfTwo(): Promise<StoredEntry[]> {
  const journals = new MemoryJournalStore()
  const lookups = new MemoryLookupStore()
  const one = await journals.acquire('one', { owner: 'host' })
  for (const text of ['first', 'second']) await journals.append(one, bytes(text))
  await journals.putPage('one', 'page/1', bytes('of the root'))
  await journals.setRoot(one, { root: bytes('root'), through: 1 })
  const two = await journals.acquire('two', { owner: 'host' })
  await journals.append(two, bytes('alone'))
  await lookups.write([{ put: 'ref/ab/cd/one', value: bytes('') }])
  await lookups.take('codes/eu-par', 700)
  const whole = new MemoryWholeStore({ journals, lookups })
  const onDamaged = (fault: Error) => {
    throw fault
  }
  return [
    ...(await Array.fromAsync(whole.accounts({ term: 1, onDamaged }))),
    ...(await Array.fromAsync(whole.lookups())),
    ...(await Array.fromAsync(whole.counters())),
  ]
}

async function* asynchronous<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

t.test('entries come back from their rows', async (t) => {
  const entries = await entriesOfTwo()
  const rows = [...rowsOfStore('suite'), ...entries.flatMap(rowsOfEntry)]
  const onDamaged = (fault: Error) => t.fail(fault.message)
  const back = await Array.fromAsync(entriesOfRows(asynchronous(rows), { onDamaged }))
  t.same(back.map(plain), entries.map(plain))
  t.same(
    rows.map(([key]) => referenceOfRow(key)).filter((reference) => reference !== undefined),
    [{ copy: 'ab/cd', account: 'one' }],
  )
})

t.test('a damaged row is reported, and the others are returned', async (t) => {
  const entries = await entriesOfTwo()
  const rows = entries.flatMap(rowsOfEntry)
  const at = rows.findIndex(([, value]) => Buffer.from(value).includes('alone'))
  const [key, value] = rows[at] as [Uint8Array, Uint8Array]
  const damaged = Buffer.from(value)
  damaged[damaged.length - 1] = 0
  rows[at] = [key, damaged]
  const faults: string[] = []
  const onDamaged = ({ message }: Error) => faults.push(message)
  const back = await Array.fromAsync(entriesOfRows(asynchronous(rows), { onDamaged }))
  t.match(faults, [/two: row 1/])
  t.same(
    back.map(plain),
    entries.filter((entry) => !(entry.kind === 'row' && entry.account === 'two')).map(plain),
  )
})

t.test('this store opens them', async (t) => {
  const rows = [...rowsOfStore('suite'), ...(await entriesOfTwo()).flatMap(rowsOfEntry)]
  const path = t.testdir()
  await LevelMetadataStore.restore(path, asynchronous(rows))
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  const one = await store.journals.acquire('one', { owner: 'another' })
  t.match(one, { head: 2, root: bytes('root'), previousOwner: undefined })
  const [row] = await Array.fromAsync(store.journals.rows(one, 1))
  t.same(row && Buffer.from(row.bytes).toString(), 'second')
  t.same(Buffer.from((await store.journals.page('one', 'page/1')) ?? []).toString(), 'of the root')
  t.equal((await store.journals.acquire('two', { owner: 'another' })).head, 1)
  t.ok(await store.lookups.get('ref/ab/cd/one'))
  t.equal(await store.lookups.take('codes/eu-par', 1), 700)
})

/** Bytes as hex. */
function plain(entry: StoredEntry): object {
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]) => [name, value instanceof Uint8Array ? hex(value) : value]),
  )
}

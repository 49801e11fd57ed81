/** What each store that is copied as a whole must do: a suite that depends on no test runner. */
import assert from 'node:assert/strict'
import type { JournalFault } from './errors.ts'
import type { JournalOwnership, JournalStore } from './journal-store.ts'
import type { LookupStore } from './lookup-store.ts'
import {
  type AccountEntry,
  type EntryWriter,
  restoredEpochsAhead,
  type StoredEntry,
  type WholeStore,
} from './whole-store.ts'
import { writeTimeOf } from './write-time.ts'

export interface OpenedWhole {
  journals: JournalStore
  lookups: LookupStore
  whole: WholeStore
  /** Removes a row behind the store's back. */
  loseRow: (account: string, seq: number) => Promise<void>
}

export interface WholeContract<T> {
  test: (name: string, body: (t: T) => Promise<void>) => unknown
  /** An empty store. */
  open: (t: T) => Promise<OpenedWhole>
}

const owner = 'host-1'
const bytes = (text: string) => Buffer.from(text)
const textOf = (stored: Uint8Array | undefined) => stored && Buffer.from(stored).toString()
const account = () => crypto.randomUUID()

export function wholeStoreContract<T>(contract: WholeContract<T>): void {
  testAccounts(contract)
  testWayBack(contract)
  testLookups(contract)
}

function testAccounts<T>({ test, open }: WholeContract<T>): void {
  test('accounts come with their pages and the rows behind their root', async (t) => {
    const { journals, whole } = await open(t)
    const [one, other, empty] = [account(), account(), account()]
    await written(journals, one)
    await journals.append(await journals.acquire(other, { owner }), bytes('alone'))
    await journals.acquire(empty, { owner, unwritten: 'leave' })
    const entries = await entriesOf(whole)
    assert.deepEqual(new Set(entries.map(accountOf)), new Set([one, other]))
    assert.deepEqual(shapeOf(entries, one), {
      head: 3,
      through: 2,
      root: 'page-2',
      rows: ['3=three'],
      pages: ['page-2=of the root', 'page-3=of the row'],
    })
    assert.deepEqual(shapeOf(entries, other), {
      head: 1,
      through: 0,
      root: undefined,
      rows: ['1=alone'],
      pages: [],
    })
    const first = entries.find((entry) => accountOf(entry) === one) as AccountEntry
    assert.deepEqual([first.kind, first.epoch > 0], ['account', true], 'its epoch is known first')
  })

  test('an account that gets a new root while it is read comes as one state', async (t) => {
    const { journals, whole } = await open(t)
    const id = account()
    const ownership = await written(journals, id)
    // What comes first is large: a store that reads ahead has not read the rest.
    for (let at = 0; at < 6; at++) await journals.putPage(id, `large-${at}`, Buffer.alloc(400_000, at))
    const entries: StoredEntry[] = []
    for await (const entry of whole.accounts(asIs())) {
      entries.push(entry)
      if (entries.length > 1) continue
      await journals.putPage(id, 'page-4', bytes('of the next root'))
      await journals.setRoot(ownership, { root: bytes('page-4'), through: 3 })
      await journals.trim(ownership, 3)
      await journals.deletePages(ownership, ['page-2', 'page-3'])
      await journals.append(ownership, bytes('four'))
    }
    const { head, through, root, rows, pages } = shapeOf(entries, id)
    assert.deepEqual(
      rows.map((row) => Number(row.split('=')[0])),
      Array.from({ length: head - through }, (_, at) => through + 1 + at),
      'every row behind its root',
    )
    assert.ok(
      pages.some((page) => page.startsWith(`${root}=`)),
      'the page of its root',
    )
  })

  test('a missing row is reported, and the others are returned', async (t) => {
    const { journals, whole, loseRow } = await open(t)
    const [id, other] = [account(), account()]
    const ownership = await journals.acquire(id, { owner })
    for (const text of ['one', 'two', 'three']) await journals.append(ownership, bytes(text))
    await written(journals, other)
    await loseRow(id, 2)
    const faults: string[] = []
    const entries: StoredEntry[] = []
    const onDamaged = (fault: JournalFault) => faults.push(fault.message)
    for await (const entry of whole.accounts({ term: 1, onDamaged })) entries.push(entry)
    assert.equal(faults.length, 1)
    assert.match(faults[0] ?? '', new RegExp(id))
    assert.deepEqual(shapeOf(entries, id).rows, ['1=one', '3=three'])
    assert.equal(shapeOf(entries, other).head, 3)
  })
}

function testWayBack<T>({ test, open }: WholeContract<T>): void {
  test('a restored account is acquired as it was, and its new host asks no other host', async (t) => {
    const from = await open(t)
    const ids = Array.from({ length: 40 }, account)
    for (const id of ids) await written(from.journals, id)
    const entries = await entriesOf(from.whole)
    const to = await open(t)
    for (let round = 0; round < 2; round++) await restore(to.whole, entries)
    for (const id of ids) {
      const before = await from.journals.acquire(id, { owner: 'host-2' })
      const asked: string[] = []
      const askRelease = async (holder: string) => void asked.push(holder)
      const after = await to.journals.acquire(id, { owner: 'host-3', askRelease })
      assert.deepEqual(asked, [])
      assert.equal(after.previousOwner, undefined)
      assert.deepEqual([after.head, textOf(after.root)], [before.head, textOf(before.root)])
      assert.equal(Buffer.compare(after.chain, before.chain), 0)
      assert.ok(after.epoch >= before.epoch - 1 + restoredEpochsAhead, 'names of pages are not given again')
      assert.deepEqual(await textsOf(to.journals, after, 2), ['three'])
      assert.equal(textOf(await to.journals.page(id, 'page-2')), 'of the root')
      await to.journals.append(after, bytes('next'))
      assert.equal((await to.journals.head(id)).head, 4)
    }
  })
}

function testLookups<T>({ test, open }: WholeContract<T>): void {
  test('lookups come back, older than any write of an account', async (t) => {
    const from = await open(t)
    const of = account()
    const ownership = await from.journals.acquire(of, { owner })
    const key = (at: number) => `ref/${of}/${of}/${at}`
    const puts = Array.from({ length: 700 }, (_, at) => ({ put: key(at), value: bytes(`${at}`) }))
    await from.lookups.write(puts, writeTimeOf(ownership, 9))
    await from.lookups.write([{ put: `plain/${of}`, value: bytes('plain') }])
    await from.lookups.claim(`suite/${of}`, bytes('claimed'))
    const entries = await Array.fromAsync(from.whole.lookups())
    const to = await open(t)
    await restore(to.whole, [
      { kind: 'lookup', key: `plain/${of}`, value: bytes('an earlier one') },
      ...entries,
    ])
    assert.equal(textOf(await to.lookups.get(`plain/${of}`)), 'plain', 'the later one of two counts')
    assert.equal(textOf(await to.lookups.claim(`suite/${of}`, bytes('another'))), 'claimed')
    const found = await Array.fromAsync(to.lookups.scan(`ref/${of}/${of}/`))
    assert.deepEqual(new Set(found.map(({ key }) => key)), new Set(puts.map(({ put }) => put)))
    const earliest = writeTimeOf({ account: of, epoch: 1 }, 1)
    await to.lookups.write([{ delete: key(3) }, { put: key(4), value: bytes('new') }], earliest)
    assert.equal(await to.lookups.get(key(3)), undefined)
    assert.equal(textOf(await to.lookups.get(key(4))), 'new')
    await to.lookups.write([{ put: `plain/${of}`, value: bytes('newer') }])
    assert.equal(textOf(await to.lookups.get(`plain/${of}`)), 'newer')
  })

  test('a restored counter gives no number again', async (t) => {
    const from = await open(t)
    const [one, other] = [`numbers/${account()}`, `numbers/${account()}`]
    await from.lookups.take(one, 10)
    await from.lookups.take(other, 10)
    const entries = await Array.fromAsync(from.whole.counters())
    const to = await open(t)
    await to.lookups.take(other, 50)
    for (let round = 0; round < 2; round++) await restore(to.whole, entries)
    assert.equal(await to.lookups.take(one, 1), 10)
    assert.equal(await to.lookups.take(other, 1), 50)
  })
}

/** A root over two of three rows, with a page; one more page for the row behind it. */
async function written(journals: JournalStore, id: string): Promise<JournalOwnership> {
  const ownership = await journals.acquire(id, { owner })
  for (const text of ['one', 'two']) await journals.append(ownership, bytes(text))
  await journals.putPage(id, 'page-2', bytes('of the root'))
  await journals.setRoot(ownership, { root: bytes('page-2'), through: 2 })
  await journals.trim(ownership, 2)
  await journals.putPage(id, 'page-3', bytes('of the row'))
  await journals.append(ownership, bytes('three'))
  return ownership
}

function asIs() {
  const onDamaged = (fault: JournalFault) => {
    throw fault
  }
  return { term: 1, onDamaged }
}

async function entriesOf(whole: WholeStore): Promise<StoredEntry[]> {
  return Array.fromAsync(whole.accounts(asIs()))
}

async function restore(whole: WholeStore, entries: readonly StoredEntry[]): Promise<void> {
  const writer: EntryWriter = whole.restoring({ atMs: 1_700_000_000_000 })
  for (const entry of entries) await writer.add(entry)
  await writer.end()
}

function accountOf(entry: StoredEntry): string | undefined {
  return 'account' in entry ? entry.account : undefined
}

function shapeOf(entries: readonly StoredEntry[], id: string) {
  const own = entries.filter((entry) => accountOf(entry) === id)
  const last = own.at(-1)
  assert.equal(last?.kind, 'account', 'it ends with its statics')
  const { head, through, root } = last as AccountEntry
  const rows = own.flatMap((entry) =>
    entry.kind === 'row' && entry.seq > through && entry.seq <= head
      ? [`${entry.seq}=${Buffer.from(entry.bytes)}`]
      : [],
  )
  const pages = own.flatMap((entry) =>
    entry.kind === 'page' ? [`${entry.name}=${Buffer.from(entry.bytes).subarray(0, 20)}`] : [],
  )
  const text = root && Buffer.from(root).toString()
  return { head, through, root: text, rows: [...new Set(rows)].sort(), pages: [...new Set(pages)].sort() }
}

async function textsOf(
  journals: JournalStore,
  ownership: JournalOwnership,
  after: number,
): Promise<string[]> {
  const rows = await Array.fromAsync(journals.rows(ownership, after))
  return rows.map((row) => Buffer.from(row.bytes).toString())
}

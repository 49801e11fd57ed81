/** What every lookup store must do, as a suite that depends on no test runner. */
import assert from 'node:assert/strict'
import { maxLookupKeyBytes, maxLookupValueBytes, maxPrefixes } from './bounds.ts'
import type { LookupRow, LookupStore, LookupWalk } from './lookup-store.ts'
import { epochsPerTerm, writeTimeOf } from './write-time.ts'

export interface OpenedLookups {
  lookups: LookupStore
  /**
   * Closes and opens again on the same data, as after a restart; omit it for stores that cannot.
   */
  reopen?: () => Promise<LookupStore>
}

export interface LookupContract<T> {
  test: (name: string, body: (t: T) => Promise<void>) => unknown
  /** A store that may be shared: the suite uses its own keys. */
  open: (t: T) => Promise<OpenedLookups>
  /**
   * Whether claims are also linearizable with writes of the same key, which is more than the port
   * promises. Default: only among claimants.
   */
  linearizableWrites?: boolean
}

/** A prefix of this test alone. */
const own = () => `suite/${crypto.randomUUID()}/`

export function lookupStoreContract<T>(contract: LookupContract<T>): void {
  testRows(contract)
  testClaims(contract)
  testOrderOfWrites(contract)
}

function testRows<T>({ test, open }: LookupContract<T>): void {
  test('a key that was never put is absent', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    assert.equal(await lookups.get(`${at}none`), undefined)
    assert.deepEqual(await collect(lookups.scan(at)), [])
    await lookups.write([])
    await lookups.write([{ delete: `${at}none` }])
  })

  test('one write puts, replaces and deletes, the last change of a key wins', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    await lookups.write([put(`${at}a`, '1'), put(`${at}b`, '1'), put(`${at}empty`, '')])
    await lookups.write([put(`${at}a`, '2'), { delete: `${at}b` }, put(`${at}c`, '1'), put(`${at}c`, '2')])
    assert.deepEqual(rowsOf(await collect(lookups.scan(at)), at), ['a=2', 'c=2', 'empty='])
    assert.equal((await lookups.get(`${at}empty`))?.length, 0)
    assert.equal(await lookups.get(`${at}b`), undefined)
  })

  test('values are copied and any bytes come back', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    const value = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    const writing = lookups.write([{ put: `${at}a`, value }])
    const claiming = lookups.claim(`${at}b`, value)
    const sent = Buffer.from(value)
    value.fill(0)
    await writing
    ;(await claiming).fill(0)
    ;(await lookups.get(`${at}a`))?.fill(0)
    for await (const row of lookups.scan(at)) row.value.fill(0)
    for (const key of ['a', 'b']) assert.deepEqual(Buffer.from((await lookups.get(at + key)) ?? []), sent)
  })

  test('a scan keeps to its prefix and its bounds, in the order of keys', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    const keys = ['b', 'a/2', 'a/10', 'a', 'a~', 'a/1', 'A', 'a/1/x']
    await lookups.write(keys.map((key) => put(at + key, key)))
    const scan = async (prefix: string, options?: { after?: string; limit?: number }) =>
      (await collect(lookups.scan(at + prefix, options))).map(({ key }) => key.slice(at.length))
    assert.deepEqual(await scan(''), ['A', 'a', 'a/1', 'a/1/x', 'a/10', 'a/2', 'a~', 'b'])
    assert.deepEqual(await scan('a'), ['a', 'a/1', 'a/1/x', 'a/10', 'a/2', 'a~'])
    assert.equal(await lookups.get(`${at}a/1/`), undefined)
    assert.deepEqual(await scan('a/'), ['a/1', 'a/1/x', 'a/10', 'a/2'])
    assert.deepEqual(await scan('a/', { after: `${at}a/10` }), ['a/2'])
    assert.deepEqual(await scan('a/', { after: `${at}a/1`, limit: 2 }), ['a/1/x', 'a/10'])
    assert.deepEqual(await scan('a/', { after: `${at}A` }), ['a/1', 'a/1/x', 'a/10', 'a/2'])
    assert.deepEqual(await scan('a/', { after: `${at}b` }), [])
    assert.deepEqual(await scan('a/', { limit: 0 }), [])
    assert.deepEqual(await scan('none'), [])
  })

  test('a long scan can be done in pages, and ended early', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    const all = Array.from({ length: 1_200 }, (_, number) => `${at}${String(number).padStart(5, '0')}`)
    await lookups.write(all.map((key) => put(key, key)))
    const seen: string[] = []
    for (let after = ''; seen.length <= all.length; after = seen.at(-1) ?? '') {
      const page = await collect(lookups.scan(at, after === '' ? { limit: 500 } : { after, limit: 500 }))
      if (page.length === 0) break
      seen.push(...page.map(({ key }) => key))
    }
    assert.deepEqual(seen, all)
    for await (const { key } of lookups.scan(at)) {
      assert.equal(key, all[0])
      break
    }
  })

  test('the first rows of many prefixes come in the order of the prefixes', async (t) => {
    const { lookups } = await open(t)
    const at = () => `ref/${crypto.randomUUID()}/x/`
    const [none, one, two, gone] = [at(), at(), at(), at()]
    await lookups.write([put(`${one}b`, '1'), put(`${two}b`, '2'), put(`${two}a`, '3'), put(`${gone}a`, '4')])
    await lookups.write([{ delete: `${gone}a` }])
    const others = Array.from({ length: 300 }, at)
    await lookups.write(others.map((prefix) => put(`${prefix}a`, prefix)))
    const rows = await lookups.firstOf([two, none, ...others, gone, one, two])
    const keys = rows.map((row) => row?.key)
    assert.deepEqual(keys, [
      `${two}a`,
      undefined,
      ...others.map((prefix) => `${prefix}a`),
      undefined,
      `${one}b`,
      `${two}a`,
    ])
    assert.equal(text(rows[0]?.value), '3')
    assert.deepEqual(await lookups.firstOf([]), [])
    await assert.rejects(lookups.firstOf(Array.from({ length: maxPrefixes + 1 }, at)), RangeError)
  })
}

function testClaims<T>({ test, open, linearizableWrites = false }: LookupContract<T>): void {
  const testLinearizable = linearizableWrites ? test : () => {}

  test('the first claim wins, also among concurrent claimants', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    const values = Array.from({ length: 16 }, (_, number) => `claimant ${number}`)
    const answers = await Promise.all(values.map((value) => lookups.claim(`${at}key`, bytes(value))))
    const [winner] = new Set(answers.map(text))
    assert.equal(new Set(answers.map(text)).size, 1)
    assert.ok(values.includes(winner ?? ''))
    assert.equal(text(await lookups.claim(`${at}key`, bytes('late'))), winner)
    assert.equal(text(await lookups.get(`${at}key`)), winner)
  })

  test('a key that was put cannot be claimed, one that was deleted can', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    await lookups.write([put(`${at}key`, 'put')])
    assert.equal(text(await lookups.claim(`${at}key`, bytes('claimed'))), 'put')
    await lookups.write([{ delete: `${at}key` }])
    assert.equal(text(await lookups.claim(`${at}key`, bytes('claimed'))), 'claimed')
    assert.equal(text(await lookups.get(`${at}key`)), 'claimed')
  })

  testLinearizable('a concurrent claim and delete end as if one came after the other', async (t) => {
    const { lookups } = await open(t)
    for (let round = 0; round < 10; round++) {
      const at = own()
      await lookups.write([put(`${at}key`, 'old')])
      const deleting = lookups.write([{ delete: `${at}key` }])
      const answer = text(await lookups.claim(`${at}key`, bytes('new')))
      await deleting
      const now = await lookups.get(`${at}key`)
      assert.ok(answer === 'old' ? now === undefined : text(now) === 'new', `${answer}, then ${text(now)}`)
    }
  })

  testLinearizable('a concurrent claim and put end as if one came after the other', async (t) => {
    const { lookups } = await open(t)
    for (let round = 0; round < 10; round++) {
      const at = own()
      const both = [lookups.claim(`${at}key`, bytes('claimed')), lookups.write([put(`${at}key`, 'put')])]
      const [answer] = await Promise.all(both)
      const now = text(await lookups.get(`${at}key`))
      assert.equal(now, 'put', `the claim was answered with ${text(answer || undefined)}`)
    }
  })

  test('numbers are taken once, in ranges that do not overlap', async (t) => {
    const { lookups } = await open(t)
    const [counter, other] = [`${own()}codes`, `${own()}codes`]
    const counts = [1, 5, 1, 100, 3, 1_000, 2]
    const firsts = await Promise.all(counts.map((count) => lookups.take(counter, count)))
    const ranges = firsts.map((first, at) => ({ first, end: first + (counts[at] ?? 0) }))
    ranges.sort((one, two) => one.first - two.first)
    let end = 0
    for (const range of ranges) {
      assert.ok(range.first >= end, `${range.first} was taken already, below ${end}`)
      end = range.end
    }
    assert.ok((await lookups.take(counter, 1)) >= end)
    assert.equal(await lookups.take(other, 1), 0)
    assert.equal(await lookups.get(counter), undefined)
    for (const bad of [0, -1, 1.5, Number.NaN]) await assert.rejects(lookups.take(counter, bad), RangeError)
  })
}

/** A key of each kind of row that is written with write times: of one account, or of one host. */
const orderedRows: Readonly<Record<string, (account: string) => string>> = {
  ref: (account) => `ref/${crypto.randomUUID()}/x/${account}`,
  wake: (account) => `wake/eu-par/${crypto.randomUUID()}/500001/500001/${account}`,
  active: (account) => `active/eu-par/${crypto.randomUUID()}/1/${account}`,
  code: () => `code/${crypto.randomUUID()}/40`,
  hosts: () => `hosts/eu-par/${crypto.randomUUID()}`,
  hours: () => `hours/eu-par/${crypto.randomUUID()}/first`,
}

function testOrderOfWrites<T>({ test, open }: LookupContract<T>): void {
  for (const [kind, own] of Object.entries(orderedRows))
    test(`of two changes of a row ${kind}/… the one with the higher write time wins, in any order of arrival`, async (t) => {
      const { lookups } = await open(t)
      const account = crypto.randomUUID()
      const at = (term: number, epoch: number, counter: number) =>
        writeTimeOf({ account, epoch: epochsPerTerm * (term - 1) + epoch }, counter)
      const ascending = [
        at(1, 1, 1),
        at(1, 1, 2),
        at(1, 2, 1),
        at(1, 900, 1),
        at(2, 1, 1),
        at(255, 2 ** 28 - 1, 2 ** 27 - 1),
      ]
      for (const [index, later] of ascending.entries())
        for (const earlier of ascending.slice(0, index)) {
          const key = () => own(account)
          const keys = { put: key(), deleted: key(), replaced: key() }
          await lookups.write(
            [put(keys.put, 'later'), { delete: keys.deleted }, put(keys.replaced, 'later')],
            later,
          )
          const late = [{ delete: keys.put }, put(keys.deleted, 'earlier'), put(keys.replaced, 'earlier')]
          await lookups.write([...late, put(`${keys.put}/other`, 'earlier')], earlier)
          assert.equal(
            text(await lookups.get(keys.put)),
            'later',
            'a late delete of an earlier owner has no effect',
          )
          assert.equal(
            await lookups.get(keys.deleted),
            undefined,
            'a late put of an earlier owner has no effect',
          )
          assert.equal(text(await lookups.get(keys.replaced)), 'later')
          assert.equal(text(await lookups.get(`${keys.put}/other`)), 'earlier', 'other rows are not touched')

          const inOrder = [key(), key()] as const
          await lookups.write([{ delete: inOrder[0] }, put(inOrder[1], 'earlier')], earlier)
          await lookups.write([put(inOrder[0], 'later'), { delete: inOrder[1] }], later)
          assert.equal(text(await lookups.get(inOrder[0])), 'later')
          assert.equal(await lookups.get(inOrder[1]), undefined)
        }
    })

  test('a running delete does not remove the row that a later owner puts meanwhile', async (t) => {
    const { lookups } = await open(t)
    const account = crypto.randomUUID()
    for (let round = 0; round < 20; round++) {
      const key = `ref/${crypto.randomUUID()}/x/${account}`
      await lookups.write([put(key, 'first')], writeTimeOf({ account, epoch: 1 }, 1))
      const deletes = lookups.write([{ delete: key }], writeTimeOf({ account, epoch: 1 }, 2))
      const puts = lookups.write([put(key, 'second')], writeTimeOf({ account, epoch: 2 }, 1))
      await Promise.all(round % 2 === 0 ? [deletes, puts] : [puts, deletes])
      assert.equal(text(await lookups.get(key)), 'second')
    }
  })

  test('keys and values beyond their bounds are refused and leave nothing', async (t) => {
    const { lookups } = await open(t)
    const at = own()
    const longest = at.padEnd(maxLookupKeyBytes, 'k')
    await lookups.write([{ put: longest, value: Buffer.alloc(maxLookupValueBytes, 9) }])
    assert.equal((await lookups.get(longest))?.length, maxLookupValueBytes)
    const tooLarge = (fault: { code?: string }) => fault.code === 'TOO_LARGE'
    const large = { put: `${at}large`, value: Buffer.alloc(maxLookupValueBytes + 1) }
    await assert.rejects(lookups.write([put(`${at}first`, '1'), large]), tooLarge)
    await assert.rejects(lookups.write([put(`${longest}k`, '1')]), tooLarge)
    for (const bad of ['', `${at}ü`, `${at}\n`, `${at}\0`]) {
      await assert.rejects(lookups.write([put(bad, '1')]), RangeError)
      await assert.rejects(lookups.claim(bad, bytes('1')), RangeError)
    }
    assert.deepEqual(
      (await collect(lookups.scan(at))).map(({ key }) => key),
      [longest],
    )
  })

  test('writes, claims and taken numbers are there after a restart', async (t) => {
    const { lookups, reopen } = await open(t)
    if (reopen === undefined) return
    const at = own()
    await lookups.write([put(`${at}a`, '1'), put(`${at}gone`, '1')])
    await lookups.write([{ delete: `${at}gone` }])
    await lookups.claim(`${at}b`, bytes('mine'))
    const first = await lookups.take(`${at}codes`, 10)
    const reopened = await reopen()
    assert.deepEqual(rowsOf(await collect(reopened.scan(at)), at), ['a=1', 'b=mine'])
    assert.equal(text(await reopened.claim(`${at}b`, bytes("another's"))), 'mine')
    assert.ok((await reopened.take(`${at}codes`, 1)) >= first + 10)
  })
}

function put(key: string, value: string) {
  return { put: key, value: bytes(value) }
}

function rowsOf(rows: LookupRow[], prefix: string): string[] {
  return rows.map(({ key, value }) => `${key.slice(prefix.length)}=${text(value)}`)
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

function bytes(of: string): Buffer {
  return Buffer.from(of)
}

function text(of: Uint8Array | undefined): string {
  return Buffer.from(of ?? []).toString()
}

/** What every walk over all rows of a kind must do; the store may be shared. */
export function lookupWalkContract<T>({
  test,
  open,
}: {
  test: LookupContract<T>['test']
  open: (t: T) => Promise<LookupStore & LookupWalk>
}): void {
  test('a walk sees every row of its kind, and continues from any place', async (t) => {
    const lookups = await open(t)
    const own = crypto.randomUUID()
    const keys = Array.from({ length: 250 }, (_, at) => `ref/${own}${at}/x/${at % 7}`)
    const some = keys.slice(0, 50).map((key) => put(key.replace(/\d$/, 'again'), ''))
    await lookups.write([...keys.map((key) => put(key, '')), ...some, put(`code/${own}`, ''), put(own, '')])
    const deleted = keys.splice(100, 20)
    await lookups.write(deleted.map((key) => ({ delete: key })))
    const seen = (await collect(lookups.walk('ref'))).filter(({ key }) => key.includes(own))
    assert.deepEqual(seen.map(({ key }) => key).sort(), [...keys, ...some.map((change) => change.put)].sort())
    const [half, rest] = [seen.slice(0, 120), new Set(seen.slice(120).map(({ key }) => key))]
    for await (const { key } of lookups.walk('ref', { after: half.at(-1)?.place ?? '' })) rest.delete(key)
    assert.deepEqual([...rest], [])
  })
}

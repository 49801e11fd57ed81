/**
 * What every journal store must do, as a suite that depends on no test runner.
 *
 *     journalStoreContract({
 *       test: t.test,
 *       open: async (t) => ({ journals: new MemoryJournalStore() }),
 *     })
 */
import assert from 'node:assert/strict'
import { maxFlushBytes, maxPageBytes, maxRootBytes } from './bounds.ts'
import type { JournalFaultCode } from './errors.ts'
import type { JournalRepair } from './journal-repair.ts'
import { type JournalAccounts, type JournalOwnership, type JournalStore, rowBehind } from './journal-store.ts'

export interface OpenedJournals {
  journals: JournalStore
  /**
   * Closes and opens again on the same data, as after a restart; omit it for stores that cannot.
   */
  reopen?: () => Promise<JournalStore>
}

export interface JournalContract<T> {
  test: (name: string, body: (t: T) => Promise<void>) => unknown
  /** An empty store; the test's own teardown releases its resources. */
  open: (t: T) => Promise<OpenedJournals>
}

/** Each test uses fresh account ids, so that the suite also runs against a shared store. */
const account = () => crypto.randomUUID()
const owner = 'host-1'

export function journalStoreContract<T>(contract: JournalContract<T>): void {
  testNewAccounts(contract)
  testPresumedAccounts(contract)
  testHoldersAndRows(contract)
  testOwnership(contract)
  testRoots(contract)
  testTrims(contract)
  testPages(contract)
}

function testNewAccounts<T>({ test, open }: JournalContract<T>): void {
  test('an account never written has head 0, no root, no owner, no rows and no pages', async (t) => {
    const { journals } = await open(t)
    const id = account()
    assert.equal((await journals.head(id)).head, 0)
    const ownership = await journals.acquire(id, { owner })
    assert.deepEqual(
      [ownership.account, ownership.head, ownership.root, ownership.previousOwner],
      [id, 0, undefined, undefined],
    )
    assert.deepEqual(await texts(journals, ownership), [])
    assert.deepEqual(await collect(journals.pageNames(id)), [])
    assert.equal(await journals.page(id, 'none'), undefined)
  })

  test('reading an account that was never written can leave it unwritten', async (t) => {
    const { journals } = await open(t)
    const id = account()
    for (let round = 0; round < 2; round++) {
      const ownership = await journals.acquire(id, { owner, unwritten: 'leave' })
      assert.deepEqual(
        [ownership.account, ownership.epoch, ownership.head, ownership.root],
        [id, 0, 0, undefined],
      )
    }
    assert.equal((await journals.head(id)).epoch, 0)
    const first = await journals.acquire(id, { owner })
    assert.ok(first.epoch > 0)
    await journals.append(first, bytes('one'))
    const next = await journals.acquire(id, { owner: 'host-2', unwritten: 'leave' })
    assert.deepEqual([next.epoch > first.epoch, next.head, next.previousOwner], [true, 1, owner])
    await assertRefused(journals.append(first, bytes('stale')), 'FENCED')
    await journals.append(next, bytes('two'))
  })
}

/** The first row of an account that is presumed to be new makes it. */
function testPresumedAccounts<T>({ test, open }: JournalContract<T>): void {
  test('the first append makes an account that is presumed to be new', async (t) => {
    const { journals } = await open(t)
    const id = account()
    const ownership = await journals.acquire(id, { owner, unwritten: 'presume' })
    assert.deepEqual(
      [ownership.owner, ownership.head, ownership.root, ownership.previousOwner],
      [owner, 0, undefined, undefined],
    )
    assert.deepEqual(await texts(journals, ownership), [])
    assert.equal((await journals.head(id)).epoch, ownership.epoch)
    await journals.append(ownership, bytes('one'))
    await journals.append(ownership, bytes('two'))
    assert.ok(ownership.epoch > 0)
    const now = await journals.head(id)
    assert.deepEqual([now.epoch, now.head], [ownership.epoch, 2])
    assert.deepEqual(Buffer.from(now.chain), Buffer.from(ownership.chain))
    await journals.setRoot(ownership, { root: bytes('root'), through: 1 })
    const next = await journals.acquire(id, { owner: 'host-2' })
    assert.deepEqual([next.epoch > ownership.epoch, next.previousOwner], [true, owner])
    assert.deepEqual([text(next.root), await texts(journals, next)], ['root', ['one', 'two']])
    await assertRefused(journals.append(ownership, bytes('stale')), 'FENCED')
  })

  test('of several hosts that presume an account to be new, one writes its first row', async (t) => {
    const { journals } = await open(t)
    const id = account()
    const ownerships: JournalOwnership[] = []
    for (let at = 0; at < 4; at++)
      ownerships.push(await journals.acquire(id, { owner: `host-${at}`, unwritten: 'presume' }))
    const first = ownerships.map((ownership, at) => rowBehind(ownership, bytes(`first of ${at}`)))
    const outcomes = await Promise.allSettled(
      ownerships.map((ownership, at) => journals.append(ownership, first[at]?.bytes as Buffer)),
    )
    const { head, chain } = await journals.head(id)
    assert.equal(head, 1)
    const isIn = first.map(({ checksum }) => Buffer.compare(checksum, chain) === 0)
    assert.equal(isIn.filter(Boolean).length, 1, 'the chain shows whose row it is')
    for (const [at, outcome] of outcomes.entries()) {
      const code = outcome.status === 'rejected' ? (outcome.reason as { code: string }).code : undefined
      if (code !== 'UNKNOWN') assert.equal(code, isIn[at] ? undefined : 'FENCED')
    }
    const last = await journals.acquire(id, { owner })
    const winner = isIn.indexOf(true)
    assert.deepEqual(
      [last.previousOwner, await texts(journals, last)],
      [`host-${winner}`, [`first of ${winner}`]],
    )
    for (const ownership of ownerships)
      await assertRefused(journals.append(ownership, bytes('late')), 'FENCED')
  })

  test('presuming an existing account to be new writes nothing and takes nothing over', async (t) => {
    const { journals } = await open(t)
    for (const rows of [[], ['one']]) {
      const { id, ownership } = await written(journals, rows)
      const late = await journals.acquire(id, { owner: 'host-2', unwritten: 'presume' })
      // A store that cannot presume takes the account over, or begins it.
      if (late.epoch > 0) assert.equal(late.head, rows.length)
      else {
        await assertRefused(journals.append(late, bytes('first')), 'FENCED')
        await assertRefused(journals.setRoot(late, { root: bytes('root'), through: 0 }), 'FENCED')
        await journals.release(late)
        assert.deepEqual([late.epoch, late.head], [0, 0])
        await journals.append(ownership, bytes('next'))
        assert.deepEqual(await texts(journals, ownership), [...rows, 'next'])
      }
    }
  })

  test('an account that was presumed and released was never written', async (t) => {
    const { journals } = await open(t)
    const id = account()
    const ownership = await journals.acquire(id, { owner, unwritten: 'presume' })
    const { epoch } = ownership
    await journals.release(ownership)
    await assertRefused(journals.append(ownership, bytes('late')), 'FENCED')
    assert.deepEqual([(await journals.head(id)).epoch, (await journals.head(id)).head], [epoch, 0])
  })
}

function testHoldersAndRows<T>({ test, open }: JournalContract<T>): void {
  test('another holder is asked to release before it is fenced, unless it has released', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, [])
    const asked: string[] = []
    const askRelease = async (holder: string) => {
      asked.push(holder)
      await journals.append(ownership, bytes('last'))
      await journals.release(ownership)
    }
    const same = await journals.acquire(account(), { owner, askRelease })
    await journals.acquire(same.account, { owner, askRelease })
    assert.deepEqual(asked, [])
    const next = await journals.acquire(id, { owner: 'host-2', askRelease })
    // Where earlier owners are certainly dead none is asked.
    if (journals.capabilities.exclusive && asked.length === 0) return
    assert.deepEqual(asked, [owner])
    assert.deepEqual([next.previousOwner, await texts(journals, next)], [undefined, ['last']])
    await journals.release(next)
    await journals.acquire(id, { owner, askRelease })
    assert.deepEqual(asked, [owner])
  })

  test('rows come back in order, with their bytes, behind any number', async (t) => {
    const { journals } = await open(t)
    const { id } = await written(journals, ['one', '', 'three', 'four'])
    const ownership = await journals.acquire(id, { owner })
    assert.equal(ownership.head, 4)
    assert.deepEqual(await numberedRows(journals, ownership, 0), ['1 one', '2 ', '3 three', '4 four'])
    assert.deepEqual(await numberedRows(journals, ownership, 2), ['3 three', '4 four'])
    assert.deepEqual(await numberedRows(journals, ownership, 4), [])
  })

  test('many rows come back in the order of their numbers', async (t) => {
    const { journals } = await open(t)
    const all = Array.from({ length: 300 }, (_, at) => `row ${at}`)
    const { ownership } = await written(journals, all)
    assert.deepEqual(await texts(journals, ownership), all)
  })

  test('an append moves the head and the chain of its own ownership only', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one'])
    const other = await journals.acquire(account(), { owner })
    const chain = Buffer.from(ownership.chain)
    await journals.append(ownership, bytes('two'))
    assert.equal(ownership.head, 2)
    assert.notDeepEqual(Buffer.from(ownership.chain), chain)
    assert.equal(other.head, 0)
    const settled = await journals.head(id)
    assert.deepEqual([settled.epoch, settled.head], [ownership.epoch, 2])
    assert.deepEqual(Buffer.from(settled.chain), Buffer.from(ownership.chain))
  })

  test('the largest row is accepted, a larger one is refused and changes nothing', async (t) => {
    const { journals } = await open(t)
    const { ownership } = await written(journals, [])
    await assertRefused(journals.append(ownership, Buffer.alloc(maxFlushBytes + 1)), 'TOO_LARGE')
    await journals.append(ownership, Buffer.alloc(maxFlushBytes, 7))
    const [row] = await collect(journals.rows(ownership, 0))
    assert.ok(Buffer.alloc(maxFlushBytes, 7).equals(row?.bytes ?? Buffer.alloc(0)))
    assert.equal(ownership.head, 1)
  })

  test("bytes are copied: neither side can change the other's copy", async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, [])
    const row = Buffer.from('as it was')
    const page = Buffer.from('as it was')
    const root = Buffer.from('as it was')
    const writes = [journals.append(ownership, row), journals.putPage(id, 'page', page)]
    row.fill(0)
    page.fill(0)
    await Promise.all(writes)
    const setting = journals.setRoot(ownership, { root, through: 1 })
    root.fill(0)
    await setting
    for (const [read] of [await collect(journals.rows(ownership, 0))]) read?.bytes.fill(1)
    ;(await journals.page(id, 'page'))?.fill(1)
    ownership.root?.fill(1)
    const again = await journals.acquire(id, { owner })
    assert.deepEqual(await texts(journals, again), ['as it was'])
    assert.equal(text(await journals.page(id, 'page')), 'as it was')
    assert.equal(text(again.root), 'as it was')
  })
}

function testOwnership<T>({ test, open }: JournalContract<T>): void {
  test('every acquire raises the epoch and names the previous holder', async (t) => {
    const { journals } = await open(t)
    const id = account()
    const first = await journals.acquire(id, { owner: 'host-1' })
    const second = await journals.acquire(id, { owner: 'host-2' })
    const third = await journals.acquire(id, { owner: 'host-2' })
    assert.ok(first.epoch < second.epoch && second.epoch < third.epoch)
    assert.deepEqual([second.previousOwner, third.previousOwner], ['host-1', 'host-2'])
    assert.equal((await journals.head(id)).epoch, third.epoch)
  })

  test('concurrent holds all get different epochs, and only the newest can write', async (t) => {
    const { journals } = await open(t)
    const id = account()
    const ownerships = await Promise.all(Array.from({ length: 8 }, () => journals.acquire(id, { owner })))
    assert.equal(new Set(ownerships.map((ownership) => ownership.epoch)).size, 8)
    const newest = Math.max(...ownerships.map((ownership) => ownership.epoch))
    for (const ownership of ownerships) {
      if (ownership.epoch === newest) await journals.append(ownership, bytes('mine'))
      else await assertRefused(journals.append(ownership, bytes('stale')), 'FENCED')
    }
    assert.deepEqual(await texts(journals, await journals.acquire(id, { owner })), ['mine'])
  })

  test('an older ownership can neither append, set a root nor release', async (t) => {
    const { journals } = await open(t)
    const { id, ownership: old } = await written(journals, ['one'])
    const ownership = await journals.acquire(id, { owner: 'host-2' })
    await assertRefused(journals.append(old, bytes('stale')), 'FENCED')
    await assertRefused(journals.setRoot(old, { root: bytes('stale'), through: 1 }), 'FENCED')
    await assertRefused(journals.release(old), 'FENCED')
    assert.deepEqual([old.head, old.root], [1, undefined])
    await journals.append(ownership, bytes('two'))
    await assertRefused(journals.append(old, bytes('stale')), 'FENCED')
    const next = await journals.acquire(id, { owner })
    assert.deepEqual(await texts(journals, next), ['one', 'two'])
    assert.deepEqual([next.root, next.previousOwner], [undefined, 'host-2'])
  })

  test('an append whose ownership is behind or ahead of the head is fenced', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one'])
    const behind = { ...ownership }
    const ahead = { ...ownership, head: ownership.head + 2 }
    await journals.append(ownership, bytes('two'))
    await assertRefused(journals.append(behind, bytes('again')), 'FENCED')
    await assertRefused(journals.append(ahead, bytes('a gap')), 'FENCED')
    assert.deepEqual(await texts(journals, await journals.acquire(id, { owner })), ['one', 'two'])
  })

  test('of a concurrent acquire and append, the new holder sees what is acknowledged', async (t) => {
    const { journals } = await open(t)
    for (let round = 0; round < 20; round++) {
      const { id, ownership } = await written(journals, [])
      const appending = journals.append(ownership, bytes('in flight')).then(
        () => true,
        (fault) => assert.equal(fault.code, 'FENCED'),
      )
      const next = await journals.acquire(id, { owner })
      const acknowledged = await appending
      assert.deepEqual(await texts(journals, next), acknowledged ? ['in flight'] : [])
      await journals.append(next, bytes('next'))
    }
  })

  test('a released journal names no owner, and the ownership is useless', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one'])
    await journals.release(ownership)
    await assertRefused(journals.append(ownership, bytes('late')), 'FENCED')
    await assertRefused(journals.setRoot(ownership, { root: bytes('late'), through: 1 }), 'FENCED')
    const next = await journals.acquire(id, { owner })
    assert.deepEqual([next.previousOwner, next.head], [undefined, 1])
    assert.deepEqual(await texts(journals, next), ['one'])
  })
}

function testRoots<T>({ test, open }: JournalContract<T>): void {
  test('the next holder gets the newest root only', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two'])
    await assertRefused(
      journals.setRoot(ownership, { root: Buffer.alloc(maxRootBytes + 1), through: 1 }),
      'TOO_LARGE',
    )
    await journals.setRoot(ownership, { root: bytes('first'), through: 1 })
    assert.equal(text(ownership.root), 'first')
    await journals.setRoot(ownership, { root: bytes('second'), through: 2 })
    await journals.append(ownership, bytes('three'))
    const next = await journals.acquire(id, { owner })
    assert.deepEqual([text(next.root), next.head], ['second', 3])
    assert.deepEqual(await texts(journals, next), ['one', 'two', 'three'])
  })

  test('a root beyond the head or behind the last root is refused', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two'])
    await journals.setRoot(ownership, { root: bytes('good'), through: 2 })
    await assert.rejects(journals.setRoot(ownership, { root: bytes('bad'), through: 3 }), RangeError)
    await assert.rejects(journals.setRoot(ownership, { root: bytes('bad'), through: 1 }), RangeError)
    assert.equal(text((await journals.acquire(id, { owner })).root), 'good')
  })
}

function testTrims<T>({ test, open }: JournalContract<T>): void {
  test('trim removes the rows behind the root and no others', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two', 'three', 'four'])
    await assert.rejects(journals.trim(ownership, 1), RangeError)
    await journals.setRoot(ownership, { root: bytes('root'), through: 3 })
    await assert.rejects(journals.trim(ownership, 4), RangeError)
    await journals.trim(ownership, 2)
    await journals.trim(ownership, 3)
    await journals.trim(ownership, 3)
    assert.deepEqual(await numberedRows(journals, ownership, 3), ['4 four'])
    await assertRefused(collect(journals.rows(ownership, 0)), 'CORRUPT')
    await journals.append(ownership, bytes('five'))
    assert.deepEqual(await numberedRows(journals, await journals.acquire(id, { owner }), 3), [
      '4 four',
      '5 five',
    ])
  })

  test('everything may be trimmed, and the journal continues', async (t) => {
    const { journals } = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two'])
    await journals.setRoot(ownership, { root: bytes('root'), through: 2 })
    await journals.trim(ownership, 2)
    const next = await journals.acquire(id, { owner })
    assert.deepEqual(await numberedRows(journals, next, 2), [])
    await journals.append(next, bytes('three'))
    assert.deepEqual(await numberedRows(journals, await journals.acquire(id, { owner }), 2), ['3 three'])
  })

  test('rows that a newer holder trimmed are reported as fenced, not as damage', async (t) => {
    const { journals } = await open(t)
    const { id, ownership: slow } = await written(journals, ['one', 'two'])
    const ownership = await journals.acquire(id, { owner: 'host-2' })
    await journals.setRoot(ownership, { root: bytes('root'), through: 2 })
    await journals.trim(ownership, 2)
    await assertRefused(collect(journals.rows(slow, 0)), 'FENCED')
  })

  test('rows end at the head that the ownership had at the call', async (t) => {
    const { journals } = await open(t)
    const { ownership } = await written(journals, ['one', 'two'])
    const rows = journals.rows(ownership, 0)
    await journals.append(ownership, bytes('three'))
    assert.deepEqual(
      (await collect(rows)).map((row) => text(row.bytes)),
      ['one', 'two'],
    )
  })

  test('rows whose last one is not the one that was written are damage', async (t) => {
    const { journals } = await open(t)
    const { ownership } = await written(journals, ['one', 'two'])
    ownership.chain = Buffer.alloc(ownership.chain.length, 7)
    await assertRefused(texts(journals, ownership), 'CORRUPT')
  })

  test('reading rows can end early', async (t) => {
    const { journals } = await open(t)
    const { ownership } = await written(journals, ['one', 'two', 'three'])
    for await (const row of journals.rows(ownership, 0)) {
      assert.equal(text(row.bytes), 'one')
      break
    }
    await journals.append(ownership, bytes('four'))
    assert.equal((await texts(journals, ownership)).length, 4)
  })
}

function testPages<T>({ test, open }: JournalContract<T>): void {
  test('pages belong to their account, are listed in order and deleted by name', async (t) => {
    const { journals } = await open(t)
    const [id, other] = [account(), account()]
    for (const name of ['2/b', '10/a', '2/a']) await journals.putPage(id, name, bytes(name))
    await journals.putPage(other, '2/a', bytes("another's"))
    assert.deepEqual(await collect(journals.pageNames(id)), ['10/a', '2/a', '2/b'])
    assert.equal(text(await journals.page(id, '2/a')), '2/a')
    const ownership = await journals.acquire(id, { owner })
    await journals.deletePages(ownership, ['2/a', 'never there'])
    await journals.deletePages(ownership, [])
    assert.deepEqual(await collect(journals.pageNames(id)), ['10/a', '2/b'])
    assert.equal(await journals.page(id, '2/a'), undefined)
    assert.equal(text(await journals.page(other, '2/a')), "another's")
  })

  test('a page may be written again with equal bytes, and has a bound', async (t) => {
    const { journals } = await open(t)
    const id = account()
    await journals.putPage(id, 'page', Buffer.alloc(maxPageBytes, 5))
    await journals.putPage(id, 'page', Buffer.alloc(maxPageBytes, 5))
    await assertRefused(journals.putPage(id, 'large', Buffer.alloc(maxPageBytes + 1)), 'TOO_LARGE')
    assert.ok(Buffer.alloc(maxPageBytes, 5).equals((await journals.page(id, 'page')) ?? Buffer.alloc(0)))
    assert.deepEqual(await collect(journals.pageNames(id)), ['page'])
  })

  test('an account whose id begins like another one shares nothing with it', async (t) => {
    const { journals } = await open(t)
    const id = account().slice(0, 20)
    const { ownership } = await written(journals, ['long'], `${id}0`)
    const short = await journals.acquire(id, { owner })
    await journals.append(short, bytes('short'))
    await journals.putPage(`${id}0`, 'page', bytes('long'))
    assert.deepEqual(await texts(journals, ownership), ['long'])
    assert.deepEqual(await texts(journals, short), ['short'])
    assert.deepEqual(await collect(journals.pageNames(id)), [])
  })

  test('what was acknowledged is there after a restart, and older ownerships stay fenced', async (t) => {
    const { journals, reopen } = await open(t)
    if (reopen === undefined) return
    const { id, ownership } = await written(journals, ['one', 'two', 'three'])
    await journals.putPage(id, 'page', bytes('page'))
    await journals.setRoot(ownership, { root: bytes('root'), through: 1 })
    await journals.trim(ownership, 1)
    const reopened = await reopen()
    await assertRefused(
      reopened.append({ ...ownership, epoch: ownership.epoch - 1 }, bytes('stale')),
      'FENCED',
    )
    const next = await reopened.acquire(id, { owner: 'host-2' })
    assert.deepEqual([next.epoch > ownership.epoch, next.head, next.previousOwner], [true, 3, owner])
    assert.equal(text(next.root), 'root')
    assert.deepEqual(Buffer.from(next.chain), Buffer.from(ownership.chain))
    assert.deepEqual(await numberedRows(reopened, next, 1), ['2 two', '3 three'])
    assert.equal(text(await reopened.page(id, 'page')), 'page')
    await assertRefused(reopened.append(ownership, bytes('stale')), 'FENCED')
    await reopened.append(next, bytes('four'))
  })
}

/** What a store offers to repairs, on healthy journals; each adapter's own tests plant damage. */
export function journalRepairContract<T>({
  test,
  open,
}: {
  test: JournalContract<T>['test']
  open: (t: T) => Promise<JournalStore & JournalRepair>
}): void {
  test('an account never written has nothing stored', async (t) => {
    const journals = await open(t)
    assert.deepEqual(await collect(journals.remains(account())), [])
  })

  test('everything stored is shown: statics, root, rows and pages, in order', async (t) => {
    const journals = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two', 'three'])
    for (const name of ['b', 'a']) await journals.putPage(id, name, bytes(`page ${name}`))
    await journals.setRoot(ownership, { root: bytes('root'), through: 2 })
    await journals.trim(ownership, 1)
    const shown = (await collect(journals.remains(id))).map((remain) => {
      assert.equal(remain.damage, undefined)
      if (remain.kind === 'statics') return `statics ${remain.statics?.head} ${remain.lastRow}`
      if (remain.kind === 'row') return `row ${remain.seq} ${text(remain.row?.bytes)}`
      return `${remain.kind === 'page' ? remain.name : 'root'} ${text(remain.bytes)}`
    })
    assert.deepEqual(shown, ['statics 3 3', 'root root', 'row 2 two', 'row 3 three', 'a page a', 'b page b'])
    const copies = await collect(journals.copiesOfPage(id, 'a'))
    assert.deepEqual([...new Set(copies.map(text))], ['page a'])
    assert.deepEqual(await collect(journals.copiesOfPage(id, 'absent')), [])
  })

  test('seizing an account fences its holder, and begins it again with a root', async (t) => {
    const journals = await open(t)
    const { id, ownership } = await written(journals, ['one', 'two'])
    const aboveEpoch = ownership.epoch + 10
    await journals.seize(id, { owner: 'first', aboveEpoch })
    const seized = await journals.seize(id, { owner: 'second', aboveEpoch })
    assert.ok(seized.epoch > aboveEpoch)
    assert.equal(seized.head, 2)
    await assertRefused(journals.append(ownership, bytes('late')), 'FENCED')
    await journals.setRoot(seized, { root: bytes('new'), through: 2 })
    await journals.trim(seized, 2)
    await journals.release(seized)
    const next = await journals.acquire(id, { owner })
    assert.deepEqual([next.head, text(next.root), next.previousOwner], [2, 'new', undefined])
    assert.ok(next.epoch > seized.epoch)
    assert.deepEqual(await numberedRows(journals, next, 2), [])
    await journals.append(next, bytes('three'))
    assert.deepEqual(await numberedRows(journals, await journals.acquire(id, { owner }), 2), ['3 three'])
  })
}

/** What every listing of all accounts must do; the store may be shared. */
export function journalAccountsContract<T>({
  test,
  open,
}: {
  test: JournalContract<T>['test']
  open: (t: T) => Promise<JournalStore & JournalAccounts>
}): void {
  test('every account that was written is listed, and a listing continues behind any place', async (t) => {
    const journals = await open(t)
    const one = account()
    const ids = [one, `${one}0`, `${one.slice(0, -1)}`, ...Array.from({ length: 40 }, account)]
    await Promise.all(ids.map((id) => written(journals, ['one', 'two'], id)))
    const large = await written(journals, ['one'], ids[7])
    await journals.putPage(large.id, 'page', bytes('page'))
    const all = await collect(journals.accounts())
    const seen = all.filter((one) => ids.includes(one.account))
    assert.deepEqual(seen.map((one) => one.account).sort(), [...ids].sort())
    const rest = new Set(seen.slice(10).map((one) => one.account))
    for await (const one of journals.accounts({ after: seen[9]?.place ?? '' })) rest.delete(one.account)
    assert.deepEqual([...rest], [])
  })
}

async function written(journals: JournalStore, rows: string[], id: string = account()) {
  const ownership = await journals.acquire(id, { owner })
  for (const row of rows) await journals.append(ownership, bytes(row))
  return { id, ownership }
}

async function texts(journals: JournalStore, ownership: JournalOwnership): Promise<string[]> {
  return (await collect(journals.rows(ownership, 0))).map((row) => text(row.bytes))
}

async function numberedRows(
  journals: JournalStore,
  ownership: JournalOwnership,
  after: number,
): Promise<string[]> {
  return (await collect(journals.rows(ownership, after))).map((row) => `${row.seq} ${text(row.bytes)}`)
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function assertRefused(work: Promise<unknown>, code: JournalFaultCode): Promise<void> {
  await assert.rejects(work, (fault: { code?: string }) => {
    assert.equal(fault.code, code)
    return true
  })
}

function bytes(of: string): Buffer {
  return Buffer.from(of)
}

function text(of: Uint8Array | undefined): string {
  return Buffer.from(of ?? []).toString()
}

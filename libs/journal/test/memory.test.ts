import { hex } from '@holdfast/kernel'
import t from 'tap'
import { firstChain, JournalFault, rowChecksum } from '../src/index.ts'
import {
  journalAccountsContract,
  journalRepairContract,
  journalStoreContract,
  lookupStoreContract,
  lookupWalkContract,
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
  MemoryWholeStore,
  wholeStoreContract,
} from '../src/testing.ts'

const bytes = (text: string) => Buffer.from(text)

async function opened(capabilities?: { ordered: boolean }) {
  const medium = new MemoryMedium(capabilities)
  const journals = new MemoryJournalStore(medium)
  const lookups = new MemoryLookupStore(medium)
  return { medium, journals, lookups, ownership: await journals.acquire('one', { owner: 'host' }) }
}

t.test('journals in memory', async (t) => {
  journalStoreContract({ test: t.test, open: async () => ({ journals: new MemoryJournalStore() }) })
})

t.test('journals in memory, unordered', async (t) => {
  const open = async () => ({ journals: new MemoryJournalStore(new MemoryMedium({ ordered: false })) })
  journalStoreContract({ test: t.test, open })
})

t.test('lookups in memory', async (t) => {
  const open = async () => ({ lookups: new MemoryLookupStore() })
  lookupStoreContract({ test: t.test, open, linearizableWrites: true })
})

t.test('everything in memory', async (t) => {
  lookupWalkContract({ test: t.test, open: async () => new MemoryLookupStore() })
  journalAccountsContract({ test: t.test, open: async () => new MemoryJournalStore() })
  journalRepairContract({ test: t.test, open: async () => new MemoryJournalStore() })
})

t.test('the checksum of a row never changes', async (t) => {
  const row = { account: 'account', seq: 1, epoch: 2, predecessor: firstChain, bytes: bytes('bytes') }
  const checksum = Buffer.from(rowChecksum(row))
  t.equal(hex(checksum), '6c02b68dedfd4eda42170dda5a845b27')
  const others = [
    { ...row, account: 'accounu' },
    { ...row, seq: 2 },
    { ...row, epoch: 3 },
    { ...row, predecessor: checksum },
    { ...row, bytes: bytes('byte') },
  ]
  for (const other of others) t.notSame(Buffer.from(rowChecksum(other)), checksum)
})

t.test('an unknown append is settled by the head, applied or not', async (t) => {
  for (const applied of [true, false]) {
    const { medium, journals, ownership } = await opened()
    medium.fail('append', { code: 'UNKNOWN', applied })
    await t.rejects(journals.append(ownership, bytes('first')), { code: 'UNKNOWN', category: 'unknown' })
    t.equal(ownership.head, 0, 'the ownership does not move')
    const settled = await journals.head('one')
    t.match(settled, { epoch: ownership.epoch, head: applied ? 1 : 0 })
    Object.assign(ownership, { head: settled.head, chain: settled.chain })
    await journals.append(ownership, bytes('second'))
    const rows = await Array.fromAsync(journals.rows(ownership, 0), (row) => String(row.bytes))
    t.same(rows, applied ? ['first', 'second'] : ['second'])
  }
})

t.test(
  'a held operation lets others overtake when the store is unordered, and none when it is ordered',
  async (t) => {
    for (const ordered of [true, false]) {
      const { medium, journals, lookups, ownership } = await opened({ ordered })
      const held = medium.hold('lookup.write', { target: 'code/a' })
      const order: string[] = []
      const writing = lookups.write([{ put: 'code/a', value: bytes('1') }]).then(() => order.push('lookup'))
      await held.reached
      const appending = journals.append(ownership, bytes('row')).then(() => order.push('append'))
      t.equal((await journals.head('one')).head, ordered ? 0 : 1, 'reads continue')
      held.release()
      await Promise.all([writing, appending])
      t.same(order, ordered ? ['lookup', 'append'] : ['append', 'lookup'])
    }
  },
)

t.test(
  'a lost write of an ordered store also loses writes that were waiting behind it, and no later ones',
  async (t) => {
    const { medium, journals, lookups, ownership } = await opened()
    medium.fail('lookup.write', { code: 'UNKNOWN' })
    const lost = lookups.write([{ put: 'a', value: bytes('1') }])
    const behind = journals.append(ownership, bytes('row'))
    await t.rejects(lost, { code: 'UNKNOWN' })
    await t.rejects(behind, { code: 'UNAVAILABLE' })
    t.equal((await journals.head('one')).head, 0)
    await journals.append(ownership, bytes('row'))
  },
)

t.test('a lookup write can take effect in part', async (t) => {
  const { medium, lookups } = await opened()
  medium.fail('lookup.write', { code: 'UNKNOWN', applied: 1 })
  const changes = ['a', 'b'].map((put) => ({ put, value: bytes(put) }))
  await t.rejects(lookups.write(changes), { code: 'UNKNOWN' })
  t.ok(await lookups.get('a'))
  t.equal(await lookups.get('b'), undefined)
})

t.test('a plan affects its target, as often as it says, until it is removed', async (t) => {
  const { medium, lookups } = await opened()
  medium.fail('lookup.get', { code: 'UNAVAILABLE', target: 'a', times: 2 })
  const remove = medium.fail('lookup.get', {
    code: 'UNAVAILABLE',
    target: (key) => key.startsWith('c'),
    times: Infinity,
  })
  await lookups.get('b')
  for (let time = 0; time < 2; time++) await t.rejects(lookups.get('a'), { code: 'UNAVAILABLE' })
  await lookups.get('a')
  await t.rejects(lookups.get('c/1'), JournalFault)
  remove()
  await lookups.get('c/1')
})

t.test('an answer can be delayed, or lost, after the effect', async (t) => {
  const { medium, journals, ownership } = await opened()
  const held = medium.hold('append', { at: 'after' })
  const appending = journals.append(ownership, bytes('row'))
  await held.reached
  t.equal((await journals.head('one')).head, 1)
  held.release('UNKNOWN')
  await t.rejects(appending, { code: 'UNKNOWN' })
})

t.test('damage of any kind stops the reader', async (t) => {
  type Damage = Parameters<MemoryJournalStore['damage']>[2]
  const damages: Record<string, Damage> = {
    'a lost row': () => undefined,
    'a flipped bit': (row) => ({ ...row, bytes: Buffer.from('twp') }),
    'another epoch': (row) => ({ ...row, epoch: row.epoch + 1 }),
    'another predecessor': (row) => ({ ...row, predecessor: Buffer.alloc(16, 1) }),
    'another checksum': (row) => ({ ...row, checksum: Buffer.alloc(16, 1) }),
  }
  for (const [name, damage] of Object.entries(damages)) {
    for (const seq of [1, 2, 3]) {
      const { journals, ownership } = await opened()
      for (const text of ['one', 'two', 'three']) await journals.append(ownership, bytes(text))
      t.ok(journals.damage('one', seq, damage))
      await t.rejects(
        Array.fromAsync(journals.rows(ownership, 0)),
        { code: 'CORRUPT' },
        `${name}, row ${seq}`,
      )
    }
  }
})

t.test('a whole store in memory', async (t) => {
  const open = async () => {
    const { journals, lookups } = { journals: new MemoryJournalStore(), lookups: new MemoryLookupStore() }
    const loseRow = async (account: string, seq: number) =>
      void journals.damage(account, seq, () => undefined)
    return { journals, lookups, whole: new MemoryWholeStore({ journals, lookups }), loseRow }
  }
  wholeStoreContract({ test: t.test, open })
})

/** Two processes over the same rows, as in a cluster; the embedded service is one of them. */
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { dayMs } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { BlockLists, listedName } from '../src/index.ts'
import { namesMax } from '../src/names.ts'

const asked = { by: 'ann', reason: 'a mail' }
const blobId = (byte: number) => Buffer.concat([Buffer.alloc(16, byte), Buffer.alloc(32, byte + 1)])
const md5Of = (id: Buffer) => id.toString('hex', 0, 16)
const blake3Of = (id: Buffer) => id.toString('hex', 16)

async function start(_: Test) {
  const lookups = new MemoryLookupStore()
  const time = { ms: 1_700_000_000_000 }
  const clock = { now: () => time.ms, monotonic: () => time.ms }
  const open = () => BlockLists.open({ lookups, clock, onChange: undefined })
  return { lookups, time, open, lists: await open() }
}

t.test('content is blocked by its md5 or its BLAKE3, and nothing else is', async (t) => {
  const { lists } = await start(t)
  t.notOk(lists.blocksBlob(blobId(1)))
  await lists.block('content', [md5Of(blobId(1)), blake3Of(blobId(5))], asked)
  const before = lists.version
  t.same(
    [1, 2, 5].map((byte) => lists.blocksBlob(blobId(byte))),
    [true, false, true],
  )
  const inside = Buffer.concat([Buffer.alloc(7), blobId(5)]).subarray(7)
  t.ok(lists.blocksBlob(inside), 'an id may be a part of a larger buffer')
  t.match(await lists.unblock('content', [md5Of(blobId(1)), md5Of(blobId(9))], asked), {
    changed: 1,
    unchanged: 1,
  })
  t.same(
    [1, 5].map((byte) => lists.blocksBlob(blobId(byte))),
    [false, true],
  )
  t.not(lists.version, before, 'what was checked before is checked again')
})

t.test('names have one spelling', async (t) => {
  t.equal(listedName('content', ` ${'A'.repeat(32)} `), 'a'.repeat(32))
  t.equal(listedName('network', '2001:DB8::/32'), '2001:db8::/32')
  t.equal(listedName('network', ' 192.0.2.7/24'), '192.0.2.0/24')
  t.equal(listedName('invitation', 'Ann@Example.org'), 'ann@example.org')
  t.equal(listedName('invitation', 'a/b+c@example.org'), 'a/b+c@example.org', 'as sign-up takes it')
  for (const wrong of [
    '',
    'ann',
    'a b@example.org',
    'a@b@example.org',
    'ä@example.org',
    '\u0001@x.org',
    'ann@exam/ple',
  ])
    t.equal(listedName('invitation', wrong), undefined, wrong)
  for (const wrong of ['', '1.2.3', '1.2.3.4/33', 'x'])
    t.equal(listedName('network', wrong), undefined, wrong)
  for (const wrong of ['', 'a'.repeat(31), 'a'.repeat(48), 'g'.repeat(32), `${'a'.repeat(32)}/`])
    t.equal(listedName('content', wrong), undefined, wrong)
})

t.test('a restart and another process know the blocks', async (t) => {
  const { open, lists } = await start(t)
  const other = await open()
  await lists.block('content', [md5Of(blobId(1))], asked)
  t.notOk(other.blocksBlob(blobId(1)))
  await other.refresh()
  t.ok(other.blocksBlob(blobId(1)))
  t.ok((await open()).blocksBlob(blobId(1)))
  await other.unblock('content', [md5Of(blobId(1))], asked)
  await lists.refresh()
  t.notOk(lists.blocksBlob(blobId(1)))
})

t.test('an act sees what another process did a moment ago', async (t) => {
  const { open, lists } = await start(t)
  const other = await open()
  const name = md5Of(blobId(1))
  const { act } = await lists.block('content', [name], asked)
  t.match(await other.unblock('content', [name], asked), { changed: 1, unchanged: 0 })
  t.match(await lists.block('content', [name], asked), { changed: 1, unchanged: 0 }, 'it is not in force')
  const again = await other.unblock('content', [name], asked)
  t.match(await lists.undo(again.act.id, asked), { changed: 1 })
  t.match(await other.undo(act.id, asked), { changed: 0 }, 'another act blocks it now')
  t.ok(other.blocksBlob(blobId(1)))
})

t.test(
  'a network that an earlier release kept as it was sent is unblocked by its one spelling',
  async (t) => {
    const { lookups, open } = await start(t)
    await lookups.write([{ put: 'moderation/network/192.0.2.7/24', value: Buffer.from('{"act":"x"}') }])
    const lists = await open()
    t.ok(lists.blocksAddress('192.0.2.1'))
    t.match(await lists.unblock('network', ['192.0.2.0/24'], asked), { changed: 1, unchanged: 0 })
    t.notOk(lists.blocksAddress('192.0.2.1'))
  },
)

t.test('rows that arrive after their stamp are found', async (t) => {
  const { lookups, time, lists } = await start(t)
  const at = `moderation/content/${md5Of(blobId(1))}`
  const late = { put: at, value: Buffer.from('{"act":"x"}') }
  time.ms += 60_000
  await lookups.write([{ put: 'moderation/stamp', value: Buffer.from('new') }])
  await lists.refresh()
  time.ms += 4_000
  await lookups.write([late])
  await lists.refresh()
  t.ok(lists.blocksBlob(blobId(1)), 'soon after the stamp')
  time.ms += 60_000
  await lists.refresh()
  await lookups.write([{ delete: at }])
  await lists.refresh()
  t.ok(lists.blocksBlob(blobId(1)), 'without a stamp the rows are not read each time')
  time.ms += 11 * 60_000
  await lists.refresh()
  t.notOk(lists.blocksBlob(blobId(1)), 'only at intervals')
})

t.test('an undo reverses only its act, and can be undone', async (t) => {
  const { lists, time } = await start(t)
  const [one, two] = [md5Of(blobId(1)), md5Of(blobId(2))]
  const first = await lists.block('content', [one], asked)
  const second = await lists.block('content', [one, two], asked)
  t.same([second.changed, second.unchanged], [1, 1])
  const undone = await lists.undo(second.act.id, asked)
  t.same(lists.names('content', { limit: 9 }), [one])
  const again = await lists.undo(undone.act.id, asked)
  t.same(lists.names('content', { limit: 9 }), [one, two])
  await lists.undo(again.act.id, asked)
  t.same(lists.names('content', { limit: 9 }), [one])
  const lifted = await lists.unblock('content', [one], asked)
  await lists.undo(lifted.act.id, asked)
  t.same(lists.names('content', { limit: 9 }), [one])
  time.ms += 31 * dayMs
  await t.rejects(lists.undo(first.act.id, asked), { code: 'TOO_LATE' })
  await t.rejects(lists.undo('0', asked), { code: 'NOT_FOUND' })
})

t.test('an act is in the log before its effect: without its row there is none', async (t) => {
  const { lookups, lists } = await start(t)
  const write = lookups.write.bind(lookups)
  let failing = 'acts/'
  lookups.write = async (changes, time) => {
    const [first] = changes
    if (first !== undefined && 'put' in first && first.put.startsWith(failing)) throw new Error('lost')
    return write(changes, time)
  }
  await t.rejects(lists.block('content', [md5Of(blobId(1))], asked), { message: 'lost' })
  t.equal(lists.count('content'), 0)
  failing = 'moderation/stamp'
  await t.rejects(lists.block('content', [md5Of(blobId(1))], asked), { message: 'lost' })
  await lists.refresh()
  t.ok(lists.blocksBlob(blobId(1)), 'a part that was written is read again')
  t.equal((await lists.acts.page()).acts.length, 1)
})

t.test('the log is shown from its end, page by page', async (t) => {
  const { lists, time } = await start(t)
  for (const byte of [1, 2, 3, 4, 5]) {
    time.ms += 1_000
    await lists.block('content', [md5Of(blobId(byte))], { by: 'ann', reason: `${byte}` })
  }
  const seen: string[] = []
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page = await lists.acts.page({ after, limit: 2 })
    seen.push(page.acts.map(({ reason }) => reason).join())
    after = page.next
  }
  t.same(seen, ['5,4', '3,2', '1'])
})

t.test('a full list refuses, and lifted names leave it when they cannot be undone', async (t) => {
  const { lists, time } = await start(t)
  const names = Array.from({ length: namesMax.content }, (_, n) => n.toString(16).padStart(32, '0'))
  await lists.block('content', names, asked)
  await t.rejects(lists.block('content', ['f'.repeat(32)], asked), { code: 'FULL' })
  await lists.unblock('content', names.slice(0, 10), asked)
  await t.rejects(lists.block('content', ['f'.repeat(32)], asked), { code: 'FULL' })
  time.ms += 31 * dayMs
  await lists.unblock('content', names.slice(10, 11), asked)
  await lists.block('content', ['f'.repeat(32)], asked)
  t.equal(lists.count('content'), namesMax.content - 10)
})

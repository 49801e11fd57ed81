/** Answers have bounds, and long work has slices. */
import { AccountReply, type Item, SortField } from '@holdfast/wire'
import t from 'tap'
import { asciiUnitsPerFolded, foldedUnitsPerSlice } from '../src/bounds.ts'
import type { ContentTable } from '../src/tree/columns.ts'
import { ListingOrders, sortInSlices } from '../src/tree/listing-order.ts'
import { expire, link, names, password, set } from './owner.ts'
import { blobOf, firstPage, operator, sent, visitor, World } from './world.ts'

/** Normalising sorts its combining marks. */
const slowName = '\u0f75'.repeat(200)

t.test('an answer holds at most 10,000 items', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const big = world.folder(root, { name: 'big' })
  // Folders: 10,000 files are more bytes than an answer holds.
  for (let index = 0; index < 100; index++) world.folder(big.id, { name: `f${index}` })
  const all = world.folder(root, { name: 'all' })
  const sources = [{ contentId: big.id, manifest: undefined }]
  for (let index = 0; index < 101; index++)
    world.ask(operator, { copyContents: { sources, folderId: all.id } })
  const read = world.read(operator, all.id, { maxDepth: 2 })
  const whole = read.children.filter((child) => child.hasChildren)
  t.equal(read.children.length, 101)
  t.equal(whole.length, 98, '101 + 98 × 100 is the last that fits')
  t.ok(
    read.children.every(
      (child) => child.children.length === (child.hasChildren ? 100 : 0) && child.childrenCount === 100,
    ),
  )
})

t.test('sorting many rows is correct, in slices of bounded work', async (t) => {
  for (const count of [0, 1, 4_096, 4_097, 8_192, 50_000]) {
    const ascending = Uint32Array.from({ length: count }, (_, place) => place)
    const mixed = ascending.map((place) => Math.imul(place, 2_654_435_761) >>> 0)
    for (const rows of [ascending, mixed, mixed.map((row) => row % 7), ascending.toReversed()]) {
      let compared = 0
      let most = 0
      const compare = (a: number, b: number) => {
        compared++
        return a - b
      }
      const steps = sortInSlices(rows.slice(), compare)
      let step = steps.next()
      for (; step.done !== true; step = steps.next()) {
        most = Math.max(most, compared)
        compared = 0
      }
      t.same(step.value, rows.toSorted(), `${count} rows`)
      t.ok(Math.max(most, compared) <= 4_096 * 13, `${most} comparisons in a slice`)
    }
  }
})

t.test('deeper levels of a listing end at 4 MiB: a folder comes whole or without children', async (t) => {
  const world = new World()
  const root = world.create()
  const fat = '\u{1F600}'.repeat(2_000)
  const fill = (name: string, count: number) => {
    const folder = world.folder(root, { name })
    for (let n = 0; n < count; n++) {
      const below = world.folder(folder.id, { name: `${name} ${n}` })
      set(world, below.id, { $case: 'description', value: fat })
    }
    return folder
  }
  fill('a', 400)
  fill('b', 150)
  fill('c', 100)
  const read = world.read(operator, root, { maxDepth: 16, sortField: SortField.NAME, ascending: true })
  t.same(
    read.children.map(({ name, children, childrenCount }) => [name, children.length, childrenCount]),
    [
      ['a', 400, 400],
      ['b', 0, 150],
      ['c', 100, 100],
    ],
  )
  t.same(names(read), ['a', 'b', 'c'], 'the first level stays whole')
})

t.test('what does not fit into the deeper levels is counted up to 8 MiB, then all stay closed', async (t) => {
  const world = new World()
  const root = world.create()
  const fat = '\u{1F600}'.repeat(2_000)
  const fill = (name: string, count: number) => {
    const folder = world.folder(root, { name })
    for (let n = 0; n < count; n++) {
      const below = world.folder(folder.id, { name: `${name} ${n}` })
      set(world, below.id, { $case: 'description', value: fat })
    }
  }
  // Each is counted up to 4 MiB and does not fit; the third reaches the end of the count.
  for (const name of ['a', 'b', 'c']) fill(name, 520)
  fill('d', 1)
  const read = world.read(operator, root, { maxDepth: 16, sortField: SortField.NAME, ascending: true })
  t.same(
    read.children.map(({ name, children, childrenCount }) => [name, children.length, childrenCount]),
    [
      ['a', 0, 520],
      ['b', 0, 520],
      ['c', 0, 520],
      ['d', 0, 1],
    ],
  )
})

t.test('counting long texts yields about every MiB', async (t) => {
  const world = new World()
  const root = world.create()
  for (let n = 0; n < 24; n++) {
    const { id } = world.folder(root, { name: `folder ${n}` })
    for (let m = 0; m < 32; m++) {
      const below = world.folder(id, { name: `${n} ${m}` })
      set(world, below.id, { $case: 'description', value: '\u{1F600}'.repeat(2_000) })
    }
  }
  const request = world.request(operator, { readContent: { ...firstPage, contentId: root, maxDepth: 16 } })
  const outcome = world.state.decide(request, world.context())
  if (outcome.kind !== 'slices') throw new Error(`${outcome.kind} instead of slices`)
  let slices = 1
  while (outcome.steps.next().done !== true) slices++
  t.ok(slices >= 5, `6 MiB were examined in ${slices} slices`)
})

t.test('an answer has 8 MiB of direct links, and one item always has all of its own', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { limitContents: 1_000_000 } })
  const auth = Array.from({ length: 100 }, (_, n) => ({
    user: `${n}`.padEnd(500, 'u'),
    salt: Buffer.alloc(16),
    hash: Buffer.alloc(32),
  }))
  const folders = Array.from({ length: 3 }, () => world.folder(root))
  const { bytes } = world.state
  for (const { id } of folders)
    for (let n = 0; n < 60; n++)
      world.ask(operator, { putDirectLink: { contentId: id, link: { ...link, auth } } })
  t.ok(world.state.bytes - bytes > 180 * 100 * 500, 'and they count as memory of the account')
  const linksOf = (items: Item[]) => items.map((item) => item.directLinks.length).sort()
  t.same(linksOf(world.read(operator, root).children), [0, 60, 60])
  for (const { id } of folders) t.equal(world.read(operator, id).directLinks.length, 60)
})

t.test('an answer stays as it was made when the account changes', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const top = world.folder(root, { name: 'top', isPublic: true })
  const inner = world.folder(top.id, { name: 'inner' })
  const file = world.file(top.id, 'before', blobOf('before'))
  const plain = world.file(top.id, 'plain before')
  const binned = world.file(top.id, 'binned')
  world.ask(operator, { deleteContents: { contentIds: [binned.id] } })
  const user = { user: 'reader', salt: Buffer.alloc(16, 1), hash: Buffer.alloc(32, 1) }
  const put = (contentId: string, linkId?: string, domain = 'before.example') => {
    const record = { ...link, domainsAllowed: [domain], auth: [user] }
    const { result } = world.ask(operator, {
      putDirectLink: { contentId, link: record, ...(linkId === undefined ? {} : { linkId }) },
    })
    if (result.$case !== 'directLink') throw new Error(JSON.stringify(result))
    return result.value.link?.id as string
  }
  const links = [top.id, inner.id, file.id].map((id) => ({ id, linkId: put(id) }))
  const opened = world.ask(operator, { putDirectLink: { contentId: top.id, link } }).result
  const openLink = opened.$case === 'directLink' ? (opened.value.link?.id ?? '') : ''
  for (const { id } of links) set(world, id, { $case: 'tags', value: 'before' })
  set(world, inner.id, { $case: 'description', value: 'before' })
  password(world, top.id, 'before')
  const opens = sent('before')
  const page = { ...firstPage, contentId: top.id, maxDepth: 3 }
  const encoded = (reply: AccountReply) => Buffer.from(AccountReply.encode(reply).finish()).toString('latin1')
  const short = { page: 1, pageSize: 9 }
  const asked = [
    world.request(operator, { readContent: page }),
    world.request(operator, { readContent: { ...page, columns: true } }),
    world.request(visitor, { readContent: { ...page, password: opens } }),
    world.request(operator, { readContent: { ...page, contentId: file.id } }),
    world.request(operator, { searchContents: { contentId: root, searchedString: 'before', ...short } }),
    world.request(operator, { openFile: { contentId: file.id } }),
    world.request(visitor, { openFile: { contentId: file.id, password: opens } }),
    world.request(visitor, { openDirectLink: { contentId: top.id, linkId: openLink, sourceIp: '10.0.0.1' } }),
    world.request(operator, { takeManifest: { contentIds: [top.id] } }),
    world.request(operator, { readBin: {} }),
    world.request(operator, { getAccount: {} }),
  ]
  const answers = asked.map((request) => {
    const outcome = world.decide(request)
    if (outcome.kind !== 'reply') throw new Error(outcome.kind)
    const operation = request.operation?.$case ?? ''
    t.not(outcome.reply.result?.$case, 'refusal', operation)
    return { operation, reply: outcome.reply, before: encoded(outcome.reply) }
  })
  for (const { id, linkId } of links) {
    put(id, linkId, 'after.example')
    put(id)
    set(world, id, { $case: 'name', value: 'after' })
    set(world, id, { $case: 'tags', value: 'after' })
  }
  set(world, inner.id, { $case: 'description', value: 'after' })
  set(world, plain.id, { $case: 'name', value: 'plain after' })
  password(world, top.id, 'after')
  password(world, inner.id, 'after')
  expire(world, inner.id, 50)
  for (const { id, linkId } of links)
    t.equal(world.status(operator, { deleteDirectLink: { contentId: id, linkId } }), 'ok')
  world.ask(operator, { setAccount: { recycleBin: false, tier: 'premium' } })
  world.ask(operator, { deleteContents: { contentIds: [top.id, binned.id] } })
  world.settle()
  // Rows and blobs that were freed are used again.
  for (let n = 0; n < 20; n++) world.file(world.folder(root).id, `again ${n}`)
  for (const { operation, reply, before } of answers) t.equal(encoded(reply), before, operation)
})

t.test('filters and search compare long tags in slices', async (t) => {
  const world = new World()
  const root = world.create()
  const tags = Array.from({ length: 50 }, (_, n) => `${n}`.padEnd(25, 'x')).join(',')
  const count = 300
  for (let n = 0; n < count; n++) set(world, world.folder(root).id, { $case: 'tags', value: tags })
  const units = Math.floor(tags.length / asciiUnitsPerFolded)
  const leastSlices = Math.floor(count / Math.ceil(foldedUnitsPerSlice / units)) - 1
  const slicesOf = (ask: Parameters<World['request']>[1]) => {
    const outcome = world.state.decide(world.request(operator, ask), world.context())
    if (outcome.kind !== 'slices') return 0
    for (let slices = 1; ; slices++) if (outcome.steps.next().done === true) return slices
  }
  t.ok(leastSlices > 1)
  const filtered = slicesOf({ readContent: { ...firstPage, contentId: root, contentFilter: 'none' } })
  t.ok(filtered >= leastSlices, `${filtered} of a listing`)
  const query = { contentId: root, searchedString: 'none', page: 1, pageSize: 9 }
  const searched = slicesOf({ searchContents: query })
  t.ok(searched >= leastSlices, `${searched} of a search`)
  const plain = slicesOf({ readContent: { ...firstPage, contentId: root } })
  t.equal(plain, 0, 'a page without a filter comes at once')
})

t.test('names that are slow to fold are filtered and sorted in slices', async (t) => {
  const world = new World()
  const root = world.create()
  const count = 200
  for (let n = 0; n < count; n++) world.folder(root, { name: `${n}${slowName}` })
  const slicesOf = (query: object) => {
    const ask = { readContent: { ...firstPage, contentId: root, ...query } }
    const outcome = world.state.decide(world.request(operator, ask), world.context())
    if (outcome.kind !== 'slices') return 0
    for (let slices = 1; ; slices++) if (outcome.steps.next().done === true) return slices
  }
  const leastSlices = Math.floor(count / Math.ceil(foldedUnitsPerSlice / slowName.length)) - 1
  t.ok(slicesOf({ contentFilter: 'none' }) >= leastSlices)
  t.ok(slicesOf({ contentName: 'none' }) >= leastSlices)
  t.ok(slicesOf({ sortField: SortField.NAME }) >= leastSlices)
  t.equal(slicesOf({ sortField: SortField.NAME }), 0, 'sorted once')
})

t.test('an order of names that are slow to fold is dropped while many of them change', async (t) => {
  const ordersAfter = (nameOf: (n: number) => string, changes: number) => {
    const names = Array.from({ length: 1_000 }, (_, n) => nameOf(n))
    const left = new Set(names.keys())
    const contents = { names, created: new Float64Array(1_000), ids: new Uint32Array(4_000) }
    const orders = new ListingOrders({
      contents: contents as unknown as ContentTable,
      sizeOf: () => 0,
      children: () => left,
      childCount: () => left.size,
    })
    const list = () => {
      for (const steps = orders.sorted(0, SortField.NAME); !steps.next().done; );
    }
    list()
    for (let n = 0; n < changes; n++) {
      orders.removing(0, n)
      left.delete(n)
    }
    return { orders, list, kept: orders.bytes > 0 }
  }
  const slow = (n: number) => `${n}${slowName}`
  t.ok(ordersAfter((n) => `${n} plain`, 500).kept)
  t.ok(ordersAfter(slow, 4).kept)
  t.notOk(ordersAfter(slow, 20).kept)
  const { orders, list } = ordersAfter(slow, 20)
  list()
  t.ok(orders.bytes > 0, 'the next listing makes it again')
})

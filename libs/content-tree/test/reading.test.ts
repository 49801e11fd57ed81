/** Queries: listings, search, files, manifests, direct links, and who may see what. */
import { createHash } from 'node:crypto'
import {
  AccountReply,
  type ContentView,
  type DirectLink,
  type Item,
  Manifest,
  type ManifestEntry,
  SortField,
} from '@holdfast/wire'
import t from 'tap'
import { comparedUnitsPerSlice } from '../src/bounds.ts'
import { sortInSlices } from '../src/tree/listing-order.ts'
import { blobOf, firstPage, operator, passwordOf, sent, system, visitor, type Who, World } from './world.ts'

const names = (item: Item) => item.children.map((child) => child.name)

function set(
  world: World,
  contentId: string,
  attribute: NonNullable<import('@holdfast/wire').UpdateContent['attribute']>,
) {
  const status = world.status(operator, { updateContent: { contentId, attribute } })
  if (status !== 'ok') throw new Error(status)
}

const password = (world: World, contentId: string, text: string) =>
  set(world, contentId, { $case: 'password', value: { verifier: passwordOf(text) } })
const expire = (world: World, contentId: string, seconds: number) =>
  set(world, contentId, { $case: 'expiry', value: { expiry: world.now + seconds, deleteAfterExpiry: false } })

t.test('files as columns equal the items, and what does not fit stays an item in its place', async (t) => {
  const world = new World()
  const root = world.create()
  const files = ['a', 'é😀', 'C', 'd', 'E', 'f'].map((name, n) =>
    world.item(operator, {
      addFile: {
        folderId: root,
        name,
        mimetype: `text/${n % 2}`,
        blob: { ...blobOf(name, n), placementGroup: n },
      },
    }),
  )
  world.folder(root, { name: 'b' })
  set(world, files[3]?.id ?? '', { $case: 'tags', value: 'red' })
  set(world, files[4]?.id ?? '', { $case: 'modTime', value: -7 })
  const counts = [{ contentId: files[0]?.id ?? '', count: 9 }]
  world.ask(system, { reportDownloads: { source: Buffer.alloc(16), sequence: 1, counts } })
  const query = { ...firstPage, contentId: root, sortField: SortField.NAME, ascending: true }
  const read = (more: object) => {
    const { result } = world.ask(operator, { readContent: { ...query, ...more } })
    if (result.$case !== 'content') throw new Error(result.$case)
    return result.value
  }
  for (const more of [
    {},
    { page: 2, pageSize: 4 },
    { pageSize: 1 },
    { maxDepth: 2 },
    { contentFilter: 'c' },
  ]) {
    const plain = read(more)
    const columns = read({ ...more, columns: true })
    t.same(fromColumns(columns), infoOf(plain.item?.children ?? []))
    t.same(columns.page, plain.page)
    const apart = (plain.item?.children ?? []).filter(({ name }) => ['b', 'd'].includes(name))
    t.same(columns.item?.children, apart, 'columns have no place for a folder or tags')
  }
})

/** What columns hold of each child, in order. */
function infoOf(items: readonly Item[]) {
  return items.map((item) => {
    const { id, name, code, createTime, modTime, size, mimetype, downloads, blob } = item
    const { placementGroup = 0 } = blob ?? {}
    const md5 = blob?.id.toString('hex', 0, 16)
    return { id, name, code, createTime, modTime, size, mimetype, downloads, md5, placementGroup }
  })
}

function fromColumns({ item, files, places }: ContentView) {
  if (files === undefined) throw new Error('no columns')
  let nameAt = 0
  const rows = Array.from({ length: files.ids.length / 16 }, (_, row) => {
    const length = files.nameLengths.readUInt16LE(row * 2)
    const name = files.names.slice(nameAt, nameAt + length)
    nameAt += length
    const hex = files.ids.toString('hex', row * 16, row * 16 + 16)
    return {
      id: hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
      name,
      code: files.codes.toString('latin1', row * 8, row * 8 + 8),
      createTime: files.createTimes.readDoubleLE(row * 8),
      modTime: files.modTimes.readDoubleLE(row * 8),
      size: files.sizes.readDoubleLE(row * 8),
      mimetype: files.mimetypes[files.mimetypeIndexes.readUInt16LE(row * 2)] ?? '',
      downloads: files.downloads.readDoubleLE(row * 8),
      md5: files.md5s.toString('hex', row * 16, row * 16 + 16),
      placementGroup: files.placementGroups.readUInt32LE(row * 4),
    }
  })
  const merged: ReturnType<typeof infoOf> = rows
  for (const [index, details] of infoOf(item?.children ?? []).entries())
    merged.splice(places[index] ?? 0, 0, details)
  return merged
}

t.test('a page is a slice of the requested order', async (t) => {
  const world = new World()
  const root = world.create()
  const made = ['b', 'É', 'a', 'e\u0301x', 'D', 'c', 'A'].map((name, index) => {
    world.nowMs += 1000
    return world.item(operator, {
      addFile: {
        folderId: root,
        name,
        mimetype: index % 2 === 0 ? 'text/b' : 'text/a',
        blob: blobOf(name, (index * 5) % 7),
      },
    })
  })
  world.nowMs += 1000
  world.folder(root, { name: 'folder' })
  const list = (sortField: SortField, ascending = true, more = {}) =>
    names(world.read(operator, root, { sortField, ascending, ...more }))
  t.same(list(SortField.CREATE_TIME), ['b', 'É', 'a', 'e\u0301x', 'D', 'c', 'A', 'folder'])
  t.same(list(SortField.CREATE_TIME, false), ['folder', 'A', 'c', 'D', 'e\u0301x', 'a', 'É', 'b'])
  t.same(
    list(SortField.NAME),
    ['a', 'A', 'b', 'c', 'D', 'folder', 'É', 'e\u0301x'],
    'without case, composed, ties by creation',
  )
  t.same(
    list(SortField.SIZE),
    ['b', 'folder', 'e\u0301x', 'A', 'a', 'c', 'É', 'D'].map((name) => name),
    'folders have size 0',
  )
  t.same(list(SortField.MIMETYPE), ['folder', 'É', 'e\u0301x', 'c', 'b', 'a', 'D', 'A'])
  const report = { source: Buffer.alloc(16), sequence: 1, trafficDirect: 0, trafficWeb: 0 }
  const counts = [made[2], made[2], made[4]].map((item) => ({ contentId: item?.id ?? '', count: 1 }))
  world.ask(system, { reportDownloads: { ...report, counts } })
  t.same(list(SortField.DOWNLOADS, false).slice(0, 2), ['a', 'D'])
  t.same(list(SortField.CREATE_TIME, true, { page: 2, pageSize: 3 }), ['e\u0301x', 'D', 'c'])
  t.same(list(SortField.CREATE_TIME, true, { page: 3, pageSize: 3 }), ['A', 'folder'])
  t.same(list(SortField.CREATE_TIME, true, { page: 4, pageSize: 3 }), [], 'past the end')
  t.same(list(0 as SortField), list(SortField.CREATE_TIME), 'the default')
  const { result } = world.ask(operator, {
    readContent: { ...firstPage, contentId: root, page: 2, pageSize: 3 },
  })
  t.match(result, { value: { page: { page: 2, pageSize: 3, totalCount: 8 } } })
})

t.test('filters act on the first level and count what is left', async (t) => {
  const world = new World()
  const root = world.create()
  for (const name of ['Straße.txt', 'STRASSE', 'Σίσυφος', 'other', 'other', 'Other']) world.file(root, name)
  const folder = world.folder(root, { name: 'tagged' })
  set(world, folder.id, { $case: 'tags', value: 'Straw,x' })
  world.file(folder.id, 'below')
  const found = (query: object) => {
    const { result } = world.ask(operator, {
      readContent: {
        ...firstPage,
        sortField: SortField.NAME,
        ascending: true,
        contentId: root,
        maxDepth: 2,
        ...query,
      },
    })
    if (result.$case !== 'content' || result.value.item === undefined) throw new Error('no listing')
    return [names(result.value.item).join(), result.value.page?.totalCount, result.value.item.childrenCount]
  }
  t.same(found({ contentFilter: 'strasse' }), ['Straße.txt,STRASSE'.split(',').reverse().join(), 2, 7])
  t.same(found({ contentFilter: 'ΊΣΥΦΟΣ' })[0], 'Σίσυφος')
  t.same(found({ contentFilter: 'straw' })[0], 'tagged', 'tags')
  t.same(found({ contentFilter: '' })[1], 7, 'an empty filter is none')
  t.same(found({ contentName: 'other' }).slice(0, 2), ['other,other', 2], 'case counts')
  t.same(found({ contentName: 'other', contentFilter: 'straw' })[1], 0)
  t.same(found({ contentName: 'Strasse' })[1], 0)
  const tagged = world.read(operator, root, { contentFilter: 'straw', maxDepth: 2 }).children[0]
  t.same(
    tagged?.children.map((child) => child.name),
    ['below'],
    'deeper levels are whole',
  )
})

t.test('an order is kept up to date by every kind of change', async (t) => {
  const world = new World()
  const root = world.create()
  const files = Array.from({ length: 100 }, (_, index) => world.file(root, `n${(index * 37) % 100}`))
  const fields = [1, 2, 3, 4, 5] as const
  const same = (what: string) => {
    for (const sortField of fields) {
      const kept = world
        .read(operator, root, { sortField, ascending: true })
        .children.map((child) => child.id)
      const state = world.state
      world.state = world.replayed()
      t.same(
        kept,
        world.read(operator, root, { sortField, ascending: true }).children.map((child) => child.id),
        `${what}, field ${sortField}`,
      )
      world.state = state
    }
  }
  same('built')
  const id = (index: number) => files[index]?.id ?? ''
  world.nowMs += 5000
  set(world, id(3), { $case: 'name', value: 'N50x' })
  const folder = world.folder(root, { name: 'n5' })
  world.ask(operator, { moveContents: { contentIds: [id(7), id(8)], folderId: folder.id } })
  world.ask(operator, { deleteContents: { contentIds: [id(11), id(12)] } })
  world.ask(operator, {
    copyContents: { sources: [{ contentId: folder.id, manifest: undefined }], folderId: root },
  })
  const counts = [
    { contentId: id(20), count: 3 },
    { contentId: id(21), count: 2 },
  ]
  world.ask(system, {
    reportDownloads: { source: Buffer.alloc(16, 1), sequence: 1, counts, trafficDirect: 0, trafficWeb: 0 },
  })
  world.file(root, 'n77')
  same('changed')
})

t.test('deeper levels come whole or not at all', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const outer = world.folder(root, { name: 'outer' })
  const inner = world.folder(outer.id, { name: 'inner' })
  world.file(inner.id, 'deep')
  const empty = world.folder(outer.id, { name: 'empty' })
  const at = (maxDepth: number) => world.read(operator, root, { maxDepth })
  t.match(at(1).children, [{ id: outer.id, hasChildren: false, childrenCount: 2, children: [] }])
  t.match(at(2).children[0], {
    hasChildren: true,
    children: [{ id: empty.id }, { id: inner.id, hasChildren: false, childrenCount: 1 }],
  })
  const deep = at(3).children[0]?.children
  t.match(deep, [
    { id: empty.id, hasChildren: true, children: [] },
    { id: inner.id, children: [{ name: 'deep' }] },
  ])
})

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

t.test(
  'visitors do not see private, expired or recycled content; a protected child shows its lock',
  async (t) => {
    const world = new World()
    const root = world.create()
    world.ask(operator, { setAccount: { recycleBin: true } })
    const folder = world.folder(root, { name: 'shared', isPublic: true })
    set(world, folder.id, { $case: 'description', value: 'shown' })
    const file = world.file(folder.id, 'file')
    const make = (name: string) => world.folder(folder.id, { name })
    const open = make('open')
    const privat = world.folder(folder.id, { name: 'private', isPublic: false })
    const expired = make('expired')
    const locked = make('locked')
    const recycled = make('recycled')
    world.file(locked.id, 'hidden')
    world.file(open.id, 'seen')
    expire(world, expired.id, 5)
    password(world, locked.id, 'secret')
    set(world, locked.id, { $case: 'tags', value: 'zebra' })
    world.ask(operator, { deleteContents: { contentIds: [recycled.id] } })
    world.ask(operator, { putDirectLink: { contentId: file.id, link } })
    world.nowMs += 5000

    const seen = world.read(visitor, folder.id, { maxDepth: 3, sortField: SortField.NAME, ascending: true })
    t.match(seen, {
      isOwner: false,
      canAccess: true,
      parentFolder: undefined,
      childrenCount: 3,
      description: 'shown',
      deleteAfterExpiry: undefined,
      directLinks: [],
    })
    t.same(names(seen), ['file', 'locked', 'open'])
    const [shownFile, shownLocked, shownOpen] = seen.children
    t.match(shownFile, { parentFolder: folder.id, size: 4, directLinks: [], isOwner: false, canAccess: true })
    t.match(shownOpen, { canAccess: true, children: [{ name: 'seen' }] })
    t.match(shownLocked, {
      id: locked.id,
      name: 'locked',
      code: locked.code,
      canAccess: false,
      password: true,
      passwordStatus: 'passwordRequired',
      childrenCount: 0,
      hasChildren: false,
      children: [],
      createTime: 0,
      tags: undefined,
      parentFolder: undefined,
    })
    t.match(world.read(visitor, folder.id, { password: sent('wrong'), contentFilter: 'lock' }).children[0], {
      passwordStatus: 'passwordRequired',
    })
    t.same(names(world.read(visitor, folder.id, { contentFilter: 'zebra' })), [], 'hidden tags match nothing')
    const unlocked = world.read(visitor, folder.id, {
      password: sent('secret').toUpperCase(),
      maxDepth: 2,
      contentFilter: 'lock',
    }).children[0]
    t.match(unlocked, {
      canAccess: true,
      passwordStatus: undefined,
      children: [{ name: 'hidden' }],
      passwordVersion: passwordOf('secret').salt,
    })
    t.same(names(world.read(operator, folder.id)).sort(), ['expired', 'file', 'locked', 'open', 'private'])
    t.equal(world.status(visitor, { readContent: { contentId: privat.id } }), 'error-notOwner')
    t.equal(world.status(visitor, { readContent: { contentId: expired.id } }), 'error-notFound')
    t.equal(world.status(visitor, { readContent: { contentId: root } }), 'error-notOwner')
    t.equal(
      world.status(visitor, { readContent: { contentId: world.account().recycleBinFolder } }),
      'error-notFound',
    )
    t.equal(world.read(visitor, open.id).parentFolder, folder.id, 'a parent that it may read')
    t.equal(world.status(visitor, { getAccount: {} }), 'error-notOwner')
  },
)

t.test('the consent to deletion is shown to the owner alone', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const { id } = world.folder(root, { isPublic: true })
  const value = { expiry: world.now + 100, deleteAfterExpiry: true }
  set(world, id, { $case: 'expiry', value })
  t.equal(world.read(operator, id).deleteAfterExpiry, true)
  t.match(world.read(visitor, id), { expiry: value.expiry, deleteAfterExpiry: undefined })
})

t.test('pages of a visitor are cut from what it may see', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { isPublic: true })
  for (let index = 0; index < 10; index++) {
    world.nowMs += 1000
    world.folder(folder.id, { name: `f${index}`, isPublic: index % 3 !== 0 })
  }
  const pages = [1, 2, 3].map((page) =>
    names(world.read(visitor, folder.id, { page, pageSize: 3, ascending: true })).join(),
  )
  t.same(pages, ['f1,f2,f4', 'f5,f7,f8', ''])
  const { result } = world.ask(visitor, { readContent: { ...firstPage, contentId: folder.id } })
  t.match(result, {
    value: { page: { totalCount: 6 }, item: { childrenCount: 6 }, tokenCounter: 0, tokenKeyId: 0 },
  })
})

t.test('both ways of storing a password open, with few slow checks', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { isPublic: true })
  password(world, folder.id, 'secret')
  const child = world.folder(folder.id)
  const grandchild = world.folder(child.id)
  const read = (sending?: string, id = folder.id) =>
    world.status(visitor, {
      readContent: {
        ...firstPage,
        maxDepth: 3,
        contentId: id,
        ...(sending === undefined ? {} : { password: sending }),
      },
    })
  t.equal(read(), 'error-passwordRequired')
  t.equal(read(''), 'error-passwordRequired')
  t.equal(read('secret'), 'error-passwordWrong', 'readers send the hash')
  t.equal(world.checked.length, 0, 'and what is no hash costs nothing')
  t.equal(read(sent('wrong')), 'error-passwordWrong')
  t.equal(read(sent('secret')), 'ok')
  t.equal(world.checked.length, 2, 'inherited passwords share a verifier')
  t.equal(read(sent('secret'), grandchild.id), 'ok')
  for (let index = 0; index < 6; index++)
    password(world, world.folder(grandchild.id, { name: `p${index}` }).id, `other${index}`)
  const before = world.checked.length
  const listed = world.read(visitor, grandchild.id, { password: sent('secret') })
  t.equal(world.checked.length - before, 3, 'three checks a request; what is known costs none')
  t.ok(listed.children.every((item) => item.passwordStatus === 'passwordRequired'))
  set(world, folder.id, { $case: 'isPublic', value: false })
  t.equal(read(sent('secret')), 'error-notOwner')
})

t.test('search descends, newest first, and omits the folder itself', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { name: 'match', isPublic: true })
  const ids = ['match one', 'two', 'MATCH three'].map((name) => {
    world.nowMs += 1000
    return world.file(folder.id, name).id
  })
  world.nowMs += 1000
  const hidden = world.folder(folder.id, { name: 'match hidden', isPublic: false })
  const below = world.folder(hidden.id, { name: 'match below', isPublic: true })
  const locked = world.folder(folder.id, { name: 'match locked' })
  world.file(locked.id, 'match in locked')
  password(world, locked.id, 'secret')
  set(world, ids[1] ?? '', { $case: 'tags', value: 'rematch' })
  const search = (who: Who, more: object = {}) => {
    const { result } = world.ask(who, {
      searchContents: { contentId: folder.id, searchedString: 'match', page: 1, pageSize: 100, ...more },
    })
    if (result.$case !== 'search') throw new Error(JSON.stringify(result))
    return result.value.hits.map((hit) => hit.name)
  }
  const own = search(operator)
  t.same(own.slice(-3), ['MATCH three', 'two', 'match one'])
  t.same([...own.slice(0, -3)].sort(), ['match below', 'match hidden', 'match in locked', 'match locked'])
  t.same(search(visitor), ['match locked', 'MATCH three', 'two', 'match one'])
  t.same(
    search(visitor, { password: sent('secret') })
      .slice(0, 2)
      .toSorted(),
    ['match in locked', 'match locked'],
  )
  const from = world.now - 3
  t.same(
    search(operator, { createTimeFrom: from, createTimeTo: from + 1 }),
    ['two', 'match one'],
    'both ends count',
  )
  t.same(search(operator, { page: 2, pageSize: 3 }), own.slice(3, 6))
  const { result } = world.ask(operator, {
    searchContents: { contentId: root, searchedString: 'match', page: 1, pageSize: 1 },
  })
  t.match(result, {
    value: { hits: [{ createTime: world.now }], page: { page: 1, pageSize: 1, totalCount: 8 } },
  })
  const status = (more: object) =>
    world.status(operator, {
      searchContents: { contentId: folder.id, searchedString: 'x', page: 1, pageSize: 1, ...more },
    })
  t.equal(status({ searchedString: '' }), 'error-searchedString')
  t.equal(status({ contentId: ids[0] }), 'error-contentId')
  t.equal(status({ contentId: world.id }), 'error-notFound')
  t.equal(
    world.status(visitor, {
      searchContents: { contentId: hidden.id, searchedString: 'x', page: 1, pageSize: 1 },
    }),
    'error-notOwner',
  )
  t.same(search(visitor, { contentId: below.id }), [], 'a public folder below a private one opens by itself')
})

t.test('a file opened for a visitor says when the first folder above it ends', async (t) => {
  const world = new World()
  const root = world.create()
  const above = world.folder(root, { isPublic: true })
  const folder = world.folder(above.id, { isPublic: true })
  const file = world.file(folder.id)
  const ends = (who: Who, more: object = {}) => {
    const { result } = world.ask(who, { openFile: { contentId: file.id, ...more } })
    return result?.$case === 'file' ? result.value.ends : result
  }
  const expiry = (id: string, seconds: number) =>
    set(world, id, {
      $case: 'expiry',
      value: { expiry: world.now + seconds, deleteAfterExpiry: false },
    })
  const owner = world.bearer()
  t.equal(ends(visitor), undefined)
  expiry(folder.id, 100)
  t.equal(ends(visitor), world.now + 100)
  expiry(above.id, 50)
  t.equal(ends(visitor), world.now + 50)
  expiry(above.id, 200)
  t.equal(ends(visitor), world.now + 100)
  t.equal(ends(owner), undefined)
  password(world, folder.id, 'secret')
  t.equal(ends(visitor, { password: sent('secret') }), world.now + 100)
  const grant = { folderId: folder.id, passwordVersion: passwordOf('secret').salt }
  t.equal(ends({ $case: 'grant', value: { ...grant, ownerTokenCounter: undefined } }), world.now + 100)
  t.equal(ends({ $case: 'grant', value: { ...grant, ownerTokenCounter: 0 } }), undefined)
})

t.test('a file follows its folder; a capability follows its folder and password', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { isPublic: true })
  const other = world.folder(root, { isPublic: true })
  const file = world.file(folder.id)
  const open = (who: Who, more: object = {}) =>
    world.status(who, { openFile: { contentId: file.id, ...more } })
  const grant = (passwordVersion: Buffer, ownerTokenCounter?: number): Who => ({
    $case: 'grant',
    value: { folderId: folder.id, passwordVersion, ownerTokenCounter },
  })
  const none = Buffer.alloc(0)
  t.equal(open(visitor), 'ok')
  t.match(world.ask(visitor, { openFile: { contentId: file.id } }).result, {
    value: { isOwner: false, item: { id: file.id, blob: { size: 8 } } },
  })
  t.match(world.ask(world.bearer(), { openFile: { contentId: file.id } }).result, {
    value: { isOwner: true },
  })
  t.equal(open(world.bearer(4)), 'error-token')
  t.equal(world.status(visitor, { openFile: { contentId: folder.id } }), 'error-notFound', 'a folder')

  password(world, folder.id, 'secret')
  t.equal(open(visitor), 'error-passwordRequired')
  t.equal(open(visitor, { password: sent('secret') }), 'ok')
  t.equal(open(grant(none)), 'error-passwordRequired', 'given when there was no password')
  t.equal(open(grant(passwordOf('secret').salt)), 'ok')
  t.equal(open(grant(passwordOf('older').salt)), 'error-passwordRequired', 'given under another password')
  set(world, folder.id, { $case: 'isPublic', value: false })
  t.equal(open(grant(passwordOf('secret').salt)), 'error-notOwner')
  t.equal(open(grant(none, 0)), 'ok', "the owner's")
  t.match(world.ask(grant(none, 0), { openFile: { contentId: file.id } }).result, {
    value: { isOwner: true },
  })
  t.equal(
    world.status(grant(none, 0), { readContent: { contentId: folder.id } }),
    'error-notOwner',
    'valid only for files',
  )
  world.ask(operator, { moveContents: { contentIds: [file.id], folderId: other.id } })
  password(world, other.id, 'another')
  t.equal(open(grant(none, 0)), 'error-passwordRequired', 'the file is elsewhere')
  world.ask(operator, { moveContents: { contentIds: [file.id], folderId: folder.id } })
  world.ask(operator, { resetToken: { tokenKeyId: 1 } })
  t.equal(open(grant(none, 0)), 'error-notOwner', 'dead at a token reset')
  t.equal(open(grant(none, 1)), 'ok')
  set(world, folder.id, { $case: 'isPublic', value: true })
  expire(world, folder.id, 5)
  world.nowMs += 5000
  t.equal(open(grant(passwordOf('secret').salt)), 'error-notFound')
})

const link: DirectLink = {
  id: '',
  expireTime: 0,
  sourceIpsAllowed: [],
  domainsAllowed: [],
  domainsBlocked: [],
  auth: [],
  createTime: 0,
}

t.test('direct links are made, replaced as a whole, and removed', async (t) => {
  const world = new World()
  const root = world.create()
  const file = world.file(root)
  const put = (more: Partial<DirectLink>, linkId?: string, who: Who = world.bearer()) =>
    world.ask(who, {
      putDirectLink: {
        contentId: file.id,
        link: { ...link, ...more },
        ...(linkId === undefined ? {} : { linkId }),
      },
    }).result
  const made = put({ sourceIpsAllowed: ['10.0.0.0/8'], expireTime: world.now + 50 })
  if (made.$case !== 'directLink' || made.value.link === undefined) throw new Error('no link')
  const { id, createTime } = made.value.link
  t.match(made.value, {
    contentId: file.id,
    isFolder: false,
    name: 'file.txt',
    link: { createTime: world.now },
  })
  t.match(world.read(operator, file.id).directLinks, [{ id, sourceIpsAllowed: ['10.0.0.0/8'] }])
  world.nowMs += 7000
  t.match(put({ domainsAllowed: ['example.org'] }, id), {
    value: { link: { id, createTime, sourceIpsAllowed: [], expireTime: 0, domainsAllowed: ['example.org'] } },
  })
  t.match(put({}, world.id), { value: { status: 'error-notFound' } }, 'no such link')
  t.match(put({}, undefined, visitor), { value: { status: 'error-notOwner' } })
  t.equal(world.account().directLinkCount, 1)
  for (let index = 1; index < 100; index++) put({})
  t.match(put({}), { value: { status: 'error-limits' } }, 'a hundred')
  t.match(put({}, id), { $case: 'directLink' }, 'replacing is no new one')
  t.match(put({ domainsAllowed: ['x'.repeat(70_000)] }, id), { value: { status: 'error-limits' } })
  t.equal(world.status(visitor, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'error-notOwner')
  t.equal(world.status(operator, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'ok')
  t.equal(world.status(operator, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'error-notFound')
  t.equal(world.account().directLinkCount, 99)
  t.equal(
    world.status(operator, { putDirectLink: { contentId: world.account().recycleBinFolder, link } }),
    'error-protectedFolder',
  )
  const strict = new World({ directLinksPremium: true })
  const strictRoot = strict.create()
  t.equal(
    strict.status(strict.bearer(), { putDirectLink: { contentId: strictRoot, link } }),
    'error-notPremium',
  )
  strict.ask(operator, { setAccount: { tier: 'premium' } })
  t.equal(strict.status(strict.bearer(), { putDirectLink: { contentId: strictRoot, link } }), 'ok')
})

t.test('a direct link is a separate access path', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root, { name: 'top', isPublic: false })
  const file = world.file(folder.id)
  password(world, folder.id, 'secret')
  const inner = world.folder(folder.id, { name: 'inner' })
  world.file(inner.id, 'deep')
  const expired = world.folder(folder.id, { name: 'expired' })
  expire(world, expired.id, 5)
  world.nowMs += 5000
  const salt = Buffer.from('salt')
  const hash = createHash('sha256').update(salt).update('pw').digest()
  const make = (contentId: string, more: Partial<DirectLink> = {}) => {
    const { result } = world.ask(operator, { putDirectLink: { contentId, link: { ...link, ...more } } })
    return result.$case === 'directLink' ? (result.value.link?.id ?? '') : ''
  }
  const open = (contentId: string, linkId: string, more: object = {}) =>
    world.ask(visitor, { openDirectLink: { contentId, linkId, sourceIp: '10.0.0.1', domain: '', ...more } })
      .result
  const fileLink = make(file.id)
  const folderLink = make(folder.id)
  t.match(open(file.id, fileLink), { $case: 'file', value: { isOwner: false, item: { id: file.id } } })
  const archive = open(folder.id, folderLink)
  t.match(archive, { $case: 'archive', value: { ends: undefined, entries: 4 } })
  t.match(entriesOf(archive), [
    { name: 'top', parent: 0 },
    { name: 'file.txt', parent: 0 },
    { name: 'inner', parent: 0 },
    { name: 'deep', parent: 2 },
  ])
  t.match(open(file.id, folderLink), { value: { status: 'error-notFound' } }, "another content's link")
  t.match(open(world.id, fileLink), { value: { status: 'error-notFound' } })
  t.match(open(file.id, make(file.id, { sourceIpsAllowed: ['10.0.0.2'] })), {
    value: { status: 'error-forbidden' },
  })
  const guarded = make(file.id, { auth: [{ user: 'ann', salt, hash }] })
  t.match(open(file.id, guarded), { value: { status: 'error-passwordRequired' } })
  t.match(open(file.id, guarded, { user: 'ann', password: 'no' }), {
    value: { status: 'error-passwordWrong' },
  })
  t.match(open(file.id, guarded, { user: 'ann', password: 'pw' }), { $case: 'file' })
  world.ask(operator, { deleteContents: { contentIds: [folder.id] } })
  t.match(open(file.id, fileLink), { value: { status: 'error-notFound' } }, 'in the bin')
  world.ask(operator, { restoreContents: { contentIds: [folder.id] } })
  t.match(open(file.id, fileLink), { $case: 'file' }, 'back with its content')
  expire(world, folder.id, 5)
  world.nowMs += 5000
  t.match(open(file.id, fileLink), { value: { status: 'error-notFound' } }, 'under an expired folder')
})

function entriesOf(result: NonNullable<AccountReply['result']>): ManifestEntry[] {
  if (result.$case !== 'archive') throw new Error(`no archive: ${JSON.stringify(result)}`)
  return result.value.pages.flatMap((page) => Manifest.decode(page).entries)
}

t.test(
  'an archive has another version whenever its manifest changes, and ends when time changes it',
  async (t) => {
    const world = new World()
    const root = world.create()
    world.ask(operator, { setAccount: { tier: 'premium' } })
    const top = world.folder(root, { name: 'top' })
    const inner = world.folder(top.id, { name: 'inner' })
    const file = world.file(inner.id, 'deep')
    const elsewhere = world.folder(root, { name: 'elsewhere' })
    const { result: made } = world.ask(operator, { putDirectLink: { contentId: top.id, link } })
    const linkId = made.$case === 'directLink' ? (made.value.link?.id ?? '') : ''
    const open = (more: object = {}) => {
      const { result } = world.ask(visitor, {
        openDirectLink: { contentId: top.id, linkId, sourceIp: '10.0.0.1', domain: '', ...more },
      })
      if (result.$case !== 'archive') throw new Error(JSON.stringify(result))
      return { ...result.value, version: result.value.version.toString('hex') }
    }
    let { version } = open()
    const same = (what: string) => t.equal(open({ versionOnly: true }).version, version, what)
    const another = (what: string) => {
      const now = open({ versionOnly: true })
      t.not(now.version, version, what)
      t.same(now.pages, [])
      t.equal(open().version, now.version, 'the manifest comes with the same')
      version = now.version
    }
    world.file(elsewhere.id, 'stranger')
    same('a file elsewhere')
    set(world, file.id, { $case: 'tags', value: 'more' })
    same('what is in no archive')
    set(world, file.id, { $case: 'name', value: 'renamed' })
    another('renamed')
    set(world, file.id, { $case: 'modTime', value: 1 })
    another('the time of a file')
    set(world, inner.id, { $case: 'modTime', value: 1 })
    another('the time of a folder')
    const added = world.file(inner.id, 'added')
    another('added')
    world.ask(operator, { moveContents: { contentIds: [added.id], folderId: elsewhere.id } })
    another('moved away')
    world.ask(operator, { deleteContents: { contentIds: [file.id] } })
    another('deleted')
    expire(world, inner.id, 5)
    another('an expiry')
    t.equal(open().ends, Math.floor(world.nowMs / 1000) + 5)
    world.nowMs += 5000
    t.match(open(), { entries: 1, ends: undefined }, 'over')
    world.folder(top.id, { name: 'new' })
    another('a folder')
  },
)

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

t.test('an answer stays as it was made, whatever changes later', async (t) => {
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
  const leastSlices = Math.floor((count * tags.length) / comparedUnitsPerSlice)
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

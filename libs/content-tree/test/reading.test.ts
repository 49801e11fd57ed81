/** Queries: listings, search, files, manifests, direct links, and who may see what. */
import { type ContentView, type Item, SortField } from '@holdfast/wire'
import t from 'tap'
import { names, password, set } from './owner.ts'
import { blobOf, type CallerCase, firstPage, operator, sent, system, visitor, World } from './world.ts'

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
  const search = (who: CallerCase, more: object = {}) => {
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

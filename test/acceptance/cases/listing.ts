import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { type Account, eventually, md5, nowSeconds, sleep, uuid } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

/** Files of known names, sizes and types in a separate folder. */
async function shelf(ann: Account): Promise<Item> {
  const folder = await ann.folder({ name: 'shelf' })
  await ann.file({ in: folder.id, name: 'bravo.txt', content: 'bb' })
  await ann.file({ in: folder.id, name: 'alpha.png', content: 'a' })
  await ann.file({ in: folder.id, name: 'delta.mp4', content: 'dddd' })
  await ann.file({ in: folder.id, name: 'charlie.json', content: 'ccc' })
  await ann.folder({ in: folder.id, name: 'echo' })
  return folder
}

export const listing = cases('GET /contents/{contentId}', (test) => {
  test(
    'a folder shows itself and its children, keyed by their ids',
    ['success: folder', 'contentId: UUID', 'metadata', 'childrenCount'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'albums', public: true })
      const file = await ann.file({ in: folder.id, name: 'one.jpg', content: 'picture' })
      const below = await ann.folder({ in: folder.id, name: 'two' })
      const { folder: seen, metadata } = (await ann.read(folder.id)).listing()
      assert.equal(seen.id, folder.id)
      assert.equal(seen.type, 'folder')
      assert.equal(seen.name, 'albums')
      assert.equal(seen.parentFolder, ann.root)
      assert.equal(seen.code, folder.code)
      assert.equal(seen.public, true)
      assert.equal(seen.isOwner, true)
      assert.equal(seen.canAccess, true)
      assert.equal(seen.childrenCount, 2)
      assert.ok(Number.isInteger(seen.createTime) && Number.isInteger(seen.modTime))
      assert.deepEqual(Object.keys(seen.children).sort(), [file.id, below.id].sort())
      for (const [id, child] of Object.entries(seen.children)) assert.equal(child.id, id)
      assert.deepEqual(metadata, {
        page: 1,
        pageSize: 1_000,
        totalCount: 2,
        totalPages: 1,
        hasNextPage: false,
      })
      const child = seen.children[file.id] as Item
      assert.equal(child.type, 'file')
      assert.equal(child.name, 'one.jpg')
      assert.equal(child.parentFolder, folder.id)
      assert.match(child.code, /^[A-Za-z0-9]{8}$/)
      assert.equal(child.size, 7)
      assert.equal(child.md5, md5('picture'))
      assert.equal(child.mimetype, 'image/jpeg')
      assert.equal(child.downloads, 0)
      assert.equal(child.isOwner, true)
      assert.equal(child.canAccess, true)
      assert.ok(child.servers.length > 0 && child.servers.includes(child.serverSelected))
      assert.equal((await world.request('GET', child.link)).text, 'picture')
    },
  )

  test('the root lists like any folder', ['success: folder'], async (world) => {
    const ann = await world.premium()
    const empty = (await ann.read(ann.root)).listing()
    assert.deepEqual(empty.children, [])
    assert.equal(empty.metadata.totalCount, 0)
    assert.equal(empty.metadata.hasNextPage, false)
    assert.equal(empty.folder.parentFolder, undefined)
    const folder = await ann.folder()
    assert.deepEqual(Object.keys((await ann.read(ann.root)).listing().folder.children), [folder.id])
  })

  test(
    'a file is its own payload without children, and one page of one item',
    ['success: file', 'metadata', 'contentId: UUID', 'contentId: share code of 8'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file({ name: 'one.txt', content: 'one' })
      for (const id of [file.id, file.code]) {
        const answer = await ann.read(id)
        const seen = answer.ok()
        assert.deepEqual(answer.envelope().metadata, {
          page: 1,
          pageSize: 1_000,
          totalCount: 1,
          totalPages: 1,
          hasNextPage: false,
        })
        assert.deepEqual((await ann.read(id, { page: 2, pageSize: 7 })).envelope().metadata, {
          page: 1,
          pageSize: 7,
          totalCount: 1,
          totalPages: 1,
          hasNextPage: false,
        })
        assert.equal(seen.children, undefined)
        assert.equal(seen.id, file.id)
        assert.equal(seen.type, 'file')
        assert.equal(seen.size, 3)
        assert.equal(seen.md5, md5('one'))
        assert.equal((await world.request('GET', seen.link)).text, 'one')
      }
    },
  )

  test(
    'a share code of 8 names the same folder; UUIDs ignore case',
    ['contentId: share code of 8', 'contentId: UUID'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      assert.equal((await ann.read(folder.code)).ok().id, folder.id)
      assert.equal((await ann.read(folder.id.toUpperCase())).ok().id, folder.id)
      const swapped = folder.code.replace(/[a-z]/i, (letter) =>
        letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase(),
      )
      if (swapped !== folder.code) (await ann.read(swapped)).refused('error-notFound')
    },
  )

  test(
    'a legacy code of 6 works permanently',
    ['contentId: share code of 6', 'operator · legacy folders'],
    async (world) => {
      const ann = await world.premium()
      const made = (
        await world.admin('POST', `/admin/accounts/${ann.id}/legacy-folder`, { noCode: false })
      ).ok<{ folderId: string; code: string }>()
      assert.match(made.folderId, uuid)
      assert.match(made.code, /^[A-Za-z0-9]{6}$/)
      const visitor = await world.premium()
      const seen = (await visitor.read(made.code)).ok()
      assert.equal(seen.id, made.folderId)
      assert.equal(seen.code, made.code)
      assert.equal(seen.public, true)
      ;(await visitor.update(made.code, 'name', 'x')).refused('error-contentId')
    },
  )

  test('unknown content is not found', ['error-notFound'], async (world) => {
    const ann = await world.premium()
    for (const id of [unknownId, '00000000-0000-4000-8000-000000000000', 'Zz9Zz9Zz', 'Zz9Zz9'])
      (await ann.read(id)).refused('error-notFound')
    for (const id of ['nonsense!', 'abc', '12345678901234567890', 'x'.repeat(200)])
      (await ann.read(id)).refused('error-notFound', 'error-contentId')
    const folder = await ann.folder()
    ;(await ann.remove(folder.id)).ok()
    ;(await ann.read(folder.id)).refused('error-notFound')
    ;(await ann.read(folder.code)).refused('error-notFound')
  })

  test('pages cut the children, in order, each once', ['page', 'pageSize', 'metadata'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    for (let number = 0; number < 7; number++) await ann.folder({ in: folder.id, name: `n${number}` })
    const pages = await Promise.all(
      [1, 2, 3].map((page) =>
        ann.read(folder.id, { page, pageSize: 3, sortField: 'name', sortDirection: 1 }),
      ),
    )
    assert.deepEqual(
      pages.map((page) => page.listing().names),
      [['n0', 'n1', 'n2'], ['n3', 'n4', 'n5'], ['n6']],
    )
    assert.deepEqual(
      pages.map((page) => page.listing().metadata),
      [1, 2, 3].map((page) => ({ page, pageSize: 3, totalCount: 7, totalPages: 3, hasNextPage: page < 3 })),
    )
    const past = (await ann.read(folder.id, { page: 4, pageSize: 3 })).listing()
    assert.deepEqual(past.children, [])
    assert.equal(past.folder.childrenCount, 7)
    assert.deepEqual(past.metadata, {
      page: 4,
      pageSize: 3,
      totalCount: 7,
      totalPages: 3,
      hasNextPage: false,
    })
    const exact = (await ann.read(folder.id, { page: 1, pageSize: 7 })).listing().metadata
    assert.deepEqual([exact.totalPages, exact.hasNextPage], [1, false])
  })

  test('pageSize is 1,000 by default and at most', ['pageSize'], async (world) => {
    const ann = await world.premium()
    for (const query of [{}, { page: 1 }, { pageSize: 1_001 }, { pageSize: 999_999_999 }])
      assert.equal((await ann.read(ann.root, query)).listing().metadata.pageSize, 1_000)
    assert.equal((await ann.read(ann.root, { pageSize: 1 })).listing().metadata.pageSize, 1)
  })

  test(
    'bad numbers and names are refused, each by its own name',
    ['error-page', 'error-pageSize', 'error-sortField', 'error-sortDirection', 'error-maxdepth'],
    async (world) => {
      const ann = await world.premium()
      const bad: Record<string, (string | number)[]> = {
        page: [0, -1, 'x', '1.5', '', '1e999'],
        pageSize: [0, -1, 'x', '1.5', ''],
        sortField: ['date', 'CREATETIME', 'id', 'toString'],
        sortDirection: [0, 2, -2, 'asc', '1.0'],
        maxdepth: [0, 17, -1, 'x', '1.5'],
      }
      for (const [name, values] of Object.entries(bad))
        for (const value of values) (await ann.read(ann.root, { [name]: value })).refused(`error-${name}`)
    },
  )

  test(
    'sorting by name, size and mimetype goes both ways; folders mix with size 0 and no type',
    ['sortField name', 'sortField size', 'sortField mimetype', 'sortDirection'],
    async (world) => {
      const ann = await world.premium()
      const folder = await shelf(ann)
      const orders: Record<string, string[]> = {
        name: ['alpha.png', 'bravo.txt', 'charlie.json', 'delta.mp4', 'echo'],
        size: ['echo', 'alpha.png', 'bravo.txt', 'charlie.json', 'delta.mp4'],
        mimetype: ['echo', 'charlie.json', 'alpha.png', 'bravo.txt', 'delta.mp4'],
      }
      for (const [sortField, names] of Object.entries(orders)) {
        assert.deepEqual(
          (await ann.read(folder.id, { sortField, sortDirection: 1 })).listing().names,
          names,
          sortField,
        )
        assert.deepEqual(
          (await ann.read(folder.id, { sortField, sortDirection: -1 })).listing().names,
          [...names].reverse(),
          sortField,
        )
        assert.deepEqual(
          (await ann.read(folder.id, { sortField })).listing().names,
          [...names].reverse(),
          `${sortField}, descending by default`,
        )
      }
    },
  )

  test('by default the newest comes first', ['sortField createTime', 'sortDirection'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    for (const name of ['first', 'second', 'third']) {
      await ann.folder({ in: folder.id, name })
      await sleep(1_050)
    }
    const newest = ['third', 'second', 'first']
    assert.deepEqual((await ann.read(folder.id)).listing().names, newest)
    assert.deepEqual((await ann.read(folder.id, { sortField: 'createTime' })).listing().names, newest)
    assert.deepEqual(
      (await ann.read(folder.id, { sortField: 'createTime', sortDirection: 1 })).listing().names,
      [...newest].reverse(),
    )
  })

  test(
    'equal items are ordered by creation, and pages of them never repeat or skip',
    ['sortField size', 'sortField name', 'page'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const made: string[] = []
      for (let number = 0; number < 9; number++)
        made.push((await ann.folder({ in: folder.id, name: 'twin' })).id)
      for (const sortField of ['name', 'size', 'downloads', 'mimetype', 'createTime'])
        for (const sortDirection of [1, -1]) {
          const pages: string[] = []
          for (const page of [1, 2, 3])
            pages.push(
              ...Object.keys(
                (await ann.read(folder.id, { sortField, sortDirection, page, pageSize: 4 })).listing().folder
                  .children,
              ),
            )
          assert.deepEqual([...pages].sort(), [...made].sort(), `${sortField} ${sortDirection}`)
          const whole = Object.keys(
            (await ann.read(folder.id, { sortField, sortDirection })).listing().folder.children,
          )
          assert.deepEqual(whole, pages, `${sortField} ${sortDirection}`)
        }
    },
  )

  test(
    'sorting by downloads follows the counts',
    ['sortField downloads', 'downloads by link · count'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      for (const name of ['none', 'twice', 'once']) await ann.file({ in: folder.id, name })
      const { children } = (await ann.read(folder.id)).listing()
      const linkOf = (name: string) => children.find((child) => child.name === name)?.link as string
      for (const name of ['twice', 'once', 'twice'])
        assert.equal((await world.request('GET', linkOf(name))).code, 200)
      await eventually(async () => {
        const ascending = (await ann.read(folder.id, { sortField: 'downloads', sortDirection: 1 })).listing()
        assert.deepEqual(
          ascending.children.map((child) => child.downloads),
          [0, 1, 2],
        )
        assert.deepEqual(ascending.names, ['none', 'once', 'twice'])
        assert.deepEqual((await ann.read(folder.id, { sortField: 'downloads' })).listing().names, [
          'twice',
          'once',
          'none',
        ])
      }, 8_000)
    },
  )

  test(
    'contentFilter finds parts of names and tags, ignoring case and Unicode form',
    ['contentFilter', 'metadata', 'childrenCount'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      await ann.folder({ in: folder.id, name: 'Holiday Photos' })
      const tagged = await ann.folder({ in: folder.id, name: 'untitled' })
      ;(await ann.update(tagged.id, 'tags', 'Holiday,2026')).ok()
      await ann.folder({ in: folder.id, name: 'Cafe\u0301' })
      await ann.folder({ in: folder.id, name: '100%_a.*' })
      const found = async (contentFilter: string) =>
        (await ann.read(folder.id, { contentFilter, sortField: 'name', sortDirection: 1 })).listing()
      assert.deepEqual((await found('hOLIDAY')).names.sort(), ['Holiday Photos', 'untitled'])
      assert.deepEqual((await found('café')).names, ['Cafe\u0301'])
      assert.deepEqual((await found('%_a.*')).names, ['100%_a.*'])
      assert.deepEqual((await found('.*o')).names, [])
      assert.deepEqual((await found('2026')).names, ['untitled'])
      const { metadata, folder: seen } = await found('photos')
      assert.equal(metadata.totalCount, 1, 'totalCount counts after the filter')
      assert.equal(seen.childrenCount, 4, 'childrenCount does not')
      assert.equal((await found('')).metadata.totalCount, 4, 'an empty filter is none')
    },
  )

  test('contentname finds exactly that name, and every content with it', ['contentname'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    for (const name of ['Report', 'report', 'Report', 'Report 2']) await ann.folder({ in: folder.id, name })
    const found = async (contentname: string) => (await ann.read(folder.id, { contentname })).listing()
    assert.deepEqual((await found('Report')).names, ['Report', 'Report'])
    assert.equal((await found('Report')).metadata.totalCount, 2)
    assert.deepEqual((await found('REPORT')).names, [])
    assert.deepEqual(
      (await ann.read(folder.id, { contentname: 'report', contentFilter: '2' })).listing().names,
      [],
    )
  })

  test(
    'maxdepth shows that many levels; a folder at the end has children it does not show',
    ['maxdepth', 'childrenCount'],
    async (world) => {
      const ann = await world.premium()
      let parent = ann.root
      const chain: string[] = []
      for (let level = 1; level <= 17; level++) {
        parent = (await ann.folder({ in: parent, name: `level ${level}` })).id
        chain.push(parent)
      }
      await ann.file({ in: chain[2] as string, name: 'beside' })
      for (const maxdepth of [undefined, 1, 2, 3, 16]) {
        let folder = (await ann.read(ann.root, maxdepth === undefined ? {} : { maxdepth })).ok()
        for (let level = 1; level <= (maxdepth ?? 1); level++) {
          folder = folder.children[chain[level - 1] as string] as Item
          assert.ok(folder, `maxdepth ${maxdepth} ends above level ${level}`)
        }
        assert.deepEqual(folder.children ?? {}, {}, `maxdepth ${maxdepth} reads further`)
        assert.ok(folder.childrenCount > 0, 'a recursive reader must see that there is more')
      }
    },
  )

  test(
    'filters and pages act on the first level; deeper ones come whole and in the same order',
    ['maxdepth', 'contentFilter', 'page'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      for (const name of ['keep 1', 'keep 2', 'drop']) {
        const below = await ann.folder({ in: folder.id, name })
        for (const inner of ['b', 'c', 'a']) await ann.folder({ in: below.id, name: inner })
      }
      const answer = await ann.read(folder.id, {
        maxdepth: 2,
        contentFilter: 'keep',
        page: 1,
        pageSize: 1,
        sortField: 'name',
        sortDirection: 1,
      })
      const { children, metadata } = answer.listing()
      assert.deepEqual(
        children.map((child) => child.name),
        ['keep 1'],
      )
      assert.equal(metadata.totalCount, 2)
      assert.deepEqual(
        Object.values(children[0]?.children ?? {}).map((child) => child.name),
        ['a', 'b', 'c'],
      )
    },
  )

  test(
    'an answer holds at most 10,000 items and a recursive reader still sees all',
    ['maxdepth', 'childrenCount', 'GET /contents/search · page and pageSize'],
    async (world) => {
      const ann = await world.premium()
      const tens = await Promise.all(Array.from({ length: 4 }, () => ann.folder()))
      const [ten, hundred, thousand, all] = tens.map((folder) => folder.id) as [
        string,
        string,
        string,
        string,
      ]
      await Promise.all(
        Array.from({ length: 10 }, (_, number) => ann.file({ in: ten, name: `leaf ${number}` })),
      )
      for (let copy = 0; copy < 10; copy++) (await ann.copy([ten], hundred)).ok()
      for (let copy = 0; copy < 10; copy++) (await ann.copy([hundred], thousand)).ok()
      for (let copy = 0; copy < 10; copy++) (await ann.copy([thousand], all)).ok()
      const leaves = new Set<string>()
      const walk = async (folder: Item): Promise<void> => {
        const children = Object.values(folder.children ?? {})
        if (children.length === 0 && folder.childrenCount > 0)
          return walk((await ann.read(folder.id, { maxdepth: 16 })).ok())
        assert.equal(children.length, folder.childrenCount, 'children are complete or absent')
        for (const child of children) child.type === 'file' ? leaves.add(child.id) : await walk(child)
      }
      const first = (await ann.read(all, { maxdepth: 16 })).ok()
      const count = (folder: Item): number =>
        Object.values(folder.children ?? {}).reduce((sum, child) => sum + 1 + count(child), 0)
      assert.ok(count(first) <= 10_000, `${count(first)} items in one answer`)
      await walk(first)
      assert.equal(leaves.size, 10_000)
      const found = new Set<string>()
      for (const page of [1, 2, 3]) {
        const answer = await ann.search(ann.root, 'leaf', { page, pageSize: 5_000 })
        for (const id of Object.keys(answer.ok<Record<string, Item>>())) found.add(id)
        assert.equal(answer.envelope().metadata?.totalCount, 11_110)
      }
      assert.equal(found.size, 11_110)
      assert.equal(Object.keys((await ann.search(ann.root, 'leaf')).ok()).length, 10_000)
    },
  )

  test('times are Unix seconds', ['success: folder'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    for (const time of [folder.createTime, folder.modTime])
      assert.ok(Number.isInteger(time) && Math.abs(time - nowSeconds()) < 60)
  })
})

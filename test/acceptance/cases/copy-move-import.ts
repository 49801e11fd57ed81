import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { type Account, eventually, nowSeconds, representation, sha256 } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
type ResultsBySource = Record<string, { status: string; data: Item }>

/** A folder with a file and a folder in it, all attributes set. */
async function tree(
  ann: Account,
  options: { in?: string; public?: boolean } = {},
): Promise<{ folder: Item; file: Item; below: Item; deep: Item }> {
  const folder = await ann.folder({ name: 'tree', ...options })
  const file = await ann.file({ in: folder.id, name: 'leaf.txt', content: 'leaf', modTime: 1_234_567_890 })
  const below = await ann.folder({ in: folder.id, name: 'below' })
  const deep = await ann.file({ in: below.id, name: 'deep.txt', content: 'deep' })
  ;(await ann.update(folder.id, 'description', 'about')).ok()
  ;(await ann.update(folder.id, 'tags', 'a,b')).ok()
  ;(await ann.update(file.id, 'tags', 'c')).ok()
  return { folder, file, below, deep }
}

/** Names below a folder, by depth: `below/deep.txt`. */
async function pathsOf(ann: Account, id: string): Promise<string[]> {
  const walk = (folder: Item, at: string): string[] =>
    Object.values(folder.children ?? {}).flatMap((child) => [
      `${at}${child.name}`,
      ...walk(child, `${at}${child.name}/`),
    ])
  return walk((await ann.read(id, { maxdepth: 16 })).ok(), '').sort()
}

async function childNamed(ann: Account, folder: string, name: string): Promise<Item> {
  const child = (await ann.read(folder, { contentname: name })).listing().children[0]
  assert.ok(child, `no ${name} in the folder`)
  return child
}

export const copy = cases('POST /contents/copy', (test) => {
  test(
    'copies are new and whole; the originals are untouched',
    ['success', 'contentsId', 'folderId'],
    async (world) => {
      const ann = await world.premium()
      const { folder, file } = await tree(ann)
      const single = await ann.file({ name: 'single.txt', content: 'single' })
      const target = await ann.folder({ name: 'target' })
      const before = (await ann.read(folder.id, { maxdepth: 16 })).ok()
      assert.deepEqual((await ann.copy([folder.id, single.id], target.id)).ok(), {})
      assert.deepEqual(await pathsOf(ann, target.id), [
        'single.txt',
        'tree',
        'tree/below',
        'tree/below/deep.txt',
        'tree/leaf.txt',
      ])
      assert.deepEqual(
        (await ann.read(folder.id, { maxdepth: 16 })).ok().children[file.id]?.id,
        before.children[file.id]?.id,
      )
      const copied = await childNamed(ann, target.id, 'tree')
      const leaf = await childNamed(ann, copied.id, 'leaf.txt')
      assert.notEqual(copied.id, folder.id)
      assert.notEqual(copied.code, folder.code)
      assert.notEqual(leaf.id, file.id)
      assert.equal((await ann.read(leaf.code)).ok().id, leaf.id, 'the new code works')
      assert.equal((await world.request('GET', leaf.link)).text, 'leaf')
      ;(await ann.remove(folder.id)).ok()
      assert.equal(
        (await world.request('GET', (await ann.read(leaf.id)).ok().link)).text,
        'leaf',
        'copies are independent',
      )
      const { statsCurrent } = await ann.details()
      assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage], [3, 4, 20])
    },
  )

  test(
    "a copy keeps name, description, tags, mimetype and a file's modTime, not downloads and direct links",
    ['success', 'Prefer'],
    async (world) => {
      const ann = await world.premium()
      const { folder, file } = await tree(ann)
      await ann.link(file.id)
      await ann.link(folder.id)
      assert.equal((await world.request('GET', (await ann.read(file.id)).ok().link)).code, 200)
      await eventually(async () => assert.equal((await ann.read(file.id)).ok().downloads, 1), 8_000)
      const target = await ann.folder()
      ;(await ann.copy([folder.id], target.id)).ok()
      const copied = await childNamed(ann, target.id, 'tree')
      const seen = (await ann.read(copied.id)).ok()
      assert.deepEqual([seen.description, seen.tags, seen.directLinks ?? {}], ['about', 'a,b', {}])
      const leaf = await childNamed(ann, copied.id, 'leaf.txt')
      assert.deepEqual(
        [leaf.tags, leaf.mimetype, leaf.modTime, leaf.downloads, leaf.md5, leaf.size],
        ['c', 'text/plain', 1_234_567_890, 0, file.md5, 4],
      )
      assert.deepEqual(leaf.directLinks ?? {}, {})
    },
  )

  test(
    "own copies keep public, password and a future expiry; those of others' folders take the destination's",
    ['success', 'password'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const open = await ann.folder({ name: 'open', public: true })
      const expiry = nowSeconds() + 5_000
      ;(await ann.update(open.id, 'password', 'pass word')).ok()
      ;(await ann.update(open.id, 'expiry', expiry, { deleteAfterExpiry: true })).ok()
      const target = await ann.folder()
      ;(await ann.copy([open.id], target.id)).ok()
      const own = await childNamed(ann, target.id, 'open')
      assert.deepEqual([own.public, own.password, own.expiry], [true, true, expiry])
      const bobs = await bob.folder()
      ;(await bob.copy([open.id], bobs.id, { password: sha256('pass word') })).ok()
      const taken = (await bob.read((await childNamed(bob, bobs.id, 'open')).id)).ok()
      assert.deepEqual([taken.public, taken.password ?? false, taken.expiry], [false, false, undefined])
      assert.equal(taken.isOwner, true)
    },
  )

  test(
    'a folder may be copied into itself: the copy is the state of one moment',
    ['success', 'folderId'],
    async (world) => {
      const ann = await world.premium()
      const { folder, below } = await tree(ann)
      ;(await ann.copy([folder.id], folder.id)).ok()
      ;(await ann.copy([folder.id], below.id)).ok()
      const inner = ['below', 'below/deep.txt', 'leaf.txt']
      const once = ['tree', ...inner.map((name) => `tree/${name}`)]
      const twice = [...inner, ...once].map((name) => `below/tree/${name}`)
      assert.deepEqual(await pathsOf(ann, folder.id), [...inner, ...once, 'below/tree', ...twice].sort())
    },
  )

  test('with Prefer the copies are shown by their sources', ['Prefer'], async (world) => {
    const ann = await world.premium()
    const { folder, file } = await tree(ann)
    const target = await ann.folder()
    const data = (await ann.copy([file.id, folder.id], target.id, {}, representation)).ok<ResultsBySource>()
    assert.deepEqual(Object.keys(data).sort(), [file.id, folder.id].sort())
    const shown = data[file.id] as { status: string; data: Item }
    assert.equal(shown.status, 'ok')
    assert.equal((await ann.read(shown.data.id)).ok().name, 'leaf.txt')
    assert.deepEqual(
      [shown.data.parentFolder, shown.data.size, shown.data.md5, shown.data.type],
      [target.id, 4, file.md5, 'file'],
    )
    assert.equal(data[folder.id]?.data.type, 'folder')
  })

  test(
    'shared content may be copied, with its password where it needs one',
    ['password', 'error-passwordRequired', 'error-passwordWrong', 'error-notOwner'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const shared = await tree(ann, { public: true })
      const secret = await ann.folder()
      const secretFile = await ann.file({ in: secret.id })
      const locked = await ann.folder({ public: true, name: 'locked' })
      const lockedFile = await ann.file({ in: locked.id, content: 'locked in' })
      ;(await ann.update(locked.id, 'password', 'let me in')).ok()
      ;(await bob.copy([shared.folder.id, shared.file.id], bob.root)).ok()
      assert.deepEqual(await pathsOf(bob, bob.root), [
        'leaf.txt',
        'tree',
        'tree/below',
        'tree/below/deep.txt',
        'tree/leaf.txt',
      ])
      for (const id of [secret.id, secretFile.id]) (await bob.copy([id], bob.root)).refused('error-notOwner')
      ;(await bob.copy([shared.file.id, secretFile.id], bob.root)).refused('error-notOwner')
      for (const id of [locked.id, lockedFile.id]) {
        ;(await bob.copy([id], bob.root)).refused('error-passwordRequired')
        ;(await bob.copy([id], bob.root, { password: sha256('wrong') })).refused('error-passwordWrong')
        ;(await bob.copy([id], bob.root, { password: sha256('let me in') })).ok()
      }
      assert.equal((await pathsOf(bob, bob.root)).length, 8)
      const copied = await childNamed(bob, (await childNamed(bob, bob.root, 'locked')).id, 'file.txt')
      ;(await ann.remove(locked.id)).ok()
      assert.equal(
        (await world.request('GET', copied.link)).text,
        'locked in',
        'the bytes outlive the source',
      )
    },
  )

  test('a copy fails as a whole where content below cannot be read', ['error-notOwner'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    const { folder, below } = await tree(ann, { public: true })
    ;(await ann.update(below.id, 'public', false)).ok()
    await eventually(async () => {
      const answer = await bob.copy([folder.id], bob.root)
      if (answer.code === 200) assert.fail('a private child was copied')
      answer.refused('error-notOwner')
    }, 3_000)
    assert.equal((await bob.details()).statsCurrent.folderCount, 0)
  })

  test(
    'bad lists, bad destinations, unknown ones',
    [
      'error-contentsId',
      'error-folderId',
      'error-notFound',
      'error-rootFolder',
      'error-protectedFolder',
      'error-notOwner',
    ],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder()
      const file = await ann.file()
      const call = (json: Record<string, unknown>) => ann.call('POST', '/contents/copy', { json })
      for (const contentsId of [undefined, '', 'x', file.code, 5, [file.id]])
        (await call({ contentsId, folderId: folder.id })).refused('error-contentsId')
      for (const folderId of [undefined, '', 'x', folder.code, 5, file.id])
        (await call({ contentsId: file.id, folderId })).refused('error-folderId')
      ;(await ann.copy([unknownId], folder.id)).refused('error-notFound')
      ;(await ann.copy([file.id, unknownId], folder.id)).refused('error-notFound')
      ;(await ann.copy([file.id], unknownId)).refused('error-notFound')
      ;(await ann.copy([ann.root], folder.id)).refused('error-rootFolder')
      ;(await ann.copy([file.id], bob.root)).refused('error-notOwner')
      ;(await ann.copy([file.id], (await ann.details()).recycleBin.folder)).refused('error-protectedFolder')
      assert.equal((await ann.read(folder.id)).ok().childrenCount, 0)
    },
  )

  test('beyond a cap nothing is copied', ['error-limits'], async (world) => {
    const ann = await world.premium()
    const { folder } = await tree(ann)
    await ann.operator({ limits: { contents: 7 } })
    ;(await ann.copy([folder.id], ann.root)).refused('error-limits')
    await ann.operator({ limits: { contents: 8, storage: 15 } })
    ;(await ann.copy([folder.id], ann.root)).refused('error-limits')
    assert.equal((await ann.read(ann.root)).ok().childrenCount, 1)
    await ann.operator({ limits: { storage: 16 } })
    ;(await ann.copy([folder.id], ann.root)).ok()
  })

  test('a list of the same id twice is one copy', ['contentsId'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file()
    const folder = await ann.folder()
    ;(await ann.copy([file.id, file.id], folder.id)).ok()
    assert.equal((await ann.read(folder.id)).ok().childrenCount, 1)
  })
})

export const move = cases('PUT /contents/move', (test) => {
  test(
    'contents move with all their attributes and content',
    ['success', 'contentsId', 'folderId'],
    async (world) => {
      const ann = await world.premium()
      const { folder, file, deep } = await tree(ann, { public: true })
      const single = await ann.file({ name: 'single.txt' })
      const target = await ann.folder({ name: 'target' })
      const expiry = nowSeconds() + 5_000
      ;(await ann.update(folder.id, 'expiry', expiry)).ok()
      const link = await ann.link(file.id)
      assert.deepEqual((await ann.move([folder.id, single.id], target.id)).ok(), {})
      const moved = (await ann.read(folder.id)).ok()
      assert.deepEqual(
        [moved.parentFolder, moved.public, moved.expiry, moved.code, moved.description, moved.tags],
        [target.id, true, expiry, folder.code, 'about', 'a,b'],
      )
      assert.equal(moved.children[file.id]?.modTime, 1_234_567_890)
      assert.equal((await ann.read(deep.id)).ok().id, deep.id)
      assert.equal((await world.request('GET', link.directLink)).text, 'leaf', 'its direct link too')
      assert.deepEqual(Object.keys((await ann.read(ann.root)).ok().children), [target.id])
      assert.deepEqual(await pathsOf(ann, target.id), [
        'single.txt',
        'tree',
        'tree/below',
        'tree/below/deep.txt',
        'tree/leaf.txt',
      ])
      const { statsCurrent } = await ann.details()
      assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount], [3, 3])
    },
  )

  test('with Prefer the moved contents are shown', ['Prefer'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file({ content: 'abc' })
    const folder = await ann.folder()
    const data = (await ann.move([file.id], folder.id, representation)).ok<ResultsBySource>()
    const shown = data[file.id] as { status: string; data: Item }
    assert.deepEqual(
      [shown.status, shown.data.id, shown.data.parentFolder, shown.data.md5, shown.data.size],
      ['ok', file.id, folder.id, file.md5, 3],
    )
  })

  test('a content that is already there stays', ['success'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file()
    ;(await ann.move([file.id], ann.root)).ok()
    assert.equal((await ann.read(ann.root)).ok().childrenCount, 1)
  })

  test('a folder never moves into itself or below', ['error-folderId'], async (world) => {
    const ann = await world.premium()
    const { folder, below } = await tree(ann)
    ;(await ann.move([folder.id], folder.id)).refused('error-folderId')
    ;(await ann.move([folder.id], below.id)).refused('error-folderId')
    const other = await ann.folder()
    ;(await ann.move([other.id, folder.id], below.id)).refused('error-folderId')
    assert.equal((await ann.read(ann.root)).ok().childrenCount, 2, 'nothing moved')
  })

  test('two moves that would make a circle: one is refused', ['error-folderId'], async (world) => {
    const ann = await world.premium()
    for (let round = 0; round < 5; round++) {
      const [a, b] = await Promise.all([ann.folder(), ann.folder()])
      const answers = await Promise.all([ann.move([a.id], b.id), ann.move([b.id], a.id)])
      assert.equal(answers.filter((answer) => answer.code === 200).length, 1)
      for (const answer of answers) if (answer.code !== 200) answer.refused('error-folderId')
    }
    assert.equal((await ann.details()).statsCurrent.folderCount, 10)
    assert.equal((await pathsOf(ann, ann.root)).length, 10)
  })

  test(
    'bad lists, bad destinations, unknown ones, the root',
    ['error-contentsId', 'error-folderId', 'error-notFound', 'error-rootFolder', 'error-protectedFolder'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const file = await ann.file()
      const call = (json: Record<string, unknown>) => ann.call('PUT', '/contents/move', { json })
      for (const contentsId of [undefined, '', 'x', file.code, 5])
        (await call({ contentsId, folderId: folder.id })).refused('error-contentsId')
      for (const folderId of [undefined, '', 'x', folder.code, 5, file.id])
        (await call({ contentsId: file.id, folderId })).refused('error-folderId')
      ;(await ann.move([unknownId], folder.id)).refused('error-notFound')
      ;(await ann.move([file.id, unknownId], folder.id)).refused('error-notFound')
      ;(await ann.move([file.id], unknownId)).refused('error-notFound')
      ;(await ann.move([ann.root], folder.id)).refused('error-rootFolder')
      ;(await ann.move([file.id], (await ann.details()).recycleBin.folder)).refused('error-protectedFolder')
      assert.equal((await ann.read(file.id)).ok().parentFolder, ann.root)
    },
  )

  test("both the content and the destination must be the caller's", ['error-notOwner'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    const mine = await ann.folder({ public: true })
    const bobs = await bob.folder({ public: true })
    ;(await ann.move([bobs.id], mine.id)).refused('error-notOwner')
    ;(await ann.move([mine.id], bobs.id)).refused('error-notOwner')
    ;(await ann.move([mine.id, bobs.id], ann.root)).refused('error-notOwner')
    assert.equal((await bob.read(bobs.id)).ok().parentFolder, bob.root)
  })

  test(
    'a move is free, also at the cap; beyond the depth of the tree it is refused',
    ['success', 'error-limits', 'caps and statistics · tree depth'],
    async (world) => {
      const ann = await world.premium()
      const [a, b] = await Promise.all([ann.folder(), ann.folder()])
      await ann.operator({ limits: { contents: 1 } })
      ;(await ann.move([a.id], b.id)).ok()
      await ann.operator({ limits: { contents: null } })
      let parent = ann.root
      let depth = 0
      for (; depth < 200; depth++) {
        const answer = await ann.call('POST', '/contents/createFolder', { json: { parentFolderId: parent } })
        if (answer.code !== 200) {
          answer.refused('error-limits')
          break
        }
        parent = answer.ok().id
      }
      assert.ok(depth >= 126 && depth <= 129, `the tree ends at depth ${depth}`)
      ;(await ann.move([b.id], parent)).refused('error-limits')
      ;(await ann.copy([b.id], parent)).refused('error-limits')
      assert.equal((await ann.read(b.id)).ok().parentFolder, ann.root)
    },
  )
})

export const importing = cases('POST /contents/import', (test) => {
  test(
    'shared content is copied into the root and shown by its source',
    ['success', 'contentsId', 'Prefer'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const { folder, file } = await tree(ann, { public: true })
      const data = (await bob.import([folder.id, file.id])).ok<ResultsBySource>()
      assert.deepEqual(Object.keys(data).sort(), [folder.id, file.id].sort())
      for (const source of [folder, file]) {
        const shown = data[source.id] as { status: string; data: Item }
        assert.equal(shown.status, 'ok')
        const made = (await bob.read(shown.data.id)).ok()
        assert.deepEqual([made.name, made.parentFolder, made.isOwner], [source.name, bob.root, true])
        assert.notEqual(made.id, source.id)
      }
      assert.deepEqual(await pathsOf(bob, bob.root), [
        'leaf.txt',
        'tree',
        'tree/below',
        'tree/below/deep.txt',
        'tree/leaf.txt',
      ])
      const taken = (await bob.read(data[folder.id]?.data.id ?? '')).ok()
      assert.deepEqual([taken.public, taken.description, taken.tags], [false, 'about', 'a,b'])
      const preferred = (
        await bob.call('POST', '/contents/import', { json: { contentsId: file.id }, headers: representation })
      ).ok<ResultsBySource>()
      assert.equal(preferred[file.id]?.status, 'ok')
      assert.match(preferred[file.id]?.data.id ?? '', /^[0-9a-f-]{36}$/)
    },
  )

  test('own content may be imported as well', ['success'], async (world) => {
    const ann = await world.premium()
    const { folder } = await tree(ann, { in: (await ann.folder()).id })
    const data = (await ann.import([folder.id])).ok<ResultsBySource>()
    assert.equal((await ann.read(data[folder.id]?.data.id ?? '')).ok().parentFolder, ann.root)
  })

  test(
    'children that the caller may not read are skipped; a requested source is not',
    ['unreadable children', 'error-notOwner'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const { folder, below, deep } = await tree(ann, { public: true })
      const locked = await ann.folder({ in: folder.id, name: 'locked' })
      ;(await ann.update(locked.id, 'password', 'keep out')).ok()
      ;(await ann.update(below.id, 'public', false)).ok()
      await eventually(async () => (await bob.read(below.id)).refused('error-notOwner'), 3_000)
      const data = (await bob.import([folder.id])).ok<ResultsBySource>()
      assert.deepEqual(await pathsOf(bob, data[folder.id]?.data.id ?? ''), ['leaf.txt'])
      ;(await bob.import([below.id])).refused('error-notOwner')
      ;(await bob.import([deep.id])).refused('error-notOwner')
      assert.equal((await bob.details()).statsCurrent.folderCount, 1)
    },
  )

  test(
    'a protected source requires its password',
    ['password', 'error-passwordRequired', 'error-passwordWrong'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const { folder, file } = await tree(ann, { public: true })
      ;(await ann.update(folder.id, 'password', 'let me in')).ok()
      for (const id of [folder.id, file.id]) {
        ;(await bob.import([id])).refused('error-passwordRequired')
        ;(await bob.import([id], { password: sha256('wrong') })).refused('error-passwordWrong')
        ;(await bob.import([id], { password: sha256('let me in') })).ok()
      }
    },
  )

  test(
    'bad lists, unknown ids, a root',
    ['error-contentsId', 'error-notFound', 'error-rootFolder'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      ;(await bob.call('POST', '/contents/import', { json: {} })).refused('error-contentsId')
      for (const contentsId of ['', 'x', folder.code, 5])
        (await bob.call('POST', '/contents/import', { json: { contentsId } })).refused('error-contentsId')
      ;(await bob.import([folder.id, unknownId])).refused('error-notFound')
      ;(await ann.update(ann.root, 'public', true)).ok()
      ;(await bob.import([ann.root])).refused('error-rootFolder')
      ;(await bob.import([bob.root])).refused('error-rootFolder')
      assert.equal((await bob.details()).statsCurrent.folderCount, 0)
    },
  )

  test('beyond a cap nothing is imported', ['error-limits'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    const { folder } = await tree(ann, { public: true })
    await bob.operator({ limits: { contents: 3 } })
    ;(await bob.import([folder.id])).refused('error-limits')
    assert.deepEqual(await pathsOf(bob, bob.root), [])
    await bob.operator({ limits: { contents: 4, storage: 7 } })
    ;(await bob.import([folder.id])).refused('error-limits')
    await bob.operator({ limits: { storage: 8 } })
    ;(await bob.import([folder.id])).ok()
  })
})

/** Files that an upload adds, and the caps of an account. */
import t from 'tap'
import { blobOf, operator, startMs, system, visitor, World } from './world.ts'

t.test('an upload without a token makes account, public folder and file in one change', async (t) => {
  const world = new World()
  const blob = blobOf('hello', 11)
  const file = {
    createAccount: { tokenKeyId: 1, email: undefined, isNewId: true },
    name: 'a.txt',
    mimetype: 'text/plain',
    blob,
  }
  const { result, change, outcome } = world.ask(system, { addFile: file })
  if (result.$case !== 'content' || result.value.item === undefined) throw new Error('no content')
  t.equal(change?.events.length, 3)
  t.match(outcome, { uses: [{ size: 11 }], codesUsed: 2 })
  const { item } = result.value
  t.match(result.value, { tokenKeyId: 1, tokenCounter: 0 })
  t.match(item, {
    name: 'a.txt',
    size: 11,
    mimetype: 'text/plain',
    isOwner: true,
    canAccess: true,
    downloads: 0,
  })
  t.match(item.code, /^[A-Za-z0-9]{8}$/)
  const folder = world.read(visitor, item.parentFolder ?? '')
  t.match(folder, {
    isPublic: true,
    name: item.parentFolderCode,
    code: item.parentFolderCode,
    childrenCount: 1,
  })
  t.match(world.account(), { tier: 'guest', fileCount: 1, folderCount: 1, storage: 11 })
  t.equal(world.contentOf(item.parentFolderCode), folder.id)
  t.equal(world.contentOf(item.code), item.id)
  t.same([...world.state.effects()], [], 'codes owe nothing')
})

t.test('without guest uploads the first upload of a guest is refused, and makes no account', async (t) => {
  const world = new World({ guestUploads: false })
  const createAccount = { tokenKeyId: 1, email: undefined, isNewId: true }
  const file = { createAccount, name: 'a.txt', mimetype: 'text/plain', blob: blobOf('a', 1) }
  t.equal(world.status(system, { addFile: file }), 'error-forbidden')
  t.strictSame(world.changes, [])
})

t.test('an upload into a folder, and one without', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { name: 'docs' })
  const more = { name: 'b.bin', mimetype: 'application/octet-stream', blob: blobOf('b', 5) }
  const item = world.item(world.bearer(), { addFile: { ...more, folderId: folder.id, modTime: 1234 } })
  t.match(item, {
    parentFolder: folder.id,
    parentFolderCode: folder.code,
    modTime: 1234,
    createTime: world.now,
  })
  const loose = world.item(world.bearer(), { addFile: more })
  t.match(world.read(operator, loose.parentFolder ?? ''), { isPublic: true, parentFolder: root })
  t.equal(
    world.status(world.bearer(), { addFile: { ...more, folderId: item.id } }),
    'error-folderId',
    'a file',
  )
  t.equal(world.status(world.bearer(), { addFile: { ...more, folderId: world.id } }), 'error-notFound')
  t.equal(world.status(visitor, { addFile: { ...more, folderId: folder.id } }), 'error-notOwner')
  t.equal(world.status(visitor, { addFile: more }), 'error-notOwner')
  t.equal(
    world.status(world.bearer(), { addFile: { ...more, folderId: world.account().recycleBinFolder } }),
    'error-protectedFolder',
  )
  for (const name of ['', '.', '..', 'a/b', 'a\u0000', 'x'.repeat(256)])
    t.equal(
      world.status(operator, { addFile: { ...more, name } }),
      'error-file',
      JSON.stringify(name).slice(0, 20),
    )
  t.equal(world.status(operator, { addFile: { ...more, name: '😀'.repeat(255) } }), 'ok', '255 code points')
})

t.test('early refusals of uploads are those of the upload', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root)
  const file = { name: 'f', mimetype: '', blob: blobOf('f', 1) }
  const check = (who = world.bearer(), folderId?: string) => {
    const place = folderId === undefined ? {} : { folderId }
    const status = world.status(who, { checkUpload: place })
    // A file that is added would count.
    if (status !== 'ok') t.equal(world.status(who, { addFile: { ...file, ...place } }), status, 'the upload')
    return status
  }
  t.equal(check(), 'ok')
  t.equal(check(world.bearer(), folder.id), 'ok')
  t.equal(check(world.bearer(), world.file(root).id), 'error-folderId')
  t.equal(check(world.bearer(), world.id), 'error-notFound')
  t.equal(check(world.bearer(5), folder.id), 'error-token')
  t.equal(check(visitor, folder.id), 'error-notOwner')
  t.equal(check(visitor), 'error-notOwner')
  world.settings.guestUploads = false
  t.equal(check(), 'error-forbidden')
  t.equal(check(world.bearer(), folder.id), 'error-forbidden')
  world.settings.guestUploads = true
  world.ask(operator, { setAccount: { limitContents: 3 } })
  t.equal(check(), 'error-limits', 'a folder and a file')
  t.equal(check(world.bearer(), folder.id), 'ok', 'a file alone')
  world.file(folder.id)
  t.equal(check(world.bearer(), folder.id), 'error-limits')
})

t.test('caps are exact, count the bin and stay through a downgrade', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { limitContents: 4, limitStorage: 100, recycleBin: true } })
  const add = (size: number, folderId: string | undefined = root) =>
    world.status(operator, {
      addFile: { folderId, name: 'f', mimetype: '', blob: blobOf(`${size}/${Math.random()}`, size) } as never,
    })
  t.equal(add(60), 'ok')
  t.equal(add(41), 'error-limits', 'storage')
  t.equal(add(40), 'ok')
  t.equal(add(0), 'ok', 'nothing more fits when it is full')
  const folder = world.folder(root)
  t.equal(add(0), 'error-limits', 'contents')
  t.equal(world.status(operator, { createFolder: { parentFolderId: root } }), 'error-limits')
  t.equal(world.status(operator, { deleteContents: { contentIds: [folder.id] } }), 'ok')
  t.equal(add(0), 'error-limits', 'what is in the bin counts')
  t.match(world.account(), { fileCount: 3, folderCount: 1, storage: 100 })
  world.ask(operator, { emptyBin: {} })
  t.equal(add(0), 'ok')
  world.ask(operator, { setAccount: { limitContents: 2, limitStorage: 10 } })
  t.match(world.account(), { fileCount: 4, storage: 100 }, 'all is kept')
  t.equal(add(0), 'error-limits')
  t.equal(
    new World({
      tiers: { ...world.settings.tiers, guest: { contents: 1, storage: undefined, traffic: undefined } },
    }).status(system, {
      addFile: {
        createAccount: { tokenKeyId: 1, email: undefined, isNewId: true },
        name: 'f',
        mimetype: '',
        blob: blobOf('f'),
      },
    }),
    'error-limits',
    'a first upload takes two',
  )
})

t.test('modTime follows uploads and direct children, not own attributes', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root)
  const other = world.folder(root)
  const modTime = (id: string) => world.read(operator, id).modTime - Math.floor(startMs / 1000)
  const later = (seconds: number) => {
    world.nowMs = startMs + seconds * 1000
  }
  later(10)
  for (const attribute of [
    { $case: 'description', value: 'x' },
    { $case: 'tags', value: 'x' },
    { $case: 'isPublic', value: true },
    { $case: 'password', value: { verifier: undefined } },
    { $case: 'name', value: 'x' },
  ] as const)
    world.ask(operator, { updateContent: { contentId: folder.id, attribute } })
  t.equal(modTime(folder.id), 0, 'own attributes')
  t.equal(modTime(root), 10, 'a child was renamed')
  later(20)
  const file = world.file(folder.id)
  t.equal(modTime(folder.id), 20, 'added')
  t.equal(modTime(root), 10, 'direct children only')
  later(30)
  world.ask(operator, { updateContent: { contentId: file.id, attribute: { $case: 'tags', value: 'x' } } })
  t.equal(modTime(folder.id), 20)
  t.equal(modTime(file.id), 20)
  later(40)
  world.ask(operator, { moveContents: { contentIds: [file.id], folderId: other.id } })
  t.same([modTime(folder.id), modTime(other.id), modTime(file.id)], [40, 40, 20], 'moved')
  later(50)
  world.ask(operator, { moveContents: { contentIds: [file.id], folderId: other.id } })
  t.equal(modTime(other.id), 40, 'moved to where it is')
  world.ask(operator, { deleteContents: { contentIds: [file.id] } })
  t.equal(modTime(other.id), 50, 'removed')
})

/** Commands: accounts, uploads, folders, changes, lists. */
import t from 'tap'
import { holds, operator, passwordOf, sent, startMs, visitor, World } from './world.ts'

const hour = 3_600

t.test('a deletion answers with the items as they were; a retry too if the answer was small', async (t) => {
  const world = new World()
  const root = world.create()
  const items = [world.folder(root, { name: 'one' }), world.file(root, 'two.txt')]
  const contentIds = items.map(({ id }) => id)
  const requestId = world.requestId()
  const ask = { deleteContents: { contentIds, representation: true } }
  const { result } = world.ask(world.bearer(), ask, { requestId })
  t.match(result, { $case: 'items', value: { items: [{ id: contentIds[0] }, { name: 'two.txt', size: 7 }] } })
  t.strictSame(world.ask(world.bearer(), ask, { requestId }).result, result, 'the same request again')
  const many = Array.from({ length: 40 }, (_, at) => world.file(root, `${at} ${'x'.repeat(200)}`).id)
  const large = { deleteContents: { contentIds: many, representation: true } }
  const largeId = world.requestId()
  t.match(world.ask(world.bearer(), large, { requestId: largeId }).result, { $case: 'items' })
  t.match(world.ask(world.bearer(), large, { requestId: largeId }).result, { $case: 'done' })
  const last = world.file(root, 'last').id
  t.match(world.ask(world.bearer(), { deleteContents: { contentIds: [last] } }).result, { $case: 'done' })
  t.ok(holds(world), 'replay and checkpoint give the same state')
})

t.test('a new folder inherits access settings by copy', async (t) => {
  const world = new World()
  const root = world.create()
  const parent = world.folder(root, { isPublic: true })
  const expiry = world.now + hour
  world.ask(operator, {
    updateContent: {
      contentId: parent.id,
      attribute: { $case: 'password', value: { verifier: passwordOf('secret') } },
    },
  })
  world.ask(operator, {
    updateContent: {
      contentId: parent.id,
      attribute: { $case: 'expiry', value: { expiry, deleteAfterExpiry: true } },
    },
  })
  const child = world.folder(parent.id)
  t.match(child, { isPublic: true, password: true, expiry, deleteAfterExpiry: false, name: child.code })
  t.match(world.folder(parent.id, { isPublic: false }), { isPublic: false, password: true })
  world.ask(operator, {
    updateContent: { contentId: parent.id, attribute: { $case: 'isPublic', value: false } },
  })
  world.ask(operator, {
    updateContent: { contentId: parent.id, attribute: { $case: 'password', value: { verifier: undefined } } },
  })
  t.match(
    world.read(operator, child.id),
    { isPublic: true, password: true },
    'later changes of the parent do not change the child',
  )
  t.equal(world.read(visitor, child.id, { password: sent('secret') }).id, child.id)
  const file = world.file(root)
  t.equal(world.status(operator, { createFolder: { parentFolderId: file.id } }), 'error-parentFolderId')
  t.equal(world.status(visitor, { createFolder: { parentFolderId: parent.id } }), 'error-notOwner')
  t.equal(world.status(operator, { createFolder: { parentFolderId: world.id } }), 'error-notFound')
  t.equal(world.status(operator, { createFolder: { parentFolderId: root, name: 'a/b' } }), 'error-folderName')
})

t.test('folders go 128 deep', async (t) => {
  const world = new World()
  let at = world.create({ tier: 'premium' })
  const root = at
  for (let depth = 1; depth <= 128; depth++) at = world.folder(at).id
  t.equal(world.status(operator, { createFolder: { parentFolderId: at } }), 'error-limits')
  t.equal(world.file(at).parentFolder, at, 'the deepest accepts files')
  const two = world.folder(root)
  world.folder(two.id)
  const above = world.read(operator, at).parentFolder ?? ''
  t.equal(world.status(operator, { moveContents: { contentIds: [two.id], folderId: above } }), 'error-limits')
  t.equal(
    world.status(operator, {
      copyContents: { sources: [{ contentId: two.id, manifest: undefined }], folderId: above },
    }),
    'error-limits',
  )
  const higher = world.read(operator, above).parentFolder ?? ''
  t.equal(world.status(operator, { moveContents: { contentIds: [two.id], folderId: higher } }), 'ok')
})

t.test('attributes change one at a time, and answer with the whole item', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { name: 'old' })
  const file = world.file(folder.id)
  type Attribute = Parameters<typeof set>[1]
  const set = (
    contentId: string,
    attribute: NonNullable<import('@holdfast/wire').UpdateContent['attribute']>,
  ) => {
    const asked = world.item(operator, { updateContent: { contentId, attribute } })
    const read = world.read(operator, contentId)
    t.same(
      { ...asked, children: [], hasChildren: false },
      { ...read, children: [], hasChildren: false },
      attribute.$case,
    )
    return asked
  }
  const refused = (contentId: string, attribute: Attribute) =>
    world.status(operator, { updateContent: { contentId, attribute } })
  t.match(set(folder.id, { $case: 'name', value: 'new' }), { name: 'new', code: folder.code })
  t.match(set(file.id, { $case: 'name', value: 'new' }), { name: 'new', size: file.size })
  t.match(set(folder.id, { $case: 'description', value: '*so*' }), { description: '*so*' })
  t.match(set(folder.id, { $case: 'description', value: '' }), { description: undefined })
  t.match(set(file.id, { $case: 'tags', value: 'a,b' }), { tags: 'a,b' })
  t.match(set(file.id, { $case: 'tags', value: '' }), { tags: undefined })
  t.match(set(folder.id, { $case: 'isPublic', value: true }), { isPublic: true })
  t.match(set(folder.id, { $case: 'password', value: { verifier: passwordOf('pass') } }), { password: true })
  t.match(set(folder.id, { $case: 'password', value: { verifier: undefined } }), { password: false })
  t.match(set(folder.id, { $case: 'expiry', value: { expiry: world.now + 5, deleteAfterExpiry: true } }), {
    deleteAfterExpiry: true,
  })
  t.match(set(folder.id, { $case: 'expiry', value: { expiry: world.now + 9, deleteAfterExpiry: false } }), {
    deleteAfterExpiry: false,
  })
  t.match(set(folder.id, { $case: 'expiry', value: { expiry: undefined, deleteAfterExpiry: false } }), {
    expiry: undefined,
  })
  t.match(set(file.id, { $case: 'modTime', value: -5 }), { modTime: -5 })
  t.match(set(root, { $case: 'isPublic', value: true }), { isPublic: true })

  t.equal(refused(file.id, { $case: 'description', value: 'x' }), 'error-attribute')
  t.equal(refused(file.id, { $case: 'isPublic', value: true }), 'error-attribute')
  t.equal(refused(file.id, { $case: 'password', value: { verifier: undefined } }), 'error-attribute')
  t.equal(
    refused(file.id, { $case: 'expiry', value: { expiry: undefined, deleteAfterExpiry: false } }),
    'error-attribute',
  )
  t.equal(refused(folder.id, { $case: 'name', value: '' }), 'error-name')
  t.equal(refused(folder.id, { $case: 'name', value: 'x'.repeat(256) }), 'error-name')
  t.equal(refused(folder.id, { $case: 'description', value: 'x'.repeat(2001) }), 'error-description')
  t.equal(refused(folder.id, { $case: 'tags', value: 'a b' }), 'error-tags')
  t.equal(refused(folder.id, { $case: 'tags', value: 'x'.repeat(26) }), 'error-tags')
  t.equal(
    refused(folder.id, { $case: 'tags', value: Array.from({ length: 51 }, (_, n) => `t${n}`).join(',') }),
    'error-tags',
  )
  t.equal(
    refused(folder.id, { $case: 'expiry', value: { expiry: world.now, deleteAfterExpiry: false } }),
    'error-expiry',
    'past',
  )
  t.equal(
    refused(folder.id, { $case: 'expiry', value: { expiry: startMs, deleteAfterExpiry: false } }),
    'error-expiry',
    'milliseconds',
  )
  t.equal(
    refused(folder.id, { $case: 'expiry', value: { expiry: 253_402_300_800, deleteAfterExpiry: false } }),
    'error-expiry',
    'beyond the year 9999',
  )
  t.equal(
    refused(root, { $case: 'expiry', value: { expiry: world.now + 5, deleteAfterExpiry: false } }),
    'error-rootFolder',
  )
  t.equal(
    refused(root, { $case: 'expiry', value: { expiry: undefined, deleteAfterExpiry: false } }),
    'error-rootFolder',
  )
  t.equal(refused(world.account().recycleBinFolder, { $case: 'name', value: 'x' }), 'error-protectedFolder')
  t.equal(refused(world.id, { $case: 'name', value: 'x' }), 'error-notFound')
  t.equal(
    world.status(visitor, {
      updateContent: { contentId: folder.id, attribute: { $case: 'name', value: 'x' } },
    }),
    'error-notOwner',
  )
  t.equal(world.status(operator, { updateContent: { contentId: folder.id } }), 'error-attribute')
})

t.test('a folder without a code gets one when it turns public', async (t) => {
  const world = new World()
  world.create()
  const legacy = world.item(operator, { addLegacyFolder: { noCode: false } })
  t.match(legacy, { isPublic: true, name: legacy.code })
  t.match(legacy.code, /^[A-Za-z0-9]{6}$/)
  t.equal(world.legacyCodes, 1)
  const bare = world.item(operator, { addLegacyFolder: { noCode: true, name: 'old' } })
  t.match(bare, { isPublic: false, code: undefined, name: 'old' })
  world.settle()
  const shared = world.item(operator, {
    updateContent: { contentId: bare.id, attribute: { $case: 'isPublic', value: true } },
  })
  t.match(shared.code, /^[A-Za-z0-9]{8}$/)
  t.equal(world.contentOf(shared.code), bare.id)
  t.equal(world.contentOf(legacy.code), legacy.id)
  const again = world.item(operator, {
    updateContent: { contentId: bare.id, attribute: { $case: 'isPublic', value: true } },
  })
  t.equal(again.code, shared.code, 'and keeps it')
  t.equal(world.status(world.bearer(), { addLegacyFolder: {} }), 'error-notOwner')
})

t.test('deletion is all or nothing', async (t) => {
  const world = new World()
  const root = world.create()
  const folder = world.folder(root, { isPublic: true })
  const inner = world.folder(folder.id)
  const file = world.file(inner.id)
  const other = world.file(root)
  const remove = (...contentIds: string[]) => world.status(operator, { deleteContents: { contentIds } })
  t.equal(remove(other.id, world.id), 'error-notFound')
  t.equal(remove(other.id, root), 'error-protectedFolder')
  t.equal(remove(other.id, world.account().recycleBinFolder), 'error-protectedFolder')
  t.equal(world.status(visitor, { deleteContents: { contentIds: [folder.id] } }), 'error-owner')
  t.equal(
    world.status(visitor, { deleteContents: { contentIds: [folder.id, world.id] } }),
    'error-notFound',
    'existence first',
  )
  t.equal(remove(), 'error-contentsId')
  t.equal(remove(...Array.from({ length: 1001 }, () => other.id)), 'error-contentsId')
  t.match(world.account(), { fileCount: 2, folderCount: 2 }, 'nothing changed')
  t.equal(remove(file.id, folder.id, other.id, other.id), 'ok', 'nested and named twice')
  t.match(world.account(), { fileCount: 0, folderCount: 0, storage: 0 })
  for (const { id } of [folder, inner, file, other])
    t.equal(world.status(operator, { readContent: { contentId: id } }), 'error-notFound')
})

t.test('the bin receives deletions when it is on, and restores them', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const bin = world.account().recycleBinFolder
  const folder = world.folder(root, { name: 'folder', isPublic: true })
  const file = world.file(folder.id, 'inside.txt')
  const alone = world.file(root, 'alone.txt')
  world.nowMs += 10_000
  t.equal(world.status(operator, { deleteContents: { contentIds: [folder.id, file.id, alone.id] } }), 'ok')
  t.equal(world.read(operator, root).childrenCount, 0, 'not listed')
  t.match(world.account(), { fileCount: 2, folderCount: 1 }, 'still counts')
  const { result } = world.ask(operator, { readBin: {} })
  t.match(result, {
    value: {
      items: [
        { id: alone.id, recycledTime: world.now },
        { id: folder.id, parentFolder: bin },
      ],
    },
  })
  t.equal(world.read(operator, folder.id).children.length, 1, 'its owner reads what is in it')
  t.equal(world.status(visitor, { readContent: { contentId: folder.id } }), 'error-notFound', 'no visitor')
  t.equal(world.status(visitor, { deleteContents: { contentIds: [folder.id] } }), 'error-notFound')
  t.equal(world.status(visitor, { readBin: {} }), 'error-notOwner')
  t.equal(
    world.status(operator, {
      updateContent: { contentId: folder.id, attribute: { $case: 'name', value: 'x' } },
    }),
    'error-notFound',
  )
  t.equal(world.status(operator, { createFolder: { parentFolderId: folder.id } }), 'error-notFound')
  t.equal(world.status(operator, { createFolder: { parentFolderId: bin } }), 'error-protectedFolder')
  t.equal(
    world.status(operator, { moveContents: { contentIds: [folder.id], folderId: root } }),
    'error-notFound',
  )
  t.equal(
    world.status(operator, { moveContents: { contentIds: [world.folder(root).id], folderId: bin } }),
    'error-protectedFolder',
  )
  t.equal(
    world.status(operator, { copyContents: { sources: [{ contentId: alone.id, manifest: undefined }] } }),
    'error-notFound',
  )
  t.equal(world.status(operator, { putDirectLink: { contentId: alone.id, link: noLink } }), 'error-notFound')

  t.equal(
    world.status(operator, { restoreContents: { contentIds: [root] } }),
    'error-notFound',
    'not in the bin',
  )
  t.equal(world.status(operator, { restoreContents: { contentIds: [bin] } }), 'error-protectedFolder')
  t.equal(world.status(visitor, { restoreContents: { contentIds: [folder.id] } }), 'error-notOwner')
  t.equal(
    world.status(operator, { restoreContents: { contentIds: [file.id] } }),
    'ok',
    'out of a folder that stays there',
  )
  t.equal(world.read(operator, file.id).parentFolder, root)
  t.equal(world.status(operator, { restoreContents: { contentIds: [folder.id, alone.id] } }), 'ok')
  t.match(world.read(operator, folder.id), { parentFolder: root, childrenCount: 0, recycledTime: undefined })
  t.equal(world.read(visitor, folder.id).name, 'folder')

  world.ask(operator, { deleteContents: { contentIds: [folder.id] } })
  t.equal(
    world.status(operator, { deleteContents: { contentIds: [folder.id] } }),
    'ok',
    'permanently from the bin',
  )
  t.equal(world.status(operator, { readContent: { contentId: folder.id } }), 'error-notFound')
})

const noLink = {
  id: '',
  expireTime: 0,
  sourceIpsAllowed: [],
  domainsAllowed: [],
  domainsBlocked: [],
  auth: [],
  createTime: 0,
}

t.test('restored content returns to its place, or to the root when that is gone', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const home = world.folder(root)
  const file = world.file(home.id)
  const other = world.file(home.id, 'other')
  world.ask(operator, { deleteContents: { contentIds: [file.id, other.id] } })
  world.ask(operator, { restoreContents: { contentIds: [file.id] } })
  t.equal(world.read(operator, file.id).parentFolder, home.id)
  world.ask(operator, { deleteContents: { contentIds: [home.id] } })
  t.equal(world.status(operator, { restoreContents: { contentIds: [home.id, other.id] } }), 'ok')
  t.equal(world.read(operator, other.id).parentFolder, home.id, 'the folder came back first')
  world.ask(operator, { deleteContents: { contentIds: [other.id] } })
  world.ask(operator, { deleteContents: { contentIds: [home.id] } })
  world.ask(operator, { deleteContents: { contentIds: [home.id] } })
  world.ask(operator, { restoreContents: { contentIds: [other.id] } })
  t.equal(world.read(operator, other.id).parentFolder, root)
})

t.test('a move keeps everything below it, and a folder cannot move below itself', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const one = world.folder(root, { name: 'one', isPublic: true })
  const two = world.folder(one.id, { name: 'two' })
  const file = world.file(two.id)
  const move = (contentIds: string[], folderId: string) =>
    world.status(operator, { moveContents: { contentIds, folderId } })
  t.equal(move([one.id], two.id), 'error-folderId', 'below itself')
  t.equal(move([one.id], one.id), 'error-folderId', 'into itself')
  t.equal(move([root], one.id), 'error-rootFolder')
  t.equal(move([two.id], file.id), 'error-folderId', 'a file')
  t.equal(move([two.id, world.id], root), 'error-notFound')
  t.equal(world.status(visitor, { moveContents: { contentIds: [two.id], folderId: root } }), 'error-notOwner')
  t.equal(move([one.id, two.id], root), 'ok', 'a folder and one below it')
  t.match(
    world
      .read(operator, root)
      .children.map((child) => child.name)
      .sort(),
    ['one', 'two'],
  )
  t.equal(move([one.id], two.id), 'ok', 'the other way round now')
  t.match(world.read(operator, one.id), { id: one.id, code: one.code, isPublic: true, parentFolder: two.id })
  const { result } = world.ask(operator, { moveContents: { contentIds: [file.id, two.id], folderId: root } })
  t.match(result, { $case: 'items', value: { items: [{ id: file.id, parentFolder: root }, { id: two.id }] } })
  t.match(world.account(), { fileCount: 1, folderCount: 2 })
})

/** Copy and import: within an account, and by manifests between two. */
import type { CopySource, Item, Manifest } from '@holdfast/wire'
import t from 'tap'
import { blobOf, equal, operator, pagesOf, passwordOf, sent, visitor, World } from './world.ts'

const own = (contentId: string): CopySource => ({ contentId, manifest: undefined })

function copies(world: World, sources: CopySource[], folderId?: string): Item[] {
  const { result } = world.ask(operator, {
    copyContents: { sources, ...(folderId === undefined ? {} : { folderId }) },
  })
  if (result.$case !== 'copy') throw new Error(JSON.stringify(result))
  return result.value.results.map(({ item }) => item as Item)
}

function set(
  world: World,
  contentId: string,
  attribute: NonNullable<import('@holdfast/wire').UpdateContent['attribute']>,
) {
  const status = world.status(operator, { updateContent: { contentId, attribute } })
  if (status !== 'ok') throw new Error(status)
}

function manifestOf(
  world: World,
  contentIds: string[],
  more: { password?: string; skipUnreadable?: boolean } = {},
): Manifest[] | string {
  const { result } = world.ask(visitor, { takeManifest: { contentIds, ...more } })
  if (result.$case === 'manifest') return result.value.manifests
  return result.$case === 'refusal' ? result.value.status : result.$case
}

t.test('a copy is independent new content', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root, { name: 'folder', isPublic: true })
  const file = world.item(operator, {
    addFile: { folderId: folder.id, name: 'f', mimetype: 'text/x', blob: blobOf('f', 7), modTime: 77 },
  })
  set(world, folder.id, { $case: 'description', value: 'said' })
  set(world, file.id, { $case: 'tags', value: 'a,b' })
  set(world, folder.id, { $case: 'password', value: { verifier: passwordOf('secret') } })
  set(world, folder.id, { $case: 'expiry', value: { expiry: world.now + 500, deleteAfterExpiry: true } })
  world.ask(operator, {
    putDirectLink: {
      contentId: file.id,
      link: {
        id: '',
        expireTime: 0,
        sourceIpsAllowed: [],
        domainsAllowed: [],
        domainsBlocked: [],
        auth: [],
        createTime: 0,
      },
    },
  })
  world.settle()
  const before = world.codes
  world.nowMs += 9000
  const [copy] = copies(world, [own(folder.id)], root)
  if (copy === undefined) throw new Error('no copy')
  t.equal(world.codes - before, 2)
  const read = world.read(operator, copy.id)
  const [inside] = read.children
  t.match(read, {
    name: 'folder',
    description: 'said',
    isPublic: true,
    password: true,
    expiry: world.now + 491,
    deleteAfterExpiry: false,
    createTime: world.now,
    modTime: world.now,
    parentFolder: root,
  })
  t.match(inside, {
    name: 'f',
    tags: 'a,b',
    modTime: 77,
    createTime: world.now,
    mimetype: 'text/x',
    size: 7,
    downloads: 0,
    directLinks: [],
  })
  t.not(copy.id, folder.id)
  t.not(copy.code, folder.code)
  t.not(inside?.id, file.id)
  t.same(
    [copy, inside].map((item) => world.contentOf(item?.code)),
    [copy.id, inside?.id],
  )
  t.match(world.account(), { fileCount: 2, folderCount: 2, storage: 14 })
  world.ask(operator, { deleteContents: { contentIds: [folder.id] } })
  t.equal(world.read(operator, copy.id).childrenCount, 1, 'the original may go')
})

t.test('a folder may be copied below itself, and a list at once', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root, { name: 'folder' })
  const file = world.file(folder.id, 'file')
  const [one, two] = copies(world, [own(folder.id), own(file.id), own(folder.id)], folder.id)
  t.same([one?.name, two?.name], ['folder', 'file'])
  t.equal(world.read(operator, folder.id).childrenCount, 3, 'named twice, copied once')
  t.equal(world.read(operator, one?.id ?? '').childrenCount, 1)
  const root2 = world.read(operator, root)
  copies(world, [own(folder.id)])
  t.equal(world.read(operator, root).childrenCount, root2.childrenCount + 1, 'import goes to the root')
})

t.test('refusals of a copy change nothing', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true, limitContents: 4, limitStorage: 20 } })
  const folder = world.folder(root)
  const file = world.file(folder.id, '0123456789')
  const status = (sources: CopySource[], folderId?: string, who = operator) =>
    world.status(who, { copyContents: { sources, ...(folderId === undefined ? {} : { folderId }) } })
  t.equal(status([own(root)]), 'error-rootFolder')
  t.equal(status([own(world.account().recycleBinFolder)]), 'error-protectedFolder')
  t.equal(status([own(file.id)], world.account().recycleBinFolder), 'error-protectedFolder')
  t.equal(status([own(file.id)], file.id), 'error-folderId')
  t.equal(status([own(file.id), own(world.id)]), 'error-notFound')
  t.equal(status([own(file.id)], world.id), 'error-notFound')
  t.equal(status([own(folder.id)], root, visitor), 'error-notOwner')
  t.equal(status([]), 'error-contentsId')
  t.equal(status([own(folder.id)]), 'ok')
  t.equal(status([own(file.id)]), 'error-limits')
  world.ask(operator, { setAccount: { limitContents: 100 } })
  t.equal(status([own(file.id)]), 'error-limits', 'storage')
  t.match(world.account(), { fileCount: 2, folderCount: 2, storage: 20 })
  const broken: CopySource = {
    contentId: file.id,
    manifest: {
      entries: [
        {
          sourceId: file.id,
          parent: 0,
          isFolder: true,
          name: 'x',
          description: undefined,
          tags: undefined,
          modTime: 0,
          mimetype: '',
          blob: undefined,
        },
        {
          sourceId: file.id,
          parent: 5,
          isFolder: true,
          name: 'x',
          description: undefined,
          tags: undefined,
          modTime: 0,
          mimetype: '',
          blob: undefined,
        },
      ],
    },
  }
  t.equal(status([broken]), 'error-contentsId', 'a manifest without order')
})

t.test('expired folders are never copied; a past expiry is not kept', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root, { name: 'folder' })
  const over = world.folder(folder.id, { name: 'over' })
  world.file(over.id)
  const stays = world.folder(folder.id, { name: 'stays' })
  set(world, over.id, { $case: 'expiry', value: { expiry: world.now + 5, deleteAfterExpiry: false } })
  set(world, stays.id, { $case: 'expiry', value: { expiry: world.now + 50, deleteAfterExpiry: false } })
  world.nowMs += 5000
  const [copy] = copies(world, [own(folder.id)], root)
  t.match(world.read(operator, copy?.id ?? '', { maxDepth: 2 }).children, [
    { name: 'stays', expiry: world.now + 45 },
  ])
  t.equal(world.read(operator, copy?.id ?? '').childrenCount, 1)
  const [named] = copies(world, [own(over.id)], root)
  t.match(named, { name: 'over', expiry: undefined, childrenCount: 1 })
})

t.test('content of another account comes as its visitor may read it', async (t) => {
  const source = new World({ account: 1 })
  const root = source.create()
  const shared = source.folder(root, { name: 'shared', isPublic: true })
  const one = source.item(operator, {
    addFile: { folderId: shared.id, name: 'one', mimetype: 'text/plain', blob: blobOf('one', 3), modTime: 5 },
  })
  set(source, one.id, { $case: 'tags', value: 'kept,on,import' })
  set(source, shared.id, { $case: 'description', value: 'of all of it' })
  const locked = source.folder(shared.id, { name: 'locked' })
  source.file(locked.id, 'two')
  set(source, locked.id, { $case: 'password', value: { verifier: passwordOf('secret') } })
  t.equal(manifestOf(source, [shared.id]), 'error-passwordRequired')
  t.equal(manifestOf(source, [shared.id], { password: sent('wrong') }), 'error-passwordWrong')
  const whole = manifestOf(source, [shared.id], { password: sent('secret') })
  if (typeof whole === 'string') throw new Error(whole)
  t.match(whole, [
    {
      entries: [
        { name: 'shared', description: 'of all of it' },
        { name: 'one', modTime: 5, tags: 'kept,on,import' },
        { name: 'locked', parent: 0 },
        { name: 'two', parent: 2 },
      ],
    },
  ])
  const hidden = source.folder(shared.id, { name: 'hidden', isPublic: false })
  source.file(hidden.id, 'three')
  t.equal(manifestOf(source, [shared.id], { password: sent('secret') }), 'error-notOwner')
  const some = manifestOf(source, [shared.id], { skipUnreadable: true })
  if (typeof some === 'string') throw new Error(some)
  t.same(
    some[0]?.entries.map((entry) => entry.name),
    ['shared', 'one'],
  )
  t.equal(manifestOf(source, [hidden.id]), 'error-notOwner')
  t.equal(manifestOf(source, [source.id]), 'error-notFound')
  t.equal(manifestOf(source, [root]), 'error-notOwner')
  set(source, root, { $case: 'isPublic', value: true })
  t.equal(manifestOf(source, [root]), 'error-rootFolder')
  t.equal(manifestOf(source, []), 'error-contentsId')

  const world = new World({ account: 2 })
  const home = world.create({ tier: 'premium' })
  const destination = world.folder(home, { isPublic: true })
  set(world, destination.id, { $case: 'password', value: { verifier: passwordOf('mine') } })
  set(world, destination.id, { $case: 'expiry', value: { expiry: world.now + 60, deleteAfterExpiry: true } })
  const asked = world.ask(operator, {
    copyContents: { sources: [{ contentId: shared.id, manifest: whole[0] }], folderId: destination.id },
  })
  t.match(asked.outcome, { uses: [{ size: 3 }, { size: 3 }] }, 'blobs that are new here')
  if (asked.result.$case !== 'copy') throw new Error('no copy')
  const [copied] = asked.result.value.results
  t.equal(copied?.sourceId, shared.id)
  const read = world.read(operator, copied?.item?.id ?? '', { maxDepth: 2 })
  t.match(read, {
    name: 'shared',
    description: 'of all of it',
    isPublic: true,
    password: true,
    expiry: world.now + 60,
    deleteAfterExpiry: false,
  })
  t.match(
    read.children.toSorted((a, b) => a.name.localeCompare(b.name)),
    [
      { name: 'locked', isPublic: true, password: true, children: [{ name: 'two' }] },
      { name: 'one', modTime: 5, tags: 'kept,on,import' },
    ],
  )
  t.match(world.account(), { fileCount: 2, folderCount: 3, storage: 6 })
  const again = world.ask(operator, {
    copyContents: { sources: [{ contentId: shared.id, manifest: whole[0] }] },
  })
  t.match(again.outcome, { uses: [] }, 'used already')
  t.match(
    world.read(
      operator,
      world.read(operator, home).children.find((child) => child.name === 'shared')?.id ?? '',
    ),
    { isPublic: false, password: false },
    'takes the root’s',
  )
})

t.test('a large copy makes its ids in slices and is the same when it is replayed', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root)
  for (let index = 0; index < 300; index++) world.file(folder.id, `f${index}`)
  const request = world.request(operator, { copyContents: { sources: [own(folder.id)] } })
  const first = world.state.decide(request, world.context())
  t.equal(first.kind, 'slices')
  const asked = world.send(request)
  t.match(asked.outcome, { kind: 'change', codesUsed: 301 })
  t.equal(world.state.nextCode.next, world.codes)
  t.same(world.replayed().nextCode, world.state.nextCode)
  t.ok(equal(pagesOf(world.replayed()), pagesOf(world.state)))
})

t.test('a decision requests the share codes it lacks', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root)
  const file = world.file(folder.id)
  const few = (end: number, ask: Parameters<World['request']>[1]) =>
    world.decide(world.request(operator, ask), {
      ...world.context(),
      codes: { next: 0, end },
      legacyCodes: { next: 0, end: 0 },
    })
  t.match(few(1, { copyContents: { sources: [own(folder.id)] } }), { kind: 'needs', codes: 2 })
  t.match(few(1, { addFile: { name: 'x', mimetype: '', blob: blobOf('x') } }), { kind: 'needs', codes: 2 })
  t.match(few(0, { addFile: { folderId: root, name: 'x', mimetype: '', blob: blobOf('x') } }), {
    kind: 'needs',
    codes: 1,
  })
  t.match(few(0, { createFolder: { parentFolderId: root } }), { kind: 'needs', codes: 1 })
  t.match(few(0, { addLegacyFolder: {} }), { kind: 'needs', legacyCodes: 1 })
  t.match(few(0, { addLegacyFolder: { noCode: true } }), { kind: 'change', legacyCodesUsed: 0 })
  t.match(few(0, { deleteContents: { contentIds: [file.id] } }), { kind: 'change', codesUsed: 0 })
})

/** What visitors see of an account, and what opens it. */
import { SortField } from '@holdfast/wire'
import t from 'tap'
import { expire, link, names, password, set } from './owner.ts'
import { type CallerCase, firstPage, operator, passwordOf, sent, visitor, World } from './world.ts'

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

t.test('a file opened for a visitor says when the first folder above it ends', async (t) => {
  const world = new World()
  const root = world.create()
  const above = world.folder(root, { isPublic: true })
  const folder = world.folder(above.id, { isPublic: true })
  const file = world.file(folder.id)
  const ends = (who: CallerCase, more: object = {}) => {
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
  const open = (who: CallerCase, more: object = {}) =>
    world.status(who, { openFile: { contentId: file.id, ...more } })
  const grant = (passwordVersion: Buffer, ownerTokenCounter?: number): CallerCase => ({
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

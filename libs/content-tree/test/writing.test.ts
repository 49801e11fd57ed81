/** Commands: accounts, uploads, folders, changes, lists. */
import t from 'tap'
import {
  blobOf,
  equal,
  operator,
  pagesOf,
  passwordOf,
  restored,
  sent,
  startMs,
  system,
  visitor,
  World,
} from './world.ts'

const hour = 3_600

t.test('an account is created once, as a guest or with an address', async (t) => {
  const world = new World()
  t.equal(world.status(world.bearer(), { getAccount: {} }), 'error-token', 'before')
  t.equal(world.status(visitor, { readContent: { contentId: world.id } }), 'error-notFound', 'before')
  t.equal(world.status(system, { tick: {} }), 'error-notFound', 'before')
  t.notOk(world.state.exists)
  const { result } = world.ask(system, { createAccount: { tokenKeyId: 3 } })
  t.ok(world.state.exists)
  t.match(result, {
    $case: 'account',
    value: {
      id: world.id,
      email: `${world.id}@guest.invalid`,
      tier: 'guest',
      premiumType: undefined,
      storage: 0,
      fileCount: 0,
      folderCount: 0,
      tokenKeyId: 3,
      tokenCounter: 0,
      limitContents: 10_000,
    },
  })
  t.equal(world.status(system, { createAccount: { tokenKeyId: 3 } }), 'error-unavailable', 'another time')
  t.equal([...world.state.effects()].length, 0, 'a guest has no inbox')

  const other = new World({ account: 2 })
  other.ask(system, { createAccount: { tokenKeyId: 1, email: 'Ann@Example.org' } })
  t.match(other.account(), { tier: 'standard', email: 'Ann@Example.org' })
  t.match(
    [...other.state.effects()],
    [
      {
        effect: { $case: 'signInMail', value: { email: 'Ann@Example.org', tokenKeyId: 1, tokenCounter: 0 } },
      },
    ],
  )
})

t.test('the token is checked before the tier, the tier before everything else', async (t) => {
  const world = new World()
  world.create()
  const premium = { tierNeeded: 'premium' }
  const nothing = { readContent: { contentId: 'no id' } }
  t.equal(world.status(world.bearer(1), nothing, premium), 'error-token')
  t.equal(world.status(world.bearer(0, 2), nothing, premium), 'error-token')
  t.equal(world.status(world.bearer(), nothing, premium), 'error-notPremium')
  t.equal(world.status(world.bearer(), { authenticate: {} }, premium), 'error-notPremium')
  t.equal(world.status(world.bearer(), { authenticate: {} }), 'ok')
  t.equal(world.status(visitor, { authenticate: {} }), 'error-token')
  world.ask(operator, { setAccount: { tier: 'premium' } })
  t.equal(world.status(world.bearer(), nothing, premium), 'error-notFound')
})

t.test('the operator may open reading and search to every tier, and nothing else', async (t) => {
  const world = new World({ openListing: true })
  const root = world.create()
  const premium = { tierNeeded: 'premium' }
  t.equal(
    world.status(
      world.bearer(),
      { readContent: { contentId: root, page: 1, pageSize: 10, maxDepth: 1 } },
      premium,
    ),
    'ok',
  )
  t.equal(
    world.status(
      world.bearer(),
      { searchContents: { contentId: root, searchedString: 'x', page: 1, pageSize: 10 } },
      premium,
    ),
    'ok',
  )
  t.equal(
    world.status(world.bearer(), { moveContents: { contentIds: [root], folderId: root } }, premium),
    'error-notPremium',
  )
})

t.test('a reset ends the old token at once and mails the new one', async (t) => {
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  const requestId = world.requestId()
  t.equal(world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }, { requestId }), 'ok')
  t.equal(world.status(world.bearer(0, 1), { authenticate: {} }), 'error-token')
  t.equal(world.status(world.bearer(1, 2), { authenticate: {} }), 'ok')
  t.match(
    [...world.state.effects()],
    [{ effect: { $case: 'signInMail', value: { tokenKeyId: 2, tokenCounter: 1 } } }],
  )
  t.equal(
    world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }, { requestId }),
    'ok',
    'the same request again',
  )
  t.equal(world.account().tokenCounter, 1, 'counts once')
  t.equal(
    world.status(world.bearer(), { resetToken: { tokenKeyId: 2 } }),
    'error-token',
    'a new one with the old token',
  )
  t.equal(world.status(visitor, { resetToken: { tokenKeyId: 2 } }), 'error-notOwner')
})

t.test('a confirmed address replaces the token once, unless its owner keeps it', async (t) => {
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  t.equal(world.account().emailConfirmed, false)
  t.equal(world.status(visitor, { confirmEmail: { tokenKeyId: 2 } }), 'error-notOwner')
  const requestId = world.requestId()
  const first = world.ask(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }, { requestId })
  t.match(first.result, { value: { emailConfirmed: true, tokenCounter: 1, tokenKeyId: 2 } })
  t.equal(world.status(world.bearer(0, 1), { authenticate: {} }), 'error-token', 'the answered one is dead')
  t.match(
    [...world.state.effects()],
    [{ effect: { $case: 'signInMail', value: { tokenKeyId: 2, tokenCounter: 1 } } }],
  )
  const again = world.ask(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }, { requestId })
  t.strictSame(again.result, first.result, 'the same request again')
  t.equal(world.status(world.bearer(), { confirmEmail: { tokenKeyId: 2 } }), 'error-token')
  const later = world.ask(world.bearer(1, 2), { confirmEmail: { tokenKeyId: 3 } })
  t.equal(later.change, undefined, 'a confirmed address stays so and the token too')
  t.match(later.result, { value: { emailConfirmed: true, tokenCounter: 1, tokenKeyId: 2 } })

  const kept = new World({ account: 2 })
  kept.create({ email: 'bob@example.org' })
  kept.ask(kept.bearer(), { confirmEmail: { tokenKeyId: 2, keepToken: true } })
  t.match(kept.account(), { emailConfirmed: true, tokenCounter: 0, tokenKeyId: 1 })
  t.ok(holds(kept), 'replay and checkpoint give the same state')

  const guest = new World({ account: 3 })
  guest.create()
  t.equal(guest.status(guest.bearer(), { confirmEmail: { tokenKeyId: 2 } }), 'error-email')
  t.ok(holds(world), 'replay and checkpoint give the same state')
})

t.test('a deletion shows the items as they were; a retry what was small enough to be kept', async (t) => {
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

t.test('the operator sets tier, limits and bin; the owner only the bin', async (t) => {
  const world = new World()
  world.create()
  world.ask(operator, { setAccount: { tier: 'premium' } })
  t.match(world.account(), { tier: 'premium', premiumType: 'subscription', limitContents: undefined })
  world.ask(operator, { setAccount: { premiumType: 'gift', limitContents: 5, limitStorage: 100 } })
  t.match(world.account(), { tier: 'premium', premiumType: 'gift', limitContents: 5, limitStorage: 100 })
  world.ask(operator, { setAccount: { clearLimits: true, limitStorage: 7 } })
  t.match(world.account(), { limitContents: undefined, limitStorage: 7 })
  world.ask(operator, { setAccount: { tier: 'standard' } })
  t.match(world.account(), { tier: 'standard', premiumType: undefined, limitContents: 10_000 })
  t.equal(world.status(operator, { setAccount: { tier: 'gold' } }), 'error-tier')
  t.equal(world.status(operator, { setAccount: { limitContents: -1 } }), 'error-contents')
  t.equal(world.status(world.bearer(), { setAccount: { tier: 'premium' } }), 'error-forbidden')
  t.equal(
    world.status(world.bearer(), { setAccount: { recycleBin: true, limitStorage: 1 } }),
    'error-forbidden',
  )
  t.equal(world.status(world.bearer(), { setAccount: { recycleBin: true } }), 'ok')
  t.equal(world.account().recycleBinEnabled, true)
  t.equal(world.status(visitor, { setAccount: { recycleBin: false } }), 'error-notOwner')
})

t.test('sign-in mails go to addresses that have an inbox', async (t) => {
  const guest = new World()
  guest.create()
  t.equal(guest.status(system, { sendSignIn: {} }), 'ok')
  t.equal([...guest.state.effects()].length, 0)
  const world = new World()
  world.create({ email: 'ann@example.org' })
  world.settle()
  t.equal(world.status(system, { sendSignIn: {} }), 'ok')
  t.equal([...world.state.effects()].length, 1)
  t.equal(world.status(visitor, { sendSignIn: {} }), 'error-notOwner')
})

t.test('an upload without a token makes account, public folder and file in one change', async (t) => {
  const world = new World()
  const blob = blobOf('hello', 11)
  const file = {
    createAccount: { tokenKeyId: 1, email: undefined },
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
  const check = (who = world.bearer(), folderId?: string) =>
    world.status(who, { checkUpload: folderId === undefined ? {} : { folderId } })
  t.equal(check(), 'ok')
  t.equal(check(world.bearer(), folder.id), 'ok')
  t.equal(check(world.bearer(), world.file(root).id), 'error-folderId')
  t.equal(check(world.bearer(), world.id), 'error-notFound')
  t.equal(check(world.bearer(5), folder.id), 'error-token')
  t.equal(check(visitor, folder.id), 'error-notOwner')
  world.ask(operator, { setAccount: { limitContents: 3 } })
  t.equal(check(), 'error-limits', 'a folder and a file')
  t.equal(check(world.bearer(), folder.id), 'ok', 'a file alone')
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
        createAccount: { tokenKeyId: 1, email: undefined },
        name: 'f',
        mimetype: '',
        blob: blobOf('f'),
      },
    }),
    'error-limits',
    'a first upload takes two',
  )
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
    'later changes of the parent do not travel',
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
  t.equal(world.status(visitor, { readContent: { contentId: folder.id } }), 'error-notFound', 'nobody else')
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

t.test('moves keep everything and make no circles', async (t) => {
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

t.test(
  'an expired folder of a guest accepts nothing new and is deleted with everything in it then',
  async (t) => {
    const world = new World()
    const root = world.create()
    world.ask(operator, { setAccount: { recycleBin: true } })
    const folder = world.folder(root, { isPublic: true })
    const inner = world.folder(folder.id)
    const kept = world.file(inner.id, 'kept')
    const moved = world.file(root, 'moved')
    const recycled = world.file(folder.id, 'recycled')
    const expiry = world.now + 100
    world.ask(operator, {
      updateContent: {
        contentId: folder.id,
        attribute: { $case: 'expiry', value: { expiry, deleteAfterExpiry: false } },
      },
    })
    t.equal(world.state.nextDue(), expiry)
    world.ask(operator, { moveContents: { contentIds: [moved.id], folderId: inner.id } })
    world.ask(operator, { moveContents: { contentIds: [kept.id], folderId: root } })
    world.ask(operator, { deleteContents: { contentIds: [recycled.id] } })
    t.notOk(world.ask(system, { tick: {} }).change, 'nothing is due yet')
    t.equal(world.read(visitor, folder.id).id, folder.id)

    world.nowMs += 100_000
    t.equal(
      world.status(visitor, { readContent: { contentId: folder.id } }),
      'error-notFound',
      'swept or not',
    )
    t.equal(world.status(visitor, { readContent: { contentId: inner.id } }), 'error-notFound', 'nor below')
    t.equal(world.read(operator, inner.id).id, inner.id, 'its owner reads until it is deleted')
    t.equal(world.status(operator, { createFolder: { parentFolderId: inner.id } }), 'error-notFound')
    t.equal(
      world.status(operator, { moveContents: { contentIds: [kept.id], folderId: folder.id } }),
      'error-notFound',
    )
    t.equal(world.status(operator, { checkUpload: { folderId: folder.id } }), 'error-notFound')

    t.equal(world.status(world.bearer(), { tick: {} }), 'error-notOwner')
    t.ok(world.ask(system, { tick: {} }).change)
    t.notOk(world.ask(system, { tick: {} }).change, 'once')
    for (const { id } of [folder, inner, moved])
      t.equal(world.status(operator, { readContent: { contentId: id } }), 'error-notFound')
    t.equal(world.read(operator, kept.id).parentFolder, root)
    t.match(
      world.ask(operator, { readBin: {} }).result,
      { value: { items: [{ id: recycled.id }] } },
      'past the bin',
    )
    world.ask(operator, { restoreContents: { contentIds: [recycled.id] } })
    t.equal(world.read(operator, recycled.id).parentFolder, root)
    t.match(world.account(), { fileCount: 2, folderCount: 0 })
    t.equal(world.state.nextDue(), undefined)
  },
)

t.test('a Premium folder without consent is closed and stays, also when Premium lapses', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const closes = world.folder(root, { isPublic: true })
  const goes = world.folder(root, { isPublic: true })
  const expire = (contentId: string, deleteAfterExpiry: boolean) =>
    world.ask(operator, {
      updateContent: {
        contentId,
        attribute: { $case: 'expiry', value: { expiry: world.now + 60, deleteAfterExpiry } },
      },
    })
  expire(closes.id, true)
  expire(closes.id, false)
  expire(goes.id, true)
  world.nowMs += 60_000
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: closes.id } }),
    'ok',
    'accepts new content',
  )
  t.equal(
    world.read(operator, closes.id, {}).children[0]?.expiry,
    undefined,
    'a past expiry is not handed on',
  )
  world.ask(system, { tick: {} })
  t.equal(world.status(operator, { readContent: { contentId: goes.id } }), 'error-notFound')
  t.equal(world.status(visitor, { readContent: { contentId: closes.id } }), 'error-notFound')
  world.ask(operator, { setAccount: { tier: 'standard' } })
  world.nowMs += 60_000
  t.notOk(world.ask(system, { tick: {} }).change)
  t.equal(world.read(operator, closes.id).id, closes.id)
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: closes.id } }),
    'error-notFound',
    'nothing new',
  )
  world.ask(operator, {
    updateContent: {
      contentId: closes.id,
      attribute: { $case: 'expiry', value: { expiry: world.now + 60, deleteAfterExpiry: false } },
    },
  })
  t.equal(world.read(visitor, closes.id).id, closes.id, 'open again')
  world.nowMs += 60_000
  world.ask(system, { tick: {} })
  t.equal(
    world.status(operator, { readContent: { contentId: closes.id } }),
    'error-notFound',
    'now it is deleted',
  )
})

t.test('due timers are handled by the tier of their due time', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root)
  world.ask(operator, {
    updateContent: {
      contentId: folder.id,
      attribute: { $case: 'expiry', value: { expiry: world.now + 1, deleteAfterExpiry: false } },
    },
  })
  world.nowMs += 5_000
  world.ask(operator, { setAccount: { tier: 'guest' } })
  world.ask(system, { tick: {} })
  t.equal(world.read(operator, folder.id).id, folder.id)
})

t.test('the bin is emptied after 30 days, and timers fire in it', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const first = world.file(root, 'first')
  const second = world.folder(root)
  const expiring = world.folder(root)
  world.ask(operator, {
    updateContent: {
      contentId: expiring.id,
      attribute: { $case: 'expiry', value: { expiry: world.now + 500, deleteAfterExpiry: false } },
    },
  })
  world.ask(operator, { deleteContents: { contentIds: [first.id] } })
  world.nowMs += 100_000
  world.ask(operator, { deleteContents: { contentIds: [second.id, expiring.id] } })
  t.equal(world.state.nextDue(), Math.floor(startMs / 1000) + 500)
  world.nowMs = startMs + 500_000
  world.ask(system, { tick: {} })
  t.equal(world.status(operator, { readContent: { contentId: expiring.id } }), 'error-notFound')
  const month = 30 * 86_400
  t.equal(world.state.nextDue(), Math.floor(startMs / 1000) + month)
  world.nowMs = startMs + month * 1000
  world.ask(system, { tick: {} })
  t.equal(world.status(operator, { readContent: { contentId: first.id } }), 'error-notFound')
  t.equal(world.read(operator, second.id).id, second.id)
  t.equal(world.state.nextDue(), Math.floor(startMs / 1000) + month + 100)
})

t.test('one tick takes what is over in the bin, and what expired inside it', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const outer = world.folder(root)
  const inner = world.folder(outer.id)
  world.ask(operator, {
    updateContent: {
      contentId: inner.id,
      attribute: { $case: 'expiry', value: { expiry: world.now + 500, deleteAfterExpiry: false } },
    },
  })
  world.ask(operator, { deleteContents: { contentIds: [outer.id] } })
  world.nowMs += 31 * 86_400_000
  world.ask(system, { tick: {} })
  for (const { id } of [outer, inner])
    t.equal(world.status(operator, { readContent: { contentId: id } }), 'error-notFound')
  t.equal(world.account().folderCount, 0)
  t.ok(holds(world))
})

/** Whether replay and the checkpoint both give the state that the changes made. */
function holds(world: World): boolean {
  const pages = pagesOf(world.state)
  return equal(pages, pagesOf(world.replayed())) && equal(pages, pagesOf(restored(world, pages)))
}

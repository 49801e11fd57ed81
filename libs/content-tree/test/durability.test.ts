/** What outlives a request: results for retries, effects, references of blobs, checkpoints. */
import { requestIdOfKey } from '@holdfast/kernel'
import { type Blob, blank, Change, CheckpointPage, type Effect } from '@holdfast/wire'
import t from 'tap'
import { blobOf, equal, operator, pagesOf, passwordOf, restored, system, visitor, World } from './world.ts'

const releases = (world: World) =>
  [...world.state.effects()].filter((effect) => effect.effect?.$case === 'blobReleased')
const add = (world: World, folderId: string, blob: Blob) =>
  world.ask(operator, { addFile: { folderId, name: 'f', mimetype: '', blob } })
const idOf = ({ result }: { result: { $case: string; value: unknown } }) =>
  (result.value as { item: { id: string } }).item.id

t.test('a repeated request has one effect and the same answer', async (t) => {
  const world = new World()
  const blob = blobOf('x')
  const requestId = world.requestId()
  const ask = {
    addFile: {
      createAccount: { tokenKeyId: 1, email: undefined, isNewId: true },
      name: 'x',
      mimetype: '',
      blob,
    },
  }
  const first = world.ask(system, ask, { requestId })
  const second = world.ask(system, ask, { requestId })
  t.same(second.result, first.result)
  t.notOk(second.change)
  t.match(world.account(), { fileCount: 1, folderCount: 1 })
  const folderId = requestIdOfKey('my key')
  const folder = { createFolder: { parentFolderId: world.account().rootFolder } }
  const one = world.ask(world.bearer(), folder, { requestId: folderId })
  world.ask(operator, { deleteContents: { contentIds: [idOf(one)] } })
  world.nowMs += 3600_000
  t.same(
    world.ask(world.bearer(), folder, { requestId: folderId }).result,
    one.result,
    'although it is deleted by now',
  )
  t.equal(
    world.status(world.bearer(), { deleteContents: { contentIds: [idOf(one)] } }, { requestId: folderId }),
    'error-idempotencyKey',
    'another operation under the same key',
  )
  const asked = (text: string) => requestIdOfKey('one more', Buffer.from(text))
  const other = world.ask(world.bearer(), folder, { requestId: asked('question') })
  t.same(world.ask(world.bearer(), folder, { requestId: asked('question') }).result, other.result)
  t.equal(world.status(world.bearer(), folder, { requestId: asked('anything') }), 'error-idempotencyKey')
  t.equal(
    world.status(world.bearer(3), folder, { requestId: folderId }),
    'error-token',
    'the token is checked first',
  )
  t.equal(world.status(visitor, folder, { requestId: folderId }), 'error-notOwner')
})

t.test('large answers are made again', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const folder = world.folder(root)
  const file = world.file(folder.id)
  const text = 'é'.repeat(1999)
  const again = (ask: Parameters<World['ask']>[1], what: string) => {
    const requestId = world.requestId()
    const first = world.ask(operator, ask, { requestId })
    t.equal(first.change?.outcome.length, 0, what)
    t.same(world.ask(operator, ask, { requestId }).result, first.result, what)
    const state = world.state
    world.state = restored(world, pagesOf(state))
    t.same(world.ask(operator, ask, { requestId }).result, first.result, `${what}, after a load`)
    world.state = state
  }
  world.ask(operator, {
    updateContent: { contentId: folder.id, attribute: { $case: 'description', value: text } },
  })
  const names = Array.from({ length: 200 }, (_, index) => `domain-number-${index}.example.org`)
  const link = {
    id: '',
    expireTime: 0,
    sourceIpsAllowed: [],
    domainsAllowed: names,
    domainsBlocked: [],
    auth: [],
    createTime: 0,
  }
  again({ putDirectLink: { contentId: folder.id, link } }, 'a direct link')
  again({ updateContent: { contentId: folder.id, attribute: { $case: 'tags', value: 'x' } } }, 'an update')
  again(
    {
      copyContents: {
        sources: [
          { contentId: folder.id, manifest: undefined },
          { contentId: file.id, manifest: undefined },
        ],
        folderId: root,
      },
    },
    'a copy',
  )
  again({ moveContents: { contentIds: [file.id], folderId: root } }, 'a move')
})

t.test('an id older than the remembered ones is refused, never executed', async (t) => {
  const world = new World()
  const root = world.create()
  const old = world.requestId()
  world.nowMs += 20 * 60_000
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: root } }, { requestId: old }),
    'ok',
    'merely late',
  )
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: root } }, { requestId: old }),
    'ok',
    'and remembered',
  )
  t.equal(world.account().folderCount, 1)
  const requestId = world.requestId()
  world.status(operator, { createFolder: { parentFolderId: root } }, { requestId })
  world.nowMs += 15 * 60_000 + 1
  world.folder(root)
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: root } }, { requestId }),
    'error-unavailable',
    'forgotten after 15 minutes',
  )
  const ahead = Buffer.from(world.requestId())
  ahead.writeUIntBE(world.nowMs + 120_000, 0, 6)
  t.equal(
    world.status(operator, { createFolder: { parentFolderId: root } }, { requestId: ahead }),
    'error-unavailable',
    'from the future',
  )
})

t.test('at most 1,024 results are kept, and those of chosen ids for a day', async (t) => {
  const world = new World()
  const root = world.create()
  const file = world.file(root)
  const touch = (requestId?: Buffer) =>
    world.status(
      operator,
      { updateContent: { contentId: file.id, attribute: { $case: 'modTime', value: 1 } } },
      requestId === undefined ? {} : { requestId },
    )
  const first = world.requestId()
  const key = requestIdOfKey('key')
  touch(first)
  touch(key)
  for (let count = 0; count < 1023; count++) touch()
  t.equal(touch(first), 'ok')
  const changes = world.changes.length
  touch(key)
  touch(first)
  t.equal(world.changes.length, changes, 'both remembered')
  touch()
  t.equal(touch(first), 'error-unavailable')
  world.nowMs += 23 * 3600_000
  touch()
  const before = world.changes.length
  t.equal(touch(key), 'ok')
  t.equal(world.changes.length, before)
  world.nowMs += 2 * 3600_000
  touch()
  touch(key)
  t.equal(world.changes.length, before + 2, 'forgotten after a day')
})

t.test('queries and ticks keep no result', async (t) => {
  const world = new World()
  const root = world.create()
  const requestId = world.requestId()
  world.status(
    operator,
    { readContent: { contentId: root, page: 1, pageSize: 1, maxDepth: 1 } },
    { requestId },
  )
  t.equal(world.status(system, { tick: {} }, { requestId }), 'ok')
  t.equal(world.status(operator, { createFolder: { parentFolderId: root } }, { requestId }), 'ok')
  t.equal(world.account().folderCount, 1)
})

t.test('a blob is referenced once and released when its last use ends', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const blob = blobOf('shared')
  const one = add(world, root, blob)
  t.match(one.outcome, { uses: [blob] })
  const two = add(world, root, blob)
  t.match(two.outcome, { uses: [] })
  const { result } = world.ask(operator, {
    copyContents: { sources: [{ contentId: idOf(one), manifest: undefined }] },
  })
  t.equal(result.$case, 'copy')
  const other = { ...blob, incarnation: Buffer.alloc(16, 1) }
  const twin = add(world, root, other)
  t.match(twin.outcome, { uses: [other] }, 'another physical copy of the same content')
  world.ask(operator, { deleteContents: { contentIds: [idOf(one), idOf(two)] } })
  t.equal(releases(world).length, 0)
  world.ask(operator, { deleteContents: { contentIds: [idOf(twin)] } })
  t.match(releases(world), [{ effect: { value: { blob: other } } }])
  const copy = (result.value as { results: { item: { id: string } }[] }).results[0]?.item.id ?? ''
  world.ask(operator, { deleteContents: { contentIds: [copy] } })
  t.match(releases(world), [{ effect: { value: { blob: other } } }, { effect: { value: { blob } } }])
})

t.test('a use before a release is done withdraws it', async (t) => {
  const world = new World()
  const root = world.create()
  const blob = blobOf('again')
  const first = idOf(add(world, root, blob))
  world.settle()
  world.ask(operator, { deleteContents: { contentIds: [first] } })
  const [release] = releases(world)
  const again = add(world, root, blob)
  t.match(again.outcome, { uses: [blob] }, 'the reference is made sure of')
  t.equal(releases(world).length, 0)
  const late: Change = {
    ...blank(Change),
    timeMs: world.nowMs,
    events: [{ event: { $case: 'effectsDone', value: { numbers: [release?.number ?? 0] } } }],
  }
  world.state.apply(late)
  world.changes.push(late)
  world.ask(operator, { deleteContents: { contentIds: [idOf(again)] } })
  t.match(releases(world), [{ effect: { value: { blob } } }], 'the late end of the old one ends nothing new')
  world.settle()
  t.equal([...world.state.effects()].length, 0)
  t.match(add(world, root, blob).outcome, { uses: [blob] })
  t.ok(equal(pagesOf(world.replayed()), pagesOf(world.state)))
})

t.test('effects come oldest first and end by their numbers', async (t) => {
  const world = new World()
  const root = world.create({ email: 'ann@example.org' })
  const first = idOf(add(world, root, blobOf('1')))
  world.ask(operator, { deleteContents: { contentIds: [first] } })
  world.ask(system, { sendSignIn: {} })
  add(world, root, blobOf('2'))
  const effects = [...world.state.effects()]
  t.same(
    effects.map((effect: Effect) => effect.effect?.$case),
    ['signInMail', 'blobReleased', 'signInMail'],
  )
  const numbers = effects.map((effect) => effect.number)
  t.same(
    numbers,
    numbers.toSorted((a, b) => a - b),
  )
  const end = (ended: number[]) => {
    const change: Change = {
      ...blank(Change),
      timeMs: world.nowMs,
      events: [{ event: { $case: 'effectsDone', value: { numbers: ended } } }],
    }
    world.state.apply(change)
    world.changes.push(change)
  }
  end([numbers[1] ?? 0, numbers[2] ?? 0])
  t.same(
    [...world.state.effects()].map((effect) => effect.number),
    [numbers[0]],
  )
  const loaded = restored(world, pagesOf(world.state))
  t.same([...loaded.effects()], [...world.state.effects()])
})

t.test('a report counts once per source', async (t) => {
  const world = new World()
  const root = world.create()
  const file = world.file(root)
  const report = (source: number, sequence: number, contentId = file.id) =>
    world.status(system, {
      reportDownloads: {
        source: Buffer.alloc(16, source),
        sequence,
        counts: [{ contentId, count: 2 }],
        trafficDirect: 10,
        trafficWeb: 5,
      },
    })
  report(1, 1)
  report(1, 1)
  report(2, 1)
  report(1, 3)
  report(1, 2)
  report(1, 4, world.id)
  t.equal(world.read(operator, file.id).downloads, 6)
  t.match(world.account(), { trafficDirect: 40, trafficWeb: 20 }, 'traffic of deleted content counts')
  t.equal(report(2, 2, root), 'ok', 'a folder has no downloads')
  t.equal(
    world.status(world.bearer(), { reportDownloads: { source: Buffer.alloc(16), sequence: 1 } }),
    'error-notOwner',
  )
  t.equal(world.read(operator, file.id).modTime, file.modTime)
  for (let source = 0; source < 300; source++)
    world.ask(system, {
      reportDownloads: {
        source: Buffer.from(String(source).padStart(16)),
        sequence: 1,
        counts: [],
        trafficDirect: 0,
        trafficWeb: 0,
      },
    })
  const sources = pagesOf(world.state).flatMap((page) => CheckpointPage.decode(page).sources)
  t.equal(sources.length, 256, 'a bounded number of sources')
})

t.test('a large folder is deleted at once and swept in steps, the same way after a replay', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  let folder = world.folder(root, { name: 'big' }).id
  for (let index = 0; index < 5; index++) world.file(folder, `f${index}`)
  const own = (contentId: string) => ({ contentId, manifest: undefined })
  // 5 files, times 4 six times, and folders: more than one sweep frees.
  for (let round = 0; round < 6; round++) {
    const top = world.folder(root, { name: `top${round}` }).id
    for (let copy = 0; copy < 4; copy++)
      world.ask(operator, { copyContents: { sources: [own(folder)], folderId: top } })
    folder = top
  }
  t.ok(world.account().fileCount > 20_000)
  world.settle()
  world.ask(operator, { deleteContents: { contentIds: [folder] } })
  t.ok(world.account().fileCount < 7_000, 'counted out at once')
  t.equal(world.status(operator, { readContent: { contentId: folder } }), 'error-notFound')
  t.equal(world.state.nextDue(), 0, 'more to sweep')
  const half = restored(world, pagesOf(world.state))
  t.ok(equal(pagesOf(half), pagesOf(world.state)))
  let ticks = 0
  for (; world.state.nextDue() === 0; ticks++) {
    const { change } = world.ask(system, { tick: {} })
    if (change === undefined) throw new Error('a tick that changed nothing')
    half.apply(change)
  }
  t.ok(ticks >= 1 && ticks < 10, `${ticks} ticks`)
  t.ok(equal(pagesOf(half), pagesOf(world.state)))
  t.ok(equal(pagesOf(world.replayed()), pagesOf(world.state)))
})

t.test('a checkpoint loads into an equal state, in pages of bounded size', async (t) => {
  const world = new World()
  t.same(restored(world, pagesOf(world.state)).exists, false, 'before the account')
  const root = world.create({ tier: 'premium', email: 'ann@example.org' })
  world.ask(operator, {
    setAccount: { recycleBin: true, limitContents: 50_000, limitStorage: 1e15, premiumType: 'gift' },
  })
  const folder = world.folder(root, { name: 'ф'.repeat(255), isPublic: true })
  for (const attribute of [
    { $case: 'description', value: '記'.repeat(2000) },
    { $case: 'tags', value: 'ä,ö' },
    { $case: 'password', value: { verifier: passwordOf('secret') } },
    { $case: 'expiry', value: { expiry: world.now + 9, deleteAfterExpiry: true } },
  ] as const)
    world.ask(operator, { updateContent: { contentId: folder.id, attribute } })
  const closed = world.folder(root)
  world.ask(operator, {
    updateContent: {
      contentId: closed.id,
      attribute: { $case: 'expiry', value: { expiry: world.now + 1, deleteAfterExpiry: false } },
    },
  })
  for (let index = 0; index < 40; index++) {
    const link = {
      id: '',
      expireTime: 0,
      sourceIpsAllowed: [],
      domainsAllowed: ['d'.repeat(60_000)],
      domainsBlocked: [],
      auth: [],
      createTime: 0,
    }
    if (index < 12) world.ask(operator, { putDirectLink: { contentId: folder.id, link } })
    world.file(folder.id, '😀'.repeat(255 - index))
  }
  for (let index = 0; index < 3000; index++)
    world.file(root, `file ${index}`, blobOf(`${index % 2500}`, index))
  world.nowMs += 2000
  world.ask(system, { tick: {} })
  const gone = world.read(operator, root, { pageSize: 5 }).children.map((child) => child.id)
  world.ask(operator, { deleteContents: { contentIds: gone } })
  world.ask(system, {
    reportDownloads: {
      source: Buffer.alloc(16, 9),
      sequence: 4,
      counts: [{ contentId: gone[0] ?? '', count: 3 }],
      trafficDirect: 1,
      trafficWeb: 2,
    },
  })
  const pages = pagesOf(world.state)
  t.ok(pages.length > 4)
  t.ok(
    pages.every((page) => page.length <= 256 * 1024),
    `${Math.max(...pages.map((page) => page.length))}`,
  )
  const loaded = restored(world, pages)
  t.ok(equal(pagesOf(loaded), pages))
  t.ok(equal(pagesOf(world.replayed()), pages))
  t.equal(loaded.nextDue(), world.state.nextDue())
  t.ok(Math.abs(loaded.bytes - world.state.bytes) < world.state.bytes)
  const account = world.account()
  const read = world.read(operator, root, { maxDepth: 3, pageSize: 1000 })
  world.state = loaded
  t.same(world.account(), account)
  t.same(world.read(operator, root, { maxDepth: 3, pageSize: 1000 }), read)
  t.throws(() => restored(new World({ account: 9 }), pages), /a checkpoint of account/)
  t.throws(
    () => restored(world, [CheckpointPage.encode({ ...blank(CheckpointPage), version: 3 }).finish()]),
    /version 3/,
  )
})

t.test('a checkpoint with a column of another length, or of missing things, is refused', async (t) => {
  const world = new World()
  const root = world.create()
  for (let n = 0; n < 4; n++) world.file(root, `file ${n}.txt`)
  const attribute = { $case: 'password', value: { verifier: passwordOf('secret') } } as const
  world.ask(operator, { updateContent: { contentId: world.folder(root).id, attribute } })
  const [page] = pagesOf(world.state)
  const damaged = (damage: (page: CheckpointPage) => void) => () => {
    const copy = CheckpointPage.decode(page as Uint8Array)
    damage(copy)
    return restored(world, [CheckpointPage.encode(copy).finish()])
  }
  t.doesNotThrow(damaged(() => {}))
  t.throws(
    damaged(({ passwords }) => passwords.splice(0)),
    'a folder without its password',
  )
  const lengths = ['ids', 'parents', 'links', 'codes', 'createTimes', 'modTimes', 'downloads'] as const
  for (const name of [...lengths, 'names', 'nameLengths', 'mimetypeIndexes'] as const)
    for (const less of [2, 8])
      t.throws(
        damaged(({ contents }) => {
          if (contents !== undefined) contents[name] = contents[name].subarray(0, -less)
        }),
        `${name} ${less} bytes shorter`,
      )
  for (const name of ['ids', 'incarnations', 'sizes', 'crc32s', 'placementGroups', 'releases'] as const)
    t.throws(
      damaged(({ blobs }) => {
        if (blobs !== undefined) blobs[name] = blobs[name].subarray(0, -8)
      }),
      `${name} shorter`,
    )
  t.throws(
    damaged(({ contents }) => contents?.mimetypes.splice(0)),
    'types that are not there',
  )
  t.throws(
    damaged((page) => {
      page.blobs = undefined
    }),
    'blobs that are not there',
  )
})

t.test('a change that does not fit the state throws', async (t) => {
  const world = new World()
  world.create()
  const apply = (event: NonNullable<Change['events'][number]['event']>) => () =>
    world.state.apply({ ...blank(Change), events: [{ event }] })
  t.throws(
    apply({ $case: 'contentsMoved', value: { ids: [world.id], folderId: world.id, time: 1 } }),
    /is not in account/,
  )
  t.throws(
    apply({
      $case: 'accountCreated',
      value: {
        id: world.id,
        rootId: world.id,
        binId: world.id,
        email: undefined,
        tokenKeyId: 1,
        createTime: 1,
      },
    }),
    /created twice/,
  )
  t.throws(() => world.state.apply({ ...blank(Change), events: [{ event: undefined }] }), /does not know/)
})

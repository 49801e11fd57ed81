/** How long content of guests and standard accounts lives, and the undo of deletions by timers. */
import t from 'tap'
import { type Lifetimes, noLifetimes } from '../src/contract.ts'
import { none as noRow } from '../src/tree/columns.ts'
import { Tree } from '../src/tree/tree.ts'
import { type Ask, blobOf, equal, operator, pagesOf, restored, system, visitor, World } from './world.ts'

const day = 86_400
const hour = 3_600
const none = noLifetimes

const worldOf = (guest: Partial<Lifetimes>, undoSeconds = 0) =>
  new World({ lifetimes: { guest: { ...none, ...guest }, standard: none }, undoSeconds })

const upload = (more: Ask['addFile'] = {}): Ask => ({
  addFile: { name: 'f', mimetype: 'text/plain', blob: blobOf('f'), ...more },
})
const firstUpload = upload({ createAccount: { tokenKeyId: 1, email: undefined, isNewId: true } })
const expiry = (contentId: string, seconds: number | undefined): Ask => ({
  updateContent: {
    contentId,
    attribute: { $case: 'expiry', value: { expiry: seconds, deleteAfterExpiry: false } },
  },
})
const make = (world: World, parentFolderId: string) =>
  world.item(world.bearer(), { createFolder: { parentFolderId } })

/** Replay and checkpoints give the live state, whose timers are due at the same time. */
function holds(
  t: { ok(is: boolean, what: string): void; equal(a: unknown, b: unknown): void },
  world: World,
) {
  const pages = pagesOf(world.state)
  const replayed = world.replayed()
  t.ok(equal(pages, pagesOf(replayed)), 'replay gives the live state')
  const loaded = restored(world, pages)
  t.ok(equal(pagesOf(loaded), pages), 'so does a checkpoint')
  t.equal(loaded.nextDue(), world.state.nextDue())
  t.equal(replayed.nextDue(), world.state.nextDue())
}

function tick(world: World, seconds: number) {
  world.nowMs += seconds * 1000
  return world.ask(system, { tick: {} })
}

const sweepsOf = ({ change }: ReturnType<World['ask']>) =>
  (change?.events ?? []).flatMap(({ event }) =>
    event?.$case === 'contentsDeleted' && event.value.sweep !== undefined ? [event.value.sweep] : [],
  )

const heldIn = (world: World) => {
  const { result } = world.ask(operator, { readHeld: {} })
  if (result.$case !== 'held') throw new Error(result.$case)
  return result.value.contents
}

function report(world: World, contentId: string, sequence: number, count = 1) {
  return world.ask(system, {
    reportDownloads: {
      source: Buffer.alloc(16, 9),
      sequence,
      counts: [{ contentId, count }],
      trafficDirect: 0,
      trafficWeb: 0,
    },
  })
}

t.test('without lifetimes nothing ends, and no answer says so', async (t) => {
  const world = worldOf({})
  const file = world.item(system, firstUpload)
  t.match([file.expiry, file.idleExpiry], [undefined, undefined])
  t.equal(world.state.nextDue(), undefined)
  holds(t, world)
})

t.test('a new folder gets the lifetime of its account', async (t) => {
  const world = worldOf({ folderSeconds: 7 * day, folderSecondsMax: 30 * day })
  const file = world.item(system, firstUpload)
  t.equal(file.expiry, world.now + 7 * day, 'the answer to the first upload says it')
  t.equal(file.idleExpiry, undefined)
  t.equal(world.read(operator, file.parentFolder ?? '').expiry, world.now + 7 * day)
  t.equal(world.item(world.bearer(), upload()).expiry, world.now + 7 * day, 'a new folder of a later upload')
  const { rootFolder } = world.account()
  const folder = make(world, rootFolder)
  t.equal(folder.expiry, world.now + 7 * day)
  world.ask(world.bearer(), expiry(folder.id, world.now + day))
  t.equal(make(world, folder.id).expiry, world.now + day, 'what is inherited goes first')
  t.equal(world.item(world.bearer(), upload({ folderId: folder.id })).expiry, world.now + day)
  t.equal(world.folder(rootFolder).expiry, undefined, 'the operator is not bound')
  world.ask(operator, { setAccount: { tier: 'premium' } })
  t.equal(make(world, rootFolder).expiry, undefined, 'nor are premium accounts')
  holds(t, world)
})

t.test('no expiry is later than the longest lifetime', async (t) => {
  const world = worldOf({ folderSecondsMax: 30 * day })
  const root = world.create()
  const folder = make(world, root)
  const latest = world.now + 30 * day
  t.equal(folder.expiry, latest, 'also without a default')
  world.nowMs += day * 1000
  const set = (seconds: number | undefined) => world.item(world.bearer(), expiry(folder.id, seconds)).expiry
  t.equal(set(world.now + 90 * day), latest, 'it counts from the creation')
  t.equal(set(world.now + day), world.now + day)
  t.equal(set(undefined), latest, 'none is the latest')
  t.equal(world.read(operator, folder.id).expiry, latest)
  t.equal(world.item(operator, expiry(folder.id, undefined)).expiry, undefined, 'the operator may')
  world.nowMs += 60 * day * 1000
  t.equal(set(undefined), world.now + 30 * day, 'the time of an older folder without one begins now')
  const fixed = world.now + 30 * day
  world.nowMs += day * 1000
  t.equal(set(world.now + 30 * day), fixed, 'once')
  holds(t, world)
})

t.test('copies have the lifetimes of new folders', async (t) => {
  const world = worldOf({ folderSeconds: 7 * day, folderSecondsMax: 30 * day })
  const root = world.create()
  const eternal = world.folder(root)
  world.folder(eternal.id)
  const late = world.folder(root)
  world.ask(operator, expiry(late.id, world.now + 300 * day))
  const sources = [eternal, late].map(({ id }) => ({ contentId: id, manifest: undefined }))
  const { result } = world.ask(world.bearer(), { copyContents: { sources, folderId: root } })
  if (result.$case !== 'copy') throw new Error(result.$case)
  t.same(
    result.value.results.map(({ item }) => item?.expiry),
    [world.now + 7 * day, world.now + 30 * day],
  )
  holds(t, world)
})

t.test('a file without downloads is deleted, and a file with downloads is not', async (t) => {
  const world = worldOf({ idleSeconds: 10 * day })
  const file = world.item(system, firstUpload)
  t.equal(file.idleExpiry, world.now + 10 * day)
  const folder = file.parentFolder ?? ''
  const read = world.item(world.bearer(), upload({ folderId: folder, name: 'read' }))
  const zipped = world.item(world.bearer(), upload({ name: 'zipped' }))
  tick(world, 9 * day)
  t.equal(world.account().fileCount, 3)
  t.notOk(mayWait(report(world, read.id, 1)), 'the first use in a long time is journaled at once')
  t.ok(mayWait(report(world, read.id, 2, 0)))
  report(world, zipped.parentFolder ?? '', 3, 0)
  t.equal(world.read(operator, read.id).downloads, 1, 'an archive counts no download')
  holds(t, world)
  tick(world, day)
  t.equal(world.account().fileCount, 3, 'never at its second: a count may be under way')
  const swept = tick(world, 2 * hour)
  t.equal(world.account().fileCount, 2)
  t.match(sweepsOf(swept), [{ why: 3, folders: [{ id: folder, contents: 1, bytes: 1 }] }])
  t.equal(world.status(world.bearer(), { readContent: { contentId: file.id } }), 'error-notFound')
  const due = world.state.nextDue() as number
  t.ok(due >= world.now + 8 * day && due <= world.now + 10 * day, 'the next looks come with the next files')
  holds(t, world)
  const outOfZipped = { contentIds: [zipped.id], folderId: folder }
  world.ask(operator, { moveContents: outOfZipped })
  tick(world, 10 * day - hour)
  t.equal(world.account().fileCount, 1, 'a move is a use, too')
  t.equal((world.state.nextDue() as number) > world.now, true)
  tick(world, 4 * hour)
  t.equal(world.account().fileCount, 0)
  t.equal(tick(world, day).change, undefined)
  t.equal(world.state.nextDue(), undefined)
  holds(t, world)
})

function mayWait({ outcome }: ReturnType<World['ask']>): boolean {
  return outcome.kind === 'change' && outcome.mayWait === true
}

t.test('for files that are older than the rule the time begins with the rule', async (t) => {
  const world = worldOf({})
  const file = world.item(system, firstUpload)
  report(world, file.id, 1)
  world.nowMs += 300 * day * 1000
  const later = worldOf({ idleSeconds: 10 * day })
  later.state = restored(later, pagesOf(world.state))
  later.nowMs = world.nowMs
  t.equal(later.state.nextDue(), 0, 'the account begins to note uses')
  tick(later, 1)
  t.equal(later.account().fileCount, 1)
  tick(later, 10 * day - hour)
  t.equal(later.account().fileCount, 1)
  tick(later, 3 * hour)
  t.equal(later.account().fileCount, 0)
})

t.test('a file from the bin is not idle at once', async (t) => {
  const world = worldOf({ idleSeconds: 10 * day })
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root)
  world.file(folder.id)
  world.ask(operator, { deleteContents: { contentIds: [folder.id] } })
  tick(world, 20 * day)
  t.equal(world.account().fileCount, 1, 'the bin has a time of its own')
  world.ask(operator, { restoreContents: { contentIds: [folder.id] } })
  tick(world, day)
  t.equal(world.account().fileCount, 1)
  holds(t, world)
  tick(world, 10 * day)
  t.equal(world.account().fileCount, 0)
})

t.test('content that a timer deleted is gone for everybody, and can be restored', async (t) => {
  const world = worldOf({}, day)
  const root = world.create()
  const above = make(world, root)
  const folder = make(world, above.id)
  world.ask(operator, expiry(folder.id, world.now + 10))
  const inner = make(world, folder.id)
  world.ask(operator, expiry(inner.id, world.now + 10 * day))
  const file = world.file(inner.id, 'kept', blobOf('kept'))
  const swept = tick(world, 10)
  const [sweep] = sweepsOf(swept)
  t.match(sweep, { why: 1, heldUntil: world.now + day })
  t.same(sweep?.folders, [{ id: folder.id, contents: 3, bytes: 4 }])
  t.match(world.account(), { fileCount: 0, folderCount: 1, storage: 0 })
  for (const who of [world.bearer(), operator, visitor])
    t.equal(world.status(who, { readContent: { contentId: file.id } }), 'error-notFound')
  t.equal(world.contentOf(file.code), undefined)
  t.same([...world.state.effects()], [], 'its bytes stay')
  t.equal(world.state.nextDue(), world.now + day)
  holds(t, world)
  t.match(heldIn(world), [
    { id: folder.id, isFolder: true, why: 1, deletedTime: world.now, files: 1, bytes: 4 },
  ])
  t.equal(world.status(world.bearer(), { readHeld: {} }), 'error-notOwner')
  t.equal(world.status(world.bearer(), { undoSweeps: { contentIds: [folder.id] } }), 'error-notOwner')
  t.equal(
    world.status(operator, { undoSweeps: { contentIds: [file.id] } }),
    'error-notFound',
    'not by itself',
  )
  t.equal(world.status(operator, { undoSweeps: { contentIds: [] } }), 'error-contentsId')
  world.nowMs += hour * 1000
  const requestId = world.requestId()
  const undo = { undoSweeps: { contentIds: [folder.id] } }
  const undone = world.ask(operator, undo, { requestId })
  t.same(world.ask(operator, undo, { requestId }).result, undone.result, 'a repetition has no second effect')
  t.match(world.read(operator, folder.id), { parentFolder: above.id, expiry: undefined })
  t.match(world.read(operator, inner.id), { expiry: world.now - hour - 10 + 10 * day })
  t.equal(world.contentOf(file.code), file.id)
  t.match(world.account(), { fileCount: 1, folderCount: 3, storage: 4 })
  t.same(heldIn(world), [])
  t.equal(world.state.nextDue(), world.now - hour - 10 + 10 * day, 'the timers in it keep running')
  holds(t, world)
  tick(world, 10 * day)
  t.equal(world.account().fileCount, 0)
  tick(world, day)
  t.match([...world.state.effects()], [{ effect: { $case: 'blobReleased' } }], 'a day later it is gone')
  t.equal(world.status(operator, undo), 'error-notFound')
  tick(world, 1)
  t.equal(world.state.nextDue(), undefined)
  holds(t, world)
})

t.test(
  'a folder is deleted with those in it as one, and goes back to the root where its folder is gone',
  async (t) => {
    const world = worldOf({}, day)
    const root = world.create()
    world.ask(operator, { setAccount: { recycleBin: true } })
    const above = make(world, root)
    const folder = make(world, above.id)
    const inner = make(world, folder.id)
    for (const { id } of [inner, folder]) world.ask(operator, expiry(id, world.now + 10))
    t.match(sweepsOf(tick(world, 10)), [{ folders: [{ id: folder.id, contents: 2 }] }])
    const binned = world.file(root, 'binned')
    world.ask(operator, { deleteContents: { contentIds: [above.id, binned.id] } })
    tick(world, hour)
    world.ask(operator, { undoSweeps: { contentIds: [folder.id] } })
    t.match(world.read(operator, folder.id), { parentFolder: root })
    t.match(world.read(operator, inner.id), { expiry: undefined })
    const { change } = tick(world, 30 * day)
    t.ok(change)
    t.match(
      heldIn(world)
        .map(({ id, why }) => [id, why])
        .sort(),
      [
        [above.id, 2],
        [binned.id, 2],
      ].sort(),
    )
    world.ask(operator, { undoSweeps: { contentIds: [binned.id] } })
    t.match(world.read(operator, binned.id), { parentFolder: root, recycledTime: undefined })
    holds(t, world)
  },
)

t.test('held content has bounds equal to those of the account', async (t) => {
  const limits = { storage: 10, contents: 10_000, traffic: undefined }
  const world = new World({ undoSeconds: day, tiers: { guest: limits, standard: limits, premium: limits } })
  const root = world.create()
  const expire = (name: string) => {
    const folder = make(world, root)
    world.file(folder.id, name, blobOf(name))
    world.ask(operator, expiry(folder.id, world.now + 1))
    return sweepsOf(tick(world, 1))[0]?.heldUntil
  }
  t.ok(expire('1234567890'))
  t.equal(expire('1'), undefined, 'gone at once')
  t.equal(heldIn(world).length, 1)
  tick(world, day)
  t.ok(expire('2'))
  holds(t, world)
})

t.test('an earlier release takes held content for deleted', async (t) => {
  const world = worldOf({}, day)
  const folder = make(world, world.create())
  world.file(folder.id)
  world.ask(operator, expiry(folder.id, world.now + 1))
  tick(world, 1)
  const { CheckpointPage } = await import('@holdfast/wire')
  const pages = pagesOf(world.state).map((bytes) => {
    const page = CheckpointPage.decode(bytes)
    if (page.head !== undefined) page.head.heldRow = undefined
    for (const note of page.notes) note.heldUntil = undefined
    return CheckpointPage.encode(page).finish()
  })
  world.state = restored(world, pages)
  t.equal(world.state.nextDue(), 0)
  tick(world, 1)
  t.match([...world.state.effects()], [{ effect: { $case: 'blobReleased' } }])
  t.equal(world.state.nextDue(), undefined)
})

t.test('the timer of a deleted folder ends when the rows of the folder are freed', async (t) => {
  const tree = new Tree()
  const folder = (parent: number, at: number, ends: number | undefined) =>
    tree.addFolder(parent, {
      id: `00000000-0000-4000-8000-00000000000${at}`,
      name: `${at}`,
      code: '',
      createTime: 1,
      modTime: 1,
      isPublic: false,
      password: undefined,
      expiry: ends,
    })
  const root = folder(noRow, 0, undefined)
  const going = folder(root, 1, 100)
  folder(root, 2, 200)
  t.equal(tree.timers.waiting, 2)
  tree.discard(going, () => {})
  const freeing = tree.sweep(10, () => {})
  while (freeing.next().done !== true);
  t.equal(tree.timers.waiting, 1)
})

/** Acts of operators on contents and accounts: found anywhere, deleted, and restored. */
import { blank, ManifestEntry } from '@holdfast/wire'
import t from 'tap'
import { rowsPerSlice } from '../src/bounds.ts'
import { noLifetimes } from '../src/contract.ts'
import { type Ask, blobOf, equal, operator, pagesOf, restored, system, visitor, World } from './world.ts'

const day = 86_400
const month = 30 * day

const upload = (folderId: string, name: string, bytes = name): Ask => ({
  addFile: { name, mimetype: 'text/plain', blob: blobOf(bytes), folderId },
})
const deletion = (contentIds: string[], heldSeconds: number | undefined = month): Ask => ({
  deleteContents: { contentIds, heldSeconds },
})
const undo = (contentIds: string[]): Ask => ({ undoSweeps: { contentIds } })

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

function found(
  world: World,
  by: NonNullable<NonNullable<Ask['findContents']>['by']>,
  page = 1,
  pageSize = 100,
) {
  const { result } = world.ask(operator, { findContents: { by, page, pageSize } })
  if (result.$case !== 'search') throw new Error(JSON.stringify(result))
  const { hits, page: shown } = result.value
  return {
    names: hits.map(({ name, inBin }) => `${name}${inBin ? ' (bin)' : ''}`),
    paths: hits.map(({ path }) => path),
    total: shown?.totalCount,
  }
}

const text = (value: string) => ({ $case: 'text', value }) as const
const copy = (bytes: string) => {
  const { id, incarnation } = blobOf(bytes)
  return { $case: 'copy', value: { id, incarnation } } as const
}

t.test('contents are found by name and by copy, in the bin too, a page at a time', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root)
  world.item(world.bearer(), upload(root, 'Invoice 1', 'vile'))
  world.item(world.bearer(), upload(folder.id, 'other', 'vile'))
  const thrown = world.item(world.bearer(), upload(folder.id, 'old INVOICE', 'vile'))
  world.item(world.bearer(), upload(folder.id, 'harmless'))
  world.ask(world.bearer(), { deleteContents: { contentIds: [thrown.id] } })
  t.same(new Set(found(world, text('invoice')).names), new Set(['Invoice 1', 'old INVOICE (bin)']))
  t.same(found(world, copy('vile')).total, 3)
  t.same(
    new Set(found(world, copy('vile')).paths),
    new Set(['/Invoice 1', `/${folder.name}/other`, '/old INVOICE']),
  )
  t.same(found(world, copy('unknown')), { names: [], paths: [], total: 0 })
  const pages = [1, 2, 3].flatMap((page) => found(world, copy('vile'), page, 1).names)
  t.same(new Set(pages), new Set(['Invoice 1', 'other', 'old INVOICE (bin)']))
  t.equal(found(world, copy('vile'), 4, 1).names.length, 0)
  world.ask(operator, deletion([thrown.id]))
  t.same(found(world, copy('vile')).total, 2, 'what is deleted is not found')
  for (const who of [world.bearer(), visitor, system])
    t.equal(world.status(who, { findContents: { by: text('x') } }), 'error-notOwner')
  t.equal(world.status(operator, { findContents: { by: text('') } }), 'error-searchedString')
  t.equal(world.status(operator, { findContents: {} }), 'error-searchedString')
  const short = { $case: 'copy', value: { id: Buffer.alloc(16), incarnation: Buffer.alloc(16) } } as const
  t.equal(world.status(operator, { findContents: { by: short } }), 'error-hash')
})

t.test('content that an operator deletes is held beside the bin, and can be restored whole', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root)
  const file = world.item(world.bearer(), upload(folder.id, 'file'))
  t.equal(world.status(world.bearer(), deletion([folder.id])), 'error-forbidden')
  t.equal(world.status(operator, deletion([folder.id], -1)), 'error-heldSeconds')
  t.equal(world.status(operator, deletion([root])), 'error-protectedFolder')
  world.ask(operator, deletion([folder.id, file.id]))
  t.equal(world.status(operator, { readContent: { contentId: file.id } }), 'error-notFound')
  t.equal(world.account().fileCount, 0, 'it is not in the bin')
  const { result } = world.ask(operator, { readHeld: {} })
  t.match(result, {
    value: { contents: [{ id: folder.id, files: 1, heldUntil: world.now + month, why: 4 }] },
  })
  t.equal([...world.state.effects()].length, 0, 'its bytes stay')
  holds(t, world)
  tick(world, month - 1)
  world.ask(operator, undo([folder.id]))
  t.equal(world.read(operator, file.id).parentFolder, folder.id)
  t.equal(world.read(operator, folder.id).parentFolder, root)
  holds(t, world)
  world.ask(operator, deletion([file.id]))
  tick(world, month)
  t.equal(world.status(operator, undo([file.id])), 'error-notFound')
  t.equal([...world.state.effects()].length, 1, 'then its bytes go')
  const last = world.item(world.bearer(), upload(folder.id, 'last'))
  world.ask(operator, deletion([last.id], 0))
  t.equal(world.status(operator, undo([last.id])), 'error-notFound', 'for good at once')
  t.equal(world.account().fileCount, 0, 'nor is it in the bin')
  holds(t, world)
})

t.test('content that is held for a shorter time ends before earlier content with a longer one', async (t) => {
  const world = new World()
  const root = world.create()
  const [long, short] = [world.folder(root), world.folder(root)]
  world.ask(operator, deletion([long.id], month))
  world.ask(operator, deletion([short.id], 20))
  t.equal(world.state.nextDue(), world.now + 20)
  t.ok(tick(world, 40).change)
  t.equal(world.status(operator, undo([short.id])), 'error-notFound')
  t.equal(world.state.nextDue(), world.now - 40 + month)
  holds(t, world)
  t.equal(world.status(operator, undo([long.id])), 'ok')
  t.equal(world.state.nextDue(), undefined)
})

t.test('a deleted account keeps its content, and is restored or emptied', async (t) => {
  const idle = { ...noLifetimes, idleSeconds: 10 * day }
  const world = new World({ lifetimes: { guest: idle, standard: idle }, undoSeconds: day })
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root)
  const file = world.item(world.bearer(), upload(folder.id, 'file'))
  const binned = world.item(world.bearer(), upload(folder.id, 'binned'))
  world.ask(world.bearer(), { deleteContents: { contentIds: [binned.id] } })
  const held = world.item(world.bearer(), upload(folder.id, 'held'))
  world.ask(operator, deletion([held.id]))
  const endTime = world.now + month
  t.equal(world.status(world.bearer(), { setAccount: { endTime } }), 'error-forbidden')
  t.equal(world.status(world.bearer(), { setAccount: { clearEndTime: true } }), 'error-forbidden')
  t.equal(world.status(operator, { setAccount: { endTime: -1 } }), 'error-endTime')
  world.ask(operator, { setAccount: { endTime } })
  for (const who of [world.bearer(), visitor])
    t.equal(world.status(who, { readContent: { contentId: file.id } }), 'error-blocked')
  t.equal(world.read(operator, file.id).name, 'file', 'the operator sees it')
  t.equal(world.account().endTime, endTime)
  holds(t, world)
  tick(world, 29 * day)
  t.equal(world.account().fileCount, 2, 'no timer fires')
  world.ask(operator, { setAccount: { clearEndTime: true } })
  tick(world, day / 2)
  t.equal(world.account().fileCount, 2, 'the time without downloads starts again')
  t.equal(world.read(operator, binned.id).name, 'binned', 'the bin is as it was')
  t.equal(world.status(world.bearer(), { readContent: { contentId: file.id } }), 'ok')
  holds(t, world)

  const late = world.item(world.bearer(), upload(folder.id, 'late'))
  world.ask(operator, deletion([late.id]))
  world.ask(operator, { setAccount: { endTime: world.now + 10 * day } })
  tick(world, 10 * day - 1)
  t.equal(world.account().fileCount, 2)
  t.equal(world.state.nextDue(), world.now + 1)
  tick(world, 1)
  t.match(world.account(), { fileCount: 0, folderCount: 0, storage: 0 })
  for (let ticks = 0; ticks < 3; ticks++) tick(world, 0)
  t.equal(world.state.nextDue(), undefined, 'nothing is left')
  t.equal(world.status(operator, undo([late.id])), 'error-notFound', 'nor what was held')
  t.equal([...world.state.effects()].length, 4)
  t.equal(world.status(world.bearer(), { getAccount: {} }), 'error-blocked', 'it stays closed')
  holds(t, world)
})

t.test('an account of many contents is emptied in bounded steps', async (t) => {
  const world = new World()
  const root = world.create()
  for (let file = 0; file < 1_005; file++) world.item(world.bearer(), upload(root, `f${file}`, 'same'))
  world.ask(operator, { setAccount: { endTime: world.now } })
  tick(world, 0)
  t.equal(world.account().fileCount, 5)
  t.equal(world.state.nextDue(), world.now, 'the rest is due at once')
  tick(world, 0)
  t.equal(world.account().fileCount, 0)
  t.equal(world.state.nextDue(), undefined)
  holds(t, world)
})

t.test('a search in an account of many contents lets others get their turn', async (t) => {
  const world = new World()
  const root = world.create({ tier: 'premium' })
  const files = Array.from({ length: 40_000 }, (_, at) => {
    return { ...blank(ManifestEntry), name: `f${at}`, blob: blobOf(at === 7 ? 'one' : 'same') }
  })
  const manifest = { entries: [{ ...blank(ManifestEntry), isFolder: true, name: 'many' }, ...files] }
  world.ask(operator, { copyContents: { sources: [{ contentId: 'many', manifest }], folderId: root } })
  for (const by of [text('f39999'), copy('one')]) {
    const asked = world.request(operator, { findContents: { by, page: 1, pageSize: 100 } })
    const outcome = world.state.decide(asked, world.context())
    if (outcome.kind !== 'slices') throw new Error(outcome.kind)
    let slices = 0
    while (outcome.steps.next().done !== true) slices++
    // The first one was taken to see whether the work is long.
    t.ok(slices >= Math.floor(files.length / rowsPerSlice) - 1, `${slices} slices`)
    t.equal(found(world, by).total, 1)
  }
})

/** What time ends: folders, contents of the bin, the Premium tier. */
import t from 'tap'
import { holds, operator, startMs, system, visitor, World } from './world.ts'

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

/** Timers: what happens at the expiry second and after it, depending on the owner's tier. */
import assert from 'node:assert/strict'
import { cases } from '../suite.ts'
import { type Account, eventually, inTime, nowSeconds, sleep, type World } from '../world.ts'

/** A public folder with a file in a folder in it, about to expire. */
async function expiring(owner: Account, expiry: number, deleteAfterExpiry?: boolean) {
  const folder = await owner.folder({ name: 'ends', public: true })
  const below = await owner.folder({ in: folder.id, name: 'below' })
  const file = await owner.file({ in: below.id, content: 'in time' })
  const consent = deleteAfterExpiry === undefined ? {} : { deleteAfterExpiry }
  ;(await owner.update(folder.id, 'expiry', expiry, consent)).ok()
  return { folder, below, file, expiry }
}

async function until(second: number): Promise<void> {
  await sleep(Math.max(0, second * 1_000 - Date.now()) + 50)
}

/** Deleted: its owner finds nothing and the statistics are back. */
async function assertDeleted(owner: Account, ids: string[], withinMs = 8_000): Promise<void> {
  await eventually(async () => {
    for (const id of ids) (await owner.update(id, 'name', 'x')).refused('error-notFound')
    const { statsCurrent } = await owner.details()
    assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage], [0, 0, 0])
  }, withinMs)
}

async function assertClosedToVisitors(world: World, ids: string[]): Promise<void> {
  const visitor = await world.premium()
  for (const id of ids) (await visitor.read(id)).refused('error-notFound')
}

export const expiry = cases('states and transitions', (test) => {
  test(
    "a guest's folder is deleted with all below it",
    ['expiry reached, guest or standard'],
    async (world) => {
      const { guest, folder, below, file, link, expiry } = await inTime(3, async (second) => {
        const guest = await world.guest()
        const made = await expiring(guest, second)
        const link = await guest.link(made.file.id)
        assert.equal((await world.request('GET', link.directLink)).text, 'in time')
        return { guest, link, ...made }
      })
      await until(expiry)
      await assertDeleted(guest, [folder.id, below.id, file.id])
      assert.equal((await world.request('GET', link.directLink)).code, 404)
    },
  )

  test(
    "a standard account's folder too, with or without consent, and past the recycle bin",
    ['expiry reached, guest or standard'],
    async (world) => {
      const { standard, folder, below, file, expiry } = await inTime(3, async (second) => {
        const standard = await world.standard()
        await standard.operator({ recycleBin: true })
        return { standard, ...(await expiring(standard, second, false)) }
      })
      await until(expiry)
      await assertDeleted(standard, [folder.id, below.id, file.id])
      assert.doesNotMatch((await standard.call('GET', '/recyclebin')).text, new RegExp(folder.id))
    },
  )

  test(
    "a premium owner's folder closes to visitors at its second and is kept",
    ['expiry reached, premium without consent'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const { folder, below, file, link, expiry } = await inTime(3, async (second) => {
        const made = await expiring(ann, second)
        const { link } = (await visitor.read(made.file.id)).ok()
        assert.equal((await world.request('GET', link)).text, 'in time')
        return { ...made, link }
      })
      await until(expiry)
      for (const id of [folder.id, folder.code, below.id, file.id])
        (await visitor.read(id)).refused('error-notFound')
      ;(await visitor.search(folder.id, 'x')).refused('error-notFound')
      ;(await visitor.copy([file.id], visitor.root)).refused('error-notFound')
      ;(await visitor.import([folder.id])).refused('error-notFound')
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 404), 3_000)
      await sleep(2_500)
      assert.equal((await ann.read(folder.id)).ok().children[below.id]?.name, 'below', 'the owner keeps it')
      assert.equal((await world.request('GET', (await ann.read(file.id)).ok().link)).text, 'in time')
      await ann.file({ in: folder.id, name: 'still taken' })
      await ann.folder({ in: below.id })
    },
  )

  test(
    'a closed folder opens again without its expiry',
    ['expiry reached, premium without consent', 'expiry removed'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const { folder, file, expiry } = await inTime(2, (second) => expiring(ann, second))
      await until(expiry)
      ;(await visitor.read(file.id)).refused('error-notFound')
      await sleep(2_000)
      ;(await ann.update(folder.id, 'expiry', '')).ok()
      assert.equal((await visitor.read(file.id)).ok().id, file.id)
    },
  )

  test(
    "with consent a premium owner's folder is deleted permanently",
    ['expiry reached, premium with consent', 'PUT /contents/{contentId}/update · deleteAfterExpiry'],
    async (world) => {
      const { ann, folder, below, file, expiry } = await inTime(3, async (second) => {
        const ann = await world.premium()
        await ann.operator({ recycleBin: true })
        return { ann, ...(await expiring(ann, second, true)) }
      })
      await until(expiry)
      await assertClosedToVisitors(world, [folder.id, file.id])
      await assertDeleted(ann, [folder.id, below.id, file.id])
      assert.doesNotMatch((await ann.call('GET', '/recyclebin')).text, new RegExp(folder.id))
    },
  )

  test(
    "membership counts when the timer fires: a former premium owner's folder is not kept",
    ['membership at cleanup'],
    async (world) => {
      const { ann, folder, below, file, expiry } = await inTime(3, async (second) => {
        const ann = await world.premium()
        const made = await expiring(ann, second)
        await ann.operator({ tier: 'standard' })
        return { ann, ...made }
      })
      await until(expiry)
      await assertDeleted(ann, [folder.id, below.id, file.id])
    },
  )

  test(
    "membership counts when the timer fires: a new premium owner's folder is kept",
    ['membership at cleanup'],
    async (world) => {
      const { guest, folder, expiry } = await inTime(3, async (second) => {
        const guest = await world.guest()
        const made = await expiring(guest, second)
        await guest.operator({ tier: 'premium' })
        return { guest, ...made }
      })
      await until(expiry)
      await assertClosedToVisitors(world, [folder.id])
      await sleep(3_000)
      assert.equal((await guest.read(folder.id)).ok().id, folder.id)
    },
  )

  test(
    'a folder kept closed stays, also when premium lapses later',
    ['membership at cleanup', 'expiry reached, premium without consent'],
    async (world) => {
      const { ann, folder, expiry } = await inTime(2, async (second) => {
        const ann = await world.premium()
        return { ann, ...(await expiring(ann, second)) }
      })
      await until(expiry)
      await sleep(3_000)
      await ann.operator({ tier: 'standard' })
      await sleep(2_500)
      const { statsCurrent } = await ann.details()
      assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount], [2, 1])
      await ann.operator({ tier: 'premium' })
      assert.equal((await ann.read(folder.id)).ok().id, folder.id)
    },
  )

  test(
    'a later expiry set in time keeps the folder, a removed one too',
    ['expiry set', 'expiry removed'],
    async (world) => {
      const { guest, later, removed } = await inTime(3, async (second) => {
        const guest = await world.guest()
        const later = await expiring(guest, second)
        const removed = await expiring(guest, second)
        ;(await guest.update(later.folder.id, 'expiry', nowSeconds() + 1_000)).ok()
        ;(await guest.update(removed.folder.id, 'expiry', '')).ok()
        return { guest, later, removed }
      })
      await until(removed.expiry)
      await sleep(2_500)
      assert.equal((await guest.update(later.file.id, 'name', 'still here')).ok().name, 'still here')
      assert.equal((await guest.update(removed.file.id, 'name', 'still here')).ok().name, 'still here')
    },
  )

  test(
    "from its second on a free owner's folder accepts nothing new, swept or not",
    [
      'expiry reached, guest or standard',
      'POST {upload_url}/uploadfile · error-notFound',
      'POST /contents/createFolder · error-notFound',
    ],
    async (world) => {
      const { guest, folder, below, file, expiry } = await inTime(3, async (second) => {
        const guest = await world.guest()
        return { guest, ...(await expiring(guest, second)) }
      })
      await until(expiry)
      const answers = await Promise.all([
        guest.upload({ in: folder.id }),
        guest.upload({ in: below.id }),
        guest.call('POST', '/contents/createFolder', { json: { parentFolderId: below.id } }),
      ])
      for (const answer of answers) answer.refused('error-notFound')
      await assertDeleted(guest, [folder.id, below.id, file.id])
    },
  )

  test(
    'content with an inherited expiry is deleted with it; content moved out in time stays',
    ['expiry reached, guest or standard'],
    async (world) => {
      const { ann, parent, heir, saved, expiry } = await inTime(4, async (expiry) => {
        const ann = await world.premium()
        const parent = await ann.folder()
        ;(await ann.update(parent.id, 'expiry', expiry)).ok()
        const heir = await ann.folder({ in: parent.id })
        assert.equal((await ann.read(heir.id)).ok().expiry, expiry)
        const saved = await ann.file({ in: parent.id, content: 'saved' })
        ;(await ann.move([heir.id, saved.id], ann.root)).ok()
        await ann.operator({ tier: 'guest' })
        return { ann, parent, heir, saved, expiry }
      })
      await until(expiry)
      await eventually(async () => {
        for (const gone of [parent, heir]) (await ann.update(gone.id, 'name', 'x')).refused('error-notFound')
      }, 8_000)
      assert.equal((await ann.update(saved.id, 'name', 'saved')).ok().name, 'saved')
      assert.equal((await ann.details()).statsCurrent.folderCount, 0)
    },
  )

  test(
    'expiry of a folder above closes everything below',
    ['expiry reached, premium without consent'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const { below, file, expiry } = await inTime(2, async (second) => {
        const made = await expiring(ann, second)
        ;(await ann.update(made.below.id, 'expiry', nowSeconds() + 5_000)).ok()
        ;(await visitor.read(made.file.id)).ok()
        return made
      })
      await until(expiry)
      ;(await visitor.read(file.id)).refused('error-notFound')
      ;(await visitor.read(below.code)).refused('error-notFound')
    },
  )

  test(
    'a timer also fires in the bin',
    ['expiry reached, guest or standard', 'deleted with the bin'],
    async (world) => {
      const { guest, folder, expiry } = await inTime(3, async (second) => {
        const guest = await world.guest()
        await guest.operator({ recycleBin: true })
        const made = await expiring(guest, second)
        ;(await guest.remove(made.folder.id)).ok()
        assert.equal((await guest.details()).statsCurrent.folderCount, 2, 'recycled content counts')
        return { guest, ...made }
      })
      await until(expiry)
      await eventually(async () => assert.equal((await guest.details()).statsCurrent.folderCount, 0), 8_000)
      assert.doesNotMatch((await guest.call('GET', '/recyclebin')).text, new RegExp(folder.id))
    },
  )
})

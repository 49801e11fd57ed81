import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { type Account, eventually, type World } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

async function premiumWithBin(world: World): Promise<Account> {
  const ann = await world.premium()
  await ann.operator({ recycleBin: true })
  return ann
}
const bin = async (ann: Account) =>
  (await ann.call('GET', '/recyclebin')).ok<{ children: Record<string, Item> }>().children
const restore = (ann: Account, ...ids: string[]) =>
  ann.call('POST', '/recyclebin/restore', { json: { contentsId: ids.join(',') } })

export const recycleBin = cases('recycle bin', (test) => {
  test(
    'deleted content is in the bin with everything in it, and is restored to its place',
    ['GET /recyclebin', 'POST /recyclebin/restore', 'states and transitions · deleted with the bin'],
    async (world) => {
      const ann = await premiumWithBin(world)
      const parent = await ann.folder({ name: 'parent', public: true })
      const folder = await ann.folder({ in: parent.id, name: 'folder' })
      const file = await ann.file({ in: folder.id, content: 'inside' })
      assert.deepEqual((await ann.remove(folder.id)).ok(), {})
      assert.deepEqual(Object.keys(await bin(ann)), [folder.id])
      const { statsCurrent } = await ann.details()
      assert.deepEqual(
        [statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage],
        [2, 1, 6],
        'recycled content still counts',
      )
      ;(await restore(ann, folder.id)).ok()
      assert.deepEqual(await bin(ann), {})
      const back = (await ann.read(parent.id, { maxdepth: 2 })).ok()
      assert.equal(back.children[folder.id]?.children[file.id]?.md5, file.md5)
      assert.equal((await ann.read(folder.code)).ok().id, folder.id)
    },
  )

  test(
    'several at once, and to the root when the parent is gone',
    ['POST /recyclebin/restore'],
    async (world) => {
      const ann = await premiumWithBin(world)
      const parent = await ann.folder()
      const [a, b] = [
        await ann.file({ in: parent.id, name: 'a' }),
        await ann.file({ in: parent.id, name: 'b' }),
      ]
      ;(await ann.remove(a.id, b.id)).ok()
      ;(await ann.remove(parent.id)).ok()
      ;(await restore(ann, a.id, b.id)).ok()
      for (const file of [a, b]) assert.equal((await ann.read(file.id)).ok().parentFolder, ann.root)
      ;(await restore(ann, parent.id)).ok()
      assert.equal((await ann.read(parent.id)).ok().childrenCount, 0)
    },
  )

  test(
    'the bin is no child of the root; visitors find nothing, the owner reads it',
    ['hidden'],
    async (world) => {
      const [ann, visitor] = await Promise.all([premiumWithBin(world), world.premium()])
      const folder = await ann.folder({ public: true })
      const file = await ann.file({ in: folder.id, content: 'in the bin' })
      ;(await visitor.read(folder.id)).ok()
      ;(await ann.remove(folder.id)).ok()
      assert.deepEqual((await ann.read(ann.root, { maxdepth: 16 })).ok().children, {})
      for (const id of [folder.id, folder.code, file.id]) {
        await eventually(async () => (await visitor.read(id)).refused('error-notFound'), 3_000)
        assert.equal((await ann.read(id)).ok().isOwner, true)
      }
      assert.equal((await world.request('GET', (await ann.read(file.id)).ok().link)).text, 'in the bin')
    },
  )

  test('recycled content changes in no other way', ['changes refused', 'error-notFound'], async (world) => {
    const ann = await premiumWithBin(world)
    const folder = await ann.folder()
    const file = await ann.file({ in: folder.id })
    const target = await ann.folder()
    ;(await ann.remove(folder.id)).ok()
    for (const id of [folder.id, file.id]) {
      ;(await ann.update(id, 'name', 'x')).refused('error-notFound')
      ;(await ann.move([id], target.id)).refused('error-notFound')
      ;(await ann.call('POST', `/contents/${id}/directlinks`, { json: {} })).refused('error-notFound')
    }
    ;(await ann.upload({ in: folder.id })).refused('error-notFound')
    ;(await ann.call('POST', '/contents/createFolder', { json: { parentFolderId: folder.id } })).refused(
      'error-notFound',
    )
    ;(await ann.move([target.id], folder.id)).refused('error-notFound')
    ;(await ann.copy([target.id], folder.id)).refused('error-notFound')
  })

  test('DELETE in the bin is permanent', ['DELETE for good'], async (world) => {
    const ann = await premiumWithBin(world)
    const [folder, other] = [await ann.folder(), await ann.folder()]
    const file = await ann.file({ in: folder.id })
    ;(await ann.remove(folder.id, other.id)).ok()
    ;(await ann.remove(file.id)).ok()
    ;(await ann.read(file.id)).refused('error-notFound')
    ;(await ann.remove(folder.id)).ok()
    ;(await ann.read(folder.id)).refused('error-notFound')
    assert.deepEqual(Object.keys(await bin(ann)), [other.id])
    assert.equal((await ann.details()).statsCurrent.folderCount, 1)
    ;(await restore(ann, folder.id)).refused('error-notFound')
  })

  test('emptying it is permanent', ['DELETE /recyclebin'], async (world) => {
    const ann = await premiumWithBin(world)
    const folder = await ann.folder()
    await ann.file({ in: folder.id })
    const kept = await ann.file()
    ;(await ann.remove(folder.id)).ok()
    ;(await ann.call('DELETE', '/recyclebin')).ok()
    assert.deepEqual(await bin(ann), {})
    ;(await ann.read(folder.id)).refused('error-notFound')
    const { statsCurrent } = await ann.details()
    assert.deepEqual(
      [statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage],
      [0, 1, kept.size],
    )
  })

  test(
    'switched off, deletion is permanent again',
    ['GET /recyclebin', 'states and transitions · deleted without the bin'],
    async (world) => {
      const ann = await premiumWithBin(world)
      await ann.operator({ recycleBin: false })
      assert.equal((await ann.details()).recycleBin.enabled, false)
      const folder = await ann.folder()
      ;(await ann.remove(folder.id)).ok()
      ;(await ann.read(folder.id)).refused('error-notFound')
      assert.equal((await ann.details()).statsCurrent.folderCount, 0)
    },
  )

  test(
    "every tier has it, and no access to another account's",
    ['error-token', 'error-contentsId', 'error-notFound'],
    async (world) => {
      const [guest, other] = await Promise.all([world.guest(), world.guest()])
      await guest.operator({ recycleBin: true })
      const folder = await guest.folder()
      ;(await guest.remove(folder.id)).ok()
      assert.deepEqual(Object.keys(await bin(guest)), [folder.id])
      ;(await world.call('GET', '/recyclebin')).refused('error-token')
      ;(await world.call('DELETE', '/recyclebin')).refused('error-token')
      ;(await world.call('POST', '/recyclebin/restore', { json: { contentsId: folder.id } })).refused(
        'error-token',
      )
      for (const contentsId of [undefined, '', 'x', folder.code, 5])
        (await guest.call('POST', '/recyclebin/restore', { json: { contentsId } })).refused(
          'error-contentsId',
        )
      ;(await restore(guest, unknownId)).refused('error-notFound')
      ;(await restore(other, folder.id)).refused('error-notFound', 'error-notOwner', 'error-owner')
      const here = await guest.folder()
      ;(await restore(guest, folder.id, here.id)).refused('error-notFound')
      assert.deepEqual(Object.keys(await bin(guest)), [folder.id], 'all or nothing')
      assert.deepEqual(await bin(other), {})
    },
  )
})

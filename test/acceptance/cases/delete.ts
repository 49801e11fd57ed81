import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { eventually, md5, representation } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

export const remove = cases('DELETE /contents', (test) => {
  test(
    'files and folders are deleted with all their content',
    ['success', 'contentsId', 'states and transitions · deleted without the bin'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const below = await ann.folder({ in: folder.id })
      const deep = await ann.file({ in: below.id, content: 'deep' })
      const file = await ann.file()
      const kept = await ann.file()
      const { link } = (await ann.read(deep.id)).ok()
      assert.deepEqual((await ann.remove(folder.id, file.id)).ok(), {})
      for (const gone of [folder, below, deep, file]) {
        ;(await ann.read(gone.id)).refused('error-notFound')
        ;(await ann.read(gone.code)).refused('error-notFound')
      }
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 404), 3_000)
      assert.deepEqual(Object.keys((await ann.read(ann.root)).ok().children), [kept.id])
      const { statsCurrent } = await ann.details()
      assert.deepEqual(
        [statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage],
        [0, 1, kept.size],
      )
    },
  )

  test('every tier may delete', ['any tier'], async (world) => {
    for (const account of [await world.guest(), await world.standard(), await world.premium()]) {
      const folder = await account.folder()
      ;(await account.remove(folder.id)).ok()
      assert.equal((await account.details()).statsCurrent.folderCount, 0)
    }
  })

  test('lists may have spaces, repeats and both a folder and its content', ['contentsId'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    const file = await guest.file({ in: folder.id })
    ;(
      await guest.call('DELETE', '/contents', {
        json: { contentsId: `${folder.id} , ${file.id},${folder.id}` },
      })
    ).ok()
    const { statsCurrent } = await guest.details()
    assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount, statsCurrent.storage], [0, 0, 0])
  })

  test(
    'with Prefer the answer holds the items as they were',
    ['Prefer', 'contentsId', 'recycle bin · DELETE for good'],
    async (world) => {
      const guest = await world.guest()
      const folder = await guest.folder({ name: 'folder', public: true })
      const file = await guest.file({ in: folder.id, name: 'file.txt', content: 'text' })
      const lone = await guest.file({ name: 'lone.txt' })
      const remove = (ids: string[], headers: Record<string, string>) =>
        guest.call('DELETE', '/contents', { json: { contentsId: ids.join(',') }, headers })
      const gone = (await remove([folder.id, file.id, lone.id], representation)).ok<
        Record<string, { status: string; data: Item }>
      >()
      assert.deepEqual(Object.keys(gone), [folder.id, file.id, lone.id])
      assert.deepEqual(
        Object.values(gone).map(({ status, data }) => [
          status,
          data.id,
          data.name,
          data.code,
          data.parentFolder,
        ]),
        [folder, file, lone].map((item) => ['ok', item.id, item.name, item.code, item.parentFolder]),
      )
      assert.equal(gone[folder.id]?.data.childrenCount, 1)
      assert.equal(gone[file.id]?.data.md5, md5('text'))
      ;(await guest.read(folder.id)).refused('error-notPremium', 'error-notFound')
      ;(await remove([folder.id], representation)).refused('error-notFound')
      await guest.operator({ recycleBin: true })
      const binned = await guest.file({ name: 'binned.txt' })
      for (const parent of [guest.root, (await guest.details()).recycleBin.folder])
        assert.equal(
          (await remove([binned.id], representation)).ok<Record<string, { data: Item }>>()[binned.id]?.data
            .parentFolder,
          parent,
        )
      const other = await guest.folder()
      assert.deepEqual((await remove([other.id], { prefer: 'return=minimal' })).ok(), {})
    },
  )

  test('a list is UUIDs', ['error-contentsId'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    ;(await guest.call('DELETE', '/contents', { json: {} })).refused('error-contentsId')
    for (const contentsId of [
      '',
      ',',
      folder.code,
      `${folder.id},nonsense`,
      `${folder.id},`,
      5,
      null,
      [folder.id],
      {},
    ]) {
      const answer = await guest.call('DELETE', '/contents', { json: { contentsId } })
      if (contentsId === `${folder.id},` && answer.code === 200) return
      answer.refused('error-contentsId')
    }
    assert.equal((await guest.details()).statsCurrent.folderCount, 1)
  })

  test(
    'one bad id fails the call and changes nothing',
    ['error-notFound', 'error-owner', 'error-protectedFolder'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const mine = await ann.folder()
      const bobs = await bob.folder({ public: true })
      ;(await ann.remove(mine.id, unknownId)).refused('error-notFound')
      ;(await ann.remove(unknownId)).refused('error-notFound')
      ;(await ann.remove(mine.id, bobs.id)).refused('error-owner')
      ;(await ann.remove(bobs.id)).refused('error-owner')
      ;(await ann.remove(bob.root)).refused('error-owner', 'error-protectedFolder')
      ;(await ann.remove(mine.id, ann.root)).refused('error-protectedFolder')
      ;(await ann.remove(ann.root)).refused('error-protectedFolder')
      const { recycleBin } = await ann.details()
      if (recycleBin.folder) (await ann.remove(recycleBin.folder)).refused('error-protectedFolder')
      ;(await ann.read(mine.id)).ok()
      ;(await bob.read(bobs.id)).ok()
    },
  )

  test('deleted content is not found a second time', ['error-notFound'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    ;(await guest.remove(folder.id)).ok()
    ;(await guest.remove(folder.id)).refused('error-notFound')
  })

  test('of two concurrent deletions one succeeds, the other finds nothing', ['success'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    const answers = await Promise.all(Array.from({ length: 6 }, () => guest.remove(folder.id)))
    assert.equal(answers.filter((answer) => answer.code === 200).length, 1)
    for (const answer of answers) if (answer.code !== 200) answer.refused('error-notFound')
  })
})

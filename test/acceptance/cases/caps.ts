import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { type Account, eventually, randomContent } from '../world.ts'

/** The number of items in the whole tree of a premium account. */
async function counted(ann: Account): Promise<{ files: number; folders: number; bytes: number }> {
  const sum = { files: 0, folders: 0, bytes: 0 }
  const walk = (folder: Item) => {
    for (const child of Object.values(folder.children ?? {})) {
      if (child.type === 'folder') sum.folders++
      else {
        sum.files++
        sum.bytes += child.size
      }
      walk(child)
    }
  }
  walk((await ann.read(ann.root, { maxdepth: 16 })).ok())
  return sum
}

async function reported(ann: Account): Promise<{ files: number; folders: number; bytes: number }> {
  const { fileCount, folderCount, storage } = (await ann.details()).statsCurrent
  return { files: fileCount, folders: folderCount, bytes: storage }
}

export const caps = cases('caps and statistics', (test) => {
  test(
    'two hundred uploads race for the last ten places: ten win',
    ['contents under concurrency', 'POST {upload_url}/uploadfile · error-limits'],
    async (world) => {
      const guest = await world.guest()
      const folder = await guest.folder()
      await guest.file({ in: folder.id })
      await guest.operator({ limits: { contents: 12 } })
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, number) =>
          guest.upload({ in: folder.id, name: `${number}`, content: `${number}` }),
        ),
      )
      assert.equal(answers.filter((answer) => answer.code === 200).length, 10)
      for (const answer of answers) if (answer.code !== 200) answer.refused('error-limits')
      assert.equal((await guest.details()).statsCurrent.fileCount, 11)
      ;(
        await guest.remove((answers.find((answer) => answer.code === 200) as (typeof answers)[0]).ok().id)
      ).ok()
      await guest.file({ in: folder.id })
      ;(await guest.upload({ in: folder.id })).refused('error-limits')
    },
  )

  test(
    'folders, copies and uploads race for the same places',
    [
      'contents under concurrency',
      'POST /contents/createFolder · error-limits',
      'POST /contents/copy · error-limits',
    ],
    async (world) => {
      const ann = await world.premium()
      const source = await ann.file()
      const target = await ann.folder()
      await ann.operator({ limits: { contents: 12 } })
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => [
          ann.upload({ in: target.id }),
          ann.call('POST', '/contents/createFolder', { json: { parentFolderId: target.id } }),
          ann.copy([source.id], target.id),
        ]).flat(),
      )
      assert.equal(answers.filter((answer) => answer.code === 200).length, 10)
      for (const answer of answers) if (answer.code !== 200) answer.refused('error-limits')
      assert.equal((await ann.read(target.id)).ok().childrenCount, 10)
    },
  )

  test('bytes are capped exactly, too', ['storage under concurrency'], async (world) => {
    const guest = await world.guest()
    await guest.operator({ limits: { storage: 10_000 } })
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => guest.upload({ content: randomContent(999) })),
    )
    assert.equal(answers.filter((answer) => answer.code === 200).length, 10)
    for (const answer of answers) if (answer.code !== 200) answer.refused('error-limits')
    assert.equal((await guest.details()).statsCurrent.storage, 9_990)
  })

  test(
    'statistics add up after everything',
    ['statistics add up', 'GET /accounts/{accountId} · statsCurrent'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const [a, b] = await Promise.all([ann.folder({ name: 'a', public: true }), ann.folder({ name: 'b' })])
      const files = await Promise.all(
        Array.from({ length: 12 }, (_, number) =>
          ann.file({ in: number % 2 ? a.id : b.id, content: 'x'.repeat(number * 10), name: `${number}` }),
        ),
      )
      assert.deepEqual(await reported(ann), await counted(ann))
      ;(await ann.copy([a.id, (files[2] as Item).id], b.id)).ok()
      assert.deepEqual(await reported(ann), await counted(ann))
      ;(await ann.remove((files[1] as Item).id, (files[4] as Item).id)).ok()
      assert.deepEqual(await reported(ann), await counted(ann))
      ;(await ann.move([a.id], b.id)).ok()
      ;(await ann.copy([b.id], a.id)).ok()
      assert.deepEqual(await reported(ann), await counted(ann))
      ;(await bob.import([a.id])).ok()
      assert.deepEqual(await reported(bob), await counted(bob))
      ;(await ann.remove(a.id)).ok()
      assert.deepEqual(await reported(ann), await counted(ann))
      await Promise.all([
        ann.copy([b.id], ann.root),
        ann.remove((files[6] as Item).id),
        ann.folder(),
        ann.file(),
        ann.upload({ in: b.id }),
      ])
      assert.deepEqual(await reported(ann), await counted(ann))
      ;(await ann.remove(b.id)).ok()
      await eventually(async () => assert.deepEqual(await reported(ann), await counted(ann)))
    },
  )

  test(
    'an upload that races with the deletion of its folder is deleted with it or refused',
    ['statistics add up', 'DELETE /contents · success'],
    async (world) => {
      const ann = await world.premium()
      const [folder, kept] = [await ann.folder(), await ann.file({ content: 'kept' })]
      const below = await ann.folder({ in: folder.id })
      const make = () => ann.call('POST', '/contents/createFolder', { json: { parentFolderId: below.id } })
      const answers = await Promise.all([
        ...Array.from({ length: 12 }, (_, n) =>
          ann.upload({ in: n % 2 ? folder.id : below.id, content: `${n}` }),
        ),
        ...Array.from({ length: 4 }, make),
        ann.copy([kept.id], below.id),
        ann.remove(folder.id),
      ])
      for (const answer of answers) if (answer.code !== 200) answer.refused('error-notFound')
      const made = answers.slice(0, 16).filter((answer) => answer.code === 200)
      for (const answer of made) (await ann.read(answer.ok().id)).refused('error-notFound')
      assert.deepEqual(await reported(ann), { files: 1, folders: 0, bytes: 4 })
      assert.deepEqual(await counted(ann), { files: 1, folders: 0, bytes: 4 })
    },
  )

  test(
    'a downgrade keeps the content and stops new content beyond the cap',
    ['downgrade', 'operator · POST /admin/accounts/<id>'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      await Promise.all(Array.from({ length: 4 }, () => ann.file({ in: folder.id })))
      await ann.operator({ tier: 'standard', limits: { contents: 3 } })
      assert.equal((await ann.details()).tier, 'standard')
      assert.equal((await ann.details()).statsCurrent.fileCount, 4)
      ;(await ann.upload({ in: folder.id })).refused('error-limits')
      ;(await ann.call('POST', '/contents/createFolder', { json: { parentFolderId: folder.id } })).refused(
        'error-limits',
      )
      ;(await ann.read(folder.id)).refused('error-notPremium')
      ;(await ann.update(folder.id, 'name', 'still changes')).ok()
      await ann.operator({ tier: 'premium', limits: { contents: null } })
      await ann.file({ in: folder.id })
      assert.equal((await ann.read(folder.id)).ok().childrenCount, 5)
    },
  )

  test('a list holds at most 1,000 ids', ['ids a list'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file()
    const many = Array.from(
      { length: 1_001 },
      (_, number) => `${file.id.slice(0, -4)}${number.toString(16).padStart(4, '0')}`,
    )
    ;(await ann.remove(...many)).refused('error-contentsId')
    ;(await ann.copy(many, ann.root)).refused('error-contentsId')
    ;(await ann.remove(...many.slice(0, 1_000))).refused('error-notFound', 'error-owner')
  })
})

import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { eventually, nowSeconds, sha256, sleep } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
type Hits = Record<string, Item>

export const search = cases('GET /contents/search', (test) => {
  test(
    'files and folders below are found by name and tag, ignoring case',
    ['success', 'contentId', 'searchedString'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'summer' })
      const below = await ann.folder({ in: folder.id, name: 'Summer Photos' })
      const file = await ann.file({ in: below.id, name: 'midsummer.jpg', content: 'abc' })
      const tagged = await ann.file({ in: below.id, name: 'other' })
      const accented = await ann.folder({ in: below.id, name: 'Cafe\u0301 %_.*' })
      ;(await ann.update(tagged.id, 'tags', 'SUMMER-26')).ok()
      await ann.folder({ name: 'summer elsewhere' })
      for (const id of [folder.id, folder.code]) {
        const hits = (await ann.search(id, 'sUmMeR')).ok<Hits>()
        assert.deepEqual(
          Object.keys(hits).sort(),
          [below.id, file.id, tagged.id].sort(),
          'the folder itself is left out',
        )
        assert.deepEqual(
          { ...hits[file.id], code: undefined },
          {
            ...hits[file.id],
            code: undefined,
            id: file.id,
            type: 'file',
            name: 'midsummer.jpg',
            size: 3,
            createTime: file.createTime,
          },
        )
        assert.deepEqual([hits[below.id]?.type, hits[below.id]?.size], ['folder', 0])
      }
      assert.deepEqual(Object.keys((await ann.search(folder.id, 'CAFÉ')).ok()), [accented.id])
      assert.deepEqual(Object.keys((await ann.search(folder.id, '%_.*')).ok()), [accented.id])
      assert.deepEqual((await ann.search(folder.id, 'nothing similar')).ok(), {})
      assert.equal(Object.keys((await ann.search(ann.root, 'summer')).ok()).length, 5)
    },
  )

  test(
    'times bound the creation, including both ends',
    ['createTimeFrom', 'createTimeTo', 'error-createTimeFrom', 'error-createTimeTo'],
    async (world) => {
      const ann = await world.premium()
      const early = await ann.folder({ name: 'note' })
      await sleep(2_100)
      const late = await ann.folder({ name: 'note' })
      const found = async (query: Record<string, number>) =>
        Object.keys((await ann.search(ann.root, 'note', query)).ok()).sort()
      const both = [early.id, late.id].sort()
      assert.deepEqual(await found({ createTimeFrom: early.createTime, createTimeTo: late.createTime }), both)
      assert.deepEqual(await found({ createTimeFrom: early.createTime + 1 }), [late.id])
      assert.deepEqual(await found({ createTimeTo: late.createTime - 1 }), [early.id])
      assert.deepEqual(await found({ createTimeFrom: late.createTime + 1 }), [])
      assert.deepEqual(await found({ createTimeFrom: late.createTime, createTimeTo: early.createTime }), [])
      for (const name of ['createTimeFrom', 'createTimeTo'])
        for (const bad of ['x', '1.5', ''])
          (await ann.search(ann.root, 'note', { [name]: bad })).refused(`error-${name}`)
    },
  )

  test(
    'the newest come first, in pages',
    ['page and pageSize', 'error-page', 'error-pageSize'],
    async (world) => {
      const ann = await world.premium()
      const made: string[] = []
      for (const name of ['a', 'b', 'c']) {
        made.push((await ann.folder({ name: `hit ${name}` })).id)
        await sleep(1_050)
      }
      made.reverse()
      assert.deepEqual(Object.keys((await ann.search(ann.root, 'hit')).ok()), made)
      const first = await ann.search(ann.root, 'hit', { page: 1, pageSize: 2 })
      assert.deepEqual(Object.keys(first.ok()), made.slice(0, 2))
      assert.deepEqual(first.envelope().metadata, {
        page: 1,
        pageSize: 2,
        totalCount: 3,
        totalPages: 2,
        hasNextPage: true,
      })
      assert.deepEqual(
        Object.keys((await ann.search(ann.root, 'hit', { page: 2, pageSize: 2 })).ok()),
        made.slice(2),
      )
      assert.deepEqual((await ann.search(ann.root, 'hit', { page: 3, pageSize: 2 })).ok(), {})
      for (const bad of [0, -1, 'x']) {
        ;(await ann.search(ann.root, 'hit', { page: bad })).refused('error-page')
        ;(await ann.search(ann.root, 'hit', { pageSize: bad })).refused('error-pageSize')
      }
    },
  )

  test(
    'visitors find what they may read, and nothing below other folders',
    ['visitors', 'password', 'error-notOwner', 'error-passwordRequired', 'error-passwordWrong'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      const open = await ann.folder({ in: folder.id, name: 'hit open' })
      const deep = await ann.file({ in: open.id, name: 'hit deep' })
      const hidden = await ann.folder({ in: folder.id, name: 'hit hidden', public: false })
      await ann.file({ in: hidden.id, name: 'hit in hidden' })
      const locked = await ann.folder({ in: folder.id, name: 'hit locked' })
      const inside = await ann.file({ in: locked.id, name: 'hit inside' })
      ;(await ann.update(locked.id, 'password', 'abcd')).ok()
      const without = Object.keys((await visitor.search(folder.id, 'hit')).ok())
      assert.ok(without.includes(open.id) && without.includes(deep.id))
      assert.ok(!without.includes(hidden.id) && !without.includes(inside.id))
      const withPassword = Object.keys(
        (await visitor.search(folder.id, 'hit', { password: sha256('abcd') })).ok(),
      ).sort()
      assert.deepEqual(withPassword, [open.id, deep.id, locked.id, inside.id].sort())
      assert.equal(Object.keys((await ann.search(folder.id, 'hit')).ok()).length, 6, 'the owner sees all')
      ;(await visitor.search(locked.id, 'hit')).refused('error-passwordRequired')
      ;(await visitor.search(locked.id, 'hit', { password: sha256('wrong') })).refused('error-passwordWrong')
      ;(await visitor.search(hidden.id, 'hit')).refused('error-notOwner')
      ;(await visitor.search(ann.root, 'hit')).refused('error-notOwner')
    },
  )

  test(
    'visitors do not find expired content, and recycled content is never found',
    ['visitors'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      await ann.operator({ recycleBin: true })
      const folder = await ann.folder({ public: true })
      const gone = await ann.folder({ in: folder.id, name: 'hit gone' })
      const expiring = await ann.folder({ in: folder.id, name: 'hit expiring' })
      ;(await ann.remove(gone.id)).ok()
      ;(await ann.update(expiring.id, 'expiry', nowSeconds() + 2)).ok()
      await eventually(async () => assert.deepEqual((await visitor.search(folder.id, 'hit')).ok(), {}), 8_000)
      assert.deepEqual(Object.keys((await ann.search(folder.id, 'hit')).ok()), [expiring.id])
      assert.deepEqual(Object.keys((await ann.search(ann.root, 'hit gone')).ok()), [])
    },
  )

  test(
    'empty text, files and unknown folders are refused',
    ['error-searchedString', 'error-contentId', 'error-notFound'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file()
      ;(await ann.search(ann.root, '')).refused('error-searchedString')
      ;(await ann.call('GET', '/contents/search', { query: { contentId: ann.root } })).refused(
        'error-searchedString',
      )
      ;(await ann.call('GET', '/contents/search', { query: { searchedString: 'x' } })).refused(
        'error-contentId',
      )
      ;(await ann.search('', 'x')).refused('error-contentId')
      for (const id of [file.id, file.code]) (await ann.search(id, 'x')).refused('error-contentId')
      ;(await ann.search(unknownId, 'x')).refused('error-notFound')
      ;(await ann.search('Zz9Zz9Zz', 'x')).refused('error-notFound')
    },
  )
})

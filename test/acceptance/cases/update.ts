import assert from 'node:assert/strict'
import type { Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { eventually, nowSeconds, sha256, sleep } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

export const update = cases('PUT /contents/{contentId}/update', (test) => {
  test(
    'an answer shows the whole item, with all fields that rclone reads',
    ['success', 'modTime'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id, content: 'abc' })
      const seen = (await ann.update(file.id, 'modTime', 1_111_111_111)).ok()
      assert.deepEqual(
        {
          id: seen.id,
          type: seen.type,
          name: seen.name,
          createTime: seen.createTime,
          modTime: seen.modTime,
          size: seen.size,
          md5: seen.md5,
          parentFolder: seen.parentFolder,
          code: seen.code,
        },
        {
          id: file.id,
          type: 'file',
          name: file.name,
          createTime: file.createTime,
          modTime: 1_111_111_111,
          size: 3,
          md5: file.md5,
          parentFolder: folder.id,
          code: file.code,
        },
      )
      const renamed = (await ann.update(folder.id, 'name', 'new name')).ok()
      assert.deepEqual(
        [renamed.id, renamed.type, renamed.name, renamed.code],
        [folder.id, 'folder', 'new name', folder.code],
      )
      assert.ok(Number.isInteger(renamed.createTime) && Number.isInteger(renamed.modTime))
    },
  )

  test('every tier may update its content', ['any tier'], async (world) => {
    for (const account of [await world.guest(), await world.standard(), await world.premium()]) {
      const folder = await account.folder()
      assert.equal((await account.update(folder.id, 'name', 'mine')).ok().name, 'mine')
    }
  })

  test('files and folders take names, kept as sent', ['name', 'error-name'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    const file = await ann.file({ in: folder.id })
    for (const item of [folder, file]) {
      for (const name of ['x', 'Ünï 🗂', 'e\u0301', '🗂'.repeat(255), ' edges '])
        assert.equal((await ann.update(item.id, 'name', name)).ok().name, name)
      for (const name of ['', 'a/b', '.', '..', 'a\tb', 'a\u0000', 'x'.repeat(256), 5, true, {}, []])
        (await ann.update(item.id, 'name', name)).refused('error-name')
    }
    assert.equal((await ann.read(file.id)).ok().name, ' edges ')
  })

  test(
    'a folder takes a description of up to 2,000 characters; empty removes it',
    ['description', 'error-description'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      for (const text of ['# Title\n\n<b>markdown</b> & more', '🗂'.repeat(2_000), 'x'.repeat(2_000)]) {
        ;(await ann.update(folder.id, 'description', text)).ok()
        assert.equal((await ann.read(folder.id)).ok().description, text)
      }
      for (const text of ['x'.repeat(2_001), 5, [], {}])
        (await ann.update(folder.id, 'description', text)).refused('error-description')
      for (const empty of ['', null]) {
        ;(await ann.update(folder.id, 'description', 'something')).ok()
        ;(await ann.update(folder.id, 'description', empty)).ok()
        assert.ok(!('description' in (await ann.read(folder.id)).ok()))
      }
    },
  )

  test(
    'tags are letters, digits, - and _, at most 25 characters each, trimmed and merged',
    ['tags', 'error-tags'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id })
      for (const item of [folder, file]) {
        const kept: [sent: string, stored: string][] = [
          ['a', 'a'],
          ['b,a', 'b,a'],
          [' b , a ,,b', 'b,a'],
          ['straße,日本,x_y-z9', 'straße,日本,x_y-z9'],
          ['x'.repeat(25), 'x'.repeat(25)],
          [
            Array.from({ length: 50 }, (_, n) => `t${n}`).join(','),
            Array.from({ length: 50 }, (_, n) => `t${n}`).join(','),
          ],
        ]
        for (const [sent, stored] of kept)
          assert.equal((await ann.update(item.id, 'tags', sent)).ok().tags, stored)
        for (const bad of [
          'a b',
          'a!',
          'a/b',
          '<b>',
          'x'.repeat(26),
          'ok,not ok',
          Array.from({ length: 51 }, (_, n) => `t${n}`).join(','),
          5,
          ['a'],
          {},
        ])
          (await ann.update(item.id, 'tags', bad)).refused('error-tags')
        for (const empty of ['', ' , ', null]) {
          ;(await ann.update(item.id, 'tags', 'a')).ok()
          ;(await ann.update(item.id, 'tags', empty)).ok()
          assert.ok(!('tags' in (await ann.read(item.id)).ok()))
        }
      }
    },
  )

  test(
    'public and private again',
    [
      'public',
      'error-public',
      'states and transitions · folder private → public',
      'states and transitions · folder public → private',
    ],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder()
      const opened = (await ann.update(folder.id, 'public', true)).ok()
      assert.equal(opened.public, true)
      assert.equal(opened.code, folder.code, 'the share code is returned')
      ;(await visitor.read(opened.code)).ok()
      assert.equal((await ann.update(folder.id, 'public', false)).ok().public, false)
      await eventually(async () => (await visitor.read(folder.code)).refused('error-notOwner'), 3_000)
      for (const bad of ['yes', 1, '', [], {}])
        (await ann.update(folder.id, 'public', bad)).refused('error-public')
    },
  )

  test(
    'a folder that predates share codes gets one when it turns public',
    ['public', 'states and transitions · folder predating codes → public', 'operator · legacy folders'],
    async (world) => {
      const ann = await world.premium()
      const made = (
        await world.admin('POST', `/admin/accounts/${ann.id}/legacy-folder`, { noCode: true })
      ).ok<{ folderId: string; code?: string | null }>()
      assert.ok(!made.code, 'it has none')
      const before = (await ann.read(made.folderId)).ok()
      assert.equal(before.public, false)
      assert.ok(!('code' in before))
      const { code } = (await ann.update(made.folderId, 'public', true)).ok()
      assert.match(code, /^[A-Za-z0-9]{8}$/)
      const visitor = await world.premium()
      assert.equal((await visitor.read(code)).ok().id, made.folderId)
      assert.equal((await ann.update(made.folderId, 'public', false)).ok().code, code)
      assert.equal((await ann.update(made.folderId, 'public', true)).ok().code, code, 'it keeps it')
    },
  )

  test(
    'a password of 4 to 100 characters protects; empty removes it; it is never returned',
    [
      'password',
      'error-password',
      'states and transitions · password set',
      'states and transitions · password removed',
    ],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      for (const bad of ['abc', 'x'.repeat(101), 1234, true, [], {}])
        (await ann.update(folder.id, 'password', bad)).refused('error-password')
      ;(await visitor.read(folder.id)).ok()
      for (const password of ['abcd', '🗝'.repeat(4), 'x'.repeat(100)]) {
        const answer = await ann.update(folder.id, 'password', password)
        assert.equal(answer.ok().password, true)
        assert.ok(
          !answer.text.includes(password) && !answer.text.includes(sha256(password)),
          'it is write-only',
        )
        ;(await visitor.read(folder.id)).refused('error-passwordRequired')
        ;(await visitor.read(folder.id, { password: sha256(password) })).ok()
      }
      for (const empty of ['', null]) {
        ;(await ann.update(folder.id, 'password', 'secret')).ok()
        ;(await ann.update(folder.id, 'password', empty)).ok()
        ;(await visitor.read(folder.id)).ok()
      }
    },
  )

  test('a new password ends the old one', ['password'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const folder = await ann.folder({ public: true })
    ;(await ann.update(folder.id, 'password', 'the first')).ok()
    ;(await visitor.read(folder.id, { password: sha256('the first') })).ok()
    ;(await ann.update(folder.id, 'password', 'the second')).ok()
    ;(await visitor.read(folder.id, { password: sha256('the first') })).refused('error-passwordWrong')
    ;(await visitor.read(folder.id, { password: sha256('the second') })).ok()
  })

  test(
    'an expiry is in the future, in seconds; empty removes it and the consent',
    [
      'expiry',
      'deleteAfterExpiry',
      'error-expiry',
      'states and transitions · expiry set',
      'states and transitions · expiry removed',
    ],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const expiry = nowSeconds() + 10_000
      assert.equal(
        (await ann.update(folder.id, 'expiry', expiry, { deleteAfterExpiry: true })).ok().expiry,
        expiry,
      )
      assert.equal((await ann.read(folder.id)).ok().deleteAfterExpiry, true)
      for (const bad of [
        nowSeconds() - 1,
        0,
        -5,
        Date.now() + 1_000_000,
        253_402_300_800,
        1.5,
        'soon',
        true,
        [],
        {},
      ])
        (await ann.update(folder.id, 'expiry', bad)).refused('error-expiry')
      assert.equal((await ann.read(folder.id)).ok().expiry, expiry, 'a refusal changes nothing')
      assert.equal((await ann.read(folder.id)).ok().deleteAfterExpiry, true)
      ;(await ann.update(folder.id, 'expiry', expiry + 1)).ok()
      assert.ok(!(await ann.read(folder.id)).ok().deleteAfterExpiry, 'each new expiry replaces the consent')
      for (const empty of ['', null]) {
        ;(await ann.update(folder.id, 'expiry', expiry, { deleteAfterExpiry: true })).ok()
        ;(await ann.update(folder.id, 'expiry', empty)).ok()
        const seen = (await ann.read(folder.id)).ok()
        assert.deepEqual([seen.expiry, seen.deleteAfterExpiry ?? false], [undefined, false])
      }
      ;(await ann.update(folder.id, 'expiry', expiry)).ok()
      assert.ok(!(await ann.read(folder.id)).ok().deleteAfterExpiry, 'consent was cleared, not kept')
    },
  )

  test('deleteAfterExpiry is true or false', ['error-deleteAfterExpiry'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    for (const bad of ['maybe', 1, [], {}])
      (await ann.update(folder.id, 'expiry', nowSeconds() + 100, { deleteAfterExpiry: bad })).refused(
        'error-deleteAfterExpiry',
      )
    assert.ok(!('expiry' in (await ann.read(folder.id)).ok()))
  })

  test('modTime is set on files and folders', ['modTime', 'error-modTime'], async (world) => {
    const ann = await world.premium()
    for (const item of [await ann.folder(), await ann.file()]) {
      for (const modTime of [-86_400, 0, 1, 1_700_000_000, nowSeconds() + 100_000])
        assert.equal((await ann.update(item.id, 'modTime', modTime)).ok().modTime, modTime)
      for (const bad of [1.5, 'x', true, [], {}, 253_402_300_800])
        (await ann.update(item.id, 'modTime', bad)).refused('error-modTime')
    }
  })

  test(
    'modTime of a folder moves with its direct children, of a file only with itself',
    ['modTime'],
    async (world) => {
      const ann = await world.premium()
      const [folder, other] = await Promise.all([ann.folder(), ann.folder()])
      const child = await ann.folder({ in: folder.id })
      const file = await ann.file({ in: child.id, modTime: 1_000 })
      const old = 1_000
      const reset = async () => {
        for (const id of [folder.id, child.id, other.id]) (await ann.update(id, 'modTime', old)).ok()
      }
      const times = async () => {
        const read = await Promise.all(
          [folder.id, child.id, file.id].map(async (id) => (await ann.read(id)).ok().modTime),
        )
        return read.map((time) => (time === old ? 'old' : 'new'))
      }
      await reset()
      assert.deepEqual(await times(), ['old', 'old', 'old'])
      ;(await ann.update(file.id, 'name', 'renamed')).ok()
      assert.deepEqual(await times(), ['old', 'new', 'old'], 'a child was renamed')
      await reset()
      for (const [attribute, value] of [
        ['tags', 'a'],
        ['description', 'b'],
        ['public', true],
        ['password', 'abcd'],
        ['expiry', nowSeconds() + 1_000],
      ] as const)
        (await ann.update(child.id, attribute, value)).ok()
      assert.deepEqual(await times(), ['old', 'old', 'old'], 'attributes of its own')
      const added = await ann.file({ in: child.id })
      assert.deepEqual(await times(), ['old', 'new', 'old'], 'a child was added')
      await reset()
      ;(await ann.remove(added.id)).ok()
      assert.deepEqual(await times(), ['old', 'new', 'old'], 'a child was removed')
      await reset()
      ;(await ann.move([child.id], other.id)).ok()
      assert.deepEqual(await times(), ['new', 'old', 'old'], 'a child was moved away')
      assert.notEqual((await ann.read(other.id)).ok().modTime, old, 'and moved here')
    },
  )

  test(
    "a folder's attribute on a file, and an unknown one, are error-attribute",
    ['error-attribute', 'error-attributeValue'],
    async (world) => {
      const guest = await world.guest()
      const file = await guest.file()
      for (const [attribute, value] of [
        ['description', 'x'],
        ['public', true],
        ['password', 'abcd'],
        ['expiry', nowSeconds() + 1_000],
      ] as const)
        (await guest.update(file.id, attribute, value)).refused('error-attribute')
      for (const attribute of [
        'nonsense',
        'Name',
        'id',
        'parentFolder',
        'size',
        '',
        5,
        null,
        ['name'],
        undefined,
      ])
        (
          await guest.call('PUT', `/contents/${file.id}/update`, { json: { attribute, attributeValue: 'x' } })
        ).refused('error-attribute')
      for (const attribute of ['name', 'tags', 'modTime'])
        (await guest.call('PUT', `/contents/${file.id}/update`, { json: { attribute } })).refused(
          'error-attributeValue',
        )
      const folder = await guest.folder()
      ;(
        await guest.call('PUT', `/contents/${folder.id}/update`, { json: { attribute: 'password' } })
      ).refused('error-attributeValue')
    },
  )

  test('only a UUID names what is changed', ['error-contentId', 'error-notFound'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    for (const id of [folder.code, 'nonsense', `${folder.id}x`])
      (await guest.update(id, 'name', 'x')).refused('error-contentId')
    ;(await guest.update(unknownId, 'name', 'x')).refused('error-notFound')
    ;(await guest.remove(folder.id)).ok()
    ;(await guest.update(folder.id, 'name', 'x')).refused('error-notFound')
  })

  test("another account's content cannot be changed, public or not", ['error-notOwner'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    for (const folder of [
      await ann.folder({ public: true, name: 'hers' }),
      await ann.folder({ name: 'hers' }),
    ]) {
      const file = await ann.file({ in: folder.id, name: 'hers' })
      for (const item of [folder, file]) {
        ;(await bob.update(item.id, 'name', 'changed')).refused('error-notOwner')
        assert.equal((await ann.read(item.id)).ok().name, 'hers')
      }
    }
    ;(await bob.update(ann.root, 'description', 'changed')).refused('error-notOwner')
  })

  test(
    'the root takes name, description, tags, modTime, public and password, never an expiry',
    ['error-rootFolder'],
    async (world) => {
      const ann = await world.premium()
      for (const [attribute, value] of [
        ['name', 'home'],
        ['description', 'text'],
        ['tags', 'a'],
        ['modTime', 5],
        ['public', true],
        ['password', 'abcd'],
      ] as const)
        (await ann.update(ann.root, attribute, value)).ok()
      const root = (await ann.read(ann.root)).ok()
      assert.deepEqual(
        [root.name, root.description, root.tags, root.public, root.password],
        ['home', 'text', 'a', true, true],
      )
      ;(await ann.update(ann.root, 'expiry', nowSeconds() + 1_000)).refused('error-rootFolder')
      ;(await ann.update(ann.root, 'expiry', nowSeconds() - 1_000)).refused('error-expiry')
      const guest = await world.guest()
      ;(await guest.update(guest.root, 'expiry', nowSeconds() + 1_000)).refused('error-rootFolder')
    },
  )

  test('racing changes all take effect, one after the other', ['success'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    const names = Array.from({ length: 20 }, (_, number) => `name ${number}`)
    const answers = await Promise.all(names.map((name) => ann.update(folder.id, 'name', name)))
    const reported = answers.map((answer) => answer.ok<Item>().name)
    assert.deepEqual(reported, names, 'each sees its own change')
    assert.ok(names.includes((await ann.read(folder.id)).ok().name))
    await sleep(0)
  })
})

import assert from 'node:assert/strict'
import { cases } from '../suite.ts'
import { nowSeconds, sha256, uuid } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

export const createFolder = cases('POST /contents/createFolder', (test) => {
  test(
    'a folder is made below the named parent',
    ['success', 'parentFolderId', 'folderName'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder({ name: 'Letters' })
      assert.match(folder.id, uuid)
      assert.equal(folder.type, 'folder')
      assert.equal(folder.name, 'Letters')
      assert.equal(folder.parentFolder, ann.root)
      assert.match(folder.code, /^[A-Za-z0-9]{8}$/)
      assert.ok(Math.abs(folder.createTime - nowSeconds()) < 60)
      assert.ok(Math.abs(folder.modTime - nowSeconds()) < 60)
      const below = await ann.folder({ in: folder.id, name: 'Letters' })
      assert.equal(below.parentFolder, folder.id)
      const { names } = (await ann.read(ann.root)).listing()
      assert.deepEqual(names, ['Letters'])
    },
  )

  test('every tier may make folders', ['any tier'], async (world) => {
    for (const account of [await world.guest(), await world.standard(), await world.premium()])
      assert.equal((await account.folder({ name: 'mine' })).name, 'mine')
  })

  test('a folder without a name is named by its share code', ['folderName'], async (world) => {
    const guest = await world.guest()
    const folders = await Promise.all(Array.from({ length: 5 }, () => guest.folder()))
    for (const folder of folders) assert.equal(folder.name, folder.code)
    assert.equal(new Set(folders.map((folder) => folder.code)).size, 5)
  })

  test(
    'names are kept exactly: any script, any length up to 255 characters, duplicates side by side',
    ['folderName'],
    async (world) => {
      const ann = await world.premium()
      const names = [
        'plain',
        'plain',
        ' spaces ',
        'é',
        'e\u0301',
        '文件夹',
        '🗂'.repeat(255),
        'a'.repeat(255),
        'CON',
        'name.',
        '..hidden',
        '\u202Etxt',
        '%2F',
        '<b>&"\'\\',
        'a\u200Bb',
      ]
      for (const name of names) assert.equal((await ann.folder({ name })).name, name)
      const listed = (await ann.read(ann.root)).listing().names
      assert.deepEqual([...listed].sort(), [...names].sort())
    },
  )

  test('a bad name is refused', ['error-folderName'], async (world) => {
    const guest = await world.guest()
    const bad = ['', 'a/b', '/', '.', '..', 'a\nb', 'a\u0000b', 'a\u007fb', 'a'.repeat(256), '🗂'.repeat(256)]
    for (const folderName of bad)
      (
        await guest.call('POST', '/contents/createFolder', {
          json: { parentFolderId: guest.root, folderName },
        })
      ).refused('error-folderName')
    const lone = await guest.call('POST', '/contents/createFolder', {
      body: `{"parentFolderId":"${guest.root}","folderName":"a\\ud800"}`,
      type: 'application/json',
    })
    lone.refused('error-folderName')
    assert.equal((await guest.details()).statsCurrent.folderCount, 0, 'nothing was made')
  })

  test(
    'the root starts private; public is as sent or as the parent',
    ['public', 'inheritance', 'error-public'],
    async (world) => {
      const ann = await world.premium()
      assert.equal((await ann.folder()).public, false)
      const open = await ann.folder({ public: true })
      assert.equal(open.public, true)
      assert.equal((await ann.folder({ in: open.id })).public, true)
      assert.equal((await ann.folder({ in: open.id, public: false })).public, false)
      for (const value of ['maybe', 2])
        (
          await ann.call('POST', '/contents/createFolder', {
            json: { parentFolderId: ann.root, public: value },
          })
        ).refused('error-public')
    },
  )

  test(
    'password and expiry are inherited from the parent and independent afterwards',
    ['inheritance'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const parent = await ann.folder({ public: true })
      const expiry = nowSeconds() + 5_000
      ;(await ann.update(parent.id, 'password', 'first secret')).ok()
      ;(await ann.update(parent.id, 'expiry', expiry, { deleteAfterExpiry: true })).ok()
      const child = await ann.folder({ in: parent.id })
      const seen = (await ann.read(child.id)).ok()
      assert.equal(seen.expiry, expiry)
      assert.equal(seen.password, true)
      assert.notEqual(seen.deleteAfterExpiry, true, 'consent is not inherited')
      ;(await ann.update(parent.id, 'password', 'second secret')).ok()
      ;(await ann.update(parent.id, 'expiry', '')).ok()
      ;(await ann.update(parent.id, 'public', false)).ok()
      const after = (await ann.read(child.id)).ok()
      assert.equal(after.expiry, expiry)
      assert.equal(after.public, true)
      ;(await visitor.read(child.id, { password: sha256('second secret') })).refused('error-passwordWrong')
      assert.equal((await visitor.read(child.id, { password: sha256('first secret') })).ok().id, child.id)
    },
  )

  test('modTime may be sent along', ['modTime', 'error-modTime'], async (world) => {
    const guest = await world.guest()
    assert.equal((await guest.folder({ modTime: 1_000_000_000 })).modTime, 1_000_000_000)
    for (const modTime of [1.5, 'x', 99_999_999_999_999])
      (
        await guest.call('POST', '/contents/createFolder', { json: { parentFolderId: guest.root, modTime } })
      ).refused('error-modTime')
  })

  test(
    'the parent must be a folder of the caller, named by its UUID',
    ['error-parentFolderId', 'error-notFound', 'error-notOwner'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      const make = (parentFolderId: unknown) =>
        ann.call('POST', '/contents/createFolder', { json: { parentFolderId } })
      const folder = await ann.folder({ public: true })
      const file = await ann.file()
      ;(await ann.call('POST', '/contents/createFolder', { json: {} })).refused('error-parentFolderId')
      for (const parent of ['', 'nonsense', folder.code, 5, null, `${folder.id},${folder.id}`, file.id])
        (await make(parent)).refused('error-parentFolderId')
      ;(await make(unknownId)).refused('error-notFound')
      ;(await make(bob.root)).refused('error-notOwner')
      ;(await make((await bob.folder({ public: true })).id)).refused('error-notOwner')
      ;(await make(folder.id.toUpperCase())).ok()
    },
  )

  test('nothing is made in the bin', ['error-protectedFolder'], async (world) => {
    const guest = await world.guest()
    await guest.operator({ recycleBin: true })
    const { recycleBin } = await guest.details()
    assert.equal(recycleBin.enabled, true)
    ;(
      await guest.call('POST', '/contents/createFolder', { json: { parentFolderId: recycleBin.folder } })
    ).refused('error-protectedFolder')
  })

  test('beyond the cap of contents nothing is made', ['error-limits'], async (world) => {
    const guest = await world.guest()
    await guest.operator({ limits: { contents: 2 } })
    await guest.folder()
    await guest.file()
    ;(await guest.call('POST', '/contents/createFolder', { json: { parentFolderId: guest.root } })).refused(
      'error-limits',
    )
    const { statsCurrent } = await guest.details()
    assert.deepEqual([statsCurrent.folderCount, statsCurrent.fileCount], [1, 1])
  })
})

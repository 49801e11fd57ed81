import assert from 'node:assert/strict'
import { cases } from '../suite.ts'
import { eventually, nowSeconds, sha256 } from '../world.ts'

export const visitors = cases('GET /contents/{contentId}', (test) => {
  test('a public folder and its files are open to others, by id and by code', ['visitors'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const folder = await ann.folder({ public: true })
    const file = await ann.file({ in: folder.id, content: 'shared' })
    for (const id of [folder.id, folder.code]) {
      const seen = (await visitor.read(id)).listing().folder
      assert.equal(seen.isOwner, false)
      assert.equal(seen.canAccess, true)
      assert.equal(seen.parentFolder, undefined, 'the parent is private')
      assert.equal(seen.children[file.id]?.isOwner, false)
      assert.equal(seen.children[file.id]?.parentFolder, folder.id)
      assert.equal((await world.request('GET', seen.children[file.id]?.link ?? '')).text, 'shared')
    }
    for (const id of [file.id, file.code]) assert.equal((await visitor.read(id)).ok().md5, file.md5)
  })

  test(
    'private content is visible only to its owner, also by share code',
    ['visitors', 'error-notOwner'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id })
      for (const id of [folder.id, folder.code, file.id, file.code, ann.root])
        (await visitor.read(id)).refused('error-notOwner')
      ;(await ann.read(folder.code)).ok()
    },
  )

  test('a file follows its own folder, not those above', ['visitors'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const hidden = await ann.folder()
    const open = await ann.folder({ in: hidden.id, public: true })
    const file = await ann.file({ in: open.id })
    assert.equal((await visitor.read(file.id)).ok().id, file.id)
    ;(await ann.update(open.id, 'public', false)).ok()
    await eventually(async () => (await visitor.read(file.id)).refused('error-notOwner'), 3_000)
  })

  test(
    'a password opens a protected folder, as SHA-256 of what the owner typed or stored',
    ['password', 'error-passwordRequired', 'error-passwordWrong'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const stored: [owner: string, reader: string][] = [
        ['open sesame', sha256('open sesame')],
        [sha256('hashed by the client'), sha256('hashed by the client')],
        [sha256('upper case').toUpperCase(), sha256('upper case')],
        ['ключ 鍵', sha256('ключ 鍵')],
      ]
      for (const [owner, reader] of stored) {
        const folder = await ann.folder({ public: true })
        const file = await ann.file({ in: folder.id, content: 'behind' })
        ;(await ann.update(folder.id, 'password', owner)).ok()
        for (const id of [folder.id, folder.code, file.id]) {
          ;(await visitor.read(id)).refused('error-passwordRequired')
          ;(await visitor.read(id, { password: sha256('wrong') })).refused('error-passwordWrong')
          assert.equal((await visitor.read(id, { password: reader })).ok().canAccess, true)
          assert.equal((await visitor.read(id, { password: reader.toUpperCase() })).ok().canAccess, true)
        }
        const { children } = (await visitor.read(folder.id, { password: reader })).listing()
        assert.equal((await world.request('GET', children[0]?.link ?? '')).text, 'behind')
        assert.equal((await ann.read(folder.id)).ok().canAccess, true, 'the owner needs none')
      }
    },
  )

  test('the plaintext opens nothing, and a password opens nothing private', ['password'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const folder = await ann.folder({ public: true })
    ;(await ann.update(folder.id, 'password', 'plaintext')).ok()
    ;(await visitor.read(folder.id, { password: 'plaintext' })).refused(
      'error-passwordWrong',
      'error-password',
    )
    ;(await ann.update(folder.id, 'public', false)).ok()
    await eventually(
      async () =>
        (await visitor.read(folder.id, { password: sha256('plaintext') })).refused('error-notOwner'),
      3_000,
    )
  })

  test(
    'visitors are not shown private, expired and recycled children',
    ['visitors', 'childrenCount'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      await ann.operator({ recycleBin: true })
      const folder = await ann.folder({ public: true })
      const open = await ann.folder({ in: folder.id, name: 'open' })
      const hidden = await ann.folder({ in: folder.id, name: 'hidden', public: false })
      const recycled = await ann.folder({ in: folder.id, name: 'recycled' })
      const expiring = await ann.folder({ in: folder.id, name: 'expiring' })
      ;(await ann.remove(recycled.id)).ok()
      ;(await ann.update(expiring.id, 'expiry', nowSeconds() + 2)).ok()
      await eventually(async () => {
        const { names, folder: seen, metadata } = (await visitor.read(folder.id, { maxdepth: 2 })).listing()
        assert.deepEqual(names, ['open'])
        assert.equal(seen.childrenCount, 1)
        assert.equal(metadata.totalCount, 1)
      }, 8_000)
      const own = (await ann.read(folder.id, { sortField: 'name', sortDirection: 1 })).listing()
      assert.deepEqual(own.names, ['expiring', 'hidden', 'open'])
      assert.equal(own.folder.childrenCount, 3)
      void [open, hidden]
    },
  )

  test(
    'a protected child is a stub until its password is sent',
    ['visitors', 'maxdepth', 'password'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      const locked = await ann.folder({ in: folder.id, name: 'locked' })
      await ann.file({ in: locked.id, name: 'inside' })
      ;(await ann.update(locked.id, 'password', 'of the child')).ok()
      ;(await ann.update(locked.id, 'description', 'unseen')).ok()
      const stub = (await visitor.read(folder.id, { maxdepth: 3 })).listing().folder.children[locked.id]
      assert.deepEqual(stub, {
        id: locked.id,
        type: 'folder',
        name: 'locked',
        code: locked.code,
        isOwner: false,
        canAccess: false,
        password: true,
        passwordStatus: 'passwordRequired',
      })
      const opened = (
        await visitor.read(folder.id, { maxdepth: 3, password: sha256('of the child') })
      ).listing().folder.children[locked.id]
      assert.equal(opened?.canAccess, true)
      assert.deepEqual(
        Object.values(opened?.children ?? {}).map((child) => child.name),
        ['inside'],
      )
      const wrong = (await visitor.read(folder.id, { maxdepth: 3, password: sha256('another') })).listing()
        .folder.children[locked.id]
      assert.equal(wrong?.canAccess, false)
      assert.equal(wrong?.children, undefined)
    },
  )

  test(
    'one password opens every protected folder that it fits, an inherited one all at once',
    ['password', 'maxdepth'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      ;(await ann.update(folder.id, 'password', 'shared')).ok()
      for (let number = 0; number < 6; number++) await ann.folder({ in: folder.id })
      const heirs = (await visitor.read(folder.id, { password: sha256('shared'), maxdepth: 2 })).listing()
        .children
      assert.deepEqual(
        heirs.map((child) => child.canAccess),
        Array(6).fill(true),
        'heirs share one verifier',
      )
      ;(await ann.update(folder.id, 'password', '')).ok()
      const alone = await ann.folder({ public: true })
      for (let number = 0; number < 6; number++) {
        const child = await ann.folder({ in: alone.id })
        ;(await ann.update(child.id, 'password', number === 5 ? 'another' : 'shared')).ok()
      }
      await eventually(async () => {
        const { children } = (
          await visitor.read(alone.id, { password: sha256('shared'), maxdepth: 2 })
        ).listing()
        assert.equal(children.filter((child) => child.canAccess).length, 5)
      })
    },
  )

  test('visitors see neither direct links nor consent', ['visitors'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const folder = await ann.folder({ public: true })
    const file = await ann.file({ in: folder.id })
    await ann.link(file.id)
    await ann.link(folder.id)
    ;(await ann.update(folder.id, 'expiry', nowSeconds() + 1_000, { deleteAfterExpiry: true })).ok()
    const own = (await ann.read(folder.id)).ok()
    assert.equal(own.deleteAfterExpiry, true)
    assert.equal(Object.keys(own.directLinks).length, 1)
    assert.equal(Object.keys(own.children[file.id]?.directLinks ?? {}).length, 1)
    const seen = (await visitor.read(folder.id)).ok()
    assert.equal(seen.directLinks, undefined)
    assert.equal(seen.deleteAfterExpiry, undefined)
    assert.equal(seen.children[file.id]?.directLinks, undefined)
  })

  test(
    "another account's content is no less the caller's premium matter",
    ['error-notPremium'],
    async (world) => {
      const [ann, guest] = await Promise.all([world.premium(), world.guest()])
      const folder = await ann.folder({ public: true })
      ;(await guest.read(folder.id)).refused('error-notPremium')
      ;(await guest.read(folder.code)).refused('error-notPremium')
    },
  )
})

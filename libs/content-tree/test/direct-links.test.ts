/** Direct links, and the versions of archives. */

import { createHash } from 'node:crypto'
import { hex } from '@holdfast/kernel'
import { type AccountReply, type DirectLink, Manifest, type ManifestEntry } from '@holdfast/wire'
import t from 'tap'
import { expire, link, password, set } from './owner.ts'
import { type CallerCase, operator, visitor, World } from './world.ts'

t.test('direct links are made, replaced as a whole, and removed', async (t) => {
  const world = new World()
  const root = world.create()
  const file = world.file(root)
  const put = (more: Partial<DirectLink>, linkId?: string, who: CallerCase = world.bearer()) =>
    world.ask(who, {
      putDirectLink: {
        contentId: file.id,
        link: { ...link, ...more },
        ...(linkId === undefined ? {} : { linkId }),
      },
    }).result
  const made = put({ sourceIpsAllowed: ['10.0.0.0/8'], expireTime: world.now + 50 })
  if (made.$case !== 'directLink' || made.value.link === undefined) throw new Error('no link')
  const { id, createTime } = made.value.link
  t.match(made.value, {
    contentId: file.id,
    isFolder: false,
    name: 'file.txt',
    link: { createTime: world.now },
  })
  t.match(world.read(operator, file.id).directLinks, [{ id, sourceIpsAllowed: ['10.0.0.0/8'] }])
  world.nowMs += 7000
  t.match(put({ domainsAllowed: ['example.org'] }, id), {
    value: { link: { id, createTime, sourceIpsAllowed: [], expireTime: 0, domainsAllowed: ['example.org'] } },
  })
  t.match(put({}, world.id), { value: { status: 'error-notFound' } }, 'no such link')
  t.match(put({}, undefined, visitor), { value: { status: 'error-notOwner' } })
  t.equal(world.account().directLinkCount, 1)
  for (let index = 1; index < 100; index++) put({})
  t.match(put({}), { value: { status: 'error-limits' } }, 'a hundred')
  t.match(put({}, id), { $case: 'directLink' }, 'a replaced link does not count twice')
  t.match(put({ domainsAllowed: ['x'.repeat(70_000)] }, id), { value: { status: 'error-limits' } })
  t.equal(world.status(visitor, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'error-notOwner')
  t.equal(world.status(operator, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'ok')
  t.equal(world.status(operator, { deleteDirectLink: { contentId: file.id, linkId: id } }), 'error-notFound')
  t.equal(world.account().directLinkCount, 99)
  t.equal(
    world.status(operator, { putDirectLink: { contentId: world.account().recycleBinFolder, link } }),
    'error-protectedFolder',
  )
  const strict = new World({ directLinksPremium: true })
  const strictRoot = strict.create()
  t.equal(
    strict.status(strict.bearer(), { putDirectLink: { contentId: strictRoot, link } }),
    'error-notPremium',
  )
  strict.ask(operator, { setAccount: { tier: 'premium' } })
  t.equal(strict.status(strict.bearer(), { putDirectLink: { contentId: strictRoot, link } }), 'ok')
})

t.test('a direct link is a separate access path', async (t) => {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true } })
  const folder = world.folder(root, { name: 'top', isPublic: false })
  const file = world.file(folder.id)
  password(world, folder.id, 'secret')
  const inner = world.folder(folder.id, { name: 'inner' })
  world.file(inner.id, 'deep')
  const expired = world.folder(folder.id, { name: 'expired' })
  expire(world, expired.id, 5)
  world.nowMs += 5000
  const salt = Buffer.from('salt')
  const hash = createHash('sha256').update(salt).update('pw').digest()
  const make = (contentId: string, more: Partial<DirectLink> = {}) => {
    const { result } = world.ask(operator, { putDirectLink: { contentId, link: { ...link, ...more } } })
    return result.$case === 'directLink' ? (result.value.link?.id ?? '') : ''
  }
  const open = (contentId: string, linkId: string, more: object = {}) =>
    world.ask(visitor, { openDirectLink: { contentId, linkId, sourceIp: '10.0.0.1', domain: '', ...more } })
      .result
  const fileLink = make(file.id)
  const folderLink = make(folder.id)
  t.match(open(file.id, fileLink), { $case: 'file', value: { isOwner: false, item: { id: file.id } } })
  const archive = open(folder.id, folderLink)
  t.match(archive, { $case: 'archive', value: { ends: undefined, entries: 4 } })
  t.match(entriesOf(archive), [
    { name: 'top', parent: 0 },
    { name: 'file.txt', parent: 0 },
    { name: 'inner', parent: 0 },
    { name: 'deep', parent: 2 },
  ])
  t.match(open(file.id, folderLink), { value: { status: 'error-notFound' } }, "another content's link")
  t.match(open(world.id, fileLink), { value: { status: 'error-notFound' } })
  t.match(open(file.id, make(file.id, { sourceIpsAllowed: ['10.0.0.2'] })), {
    value: { status: 'error-forbidden' },
  })
  const guarded = make(file.id, { auth: [{ user: 'ann', salt, hash }] })
  t.match(open(file.id, guarded), { value: { status: 'error-passwordRequired' } })
  t.match(open(file.id, guarded, { user: 'ann', password: 'no' }), {
    value: { status: 'error-passwordWrong' },
  })
  t.match(open(file.id, guarded, { user: 'ann', password: 'pw' }), { $case: 'file' })
  world.ask(operator, { deleteContents: { contentIds: [folder.id] } })
  t.match(open(file.id, fileLink), { value: { status: 'error-notFound' } }, 'in the bin')
  world.ask(operator, { restoreContents: { contentIds: [folder.id] } })
  t.match(open(file.id, fileLink), { $case: 'file' }, 'back with its content')
  expire(world, folder.id, 5)
  world.nowMs += 5000
  t.match(open(file.id, fileLink), { value: { status: 'error-notFound' } }, 'under an expired folder')
})

function entriesOf(result: NonNullable<AccountReply['result']>): ManifestEntry[] {
  if (result.$case !== 'archive') throw new Error(`no archive: ${JSON.stringify(result)}`)
  return result.value.pages.flatMap((page) => Manifest.decode(page).entries)
}

t.test(
  'an archive has another version whenever its manifest changes, and ends when time changes it',
  async (t) => {
    const world = new World()
    const root = world.create()
    world.ask(operator, { setAccount: { tier: 'premium' } })
    const top = world.folder(root, { name: 'top' })
    const inner = world.folder(top.id, { name: 'inner' })
    const file = world.file(inner.id, 'deep')
    const elsewhere = world.folder(root, { name: 'elsewhere' })
    const { result: made } = world.ask(operator, { putDirectLink: { contentId: top.id, link } })
    const linkId = made.$case === 'directLink' ? (made.value.link?.id ?? '') : ''
    const open = (more: object = {}) => {
      const { result } = world.ask(visitor, {
        openDirectLink: { contentId: top.id, linkId, sourceIp: '10.0.0.1', domain: '', ...more },
      })
      if (result.$case !== 'archive') throw new Error(JSON.stringify(result))
      return { ...result.value, version: hex(result.value.version) }
    }
    let { version } = open()
    const same = (what: string) => t.equal(open({ versionOnly: true }).version, version, what)
    const another = (what: string) => {
      const now = open({ versionOnly: true })
      t.not(now.version, version, what)
      t.same(now.pages, [])
      t.equal(open().version, now.version, 'the manifest comes with the same')
      version = now.version
    }
    world.file(elsewhere.id, 'stranger')
    same('a file elsewhere')
    set(world, file.id, { $case: 'tags', value: 'more' })
    same('what is in no archive')
    set(world, file.id, { $case: 'name', value: 'renamed' })
    another('renamed')
    set(world, file.id, { $case: 'modTime', value: 1 })
    another('the time of a file')
    set(world, inner.id, { $case: 'modTime', value: 1 })
    another('the time of a folder')
    const added = world.file(inner.id, 'added')
    another('added')
    world.ask(operator, { moveContents: { contentIds: [added.id], folderId: elsewhere.id } })
    another('moved away')
    world.ask(operator, { deleteContents: { contentIds: [file.id] } })
    another('deleted')
    expire(world, inner.id, 5)
    another('an expiry')
    t.equal(open().ends, Math.floor(world.nowMs / 1000) + 5)
    world.nowMs += 5000
    t.match(open(), { entries: 1, ends: undefined }, 'over')
    world.folder(top.id, { name: 'new' })
    another('a folder')
  },
)

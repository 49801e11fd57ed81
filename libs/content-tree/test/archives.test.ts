/** Archives by the rule for visitors. */
import { type AccountReply, Manifest } from '@holdfast/wire'
import t from 'tap'
import { expire, password, set } from './owner.ts'
import { operator, passwordOf, sent, visitor, World } from './world.ts'

type Named = { contentIds: string[]; password?: string; passwordVersions?: Buffer[]; versionOnly?: boolean }

function start() {
  const world = new World()
  const root = world.create()
  world.ask(operator, { setAccount: { recycleBin: true, tier: 'premium' } })
  const top = world.folder(root, { name: 'top', isPublic: true })
  const open = (named: Named, who = visitor) => world.ask(who, { openArchive: named }).result
  const names = (named: Named) => entriesOf(open(named)).map(({ name }) => name)
  return { world, root, top, open, names }
}

function viewOf(result: NonNullable<AccountReply['result']>) {
  if (result.$case !== 'archive') throw new Error(`no archive: ${JSON.stringify(result)}`)
  return result.value
}

function entriesOf(result: NonNullable<AccountReply['result']>) {
  return viewOf(result).pages.flatMap((page) => Manifest.decode(page).entries)
}

t.test('an archive has what a visitor sees, also for the owner', async (t) => {
  const { world, top, open, names } = start()
  world.file(top.id, 'a.txt')
  for (const name of ['open', 'hidden', 'locked', 'expired', 'recycled'])
    world.file(world.folder(top.id, { name }).id, `in ${name}`)
  const { children } = world.read(operator, top.id)
  const idOf = (name: string) => children.find((child) => child.name === name)?.id ?? ''
  set(world, idOf('hidden'), { $case: 'isPublic', value: false })
  password(world, idOf('locked'), 'secret')
  expire(world, idOf('expired'), 5)
  world.ask(operator, { deleteContents: { contentIds: [idOf('recycled')] } })
  t.equal(viewOf(open({ contentIds: [top.id] })).ends, world.now + 5)
  world.nowMs += 5_000
  const seen = ['top', 'a.txt', 'open', 'in open']
  t.same(names({ contentIds: [top.id] }), seen)
  t.same(
    entriesOf(open({ contentIds: [top.id] }, world.bearer())).map(({ name }) => name),
    seen,
  )
  for (const [name, status] of [
    ['hidden', 'error-notOwner'],
    ['locked', 'error-passwordRequired'],
    ['expired', 'error-notFound'],
    ['recycled', 'error-notFound'],
  ] as const) {
    t.match(open({ contentIds: [idOf(name)] }), { value: { status } })
    t.match(open({ contentIds: [idOf('open'), idOf(name)] }), { value: { status } }, 'a chosen one')
  }
})

t.test('a password opens folders when the link is made, and its salt does later', async (t) => {
  const { world, top, open, names } = start()
  for (const [name, text] of [
    ['mine', 'secret'],
    ['other', 'another'],
  ] as const) {
    const { id } = world.folder(top.id, { name })
    password(world, id, text)
    world.folder(id, { name: `inherits ${name}` })
  }
  const asked = { contentIds: [top.id], versionOnly: true }
  t.match(viewOf(open(asked)), { name: 'top', locked: false, passwordVersions: [] })
  t.match(viewOf(open({ ...asked, password: sent('wrong') })), { locked: true, passwordVersions: [] })
  const { passwordVersions } = viewOf(open({ ...asked, password: sent('secret') }))
  t.equal(passwordVersions.length, 1)
  t.same(names({ contentIds: [top.id] }), ['top'])
  t.same(names({ contentIds: [top.id], passwordVersions }), ['top', 'mine', 'inherits mine'])
  const verifier = passwordOf('secret', 'another salt')
  set(world, top.id, { $case: 'password', value: { verifier } })
  t.match(open(asked), { value: { status: 'error-passwordRequired' } })
  t.match(open({ ...asked, password: sent('wrong') }), { value: { status: 'error-passwordWrong' } })
  t.match(open({ ...asked, passwordVersions }), { value: { status: 'error-passwordRequired' } })
  t.ok(viewOf(open({ ...asked, password: sent('secret') })).passwordVersions.length > 0)
})

t.test('chosen contents come below their folder, files and folders', async (t) => {
  const { world, root, top, open, names } = start()
  const [one, two] = [world.file(top.id, 'one'), world.file(top.id, 'two')]
  const inner = world.folder(top.id, { name: 'inner' })
  const deep = world.file(inner.id, 'deep')
  t.same(names({ contentIds: [two.id, two.id] }), ['top', 'two'])
  t.same(names({ contentIds: [inner.id, one.id] }), ['top', 'one', 'inner', 'deep'])
  t.same(names({ contentIds: [inner.id] }), ['inner', 'deep'], 'one folder is its own top')
  const refused = (contentIds: string[], status: string) =>
    t.match(open({ contentIds }), { value: { status } })
  refused([], 'error-contentsId')
  refused([one.id, deep.id], 'error-contentsId')
  refused([one.id, world.id], 'error-notFound')
  refused([root], 'error-notOwner')
  refused(
    Array.from({ length: 201 }, () => one.id),
    'error-contentsId',
  )
  set(world, root, { $case: 'isPublic', value: true })
  refused([root, top.id], 'error-contentsId')
  refused([inner.id, root], 'error-contentsId')
  set(world, root, { $case: 'isPublic', value: false })
  const beside = world.folder(root, { name: 'beside', isPublic: true })
  refused([top.id, beside.id], 'error-notOwner')
})

t.test('a change of who may read gives an archive another version', async (t) => {
  const { world, top, open } = start()
  const inner = world.folder(top.id, { name: 'inner' })
  const version = () => viewOf(open({ contentIds: [top.id], versionOnly: true })).version
  let before = version()
  t.same(version(), before)
  const another = (what: string) => {
    const now = version()
    t.notSame(now, before, what)
    before = now
  }
  set(world, inner.id, { $case: 'isPublic', value: false })
  another('private')
  set(world, inner.id, { $case: 'isPublic', value: true })
  another('public')
  password(world, inner.id, 'secret')
  another('a password')
})

/** Blocks of the operator: content, accounts, networks. */
import assert from 'node:assert/strict'
import type { Answer, Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { eventually, filePart, md5, randomContent, representation, type World } from '../world.ts'

/** For documentation, RFC 5737: a client behind the proxy of this instance. */
const keptOut = '203.0.113.77'

type List = 'content' | 'account' | 'network'

async function block(world: World, list: List, name: string): Promise<void> {
  ;(await world.admin('POST', `/admin/blocked/${list}/block`, { names: [name] })).ok()
}

async function unblock(world: World, list: List, name: string): Promise<void> {
  ;(await world.admin('POST', `/admin/blocked/${list}/unblock`, { names: [name] })).ok()
}

/** By the id of the source. */
type ItemsBySource = Record<string, { data: Item }>

interface Operation {
  method: string
  path: string
  readsToken: boolean
}

/** The operations of the document, with these values of the parameters in their paths. */
async function operationsOf(world: World, values: Record<string, string>): Promise<Operation[]> {
  const { paths } = JSON.parse((await world.call('GET', '/openapi.json')).text) as {
    paths: Record<string, Record<string, { operationId?: string; security?: object[] }>>
  }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { operationId }]) => operationId !== undefined)
      .map(([method, { security }]) => ({
        method: method.toUpperCase(),
        path: path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? assert.fail(name)),
        readsToken: security !== undefined,
      })),
  )
}

/** Without any field: the token, and where a client comes from, count before parameters. */
function perform(world: World, { method, path }: Operation, options: object): Promise<Answer> {
  if (path === '/uploadfile') return world.uploadForm([filePart()], options)
  return world.call(method, path, options)
}

export const moderation = cases('operator', (test) => {
  test('a suspended account is refused by every operation', ['suspended accounts'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file()
    const values = { accountId: ann.id, contentId: ann.root, directLinkId: ann.id }
    const operations = (await operationsOf(world, values)).filter(({ readsToken }) => readsToken)
    assert.ok(operations.length > 20, `${operations.length} operations`)
    await block(world, 'account', ann.id)
    for (const operation of operations)
      await eventually(async () =>
        (await perform(world, operation, { token: ann.token })).refused('error-blocked'),
      )
    const { link } = file
    await eventually(async () => assert.equal((await world.request('GET', link)).code, 451))
    await unblock(world, 'account', ann.id)
    await eventually(async () => (await ann.call('GET', '/accounts/getid')).ok())
  })

  test('a network that is kept out is refused by every operation', ['networks kept out'], async (outer) => {
    const { hosts } = await outer.instances.get('switches')
    const world = outer.at(hosts)
    const guest = await world.guest()
    const values = { accountId: guest.id, contentId: guest.root, directLinkId: guest.id }
    const operations = await operationsOf(world, values)
    const options = { token: guest.token, headers: { 'X-Forwarded-For': keptOut } }
    await block(world, 'network', `${keptOut}/32`)
    for (const operation of operations)
      await eventually(async () => (await perform(world, operation, options)).refused('error-forbidden'))
    await unblock(world, 'network', `${keptOut}/32`)
    await eventually(async () => (await guest.call('GET', '/accounts/getid', options)).ok())
  })

  test(
    'bytes that were taken down are neither stored nor sent, and copies and links of them share that',
    ['content taken down', 'POST /contents/copy · success', 'POST /contents/import · success'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      const content = randomContent(10_000)
      const file = await ann.file({ in: folder.id, content })
      await block(world, 'content', md5(content))
      await eventually(async () => (await ann.upload({ content })).refused('error-blocked'))
      await eventually(async () => assert.equal((await world.request('GET', file.link)).code, 451))
      // They move no bytes.
      const copied = await ann.copy([file.id], folder.id, {}, representation)
      const imported = await bob.import([folder.id], {}, representation)
      const { data: copy } = copied.ok<ItemsBySource>()[file.id] ?? assert.fail('no copy')
      const { data: taken } = imported.ok<ItemsBySource>()[folder.id] ?? assert.fail('not imported')
      const [inside] = (await bob.read(taken.id)).listing().children
      const links = [
        file.link,
        copy.link,
        inside?.link ?? assert.fail('an empty folder'),
        (await ann.link(file.id)).directLink,
        (await ann.link(folder.id)).directLink,
        (await bob.link(taken.id)).directLink,
      ]
      for (const link of links)
        await eventually(async () => (await world.request('GET', link)).refused('error-blocked'))
      await unblock(world, 'content', md5(content))
      for (const link of links)
        await eventually(async () => assert.equal((await world.request('GET', link)).code, 200, link))
    },
  )

  test(
    'copies of a hash are found and deleted in all accounts, and an undo gives them back',
    ['deletions by operators'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const content = randomContent(10_000)
      const files = [await ann.file({ content }), await bob.file({ content })]
      const other = await bob.file({})
      const found = (query: string) => foundBy(world, query)
      const ids = files.map(({ id }) => id).sort()
      await eventually(async () => assert.deepEqual(await found(`hash=${md5(content)}`), ids))
      const act = await pieces(world, '/admin/contents/delete-hash', { hash: md5(content) })
      assert.equal(act.deleted, 2)
      for (const { link } of files)
        await eventually(async () => assert.equal((await world.request('GET', link)).code, 404))
      assert.equal((await world.request('GET', other.link)).code, 200)
      assert.deepEqual(await found(`hash=${md5(content)}`), [])
      assert.equal((await pieces(world, `/admin/acts/${act.id}/undo`, {})).changed, 2)
      for (const { link } of files)
        await eventually(async () => assert.equal((await world.request('GET', link)).code, 200))
    },
  )

  test(
    'a deleted account is gone for all, and an undo restores it',
    ['deletions by operators'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file({})
      const act = await pieces(world, `/admin/accounts/${ann.id}/delete`, {})
      await eventually(async () => (await ann.call('GET', '/accounts/getid')).refused('error-blocked'))
      await eventually(async () => assert.equal((await world.request('GET', file.link)).code, 451))
      await pieces(world, `/admin/acts/${act.id}/undo`, {})
      await eventually(async () => assert.equal((await world.request('GET', file.link)).code, 200))
      await eventually(async () => (await ann.call('GET', '/accounts/getid')).ok())
    },
  )
})

interface Piece {
  act: { id: string }
  deleted?: number
  changed?: number
  next?: string | null
}

/** All pieces of a search. */
async function foundBy(world: World, query: string): Promise<string[]> {
  const ids: string[] = []
  for (let after = ''; ; ) {
    const path = `/admin/contents/find?${query}${after === '' ? '' : `&after=${after}`}`
    const piece = (await world.admin('GET', path)).ok<{ hits: { id: string }[]; next: string | null }>()
    ids.push(...piece.hits.map(({ id }) => id))
    if (piece.next === null) return ids.sort()
    after = piece.next
  }
}

/** All pieces of a change, summed up. */
async function pieces(world: World, path: string, body: object) {
  const sum = { id: '', deleted: 0, changed: 0 }
  for (let after: string | null = null; ; ) {
    const rest: object = after === null ? {} : { after }
    const piece: Piece = (await world.admin('POST', path, { ...body, ...rest })).ok<Piece>()
    sum.id = piece.act.id
    sum.deleted += piece.deleted ?? 0
    sum.changed += piece.changed ?? 0
    after = piece.next ?? null
    if (after === null) return sum
  }
}

/** Archives by the path of the pages, as visitors see the content. */
import assert from 'node:assert/strict'
import { cases } from '../suite.ts'
import { examine, unzip } from '../unzip.ts'
import { accessLagMs, eventually, md5, nowSeconds, randomContent, sha256, type World } from '../world.ts'

function ask(world: World, contentsId: string, more: { password?: string; token?: string } = {}) {
  const { password, token } = more
  return world.call('POST', '/web/contents/archive', {
    json: { contentsId, ...(password === undefined ? {} : { password }) },
    ...(token === undefined ? {} : { token }),
  })
}

async function linkOf(world: World, contentsId: string, password?: string): Promise<string> {
  const asked = await ask(world, contentsId, password === undefined ? {} : { password })
  return asked.ok<{ link: string }>().link
}

/** Names of the files in the archive, without those of folders. */
async function filesAt(world: World, link: string): Promise<string[]> {
  const answer = await world.request('GET', link)
  assert.equal(answer.code, 200, answer.text.slice(0, 200))
  return [...(await unzip(answer.body)).keys()].filter((name) => !name.endsWith('/')).sort()
}

export const visitorArchives = cases('POST /web/contents/archive', (test) => {
  test(
    'a folder comes as one archive, by its id and by its code, without a token',
    ['success: folder'],
    async (world) => {
      const guest = await world.guest()
      const folder = await guest.folder({ name: 'trip', public: true })
      const below = await guest.folder({ in: folder.id, name: 'photos' })
      const content = randomContent(300_000)
      await guest.file({ in: folder.id, name: 'read.txt', content: 'read me' })
      await guest.file({ in: below.id, name: 'big.bin', content })
      for (const name of [folder.id, folder.code]) {
        const link = await linkOf(world, name)
        const answer = await world.request('GET', link)
        assert.equal(answer.header('content-length'), String(answer.body.length))
        assert.match(answer.header('content-disposition'), /^attachment; .*trip\.zip/)
        await examine(answer.body)
        assert.ok((await unzip(answer.body)).get('trip/photos/big.bin')?.equals(content))
        const rest = await world.request('GET', link, {
          headers: { range: 'bytes=1000-', 'if-range': answer.header('etag') },
        })
        assert.equal(rest.code, 206)
        assert.ok(rest.body.equals(answer.body.subarray(1_000)))
        assert.equal((await world.request('HEAD', link)).header('content-length'), String(answer.body.length))
      }
    },
  )

  test(
    'chosen contents of a folder come below it, and nothing else',
    ['success: chosen contents', 'error-contentsId'],
    async (world) => {
      const [guest, other] = await Promise.all([world.guest(), world.guest()])
      const folder = await guest.folder({ name: 'top', public: true })
      const [one, two] = [
        await guest.file({ in: folder.id, name: 'one' }),
        await guest.file({ in: folder.id, name: 'two' }),
      ]
      const below = await guest.folder({ in: folder.id, name: 'below' })
      const deep = await guest.file({ in: below.id, name: 'deep' })
      const foreign = await other.folder({ public: true })
      const files = async (...ids: string[]) => await filesAt(world, await linkOf(world, ids.join(',')))
      assert.deepEqual(await files(one.id, below.id), ['top/below/deep', 'top/one'])
      assert.deepEqual(await files(two.id), ['top/two'])
      assert.deepEqual(await files(below.id), ['below/deep'])
      for (const bad of [
        '',
        'no id',
        `${folder.code},${one.id}`,
        `${one.id},${deep.id}`,
        `${folder.id},${foreign.id}`,
        Array.from({ length: 201 }, () => crypto.randomUUID()).join(','),
      ])
        (await ask(world, bad)).refused('error-contentsId')
    },
  )

  test(
    'private, protected, expired and recycled content is left out, and refused where it is named',
    [
      "visitors' rule",
      'error-notFound',
      'error-notOwner',
      'error-passwordRequired',
      'error-passwordWrong',
      'password',
    ],
    async (world) => {
      const ann = await world.premium()
      await ann.operator({ recycleBin: true })
      const folder = await ann.folder({ name: 'all', public: true })
      const ids: Record<string, string> = {}
      for (const name of ['open', 'hidden', 'locked', 'expired', 'recycled']) {
        const { id } = await ann.folder({ in: folder.id, name })
        ids[name] = id
        await ann.file({ in: id, name: 'x' })
      }
      const { hidden = '', locked = '', expired = '', recycled = '' } = ids
      ;(await ann.update(hidden, 'public', false)).ok()
      ;(await ann.update(locked, 'password', 'secret')).ok()
      ;(await ann.update(expired, 'expiry', nowSeconds() + 5)).ok()
      ;(await ann.remove(recycled)).ok()
      const isLeftOut = async () =>
        assert.deepEqual(await filesAt(world, await linkOf(world, folder.id)), ['all/open/x'])
      await eventually(isLeftOut, 30_000)
      ;(await ask(world, hidden)).refused('error-notOwner')
      ;(await ask(world, hidden, { token: ann.token })).refused('error-notOwner')
      ;(await ask(world, expired)).refused('error-notFound')
      ;(await ask(world, recycled)).refused('error-notFound')
      ;(await ask(world, 'Unknown1')).refused('error-notFound')
      ;(await ask(world, crypto.randomUUID())).refused('error-notFound')
      ;(await ask(world, locked)).refused('error-passwordRequired')
      ;(await ask(world, locked, { password: sha256('no') })).refused('error-passwordWrong')
      const right = sha256('secret')
      assert.deepEqual(await filesAt(world, await linkOf(world, locked, right)), ['locked/x'])
      assert.deepEqual(await filesAt(world, await linkOf(world, folder.id, right)), [
        'all/locked/x',
        'all/open/x',
      ])
    },
  )

  test('access is checked when the archive is fetched', ['access now', 'forged links'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder({ name: 'now', public: true })
    const below = await guest.folder({ in: folder.id, name: 'below' })
    await guest.file({ in: below.id, name: 'x' })
    ;(await guest.update(folder.id, 'password', 'first')).ok()
    const link = await linkOf(world, folder.id, sha256('first'))
    assert.deepEqual(await filesAt(world, link), ['now/below/x'])
    ;(await guest.update(below.id, 'public', false)).ok()
    await eventually(async () => assert.deepEqual(await filesAt(world, link), []), accessLagMs)
    ;(await guest.update(folder.id, 'password', 'second')).ok()
    await eventually(async () => {
      ;(await world.request('GET', link)).refused('error-passwordRequired')
    }, accessLagMs)
    ;(await guest.update(folder.id, 'public', false)).ok()
    await eventually(async () => (await world.request('GET', link)).refused('error-notOwner'), accessLagMs)
    const { origin, pathname } = new URL(link)
    for (const query of [
      '',
      '?c=',
      '?c=AgAAAAAA',
      `?c=${'A'.repeat(10_000)}`,
      link.slice(link.indexOf('?'), -2),
    ])
      (await world.request('GET', `${origin}${pathname}${query}`)).refused('error-notFound')
  })

  test(
    'content that was taken down is left out, and a suspended account has no archives',
    ['content taken down', 'suspended accounts'],
    async (world) => {
      const guest = await world.guest()
      const folder = await guest.folder({ name: 'some', public: true })
      const content = randomContent(1_000)
      await guest.file({ in: folder.id, name: 'bad', content })
      await guest.file({ in: folder.id, name: 'good' })
      const link = await linkOf(world, folder.id)
      const block = async (act: 'block' | 'unblock', list: 'content' | 'account', name: string) =>
        (await world.admin('POST', `/admin/blocked/${list}/${act}`, { names: [name] })).ok()
      assert.deepEqual(await filesAt(world, link), ['some/bad', 'some/good'])
      await block('block', 'content', md5(content))
      await eventually(async () => assert.deepEqual(await filesAt(world, link), ['some/good']))
      await block('unblock', 'content', md5(content))
      await eventually(async () => assert.deepEqual(await filesAt(world, link), ['some/bad', 'some/good']))
      await block('block', 'account', guest.id)
      await eventually(async () => (await world.request('GET', link)).refused('error-blocked'))
      await eventually(async () => (await ask(world, folder.id)).refused('error-blocked'))
      await block('unblock', 'account', guest.id)
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 200))
    },
  )
})

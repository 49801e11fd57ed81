import assert from 'node:assert/strict'
import type { DirectLink } from '../answer.ts'
import { cases } from '../suite.ts'
import {
  type Account,
  countLagMs,
  eventually,
  inTime,
  nowSeconds,
  randomContent,
  sleep,
  uuid,
} from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
const relink = (ann: Account, id: string, linkId: string, json: Record<string, unknown>) =>
  ann.call('PUT', `/contents/${id}/directlinks/${linkId}`, { json })
const unlink = (ann: Account, id: string, linkId: string) =>
  ann.call('DELETE', `/contents/${id}/directlinks/${linkId}`)
const basic = (credentials: string) => ({
  authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
})

export const makeLinks = cases('POST /contents/{contentId}/directlinks', (test) => {
  test(
    'a link to a file answers its record and serves the file',
    ['success: file', 'any tier', 'direct links opened · file'],
    async (world) => {
      for (const ann of [await world.guest(), await world.standard(), await world.premium()]) {
        const file = await ann.file({ content: 'direct', name: 'a b.txt' })
        const link = await ann.link(file.id)
        assert.match(link.id, uuid)
        assert.deepEqual(
          [link.sourceIpsAllowed, link.domainsAllowed, link.domainsBlocked, link.auth, link.isReqLink],
          [[], [], [], [], false],
        )
        const answer = await world.request('GET', link.directLink)
        assert.equal(answer.code, 200)
        assert.equal(answer.text, 'direct')
        assert.match(answer.header('content-disposition'), /a b\.txt/)
      }
    },
  )

  test('a link to a folder serves a ZIP', ['success: folder'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder({ name: 'pack' })
    await guest.file({ in: folder.id, content: 'in it' })
    const link = await guest.link(folder.id)
    assert.match(new URL(link.directLink).pathname, /\.zip$/)
    const answer = await world.request('GET', link.directLink)
    assert.equal(answer.code, 200)
    assert.equal(answer.header('content-type'), 'application/zip')
    assert.equal(answer.body.toString('latin1', 0, 2), 'PK')
  })

  test(
    'the record keeps its settings, and the item shows it to its owner',
    ['expireTime', 'sourceIpsAllowed', 'domainsAllowed', 'domainsBlocked', 'auth'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file()
      const expireTime = nowSeconds() + 1_000
      const set = {
        expireTime,
        sourceIpsAllowed: ['127.0.0.1', '10.0.0.0/8', '2001:db8::/32'],
        domainsAllowed: ['example.test'],
        domainsBlocked: ['bad.test'],
        auth: ['user:pass:word', 'other:x'],
      }
      const link = await ann.link(file.id, set)
      assert.deepEqual(
        [link.expireTime, link.sourceIpsAllowed, link.domainsAllowed, link.domainsBlocked],
        [expireTime, set.sourceIpsAllowed, set.domainsAllowed, set.domainsBlocked],
      )
      assert.deepEqual(link.auth, ['user', 'other'], 'passwords are never returned')
      const shown = (await ann.read(file.id)).ok().directLinks[link.id] as DirectLink
      assert.equal(shown.directLink, link.directLink)
      assert.equal(shown.expireTime, expireTime)
      assert.deepEqual(shown.auth, ['user', 'other'])
      assert.ok(!JSON.stringify(shown).includes('pass'))
    },
  )

  test(
    'bad fields are refused by name',
    [
      'error-expireTime',
      'error-sourceIpsAllowed',
      'error-domainsAllowed',
      'error-domainsBlocked',
      'error-auth',
    ],
    async (world) => {
      const guest = await world.guest()
      const file = await guest.file()
      const bad: Record<string, unknown[]> = {
        expireTime: ['soon', 1.5, -1, true],
        sourceIpsAllowed: [
          'nonsense',
          ['nonsense'],
          ['300.1.1.1'],
          ['10.0.0.0/33'],
          ['::1/129'],
          ['10.0.0.1', ''],
          [5],
          { a: 1 },
        ],
        domainsAllowed: [['a b'], [''], [5], [`${'x'.repeat(300)}.test`], 7],
        domainsBlocked: [['a b'], [''], [5], ['0'.repeat(254)], 7],
        auth: [['nocolon'], [':nouser'], [''], [5], 7, ['a\u0000b:c'], [`a:${'x'.repeat(511)}`]],
      }
      for (const [name, values] of Object.entries(bad))
        for (const value of values)
          (await guest.call('POST', `/contents/${file.id}/directlinks`, { json: { [name]: value } })).refused(
            `error-${name}`,
          )
      for (const name of Object.keys(bad))
        (await guest.call('POST', `/contents/${file.id}/directlinks`, { json: { [name]: null } })).ok()
    },
  )

  test(
    "only a UUID of the caller's own content gets a link",
    ['error-contentId', 'error-notFound', 'error-notOwner'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      const file = await ann.file()
      const shared = await bob.folder({ public: true })
      const make = (id: string) => ann.call('POST', `/contents/${id}/directlinks`, { json: {} })
      for (const id of [file.code, 'nonsense']) (await make(id)).refused('error-contentId')
      ;(await make(unknownId)).refused('error-notFound')
      ;(await make(shared.id)).refused('error-notOwner')
      ;(await ann.remove(file.id)).ok()
      ;(await make(file.id)).refused('error-notFound')
    },
  )

  test('a content has at most 100 links', ['error-limits'], async (world) => {
    const guest = await world.guest()
    const file = await guest.file()
    const answers = await Promise.all(
      Array.from({ length: 110 }, () => guest.call('POST', `/contents/${file.id}/directlinks`, { json: {} })),
    )
    assert.equal(answers.filter((answer) => answer.code === 200).length, 100)
    for (const answer of answers) if (answer.code !== 200) answer.refused('error-limits')
  })
})

export const changeLinks = cases('PUT /contents/{contentId}/directlinks/{directLinkId}', (test) => {
  test(
    'fields that are sent again are kept, omitted ones are removed',
    [
      'success',
      'omitted fields',
      'expireTime',
      'sourceIpsAllowed',
      'domainsAllowed',
      'domainsBlocked',
      'auth',
    ],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file()
      const full = {
        expireTime: nowSeconds() + 1_000,
        sourceIpsAllowed: ['192.0.2.1'],
        domainsAllowed: ['example.test'],
        domainsBlocked: ['bad.test'],
        auth: ['a:b'],
      }
      const link = await ann.link(file.id, full)
      for (const kept of Object.keys(full) as (keyof typeof full)[]) {
        ;(await relink(ann, file.id, link.id, full)).ok()
        const changed = (await relink(ann, file.id, link.id, { [kept]: full[kept] })).ok<DirectLink>()
        assert.equal(changed.id, link.id)
        assert.equal(changed.directLink, link.directLink)
        for (const name of Object.keys(full) as (keyof typeof full)[]) {
          const expected =
            name === kept
              ? name === 'auth'
                ? ['a']
                : full[name]
              : name === 'expireTime'
                ? (await ann.link((await ann.file()).id)).expireTime
                : []
          assert.deepEqual(changed[name], expected, `${name} when only ${kept} was sent`)
        }
      }
      ;(await relink(ann, file.id, link.id, {})).ok()
      assert.equal((await world.request('GET', link.directLink)).code, 200, 'nothing restricts it any more')
    },
  )

  test(
    'unknown links and bad fields are refused',
    ['error-contentId', 'error-notFound', 'error-notOwner', 'error-expireTime', 'error-auth'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      const [file, other] = [await ann.file(), await ann.file()]
      const link = await ann.link(file.id)
      ;(await relink(ann, file.id, unknownId, {})).refused('error-notFound')
      ;(await relink(ann, other.id, link.id, {})).refused('error-notFound')
      ;(await relink(ann, unknownId, link.id, {})).refused('error-notFound')
      ;(await relink(ann, file.code, link.id, {})).refused('error-contentId')
      ;(await relink(bob, file.id, link.id, {})).refused('error-notOwner')
      ;(await relink(ann, file.id, link.id, { expireTime: 'x' })).refused('error-expireTime')
      ;(await relink(ann, file.id, link.id, { auth: ['x'] })).refused('error-auth')
      ;(await world.call('PUT', `/contents/${file.id}/directlinks/${link.id}`, { json: {} })).refused(
        'error-token',
      )
      assert.equal((await world.request('GET', link.directLink)).code, 200)
    },
  )
})

export const removeLinks = cases('DELETE /contents/{contentId}/directlinks/{directLinkId}', (test) => {
  test(
    'a link is removed; the content and other links stay',
    ['success', 'states and transitions · direct link deleted', 'direct links opened · changes at once'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file({ content: 'stays' })
      const [first, second] = [await ann.link(file.id), await ann.link(file.id)]
      assert.deepEqual((await unlink(ann, file.id, first.id)).ok(), {})
      for (let call = 0; call < 3; call++)
        assert.equal((await world.request('GET', first.directLink)).code, 404, 'at once')
      assert.equal((await world.request('GET', second.directLink)).text, 'stays')
      assert.deepEqual(Object.keys((await ann.read(file.id)).ok().directLinks), [second.id])
      ;(await unlink(ann, file.id, first.id)).refused('error-notFound')
    },
  )

  test(
    'only the owner removes it',
    ['error-contentId', 'error-notFound', 'error-notOwner'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      const file = await ann.file()
      const link = await ann.link(file.id)
      ;(await unlink(bob, file.id, link.id)).refused('error-notOwner')
      ;(await unlink(ann, file.id, unknownId)).refused('error-notFound')
      ;(await unlink(ann, file.code, link.id)).refused('error-contentId')
      ;(await unlink(ann, unknownId, link.id)).refused('error-notFound')
      assert.equal((await world.request('GET', link.directLink)).code, 200)
    },
  )
})

export const openLinks = cases('direct links opened', (test) => {
  test('ranges, HEAD and validators work as for any download', ['ranges', 'file'], async (world) => {
    const guest = await world.guest()
    const content = randomContent(50_000)
    const link = await guest.link((await guest.file({ content })).id)
    const whole = await world.request('GET', link.directLink)
    assert.ok(whole.body.equals(content))
    const part = await world.request('GET', link.directLink, { headers: { range: 'bytes=100-199' } })
    assert.equal(part.code, 206)
    assert.ok(part.body.equals(content.subarray(100, 200)))
    const head = await world.request('HEAD', link.directLink)
    assert.deepEqual(
      [head.code, head.header('content-length'), head.header('etag')],
      [200, '50000', whole.header('etag')],
    )
    assert.equal(
      (await world.request('GET', link.directLink, { headers: { 'if-none-match': whole.header('etag') } }))
        .code,
      304,
    )
  })

  test('its use is counted, with its traffic', ['count'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file({ content: randomContent(20_000) })
    const link = await ann.link(file.id)
    for (let turn = 0; turn < 3; turn++) await world.request('GET', link.directLink)
    await world.request('GET', link.directLink, { headers: { range: 'bytes=5-9' } })
    await eventually(async () => {
      assert.equal((await ann.read(file.id)).ok().downloads, 3)
      assert.ok((await ann.details()).statsCurrent.trafficDirectGenerated >= 60_000)
    }, countLagMs + 1_000)
  })

  test("the folder's privacy and password do not affect it", ['access of its own'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder({ public: false })
    ;(await ann.update(folder.id, 'password', 'secret')).ok()
    const file = await ann.file({ in: folder.id, content: 'open by link' })
    const link = await ann.link(file.id)
    assert.equal((await world.request('GET', link.directLink)).text, 'open by link')
    ;(await ann.update(folder.id, 'public', true)).ok()
    assert.equal((await world.request('GET', link.directLink)).text, 'open by link')
  })

  test(
    'it follows its content through renames and moves and ends with it',
    ['follows its content', 'changes at once'],
    async (world) => {
      const ann = await world.premium()
      const file = await ann.file({ content: 'wanders' })
      const link = await ann.link(file.id)
      ;(await ann.update(file.id, 'name', 'renamed.txt')).ok()
      const renamed = await world.request('GET', link.directLink)
      assert.equal(renamed.text, 'wanders')
      assert.match(renamed.header('content-disposition'), /renamed\.txt/)
      ;(await ann.move([file.id], (await ann.folder()).id)).ok()
      assert.equal((await world.request('GET', link.directLink)).text, 'wanders')
      ;(await ann.remove(file.id)).ok()
      assert.equal((await world.request('GET', link.directLink)).code, 404)
    },
  )

  test(
    'in the bin and under an expired folder it is 404, and comes back with its content',
    ['in the bin'],
    async (world) => {
      const ann = await world.premium()
      await ann.operator({ recycleBin: true })
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id, content: 'comes back' })
      const link = await ann.link(file.id)
      ;(await ann.remove(folder.id)).ok()
      assert.equal((await world.request('GET', link.directLink)).code, 404)
      ;(await ann.call('POST', '/recyclebin/restore', { json: { contentsId: folder.id } })).ok()
      assert.equal((await world.request('GET', link.directLink)).text, 'comes back')
      const expiry = nowSeconds() + 2
      ;(await ann.update(folder.id, 'expiry', expiry)).ok()
      await sleep(expiry * 1_000 - Date.now() + 100)
      assert.equal((await world.request('GET', link.directLink)).code, 404)
      ;(await ann.update(folder.id, 'expiry', '')).ok()
      assert.equal((await world.request('GET', link.directLink)).text, 'comes back')
    },
  )

  test('it ends at its expireTime', ['expireTime'], async (world) => {
    const guest = await world.guest()
    const file = await guest.file({ content: 'for now' })
    const { link, expireTime } = await inTime(2, async (expireTime) => {
      const link = await guest.link(file.id, { expireTime })
      assert.equal((await world.request('GET', link.directLink)).text, 'for now')
      return { link, expireTime }
    })
    await sleep(expireTime * 1_000 - Date.now() + 100)
    assert.ok([403, 404].includes((await world.request('GET', link.directLink)).code))
    ;(await relink(guest, file.id, link.id, {})).ok()
    assert.equal((await world.request('GET', link.directLink)).text, 'for now')
  })

  test(
    'source addresses: single ones and networks',
    ['source addresses', 'changes at once'],
    async (world) => {
      const guest = await world.guest()
      const file = await guest.file()
      const link = await guest.link(file.id, { sourceIpsAllowed: ['203.0.113.7'] })
      const code = async (from?: string) =>
        (await world.request('GET', link.directLink, from === undefined ? {} : { from })).code
      assert.equal(await code(), 403)
      ;(await relink(guest, file.id, link.id, { sourceIpsAllowed: ['0.0.0.0/0', '::/0'] })).ok()
      assert.equal(await code(), 200)
      ;(await relink(guest, file.id, link.id, { sourceIpsAllowed: ['2001:db8::/32', '203.0.113.0/24'] })).ok()
      assert.equal(await code(), 403)
      if (!world.from?.startsWith('127.')) return
      ;(
        await relink(guest, file.id, link.id, {
          sourceIpsAllowed: ['127.88.1.1', '127.88.2.0/24', '::ffff:127.88.3.1'],
        })
      ).ok()
      for (const [from, expected] of [
        ['127.88.1.1', 200],
        ['127.88.1.2', 403],
        ['127.88.2.1', 200],
        ['127.88.2.255', 200],
        ['127.88.3.1', 200],
        ['127.88.3.2', 403],
      ] as const)
        assert.equal(await code(from), expected, from)
    },
  )

  test(
    'an address in a header has no effect',
    ['source addresses', 'rate limits and bans · X-Forwarded-For'],
    async (world) => {
      const guest = await world.guest()
      const link = await guest.link((await guest.file()).id, { sourceIpsAllowed: ['203.0.113.7'] })
      for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip', 'true-client-ip', 'cf-connecting-ip'])
        assert.equal(
          (await world.request('GET', link.directLink, { headers: { [name]: '203.0.113.7' } })).code,
          403,
          name,
        )
    },
  )

  test(
    'allowed domains: Origin before Referer, subdomains too, no request without either',
    ['domains allowed'],
    async (world) => {
      const guest = await world.guest()
      const link = await guest.link((await guest.file()).id, { domainsAllowed: ['Example.test'] })
      const code = async (headers: Record<string, string>) =>
        (await world.request('GET', link.directLink, { headers })).code
      for (const headers of [
        { referer: 'https://example.test/page' },
        { origin: 'https://example.test' },
        { referer: 'http://EXAMPLE.test:8080/x?y' },
        { referer: 'https://deep.sub.example.test/' },
        { origin: 'https://example.test', referer: 'https://bad.test/' },
      ])
        assert.equal(await code(headers), 200, JSON.stringify(headers))
      for (const headers of [
        {},
        { referer: 'https://other.test/example.test' },
        { referer: 'https://notexample.test/' },
        { referer: 'https://example.test.bad.test/' },
        { origin: 'https://bad.test', referer: 'https://example.test/' },
        { origin: 'null' },
        { referer: 'nonsense' },
      ])
        assert.equal(await code(headers), 403, JSON.stringify(headers))
    },
  )

  test('blocked domains: they and their subdomains, no others', ['domains blocked'], async (world) => {
    const guest = await world.guest()
    const link = await guest.link((await guest.file()).id, { domainsBlocked: ['bad.test'] })
    const code = async (headers: Record<string, string>) =>
      (await world.request('GET', link.directLink, { headers })).code
    for (const headers of [
      {},
      { referer: 'https://example.test/' },
      { referer: 'https://notbad.test/' },
      { origin: 'https://example.test', referer: 'https://bad.test/' },
    ])
      assert.equal(await code(headers), 200, JSON.stringify(headers))
    for (const headers of [
      { referer: 'https://bad.test/x' },
      { referer: 'https://www.BAD.test:99/' },
      { origin: 'http://bad.test' },
    ])
      assert.equal(await code(headers), 403, JSON.stringify(headers))
  })

  test('basic auth: any of the pairs, nothing else', ['basic auth'], async (world) => {
    const guest = await world.guest()
    const file = await guest.file({ content: 'behind' })
    const link = await guest.link(file.id, { auth: ['ann:pass:word', 'bob:пароль'] })
    const without = await world.request('GET', link.directLink)
    assert.equal(without.code, 401)
    assert.match(without.header('www-authenticate'), /^Basic /)
    for (const good of ['ann:pass:word', 'bob:пароль'])
      assert.equal((await world.request('GET', link.directLink, { headers: basic(good) })).text, 'behind')
    for (const bad of ['ann:pass', 'ann:', 'bob:pass:word', ':', '', 'ann', 'ANN:pass:word'])
      assert.equal((await world.request('GET', link.directLink, { headers: basic(bad) })).code, 401, bad)
    for (const authorization of ['Basic !!!', `Bearer ${guest.token}`, 'Basic'])
      assert.equal(
        (await world.request('GET', link.directLink, { headers: { authorization } })).code,
        401,
        authorization,
      )
    ;(await relink(guest, file.id, link.id, { auth: ['ann:new'] })).ok()
    assert.equal(
      (await world.request('GET', link.directLink, { headers: basic('ann:pass:word') })).code,
      401,
      'changes hold at once',
    )
    assert.equal((await world.request('GET', link.directLink, { headers: basic('ann:new') })).code, 200)
  })

  test(
    'all restrictions apply together',
    ['basic auth', 'domains allowed', 'source addresses'],
    async (world) => {
      const guest = await world.guest()
      const link = await guest.link((await guest.file()).id, {
        auth: ['a:b'],
        domainsAllowed: ['example.test'],
        sourceIpsAllowed: ['0.0.0.0/0', '::/0'],
        expireTime: nowSeconds() + 500,
      })
      const all = { ...basic('a:b'), referer: 'https://example.test/' }
      assert.equal((await world.request('GET', link.directLink, { headers: all })).code, 200)
      assert.equal((await world.request('GET', link.directLink, { headers: basic('a:b') })).code, 403)
      assert.equal(
        (await world.request('GET', link.directLink, { headers: { referer: all.referer } })).code,
        401,
      )
    },
  )

  test('made-up links are 404', ['file'], async (world) => {
    const guest = await world.guest()
    const [file, other] = [await guest.file(), await guest.file()]
    const link = await guest.link(file.id)
    for (const url of [
      link.directLink.replace(link.id, unknownId),
      link.directLink.replace(file.id, other.id),
      link.directLink.replace(file.id, unknownId),
      link.directLink.replace(link.id, 'nonsense'),
    ])
      assert.ok([400, 404].includes((await world.request('GET', url)).code), url)
  })
})

import assert from 'node:assert/strict'
import type { Answer, Item } from '../answer.ts'
import { cases } from '../suite.ts'
import { type Account, countLagMs, eventually, md5, randomContent, sha256, type World } from '../world.ts'

/** A link as the owner's listing gives it. */
async function linkOf(ann: Account, file: Item): Promise<string> {
  return (await ann.read(file.id)).ok().link
}

function withoutCapability(link: string): string {
  return link.replace(/\?.*$/, '')
}

/** Parts of a `multipart/byteranges` answer (RFC 9110 §14.6). */
function byteRanges(answer: Answer): { range: string; type: string; content: Buffer }[] {
  const boundary = /^multipart\/byteranges; *boundary="?([^";]+)"?/.exec(answer.header('content-type'))?.[1]
  assert.ok(boundary, answer.header('content-type'))
  const text = answer.body.toString('latin1')
  assert.ok(text.trimEnd().endsWith(`--${boundary}--`))
  return text
    .split(`--${boundary}`)
    .slice(1, -1)
    .map((part) => {
      const end = part.indexOf('\r\n\r\n')
      const head = part.slice(0, end)
      return {
        range: /content-range: ?(.+)/i.exec(head)?.[1]?.trim() ?? '',
        type: /content-type: ?(.+)/i.exec(head)?.[1]?.trim() ?? '',
        content: Buffer.from(part.slice(end + 4, -2), 'latin1'),
      }
    })
}

export const downloads = cases('downloads by link', (test) => {
  const content = randomContent(100_000)
  const ranged = async (world: World) => {
    const ann = await world.premium()
    const file = await ann.file({ content, name: 'data.bin' })
    const link = await linkOf(ann, file)
    const get = (range: string, headers: Record<string, string> = {}) =>
      world.request('GET', link, { headers: { range, ...headers } })
    return { ann, file, link, get }
  }

  test(
    'a whole file comes with its length, type, name and validators',
    ['whole', 'ETag', 'HEAD'],
    async (world) => {
      const { file, link } = await ranged(world)
      const answer = await world.request('GET', link)
      assert.equal(answer.code, 200)
      assert.ok(answer.body.equals(content))
      assert.equal(answer.header('content-length'), '100000')
      assert.equal(answer.header('content-type'), 'application/octet-stream')
      assert.equal(answer.header('accept-ranges'), 'bytes')
      assert.match(answer.header('etag'), /^"[^"]+"$/, 'a strong validator')
      assert.ok(!answer.header('etag').includes(file.md5), 'md5 can be forged, so it validates nothing')
      assert.match(answer.header('content-disposition'), /filename="data\.bin"/)
      const head = await world.request('HEAD', link)
      assert.equal(head.code, 200)
      assert.equal(head.body.length, 0)
      for (const name of [
        'content-length',
        'content-type',
        'etag',
        'accept-ranges',
        'content-disposition',
        'content-security-policy',
      ])
        assert.equal(head.header(name), answer.header(name), name)
    },
  )

  test('equal bytes have one ETag, others another', ['ETag'], async (world) => {
    const ann = await world.premium()
    const files = await Promise.all(
      ['same', 'same', 'else'].map((content, at) => ann.file({ content, name: `${at}` })),
    )
    const tags = await Promise.all(
      files.map(async (file) => (await world.request('GET', await linkOf(ann, file))).header('etag')),
    )
    assert.equal(tags[0], tags[1])
    assert.notEqual(tags[0], tags[2])
  })

  test('one range is 206 with the requested bytes', ['single ranges'], async (world) => {
    const { get } = await ranged(world)
    const expected: [range: string, first: number, last: number][] = [
      ['bytes=0-0', 0, 0],
      ['bytes=0-99', 0, 99],
      ['bytes=99999-', 99_999, 99_999],
      ['bytes=65535-65536', 65_535, 65_536],
      ['bytes=5-', 5, 99_999],
      ['bytes=0-', 0, 99_999],
      ['bytes=0-999999999', 0, 99_999],
      ['bytes= 10-19', 10, 19],
      ['bytes=10-19, ', 10, 19],
    ]
    for (const [range, first, last] of expected) {
      const answer = await get(range)
      assert.equal(answer.code, 206, range)
      assert.equal(answer.header('content-range'), `bytes ${first}-${last}/100000`, range)
      assert.equal(answer.header('content-length'), String(last - first + 1))
      assert.ok(answer.body.equals(content.subarray(first, last + 1)), range)
      assert.ok(answer.header('etag').length > 0)
    }
  })

  test('a suffix is the last bytes', ['suffix ranges'], async (world) => {
    const { get } = await ranged(world)
    for (const [range, first] of [
      ['bytes=-1', 99_999],
      ['bytes=-500', 99_500],
      ['bytes=-100000', 0],
      ['bytes=-999999', 0],
    ] as const) {
      const answer = await get(range)
      assert.equal(answer.code, 206, range)
      assert.equal(answer.header('content-range'), `bytes ${first}-99999/100000`)
      assert.ok(answer.body.equals(content.subarray(first)))
    }
  })

  test('several ranges come as parts', ['several ranges'], async (world) => {
    const { get } = await ranged(world)
    const answer = await get('bytes=0-9, 50000-50009, -10')
    assert.equal(answer.code, 206)
    assert.equal(answer.header('content-length'), String(answer.body.length))
    const parts = byteRanges(answer)
    assert.deepEqual(
      parts.map((part) => part.range),
      ['bytes 0-9/100000', 'bytes 50000-50009/100000', 'bytes 99990-99999/100000'],
    )
    assert.ok(
      Buffer.concat(parts.map((part) => part.content)).equals(
        Buffer.concat([content.subarray(0, 10), content.subarray(50_000, 50_010), content.subarray(-10)]),
      ),
    )
    for (const part of parts) assert.equal(part.type, 'application/octet-stream')
    const mixed = await get('bytes=0-9, 200000-')
    assert.equal(mixed.code, 206, 'what cannot be satisfied falls away')
    assert.ok(mixed.body.includes(content.subarray(0, 10)))
  })

  test(
    'ranges that would cost more than the file do not',
    ['several ranges', 'answers, in every request · hostile input'],
    async (world) => {
      const { get } = await ranged(world)
      const overlapping = await get(`bytes=${Array.from({ length: 1_000 }, () => '0-').join(',')}`)
      assert.ok([200, 206, 416].includes(overlapping.code))
      assert.ok(overlapping.body.length < 300_000, `${overlapping.body.length} bytes for a file of 100,000`)
      const tiny = await get(`bytes=${Array.from({ length: 900 }, (_, n) => `${n * 2}-${n * 2}`).join(',')}`)
      assert.ok([200, 206, 416].includes(tiny.code))
      assert.ok(tiny.body.length < 300_000)
    },
  )

  test('a range behind the end is 416 with the size', ['unsatisfiable'], async (world) => {
    const { ann, get } = await ranged(world)
    for (const range of ['bytes=100000-', 'bytes=100000-100001', 'bytes=999999999999-', 'bytes=-0']) {
      const answer = await get(range)
      assert.equal(answer.code, 416, range)
      assert.equal(answer.header('content-range'), 'bytes */100000', range)
    }
    const empty = await linkOf(ann, await ann.file({ content: '' }))
    assert.ok(
      [200, 416].includes((await world.request('GET', empty, { headers: { range: 'bytes=5-' } })).code),
    )
    assert.equal((await world.request('GET', empty)).code, 200)
  })

  test('an invalid range is ignored', ['malformed ranges'], async (world) => {
    const { get } = await ranged(world)
    for (const range of [
      'bytes=',
      'bytes=x-y',
      'bytes=9-5',
      'bytes',
      'items=0-5',
      'bytes=1',
      'bytes=--5',
      'bytes=0-5-9',
      'bytes=0x1-0x5',
    ]) {
      const answer = await get(range)
      assert.ok(answer.code === 200 || answer.code === 416, `${range}: ${answer.code}`)
      if (answer.code === 200) assert.equal(answer.body.length, 100_000)
    }
    assert.equal((await get('items=0-5')).code, 200)
  })

  test('If-Range uses the range only when nothing changed', ['If-Range'], async (world) => {
    const { link, get } = await ranged(world)
    const whole = await world.request('HEAD', link)
    assert.equal((await get('bytes=0-9', { 'if-range': whole.header('etag') })).code, 206)
    for (const other of [
      '"other"',
      `W/${whole.header('etag')}`,
      'Mon, 01 Jan 1990 00:00:00 GMT',
      'nonsense',
    ]) {
      const answer = await get('bytes=0-9', { 'if-range': other })
      assert.equal(answer.code, 200, other)
      assert.equal(answer.body.length, 100_000)
    }
  })

  test('If-None-Match saves the bytes when nothing changed', ['If-None-Match'], async (world) => {
    const { link } = await ranged(world)
    const etag = (await world.request('HEAD', link)).header('etag')
    for (const method of ['GET', 'HEAD'])
      for (const value of [etag, `"x", ${etag}`, `W/${etag}`, '*']) {
        const answer = await world.request(method, link, { headers: { 'if-none-match': value } })
        assert.equal(answer.code, 304, value)
        assert.equal(answer.body.length, 0)
        assert.equal(answer.header('etag'), etag)
      }
    assert.equal((await world.request('GET', link, { headers: { 'if-none-match': '"other"' } })).code, 200)
    assert.equal(
      (await world.request('GET', link, { headers: { 'if-none-match': etag, range: 'bytes=0-5' } })).code,
      304,
    )
  })

  test('any name travels safely in the headers', ['hostile names'], async (world) => {
    const ann = await world.premium()
    const names = [
      'plain.txt',
      'quote".txt',
      'back\\slash.txt',
      'semi;colon=x.txt',
      'naïve 文件 🗂.txt',
      '100%.txt',
      "it's.txt",
      ' lead',
      'trail ',
      '*',
      'a,b',
      'filename*=x',
      '<img src=x>',
      '😀'.repeat(255),
    ]
    for (const name of names) {
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id, content: 'x' })
      ;(await ann.update(file.id, 'name', name)).ok()
      const link = await linkOf(ann, file)
      const answer = await world.request('GET', link)
      assert.equal(answer.code, 200, name)
      const disposition = answer.header('content-disposition')
      assert.match(disposition, /^(attachment|inline); /)
      assert.match(disposition, /^[\x20-\x7e]+$/, 'nothing but ASCII in a header')
      const encoded = /filename\*=UTF-8''([^;]*)$/.exec(disposition)?.[1]
      const plain = /filename="((?:[^"\\]|\\.)*)"/.exec(disposition)?.[1]?.replace(/\\(.)/g, '$1')
      assert.equal(encoded === undefined ? plain : decodeURIComponent(encoded), name)
      if (encoded !== undefined) assert.match(encoded, /^[A-Za-z0-9!#$&+.^_`|~%-]+$/, 'RFC 8187')
    }
  })

  test(
    'marks of direction stay in the stored name and are removed from the headers',
    ['hostile names'],
    async (world) => {
      const ann = await world.premium()
      const folder = await ann.folder()
      const file = await ann.file({ in: folder.id, content: 'x' })
      const renamed = (await ann.update(file.id, 'name', '\u202Egpj.exe')).ok()
      assert.equal(renamed.name, '\u202Egpj.exe')
      const answer = await world.request('GET', await linkOf(ann, file))
      assert.match(answer.header('content-disposition'), /filename="_gpj\.exe"/)
      assert.doesNotMatch(answer.header('content-disposition'), /%E2%80%AE/i)
    },
  )

  test('uploaded content cannot run in a browser', ['hostile types'], async (world) => {
    const ann = await world.premium()
    const hostile: [name: string, type: string][] = [
      ['page.html', 'text/html'],
      ['image.svg', 'image/svg+xml'],
      ['page.xhtml', 'application/xhtml+xml'],
      ['data.xml', 'text/xml'],
      ['code.js', 'text/javascript'],
      ['odd.txt', 'text/html; charset=utf-7'],
      ['app.swf', 'application/x-shockwave-flash'],
    ]
    for (const [name, type] of hostile) {
      const file = await ann.file({ name, type, content: '<script>alert(1)</script>' })
      const answer = await world.request('GET', await linkOf(ann, file))
      assert.equal(answer.code, 200)
      assert.match(answer.header('content-disposition'), /^attachment/, name)
      assert.equal(answer.header('x-content-type-options'), 'nosniff')
      assert.match(answer.header('content-security-policy'), /sandbox/)
      assert.match(answer.header('content-security-policy'), /default-src 'none'/)
    }
    const shown: [name: string, type: string][] = [
      ['a.png', 'image/png'],
      ['a.jpg', 'image/jpeg'],
      ['a.mp4', 'video/mp4'],
      ['a.mp3', 'audio/mpeg'],
      ['a.pdf', 'application/pdf'],
      ['a.txt', 'text/plain'],
    ]
    for (const [name, type] of shown) {
      const answer = await world.request('GET', await linkOf(ann, await ann.file({ name })))
      assert.match(answer.header('content-disposition'), /^inline/, name)
      assert.ok(answer.header('content-type').startsWith(type), `${name}: ${answer.header('content-type')}`)
      assert.equal(answer.header('x-content-type-options'), 'nosniff')
    }
  })

  test('access is checked at the time of the download', ['access now', 'capability'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const folder = await ann.folder({ public: true })
    const file = await ann.file({ in: folder.id, content: 'now' })
    const { link } = (await visitor.read(file.id)).ok()
    assert.equal((await world.request('GET', link)).code, 200)
    assert.equal((await world.request('GET', withoutCapability(link))).code, 200, 'the folder is public')
    const refusals: [change: () => Promise<Answer>, code: number, undo: () => Promise<Answer>][] = [
      [() => ann.update(folder.id, 'public', false), 401, () => ann.update(folder.id, 'public', true)],
      [() => ann.update(folder.id, 'password', 'secret'), 401, () => ann.update(folder.id, 'password', '')],
    ]
    for (const [change, code, undo] of refusals) {
      ;(await change()).ok()
      await eventually(async () => assert.equal((await world.request('GET', link)).code, code), 3_500)
      ;(await undo()).ok()
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 200), 3_500)
    }
    ;(await ann.remove(file.id)).ok()
    await eventually(async () => assert.equal((await world.request('GET', link)).code, 404), 3_500)
  })

  test(
    "a visitor's link behind a password is personal; changing it ends the link",
    ['capability', 'access now'],
    async (world) => {
      const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
      const folder = await ann.folder({ public: true })
      const file = await ann.file({ in: folder.id, content: 'behind' })
      ;(await ann.update(folder.id, 'password', 'first')).ok()
      const { link } = (await visitor.read(file.id, { password: sha256('first') })).ok()
      assert.equal((await world.request('GET', link)).text, 'behind')
      assert.equal((await world.request('GET', withoutCapability(link))).code, 401)
      assert.equal(
        (await world.request('GET', withoutCapability(link), { query: { password: sha256('first') } })).code,
        200,
      )
      ;(await ann.update(folder.id, 'password', 'second')).ok()
      await eventually(async () => assert.equal((await world.request('GET', link)).code, 401), 3_500)
    },
  )

  test('a forged or copied capability opens nothing', ['capability'], async (world) => {
    const [ann, visitor] = await Promise.all([world.premium(), world.premium()])
    const [hidden, open] = [await ann.folder(), await ann.folder({ public: true })]
    const secret = await ann.file({ in: hidden.id, content: 'secret' })
    const shared = await ann.file({ in: open.id })
    const own = await linkOf(ann, secret)
    assert.equal((await world.request('GET', own)).text, 'secret', "the owner's link works by itself")
    const capability = /[?&](c=[^&]+)/.exec(own)?.[1] as string
    const visitors = /[?&](c=[^&]+)/.exec((await visitor.read(shared.id)).ok().link)?.[1] as string
    const base = withoutCapability(own)
    const flipped = capability.slice(0, 40) + (capability[40] === 'A' ? 'B' : 'A') + capability.slice(41)
    for (const query of [
      '',
      `?${visitors}`,
      `?${flipped}`,
      '?c=',
      '?c=nonsense',
      `?${capability.slice(0, -4)}`,
      `?${capability}&${capability}x`,
    ])
      assert.ok(
        [400, 401, 403].includes((await world.request('GET', base + query)).code),
        `${query} opened it`,
      )
    ;(await ann.move([secret.id], (await ann.folder()).id)).ok()
    await eventually(
      async () => assert.equal((await world.request('GET', `${base}?${visitors}`)).code, 401),
      3_500,
    )
  })

  test(
    "the owner's token opens its files, as header and as cookie",
    ['owner by token', 'whole'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.premium(), world.premium()])
      const file = await ann.file({ content: 'mine' })
      const base = withoutCapability(await linkOf(ann, file))
      assert.equal((await world.request('GET', base)).code, 401)
      assert.equal((await world.request('GET', base, { token: ann.token })).text, 'mine')
      assert.equal(
        (await world.request('GET', base, { headers: { cookie: `accountToken=${ann.token}` } })).text,
        'mine',
      )
      assert.equal((await world.request('GET', base, { token: bob.token })).code, 401)
      assert.equal((await world.request('GET', base, { token: 'nonsense' })).code, 401)
      assert.equal(
        (await world.request('GET', base, { headers: { cookie: 'accountToken=nonsense' } })).code,
        401,
      )
      const guest = await world.guest()
      const own = await guest.file({ content: "a guest's" })
      assert.equal(
        (await world.request('GET', `${base.replace(file.id, own.id)}`, { token: guest.token })).text,
        "a guest's",
      )
    },
  )

  test('whole downloads and those from byte 0 are counted, with their traffic', ['count'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder({ public: true })
    const file = await ann.file({ in: folder.id, content: randomContent(10_000) })
    const { link } = (await (await world.premium()).read(file.id)).ok()
    for (const range of [undefined, undefined, 'bytes=0-', 'bytes=0-10', 'bytes=10-20', 'bytes=-5'])
      await world.request('GET', link, range === undefined ? {} : { headers: { range } })
    await world.request('HEAD', link)
    await eventually(async () => {
      assert.equal((await ann.read(file.id)).ok().downloads, 4)
      const { trafficWebDownloaded, trafficDirectGenerated } = (await ann.details()).statsCurrent
      assert.ok(trafficWebDownloaded >= 30_000, `${trafficWebDownloaded} bytes of traffic`)
      assert.equal(trafficDirectGenerated, 0)
    }, countLagMs + 1_000)
    assert.equal((await ann.read(folder.id)).ok().children[file.id]?.downloads, 4)
  })

  test('missing content is 404, and so is a folder', ['unknown'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder({ public: true })
    const file = await ann.file({ in: folder.id })
    const base = withoutCapability(await linkOf(ann, file))
    for (const id of [
      'ffffffff-ffff-4fff-bfff-ffffffffffff',
      'nonsense',
      folder.id,
      '..%2f..%2fetc%2fpasswd',
    ])
      assert.ok([400, 404].includes((await world.request('GET', base.replace(file.id, id))).code), id)
    const origin = new URL(base).origin
    for (const path of ['/', '/download', '/download/', '/etc/passwd', '/%2e%2e/x'])
      assert.ok([404, 400].includes((await world.request('GET', origin + path)).code), path)
    assert.equal(
      (await world.request('GET', base.replace(/[^/]+$/, 'another-name.txt'))).code,
      200,
      'the name in the address is for people',
    )
    const posted = await world.request('POST', base)
    assert.ok([404, 405].includes(posted.code))
  })

  test('any range of a large file has its bytes', ['single ranges', 'whole'], async (world) => {
    const ann = await world.premium()
    const large = randomContent(20_000_000)
    const file = await ann.file({ content: large, name: 'large.bin' })
    assert.equal(file.md5, md5(large))
    const link = await linkOf(ann, file)
    assert.ok((await world.request('GET', link)).body.equals(large))
    await Promise.all(
      Array.from({ length: 12 }, async (_, turn) => {
        const first = Math.floor((turn * 1_600_003) % 19_000_000)
        const last = first + 65_535 + turn * 7_777
        const piece = await world.request('GET', link, { headers: { range: `bytes=${first}-${last}` } })
        assert.ok(piece.body.equals(large.subarray(first, last + 1)), `bytes ${first}-${last}`)
      }),
    )
  })

  test(
    '/download/web/ gives an account that may read the bytes, and leads everybody else to the page',
    ['/download/web/ on both hosts', 'single ranges', 'HEAD', 'owner by token'],
    async (world) => {
      const [ann, other] = await Promise.all([world.guest(), world.guest()])
      const [open, hidden] = [await ann.folder({ public: true }), await ann.folder()]
      const seen = await ann.file({ in: open.id, content, name: 'seen ü.bin' })
      const kept = await ann.file({ in: hidden.id, content: 'kept' })
      const note = await ann.file({ in: hidden.id, name: 'note.txt' })
      const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
      const cookie = (token: string) => ({ cookie: `theme=dark; accountToken=${token}` })
      const hosts = [world.hosts.api[0] as string, world.hosts.download[0] as string]
      for (const host of hosts) {
        const get = (file: Item, headers: Record<string, string>, method = 'GET') => {
          const url = `${host}/download/web/${file.id}/${encodeURIComponent(file.name)}`
          return world.request(method, url, { headers })
        }
        for (const headers of [
          bearer(ann.token),
          cookie(ann.token),
          bearer(other.token),
          cookie(other.token),
        ]) {
          const answer = await get(seen, headers)
          assert.equal(answer.code, 200)
          assert.ok(answer.body.equals(content))
          const part = await get(seen, { ...headers, range: 'bytes=5-9' })
          assert.deepEqual([part.code, part.header('content-range')], [206, 'bytes 5-9/100000'])
          assert.ok(part.body.equals(content.subarray(5, 10)))
          const head = await get(seen, headers, 'HEAD')
          assert.deepEqual([head.code, head.header('content-length'), head.body.length], [200, '100000', 0])
        }
        // The pages' origin holds the token of the account page: nothing is shown in place there.
        const shown = (await get(note, bearer(ann.token))).header('content-disposition')
        assert.match(shown, host === hosts[0] ? /^attachment;/ : /^inline;/, host)
        assert.equal((await get(kept, bearer(ann.token))).text, 'kept')
        assert.equal((await get(kept, cookie(ann.token))).text, 'kept')
        const led = async (file: Item, headers: Record<string, string>, page: string) => {
          for (const method of ['GET', 'HEAD']) {
            const answer = await get(file, headers, method)
            assert.deepEqual([answer.code, answer.header('location')], [302, `${world.hosts.web}/d/${page}`])
          }
        }
        await led(seen, {}, seen.code)
        await led(seen, cookie('stale'), seen.code)
        await led(seen, bearer('nonsense'), seen.code)
        await led(kept, {}, kept.id)
        await led(kept, bearer(other.token), kept.id)
        await led(kept, cookie(other.token), kept.id)
        const code = await world.request('GET', `${host}/download/web/${seen.code}/x`)
        assert.equal(code.header('location'), `${world.hosts.web}/d/${seen.code}`)
        const nul = world.isProxied ? [] : ['%00']
        for (const unknown of ['ffffffff-ffff-4fff-bfff-ffffffffffff', ...nul])
          (await world.request('GET', `${host}/download/web/${unknown}/x`)).refused('error-notFound')
      }
      ;(await ann.call('POST', `/accounts/${ann.id}/resettoken`)).ok()
      for (const host of hosts) {
        const answer = await world.request('GET', `${host}/download/web/${kept.id}/x`, {
          headers: bearer(ann.token),
        })
        assert.equal(answer.header('location'), `${world.hosts.web}/d/${kept.id}`)
      }
    },
  )
})

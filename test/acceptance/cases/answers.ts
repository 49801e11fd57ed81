/**
 * Rules for every answer: the envelope, bodies and their conversions, methods, slashes, CORS,
 * invalid input.
 */
import assert from 'node:assert/strict'
import { rawExchange } from '../http.ts'
import { cases } from '../suite.ts'
import { filePart, nowSeconds, type World } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

export const answers = cases('answers, in every request', (test) => {
  test(
    'success and refusal have the two shapes of the contract, on the API and the upload host',
    ['envelope'],
    async (world) => {
      const guest = await world.guest()
      assert.deepEqual(Object.keys((await guest.call('GET', '/accounts/getid')).envelope()), [
        'status',
        'data',
      ])
      ;(await world.call('GET', '/accounts/getid')).refused('error-token')
      ;(await guest.upload({ in: guest.root })).ok()
      ;(await world.uploadForm([])).refused('error-file')
      ;(await world.request('GET', `${world.uploadHost()}/nonsense`)).refused('error-notFound')
    },
  )

  test('any malformed body is error-body', ['broken body', 'envelope'], async (world) => {
    const guest = await world.guest()
    const bodies = [
      '{',
      '{"a":}',
      '[1,2',
      '"text',
      'nonsense',
      '{"a":1}}',
      '\u0000',
      '{"a":"\\ud8"}',
      Buffer.from([0xff, 0xfe, 0x00]),
    ]
    for (const body of bodies) {
      ;(await guest.call('POST', '/contents/createFolder', { body, type: 'application/json' })).refused(
        'error-body',
      )
      ;(
        await guest.call('PUT', `/contents/${guest.root}/update`, { body, type: 'application/json' })
      ).refused('error-body')
      ;(await guest.call('DELETE', '/contents', { body, type: 'application/json' })).refused('error-body')
    }
    for (const body of ['[]', '[{}]', '5', 'true', '"text"'])
      (await guest.call('POST', '/contents/createFolder', { body, type: 'application/json' })).refused(
        'error-body',
      )
  })

  test('an empty body of any type counts as an empty object', ['broken body'], async (world) => {
    for (const type of [
      undefined,
      'application/json',
      'application/x-www-form-urlencoded',
      'text/plain',
      'application/octet-stream',
    ])
      (await world.call('POST', '/accounts', { body: '', ...(type === undefined ? {} : { type }) })).ok()
    const guest = await world.guest()
    ;(await guest.call('POST', '/contents/createFolder')).refused('error-parentFolderId')
  })

  test('bodies end at 256 KiB', ['body sizes'], async (world) => {
    const guest = await world.guest()
    const padded = (bytes: number) => `{"parentFolderId":"${guest.root}","pad":"${'x'.repeat(bytes)}"}`
    ;(
      await guest.call('POST', '/contents/createFolder', {
        body: padded(262_000),
        type: 'application/json',
      })
    ).ok()
    ;(
      await guest.call('POST', '/contents/createFolder', {
        body: padded(263_000),
        type: 'application/json',
      })
    ).refused('error-bodySize')
    ;(
      await guest.call('POST', '/contents/createFolder', {
        body: `pad=${'x'.repeat(263_000)}`,
        type: 'application/x-www-form-urlencoded',
      })
    ).refused('error-bodySize')
  })

  test('a body that is announced as too long is refused at once', ['body sizes'], async (world) => {
    const announced = `POST /accounts HTTP/1.1\r\nHost: ${new URL(world.api()).host}\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{`
    const { text } = await rawExchange(world.api(), announced, {
      until: /error-bodySize/,
      from: world.from,
      continues: world.waitsForBody,
    })
    assert.match(text, /^HTTP\/1\.1 413 /)
  })

  test(
    'a form counts as flat fields, or as JSON when it starts with {',
    ['bodies as forms'],
    async (world) => {
      const guest = await world.guest()
      const form = 'application/x-www-form-urlencoded'
      const fields = new URLSearchParams({
        parentFolderId: guest.root,
        folderName: 'made by a form & more',
        public: 'true',
        token: guest.token,
      })
      const folder = (
        await world.call('POST', '/contents/createFolder', { body: fields.toString(), type: form })
      ).ok()
      assert.equal(folder.name, 'made by a form & more')
      assert.equal(folder.public, true)
      const json = JSON.stringify({ attribute: 'name', attributeValue: 'curl -d', token: guest.token })
      assert.equal(
        (await world.call('PUT', `/contents/${folder.id}/update`, { body: json, type: form })).ok().name,
        'curl -d',
      )
      ;(await guest.call('DELETE', '/contents', { body: `contentsId=${folder.id}`, type: form })).ok()
      ;(
        await guest.call('POST', '/contents/createFolder', { body: '{"parentFolderId":', type: form })
      ).refused('error-body')
    },
  )

  test(
    'true, false and decimal strings are accepted as booleans and integers, null as omitted',
    ['conversions'],
    async (world) => {
      const ann = await world.premium()
      const make = (json: Record<string, unknown>) =>
        ann.call('POST', '/contents/createFolder', { json: { parentFolderId: ann.root, ...json } })
      assert.equal((await make({ public: 'true' })).ok().public, true)
      assert.equal((await make({ public: 'false' })).ok().public, false)
      assert.equal((await make({ modTime: '1234567890' })).ok().modTime, 1_234_567_890)
      const folder = (await make({ public: null, folderName: null, modTime: null })).ok()
      assert.equal(folder.name, folder.code)
      assert.equal((await ann.update(folder.id, 'public', 'true')).ok().public, true)
      assert.equal((await ann.update(folder.id, 'modTime', '99')).ok().modTime, 99)
      const expiry = nowSeconds() + 1_000
      assert.equal(
        (await ann.update(folder.id, 'expiry', String(expiry), { deleteAfterExpiry: 'true' })).ok().expiry,
        expiry,
      )
      assert.equal((await ann.link(folder.id, { expireTime: String(expiry) })).expireTime, expiry)
      ;(await ann.read(folder.id, { page: '1', pageSize: '10' })).ok()
    },
  )

  test('nothing else is converted', ['conversions'], async (world) => {
    const ann = await world.premium()
    const make = (json: Record<string, unknown>) =>
      ann.call('POST', '/contents/createFolder', { json: { parentFolderId: ann.root, ...json } })
    for (const value of [1, 0, 'TRUE', 'yes', '1', '', [], {}])
      (await make({ public: value })).refused('error-public')
    for (const value of [1.5, '1.5', '0x10', ' 5', '5 ', '1e3', '', true, [5], {}])
      (await make({ modTime: value })).refused('error-modTime')
    for (const value of [5, true, ['a'], { a: 1 }])
      (await make({ folderName: value })).refused('error-folderName')
    for (const value of [[ann.root], { id: ann.root }, 5])
      (await make({ parentFolderId: value })).refused('error-parentFolderId')
    for (const value of ['1.5', '0x1', ' 1', '1e1', ''])
      (await ann.read(ann.root, { page: value })).refused('error-page')
  })

  test(
    'a single-valued parameter sent twice is refused by its name',
    [
      'repeated parameters',
      'GET /contents/{contentId} · error-contentFilter',
      'GET /contents/{contentId} · error-password',
    ],
    async (world) => {
      const ann = await world.premium()
      for (const name of [
        'page',
        'pageSize',
        'sortField',
        'sortDirection',
        'contentFilter',
        'contentname',
        'maxdepth',
        'password',
      ])
        (
          await ann.call('GET', `/contents/${ann.root}`, {
            query: [
              [name, '1'],
              [name, '1'],
            ],
          })
        ).refused(`error-${name}`)
      const body = `parentFolderId=${ann.root}&folderName=a&folderName=b`
      ;(
        await ann.call('POST', '/contents/createFolder', { body, type: 'application/x-www-form-urlencoded' })
      ).refused('error-folderName')
    },
  )

  test('an unknown route is error-notFound, on every host', ['unknown routes', 'envelope'], async (world) => {
    for (const path of [
      '/nonsense',
      '/contents/a/b/c',
      '/accounts/a/b',
      '/admin/accounts/x',
      ...(world.isProxied ? [] : ['/..', '/%2e%2e/etc/passwd']),
      '/contents//update',
    ])
      for (const method of ['GET', 'POST', 'PUT', 'DELETE'])
        (await world.call(method, path)).refused('error-notFound', 'error-method', 'error-token')
    ;(await world.call('GET', '/nonsense')).refused('error-notFound')
    ;(await world.call('POST', '/nonsense', { json: {} })).refused('error-notFound')
    for (const path of ['/', '/contents', '/nonsense'])
      (await world.request('POST', world.uploadHost() + path)).refused('error-notFound', 'error-method')
  })

  test(
    'a known path with another method is error-method, with Allow',
    ['error-method and Allow', 'POST {upload_url}/uploadfile · error-method'],
    async (world) => {
      const wrong: [string, string, string][] = [
        ['GET', '/accounts', 'POST'],
        ['DELETE', '/accounts', 'POST'],
        ['POST', '/accounts/getid', 'GET'],
        ['PUT', `/accounts/${unknownId}`, 'GET'],
        ['GET', `/accounts/${unknownId}/resettoken`, 'POST'],
        ['POST', `/contents/${unknownId}`, 'GET'],
        ['PATCH', '/contents', 'DELETE'],
        ['POST', '/contents', 'DELETE'],
        ['DELETE', '/contents/createFolder', 'POST'],
        ['PUT', '/contents/copy', 'POST'],
        ['POST', '/contents/move', 'PUT'],
        ['PUT', '/contents/import', 'POST'],
        ['POST', '/contents/search', 'GET'],
        ['GET', `/contents/${unknownId}/update`, 'PUT'],
        ['PUT', `/contents/${unknownId}/directlinks`, 'POST'],
        ['POST', `/contents/${unknownId}/directlinks/${unknownId}`, 'PUT'],
        ['POST', `/contents/${unknownId}/directlinks/${unknownId}`, 'DELETE'],
      ]
      for (const [method, path, allowed] of wrong) {
        const answer = await world.call(method, path)
        answer.refused('error-method')
        assert.ok(
          answer.header('allow').split(/,\s*/).includes(allowed),
          `${method} ${path}: Allow: ${answer.header('allow')}`,
        )
      }
      const upload = await world.request('GET', `${world.uploadHost()}/uploadfile`)
      upload.refused('error-method')
      assert.match(upload.header('allow'), /POST/)
    },
  )

  test('HEAD answers where GET does, without a body', ['HEAD'], async (world) => {
    const ann = await world.premium()
    for (const path of ['/accounts/getid', `/accounts/${ann.id}`, `/contents/${ann.root}`]) {
      const head = await ann.call('HEAD', path)
      assert.equal(head.code, 200)
      assert.equal(head.body.length, 0)
      assert.equal(head.header('content-type'), 'application/json; charset=utf-8')
    }
    assert.equal((await ann.call('HEAD', `/contents/${unknownId}`)).code, 404)
    assert.equal((await world.call('HEAD', '/accounts/getid')).code, 401)
    assert.equal((await world.call('HEAD', '/accounts/getid', { query: { token: ann.token } })).code, 200)
    assert.equal((await world.call('HEAD', '/accounts')).code, 405)
  })

  test('a slash at the end is accepted', ['trailing slash'], async (world) => {
    const account = (await world.call('POST', '/accounts/')).ok<{
      id: string
      token: string
      rootFolder: string
    }>()
    const ann = {
      call: (method: string, path: string, json?: unknown) =>
        world.call(method, path, { token: account.token, ...(json === undefined ? {} : { json }) }),
    }
    await world.admin('POST', `/admin/accounts/${account.id}`, { tier: 'premium' })
    ;(await ann.call('GET', '/accounts/getid/')).ok()
    ;(await ann.call('GET', `/accounts/${account.id}/`)).ok()
    const folder = (
      await ann.call('POST', '/contents/createFolder/', { parentFolderId: account.rootFolder })
    ).ok()
    ;(await ann.call('GET', `/contents/${folder.id}/`)).ok()
    ;(await ann.call('GET', `/contents/search/?contentId=${folder.id}&searchedString=x`)).ok()
    ;(
      await ann.call('PUT', `/contents/${folder.id}/update/`, { attribute: 'name', attributeValue: 'x' })
    ).ok()
    ;(await ann.call('POST', '/contents/copy/', { contentsId: folder.id, folderId: account.rootFolder })).ok()
    ;(await ann.call('PUT', '/contents/move/', { contentsId: folder.id, folderId: account.rootFolder })).ok()
    ;(await ann.call('POST', '/contents/import/', { contentsId: folder.id })).ok()
    const link = (await ann.call('POST', `/contents/${folder.id}/directlinks/`, {})).ok()
    ;(await ann.call('PUT', `/contents/${folder.id}/directlinks/${link.id}/`, {})).ok()
    ;(await ann.call('DELETE', `/contents/${folder.id}/directlinks/${link.id}/`)).ok()
    ;(await ann.call('DELETE', '/contents/', { contentsId: folder.id })).ok()
    ;(
      await world.uploadForm([{ name: 'file', filename: 'a', content: 'a' }], {
        path: '/uploadfile/',
        token: account.token,
      })
    ).ok()
    ;(await ann.call('POST', `/accounts/${account.id}/resettoken/`)).ok()
  })

  test(
    'paths have no case, parameters keep theirs',
    ['paths without case', 'error-method and Allow', 'POST {upload_url}/uploadfile · aliases'],
    async (world) => {
      const ann = await world.premium()
      const folder = (
        await ann.call('POST', '/contents/createfolder', {
          json: { parentFolderId: ann.root, folderName: 'MiXed', public: true },
        })
      ).ok()
      assert.equal(folder.name, 'MiXed')
      ;(await ann.call('GET', '/ACCOUNTS/getId')).ok()
      ;(await ann.call('POST', '/Contents/CREATEFOLDER/', { json: { parentFolderId: ann.root } })).ok()
      assert.equal((await ann.call('GET', `/CONTENTS/${folder.code}`)).ok().id, folder.id)
      assert.equal((await world.request('GET', `${world.hosts.web}/D/${folder.code}`)).code, 200)
      for (const path of ['/uploadFile', '/UPLOADFILE', '/Contents/UploadFile']) {
        const parts = [{ name: 'folderId', value: folder.id }, filePart({ name: 'Ä.TXT' })]
        const file = (await world.uploadForm(parts, { path, token: ann.token })).ok()
        assert.equal(file.name, 'Ä.TXT')
        const { link } = (await ann.read(file.id)).ok()
        const answer = await world.request('GET', link.replace('/download/', '/DownLoad/'))
        assert.equal(answer.text, 'content')
      }
      const wrong: [string, string, string][] = [
        ['GET', `${world.api()}/contents/createfolder`, 'POST'],
        ['DELETE', `${world.api()}/contents/CreateFolder`, 'POST'],
        ['POST', `${world.api()}/Contents/Search`, 'GET, HEAD'],
        ['GET', `${world.uploadHost()}/UPLOADFILE`, 'POST'],
        ['PUT', `${world.hosts.download[0]}/DOWNLOAD/${folder.id}`, 'GET, HEAD'],
      ]
      for (const [method, url, allowed] of wrong) {
        const answer = await world.request(method, url)
        answer.refused('error-method')
        assert.equal(answer.header('allow'), allowed, `${method} ${url}`)
      }
    },
  )

  test('browsers of any origin may call every host, without credentials', ['CORS'], async (world) => {
    const ann = await world.premium()
    const file = await ann.file()
    const { link } = (await ann.read(file.id)).ok()
    const preflights: [string, string][] = [
      [`${world.api()}/contents/createFolder`, 'POST'],
      [`${world.api()}/contents/${file.id}`, 'GET'],
      [`${world.api()}/contents/${file.id}/update`, 'PUT'],
      [`${world.api()}/contents`, 'DELETE'],
      [`${world.uploadHost()}/uploadfile`, 'POST'],
      [link, 'GET'],
    ]
    for (const [url, method] of preflights) {
      const answer = await world.request('OPTIONS', url, {
        headers: {
          origin: 'https://elsewhere.example',
          'access-control-request-method': method,
          'access-control-request-headers': 'authorization,content-type,range',
        },
      })
      assert.ok([200, 204].includes(answer.code), `${url} answered ${answer.code}`)
      assert.equal(answer.header('access-control-allow-origin'), '*', url)
      assert.equal(answer.header('access-control-allow-credentials'), '')
      assert.ok(
        answer.header('access-control-allow-methods').includes(method),
        `${url}: ${answer.header('access-control-allow-methods')}`,
      )
      const allowed = answer.header('access-control-allow-headers').toLowerCase()
      for (const name of [
        'authorization',
        'content-type',
        'idempotency-key',
        'prefer',
        'range',
        'x-bl',
        'x-request-id',
        'x-website-token',
      ])
        assert.ok(allowed.includes(name), `${url}: ${name} in ${allowed}`)
    }
    const headers = { origin: 'https://elsewhere.example' }
    const plain = [
      await ann.call('GET', '/accounts/getid', { headers }),
      await world.call('GET', '/accounts/getid', { headers }),
      await world.request('GET', link, { headers }),
    ]
    for (const answer of plain) {
      assert.equal(answer.header('access-control-allow-origin'), '*')
      const exposed = answer.header('access-control-expose-headers').toLowerCase()
      for (const name of ['content-range', 'etag', 'retry-after', 'ratelimit'])
        assert.ok(exposed.includes(name), `${name} in ${exposed}`)
    }
  })

  test(
    'every invalid input is refused, and none stops the service',
    ['hostile input', 'envelope'],
    async (world) => {
      const ann = await world.premium()
      const post = (body: string) =>
        ann.call('POST', '/contents/createFolder', { body, type: 'application/json' })
      const refusals = [
        await post(`{"parentFolderId":${'['.repeat(50_000)}${']'.repeat(50_000)}}`),
        await post(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`),
        await post('{"__proto__":{"parentFolderId":"x"}}'),
        await post('{"constructor":{"prototype":{"admin":true}}}'),
        await post('{"parentFolderId":1e999}'),
        await post(`{"parentFolderId":"${'9'.repeat(900_000)}"}`),
        ...(world.isProxied
          ? []
          : [await ann.call('GET', '/contents/%zz'), await ann.call('GET', '/contents/%00')]),
        await ann.call('GET', `/contents/${'a'.repeat(6_000)}`),
        await ann.call('GET', '/contents/__proto__'),
        await ann.call('PUT', '/contents/constructor/update', {
          json: { attribute: 'name', attributeValue: 'x' },
        }),
        await ann.update(ann.root, '__proto__', 'x'),
        await ann.update(ann.root, 'constructor', 'x'),
        await ann.read(ann.root, { sortField: '__proto__' }),
        await ann.remove('__proto__'),
        await ann.remove('../../etc/passwd'),
      ]
      for (const answer of refusals) {
        assert.ok(answer.code >= 400 && answer.code < 500, `${answer.code} ${answer.text}`)
        answer.envelope()
      }
      await assertStillThere(world)
    },
  )

  test('bytes that are no HTTP are refused and the connection closes', ['hostile input'], async (world) => {
    // A proxy may pass these on as sound requests.
    const mended = [
      `GET / HTTP/1.1\r\nX-Big: ${'a'.repeat(100_000)}\r\n`,
      'POST /accounts HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n',
    ]
    for (const host of [world.api(), world.uploadHost(), world.hosts.download[0] as string]) {
      const end = `Host: ${new URL(host).host}\r\n\r\n`
      for (const request of [
        'GARBAGE\r\n\r\n',
        'GET / HTTP/9.9\r\n\r\n',
        ...(world.isProxied ? [] : mended.map((head) => `${head}${end}0\r\n\r\n`)),
        `POST /accounts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n${end}zz\r\n`,
        `GET /accounts/getid HTTP/1.1\r\nBad Header: y\r\n${end}`,
      ]) {
        const { text, closed } = await rawExchange(host, request, { from: world.from })
        assert.ok(closed, `the connection stays open after ${request.slice(0, 40)}`)
        assert.match(text, world.isProxied ? /^(HTTP\/1\.[01] [45]\d\d |$)/ : /^(HTTP\/1\.1 4\d\d |$)/)
        if (text.includes('{')) assert.match(text, /\r\n\r\n\{"status":"error-[A-Za-z]+"\}$/)
      }
    }
    await assertStillThere(world)
  })

  test('an error reveals no internals', ['hostile input'], async (world) => {
    const answer = await world.call('GET', world.isProxied ? '/contents/%00' : '/contents/%zz')
    assert.doesNotMatch(answer.text + JSON.stringify(answer.headers), /node_modules|\.ts|fastify|at /i)
    assert.match(answer.header('server'), world.isProxied ? /^(nginx|Caddy|)/ : /^$/)
    assert.equal(answer.header('x-powered-by'), '')
  })
})

async function assertStillThere(world: World): Promise<void> {
  ;(await (await world.guest()).call('GET', '/accounts/getid')).ok()
}

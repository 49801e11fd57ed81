import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { Fault, type FaultCategory, systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { takeOver } from '../src/answers/headers.ts'
import {
  createHttpHost,
  createRateLimits,
  type HttpHostOptions,
  ok,
  ownParts,
  RefusalError,
  tokenOf,
} from '../src/index.ts'
import { PiecewiseRequest } from '../src/reading/piecewise-request.ts'
import { readBody } from '../src/reading/read-body.ts'

class ReplicaFault extends Fault {
  readonly code = 'BROKEN'
  readonly category: FaultCategory
  constructor(category: FaultCategory) {
    super('replica 10.0.0.7 is gone')
    this.category = category
  }
}

function host(t: Test, options: Partial<HttpHostOptions> = {}) {
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    trustProxy: false,
    cors: true,
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    ...options,
  })
  app.get('/things/:id', async (request) => ok(request.params))
  app.put('/things/copy', async () => ok({}))
  app.get('/list', async (request) => ok({ ...(request.query as object), token: tokenOf(request) ?? null }))
  app.delete('/list', async (request) =>
    ok({ ...((request.body as object) ?? {}), token: tokenOf(request) ?? null }),
  )
  app.post('/echo', async (request) =>
    ok({ body: request.body ?? {}, token: tokenOf(request) ?? null, ip: request.ip }),
  )
  app.get('/broken/:category', async (request) => {
    const { category } = request.params as { category: string }
    if (category === 'bug') throw new TypeError('secret of line 7')
    throw new ReplicaFault(category as FaultCategory)
  })
  app.get('/refused', async () => {
    throw new RefusalError('error-tags')
  })
  t.teardown(() => app.close())
  return app
}

function envelope(t: Test, answer: Answer, code: number, status: string) {
  t.equal(answer.statusCode, code, `${status} is ${code}`)
  t.same(answer.json(), { status })
  t.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
  t.equal(answer.headers['cache-control'], 'no-store')
  t.equal(answer.headers['access-control-allow-origin'], '*')
  t.equal(answer.headers['x-content-type-options'], 'nosniff')
  t.ok(answer.headers['x-request-id'])
}

interface Answer {
  statusCode: number
  headers: Record<string, unknown>
  json(): unknown
}

t.test('every error is the envelope', async (t) => {
  const app = host(t)
  const ask = (method: string, url: string, rest: object = {}) =>
    app.inject({ method: method as 'GET', url, ...rest })
  envelope(t, await ask('GET', '/nothing'), 404, 'error-notFound')
  envelope(t, await ask('POST', '/nothing', { payload: '{"broken' }), 404, 'error-notFound')
  envelope(t, await ask('PROPFIND', '/nothing'), 404, 'error-notFound')
  envelope(t, await ask('GET', '/things/%zz'), 404, 'error-notFound')
  envelope(t, await ask('GET', `/things/${'x'.repeat(5000)}`), 404, 'error-notFound')
  envelope(t, await ask('GET', '/refused'), 400, 'error-tags')
  envelope(t, await ask('GET', '/broken/bug'), 500, 'error-internal')
  const unavailable = await ask('GET', '/broken/unavailable')
  envelope(t, unavailable, 503, 'error-unavailable')
  t.match(unavailable.headers['retry-after'], /^\d+$/)
  envelope(t, await ask('GET', '/broken/unknown'), 503, 'error-unavailable')
  envelope(t, await ask('GET', '/broken/full'), 507, 'error-storageFull')
  envelope(t, await ask('GET', '/broken/corrupt'), 500, 'error-internal')

  const wrongMethods: [string, string, string][] = [
    ['PUT', '/list', 'DELETE, GET, HEAD'],
    ['PUT', '/list/', 'DELETE, GET, HEAD'],
    ['POST', '/things/7', 'GET, HEAD'],
    ['GET', '/things/copy', 'PUT'],
    ['GET', '/things/copy/?x=1', 'PUT'],
    ['PROPFIND', '/echo', 'POST'],
    ['PUT', '/LIST', 'DELETE, GET, HEAD'],
    ['GET', '/Things/COPY', 'PUT'],
    ['POST', '/Things/7', 'GET, HEAD'],
  ]
  for (const [method, url, allow] of wrongMethods) {
    const answer = await ask(method, url)
    envelope(t, answer, 405, 'error-method')
    t.equal(answer.headers.allow, allow, `${method} ${url}`)
  }
})

t.test('paths have no case, parameters keep theirs', async (t) => {
  const app = host(t)
  const ask = (method: string, url: string) => app.inject({ method: method as 'GET', url })
  t.strictSame((await ask('GET', '/THINGS/AbC')).json(), { status: 'ok', data: { id: 'AbC' } })
  t.match((await ask('GET', '/List?token=AbC')).json(), { status: 'ok', data: { token: 'AbC' } })
  t.strictSame((await ask('PUT', '/things/Copy')).json(), { status: 'ok', data: {} })
})

t.test('HEAD works where GET does, a trailing slash is accepted, OPTIONS is a preflight', async (t) => {
  const app = host(t)
  const head = await app.inject({ method: 'HEAD', url: '/list' })
  t.equal(head.statusCode, 200)
  t.equal(head.body, '')
  t.equal((await app.inject({ method: 'DELETE', url: '/list/' })).statusCode, 200)
  const preflight = await app.inject({
    method: 'OPTIONS',
    url: '/echo',
    headers: { origin: 'https://a.example', 'access-control-request-method': 'POST' },
  })
  t.equal(preflight.statusCode, 204)
  t.equal(preflight.headers['access-control-allow-origin'], '*')
  t.notOk(preflight.headers['access-control-allow-credentials'])
  for (const header of [
    'Authorization',
    'Content-Type',
    'Idempotency-Key',
    'Prefer',
    'Range',
    'X-BL',
    'X-Request-Id',
    'X-Website-Token',
  ]) {
    t.match(preflight.headers['access-control-allow-headers'], header)
  }
  const plain = await app.inject({ method: 'GET', url: '/list' })
  t.equal(plain.headers['access-control-expose-headers'], 'Content-Range, ETag, Retry-After, RateLimit')
  const closed = host(t, { cors: false })
  const answer = await closed.inject({ method: 'GET', url: '/list' })
  t.notOk(answer.headers['access-control-allow-origin'])
})

t.test('request ids are taken when sane and minted otherwise', async (t) => {
  const app = host(t)
  const ask = async (id: string) =>
    (await app.inject({ method: 'GET', url: '/list', headers: { 'x-request-id': id } })).headers[
      'x-request-id'
    ]
  t.equal(await ask('trace-1:a/b'), 'trace-1:a/b')
  t.match(await ask('has space'), /^[0-9a-f-]{36}$/)
  t.match(await ask('x'.repeat(129)), /^[0-9a-f-]{36}$/)
  t.match(await ask('<script>'), /^[0-9a-f-]{36}$/)
})

t.test('bodies are read as clients send them', async (t) => {
  const app = host(t, { bodyBytesMax: 1000 })
  const post = async (payload: string | Buffer | undefined, type?: string) => {
    const answer = await app.inject({
      method: 'POST',
      url: '/echo',
      ...(payload === undefined ? {} : { payload }),
      headers: type === undefined ? {} : { 'content-type': type },
    })
    const { status, data } = answer.json()
    return status === 'ok' ? data.body : `${answer.statusCode} ${status}`
  }
  const form = 'application/x-www-form-urlencoded'
  t.same(await post(undefined), {})
  t.same(await post(undefined, 'application/json'), {})
  t.same(await post('', form), {})
  t.same(await post('', 'application/octet-stream'), {})
  t.same(await post('', ';;;'), {})
  t.same(await post('  \n', 'application/json'), {})
  t.same(await post('{"a":[1]}', 'application/json'), { a: [1] })
  t.same(await post('{"a":1}'), { a: 1 })
  t.same(await post('{"a":1}', 'text/plain;charset=UTF-8'), { a: 1 })
  t.same(await post(' {"a":"b&c=d"}', form), { a: 'b&c=d' })
  t.same(await post('a=1&b=x+y%20z', form), { a: '1', b: 'x y z' })
  t.same(await post('a=1&a=2', form), { a: { values: ['1', '2'] } })
  t.same(await post('{"a":1,"b":{"a":2,"a":3},"\\u0061":4}', 'application/json'), {
    a: { values: [] },
    b: { a: 3 },
  })
  for (const broken of ['{', 'null', '[]', '"x"', '3', '{"a":1}}', '{"a":undefined}']) {
    t.equal(await post(broken, 'application/json'), '400 error-body', broken)
  }
  t.equal(await post(Buffer.from([0x7b, 0xff, 0x7d]), 'application/json'), '400 error-body')
  t.equal(await post('<a/>', 'application/xml'), '400 error-body')
  t.equal(await post('{"a":1}', ';;;'), '400 error-body')
  t.equal(await post('--x', 'multipart/form-data; boundary=x'), '400 error-body')
  t.equal(await post(`{"a":"${'x'.repeat(1000)}"}`, 'application/json'), '413 error-bodySize')
  t.equal(await post('['.repeat(900), 'application/json'), '400 error-body')
  t.equal(({} as { polluted?: boolean }).polluted, undefined)
  await post(
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    'application/json',
  )
  t.equal(({} as { polluted?: boolean }).polluted, undefined)
})

t.test('a token counts in its place, once', async (t) => {
  const app = host(t)
  const ask = async (request: object) => {
    const answer = await app.inject(request)
    return answer.statusCode === 401 ? answer.json().status : answer.json().data.token
  }
  const bearer = { authorization: 'Bearer one' }
  t.equal(await ask({ method: 'GET', url: '/list', headers: bearer }), 'one')
  t.equal(await ask({ method: 'GET', url: '/list', headers: { authorization: 'bearer   one' } }), 'one')
  t.equal(await ask({ method: 'GET', url: '/list?token=one' }), 'one')
  t.equal(await ask({ method: 'GET', url: '/list?token=one', headers: bearer }), 'one')
  t.equal(await ask({ method: 'GET', url: '/list?token=two', headers: bearer }), 'error-token')
  t.equal(await ask({ method: 'GET', url: '/list?token=one&token=two' }), 'error-token')
  t.equal(await ask({ method: 'GET', url: '/list?token=' }), null)
  t.equal(await ask({ method: 'GET', url: '/list', headers: { authorization: 'Basic b25l' } }), null)
  t.equal(await ask({ method: 'POST', url: '/echo?token=one' }), null)
  t.equal(await ask({ method: 'POST', url: '/echo?token=two', payload: { token: 'one' } }), 'one')
  t.equal(
    await ask({ method: 'POST', url: '/echo', payload: { token: 'two' }, headers: bearer }),
    'error-token',
  )
  t.equal(await ask({ method: 'POST', url: '/echo', payload: { token: 7 } }), 'error-token')
  t.equal(await ask({ method: 'DELETE', url: '/list', payload: { token: 'one' } }), 'one')
})

t.test('addresses come from proxies only as configured', async (t) => {
  const ip = async (trustProxy: HttpHostOptions['trustProxy'], forwarded: string) => {
    const app = host(t, { trustProxy })
    const answer = await app.inject({
      method: 'POST',
      url: '/echo',
      headers: { 'x-forwarded-for': forwarded },
      remoteAddress: '10.0.0.9',
    })
    return answer.json().data.ip
  }
  t.equal(await ip(false, '1.2.3.4'), '10.0.0.9')
  t.equal(await ip(1, '6.6.6.6, 1.2.3.4'), '1.2.3.4')
  t.equal(await ip(['10.0.0.0/8'], '6.6.6.6, 1.2.3.4'), '1.2.3.4')
  t.equal(await ip(['192.168.0.0/16'], '1.2.3.4'), '10.0.0.9')
})

t.test('broken HTTP on the socket is answered by the envelope', async (t) => {
  const app = host(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const say = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.end(text)
    await once(socket, 'close')
    return { head: answer.split('\r\n')[0], body: answer.split('\r\n\r\n')[1] }
  }
  t.match(await say('HELLO\r\n\r\n'), {
    head: 'HTTP/1.1 400 Bad Request',
    body: '{"status":"error-request"}',
  })
  t.match(await say(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`), {
    head: 'HTTP/1.1 431 Request Header Fields Too Large',
    body: '{"status":"error-headerSize"}',
  })
  t.match(await say('GET /list HTTP/1.1\r\n\r\n'), { body: '{"status":"error-host"}' })
  t.match(await say('POST /echo HTTP/1.1\r\nHost: a\r\nExpect: cake\r\nConnection: close\r\n\r\n'), {
    body: '{"status":"error-expect"}',
  })
  t.match(await say('FOO /list HTTP/1.1\r\nHost: a\r\n\r\n'), { body: '{"status":"error-request"}' })
})

/** Sends bytes on a connection of its own, and keeps it open on its side. */
async function answers(port: number, bytes: string): Promise<{ text: string; closed: boolean }> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  let closed = false
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.on('end', () => {
    closed = true
  })
  socket.write(bytes)
  // A second request shows whether the connection is still open.
  await once(socket, 'data')
  if (!closed) socket.write('GET /refused HTTP/1.1\r\nHost: a\r\n\r\n')
  while (!closed && !text.includes('error-tags')) await new Promise((resolve) => setTimeout(resolve, 1))
  socket.destroy()
  return { text, closed }
}

t.test('a body whose end servers may see differently is refused, and its connection ends', async (t) => {
  const app = host(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const post = (headers: string, version = '1.1') =>
    `POST /echo HTTP/${version}\r\nHost: a\r\nContent-Type: application/json\r\n${headers}\r\n2\r\n{}\r\n0\r\n\r\n`
  for (const headers of [
    'Transfer-Encoding: gzip, chunked\r\n',
    'Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n',
    'Transfer-Encoding: identity, chunked\r\n',
    'Transfer-Encoding: , chunked\r\n',
    'Transfer-Encoding: gzip\r\n',
    'Transfer-Encoding: identity\r\n',
    'Transfer-Encoding: chunked, chunked\r\n',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
    'Transfer-Encoding: chunked;q=1\r\n',
    'Transfer-Encoding: \r\n',
    'Transfer-Encoding: chunked\r\nContent-Length: 2\r\n',
    'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n',
    'Content-Length: 2\r\nContent-Length: 2\r\n',
    'Content-Length: 2, 2\r\n',
    'Expect: cake\r\nTransfer-Encoding: gzip, chunked\r\n',
  ]) {
    const { text, closed } = await answers(port, post(headers))
    t.match(text, /^HTTP\/1\.1 400 .*\r\nConnection: close\r\n.*\{"status":"error-request"\}$/is, headers)
    t.ok(closed, headers)
  }
  for (const version of ['1.0', '0.9', '2.0', '1.2'])
    t.match(
      (await answers(port, post('Transfer-Encoding: chunked\r\n', version))).text,
      /"error-request"/,
      version,
    )
  for (const headers of ['Transfer-Encoding: chunked\r\n', 'transfer-encoding:  CHUNKED \r\n']) {
    const { text, closed } = await answers(port, post(headers))
    t.match(text, /^HTTP\/1\.1 200 /, headers)
    t.notOk(closed, headers)
  }
})

t.test('a target is a path or a URL of HTTP, and a Host is a host', async (t) => {
  const app = host(t)
  app.get('/', async () => ok({}))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const get = (target: string, name = 'a') => answers(port, `GET ${target} HTTP/1.1\r\nHost: ${name}\r\n\r\n`)
  for (const target of [
    ...['http://[', 'http://[/list', 'http://[::1', 'http://[zz]/list', 'http://[::1]x/list'],
    ...['http://', 'http:///list', 'https://?x', 'http://h:99999/list', 'http://h:x/list', 'http://h:1:2/'],
    ...[
      'http://u@/list',
      'http://u@[/list',
      'http://u@v@h/list',
      'http://h%zz/list',
      'ftp://h/list',
      'ws://h/list',
      '*',
    ],
  ]) {
    const { text, closed } = await get(target)
    t.match(text, /^HTTP\/1\.1 400 .*\r\nConnection: close\r\n.*\{"status":"error-request"\}$/is, target)
    t.ok(closed, target)
  }
  for (const target of [
    ...['/list', 'http://h/list', 'HTTPS://H:80/list?a=b', 'http://[::1]:8080/list', 'http://h:/list'],
    ...['http://h', 'http://h/', 'http://h?x=1'],
  ])
    t.match((await get(target)).text, /^HTTP\/1\.1 200 /, target)
  for (const name of [
    ...['[', ']', '[]', '[zz]', '[::1', '[::1]x', '::1', 'a:b', 'a:1:2'],
    ...['u@h', 'a/b', 'a b', 'ü'],
  ])
    t.match((await get('/list', name)).text, /^HTTP\/1\.1 400 .*\{"status":"error-host"\}/s, name)
  for (const name of [
    ...['a', 'a.b:80', 'a:', '', ':80', '1.2.3.4:5', 'a_b'],
    ...['[::1]', '[::ffff:1.2.3.4]:80', '[FE80::1%25eth0]:80'],
  ])
    t.match((await get('/list', name)).text, /^HTTP\/1\.1 200 /, name)
})

t.test('a tunnel is refused by the envelope', async (t) => {
  const app = host(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  for (const head of [
    'CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n',
    'CONNECT /list HTTP/1.1\r\nHost: a\r\n\r\nbytes of the tunnel',
    'CONNECT x:443 HTTP/1.0\r\n\r\n',
  ]) {
    const { text, closed } = await answers(port, head)
    t.match(text, /^HTTP\/1\.1 405 .*\r\nAllow: GET, .*\r\n\r\n\{"status":"error-method"\}$/s, head)
    t.ok(closed, head)
  }
  const after = await answers(port, 'GET /refused HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(after.text, /error-tags/, 'the host still answers')
})

t.test('targets of every form lead to a route or to the envelope', async (t) => {
  const app = host(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const first = async (head: string) => {
    const { text } = await answers(port, `${head}\r\n\r\n`)
    return /^HTTP\/1\.1 (\d+) /.exec(text)?.[1]
  }
  t.equal(await first('GET http://a/list HTTP/1.1\r\nHost: a'), '200')
  t.equal(await first('GET HTTPS://user:secret@other:81/list?x=1 HTTP/1.1\r\nHost: a'), '200')
  t.equal(await first('POST http://a/list HTTP/1.1\r\nHost: a'), '405')
  t.equal(await first('GET http://a HTTP/1.1\r\nHost: a'), '404')
  t.equal(await first('GET http://a?x=1 HTTP/1.1\r\nHost: a'), '404')
  t.equal(await first('GET http://a/list HTTP/1.1'), '400', 'no Host')
  t.equal(await first('GET /list HTTP/1.1\r\nHost: a b/@'), '400')
  t.equal(await first('GET /list HTTP/1.1\r\nHost: [2001:db8::1]:80'), '200')
  t.equal(await first('GET /list HTTP/1.0'), '200', 'HTTP/1.0 knows no Host')
  t.equal(await first('OPTIONS * HTTP/1.1\r\nHost: a'), '204')
  t.equal(await first('OPTIONS /list HTTP/1.1\r\nHost: a\r\nHost: b'), '400', 'as of any method')
  t.equal(await first('GET * HTTP/1.1\r\nHost: a'), '400')
  t.equal(await first('GET list HTTP/1.1\r\nHost: a'), '400')
  t.equal(await first('GET /list HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket'), '200')
  t.equal(await first('PRI * HTTP/2.0\r\n\r\nSM'), '400')
})

t.test('a preflight of a banned address is refused', async (t) => {
  const app = host(t, { isBanned: () => true })
  const preflight = await app.inject({ method: 'OPTIONS', url: '/echo' })
  t.equal(preflight.statusCode, 403)
})

t.test('metrics are labelled by route, never by path', async (t) => {
  const metrics = new Registry()
  const app = host(t, { metrics })
  await app.inject({ method: 'GET', url: '/things/secret-id' })
  await app.inject({ method: 'GET', url: '/somewhere-else' })
  const text = await metrics.metrics()
  t.match(text, 'route="/things/:id"')
  t.notMatch(text, 'secret-id')
  t.notMatch(text, 'somewhere-else')
})

t.test(
  'an answer counts at its first byte, a refusal by its status, also one without a request',
  async (t) => {
    const metrics = new Registry()
    const app = host(t, { metrics })
    app.get('/pumped', async (request, reply) => {
      takeOver(request, reply, { code: 200, headers: {} }).end('here')
      return reply
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as { port: number }
    const sample = async (name: string) => {
      const line = (await metrics.metrics()).split('\n').find((each) => each.startsWith(`${name} `))
      return Number(line?.slice(name.length) ?? 0)
    }
    const begun = () => sample('holdfast_http_first_byte_seconds_count{host="api"}')
    const refused = (status: string) => sample(`holdfast_refusals_total{host="api",status="${status}"}`)
    await app.inject('/list')
    t.equal(await begun(), 1)
    await app.inject('/pumped')
    t.equal(await begun(), 2, 'an answer with a pump of its own')
    await app.inject('/refused')
    t.equal(await begun(), 2, 'no refusal')
    t.equal(await refused('error-tags'), 1)
    await answers(port, 'HELLO\r\n\r\n')
    t.equal(await refused('error-request'), 1, 'a socket without a request')
    const expects = 'POST /echo HTTP/1.1\r\nHost: a\r\nExpect: cake\r\n'
    await answers(port, `${expects}Connection: close\r\n\r\n`)
    t.equal(await refused('error-expect'), 1)
    await answers(port, `${expects}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`)
    t.equal(await refused('error-request'), 2, 'a head that cannot be used')
  },
)

t.test('a body in pieces of a few bytes is read up to a bound, and keeps no list of them', async (t) => {
  const pieces = async (text: string, bytesMax: number) => {
    const payload = new PiecewiseRequest(new Socket())
    const reported = new Promise<string>((resolve) =>
      readBody(payload, { bytesMax, announced: undefined }, (error, body) =>
        resolve(body === undefined ? (error as RefusalError).status : body.toString()),
      ),
    )
    for (const character of text) {
      payload.push(Buffer.from(character))
      await new Promise((resolve) => setImmediate(resolve))
    }
    payload.push(null)
    return reported
  }
  t.equal(await pieces('{"a":1}', 1_000), '{"a":1}')
  t.equal(
    await pieces('x'.repeat(100), 1_000),
    'error-bodySize',
    'a hundred pieces cost more than a body of 1,000 bytes',
  )
})

t.test('a client that still sends its too large body gets the reason, not a reset', async (t) => {
  const app = host(t)
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  for (const framing of ['content-length: 4000000', 'transfer-encoding: chunked']) {
    const socket = connect(Number(port), '127.0.0.1')
    const answered: Buffer[] = []
    socket.on('data', (bytes) => answered.push(bytes))
    const ended = once(socket, 'close') as Promise<[hadError: boolean]>
    socket.write(`POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`)
    const piece = Buffer.alloc(40_000, ' ')
    for (let sent = 0; sent < 100; sent++) {
      const chunk = framing.includes('chunked')
        ? [`${piece.length.toString(16)}\r\n`, piece, '\r\n']
        : [piece]
      for (const part of chunk) socket.write(part)
      await new Promise((later) => setTimeout(later, 2))
      if (sent === 90) t.notOk(socket.destroyed || socket.readableEnded, `${framing}: it is still read`)
    }
    if (framing.includes('chunked')) socket.write('0\r\n\r\n')
    t.same(await ended, [false], framing)
    t.match(Buffer.concat(answered).toString(), /^HTTP\/1\.1 413 [\s\S]*\{"status":"error-bodySize"\}$/)
  }
})

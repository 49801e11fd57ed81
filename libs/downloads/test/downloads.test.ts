import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { signCapability } from '@holdfast/access'
import { BlobFault, type BlobStore, MemoryBlobStore } from '@holdfast/blob-store'
import { systemClock } from '@holdfast/kernel'
import { blank, CreateFolder, type Item, type UpdateContent } from '@holdfast/wire'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { OneProcess, type OneProcessOptions } from '../../../test/support/one-process.ts'

async function start(t: Test, options?: OneProcessOptions): Promise<OneProcess> {
  const process = await OneProcess.start(options)
  t.teardown(() => process.close())
  return process
}

interface Answer {
  code: number
  headers: IncomingMessage['headers']
  body: Buffer
}

async function get(
  process: OneProcess,
  path: string,
  { headers = {}, method = 'GET' }: { headers?: OutgoingHttpHeaders; method?: string } = {},
): Promise<Answer> {
  const outgoing = request({ port: process.downloadPort, path, method, headers, agent: false })
  outgoing.end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { code: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
}

const statusOf = ({ code, body }: Answer) => [code, JSON.parse(body.toString()).status]

/** A file in a new public folder, or in the one given. */
async function addFile(
  process: OneProcess,
  token: string,
  {
    bytes,
    name = 'a.bin',
    type = 'application/octet-stream',
    folderId,
    modTime,
  }: { bytes: Buffer; name?: string; type?: string; folderId?: string; modTime?: number },
): Promise<Item> {
  const stage = await process.blobs.stage()
  await stage.write(bytes)
  const info = await stage.commit({ pinMs: 60_000 })
  const blob = {
    ...info,
    id: Buffer.from(info.id),
    incarnation: Buffer.from(info.incarnation),
    placementGroup: 0,
  }
  const value = { createAccount: undefined, folderId, name, mimetype: type, blob, modTime }
  const { item } = await process.ask(token, 'content', { $case: 'addFile', value })
  if (!item) throw new Error('no item')
  return item
}

function update(
  process: OneProcess,
  token: string,
  contentId: string,
  attribute: UpdateContent['attribute'],
) {
  return process.ask(token, 'content', {
    $case: 'updateContent',
    value: { contentId, attribute },
  })
}

const modTime = 1_500_000_000

t.test('a file is sent whole, with the headers that a client needs to cache it', async (t) => {
  const process = await start(t)
  const { token } = await process.newAccount()
  const bytes = randomBytes(300_000)
  const item = await addFile(process, token, { bytes, name: 'ü "q".html', type: 'text/html', modTime })
  const path = `/download/${item.id}/another%2Fname`
  const whole = await get(process, path)
  t.equal(whole.code, 200)
  t.ok(whole.body.equals(bytes))
  t.match(whole.headers, {
    'content-type': 'text/html',
    'content-length': '300000',
    'accept-ranges': 'bytes',
    etag: `"${item.blob?.id.toString('hex', 16)}"`,
    'last-modified': new Date(modTime * 1000).toUTCString(),
    'content-disposition': `attachment; filename="_ _q_.html"; filename*=UTF-8''%C3%BC%20%22q%22.html`,
    'x-content-type-options': 'nosniff',
    'access-control-allow-origin': '*',
    'cache-control': 'private, no-cache',
  })
  t.match(whole.headers['content-security-policy'], /sandbox/)
  t.ok(whole.headers['x-request-id'])
  for (const other of [
    `/download/${item.id}`,
    `/download/${item.id}/`,
    `/download/${item.id.toUpperCase()}/x/y`,
  ]) {
    t.equal((await get(process, other)).body.length, bytes.length, other)
  }
  const head = await get(process, path, { method: 'HEAD' })
  const volatile = { date: '', 'x-request-id': '' }
  t.same({ ...head.headers, ...volatile }, { ...whole.headers, ...volatile }, 'HEAD says the same')
  t.equal(head.body.length, 0)
  const empty = await addFile(process, token, { bytes: Buffer.alloc(0) })
  t.match(await get(process, `/download/${empty.id}/x`, { headers: { range: 'bytes=0-' } }), {
    code: 200,
    headers: { 'content-length': '0' },
  })
})

t.test('unknown paths and content get the envelope', async (t) => {
  const process = await start(t)
  const { id } = await process.newAccount()
  for (const path of [
    '/',
    '/download',
    '/download/web/x/y',
    '/download/x',
    '/direct/x/y/z',
    '/other',
    '/download/%zz',
    `/download/${process.keyring.ids.content(id)}/x`,
    '/download/00000000-0000-4000-8000-000000000000/x',
    `/direct/${process.keyring.ids.content(id)}/00000000-0000-4000-8000-000000000000/x`,
  ]) {
    t.same(statusOf(await get(process, path)), [404, 'error-notFound'], path)
  }
  t.same(
    statusOf(await get(process, `/download/${process.keyring.ids.content(id)}/x`, { method: 'DELETE' })),
    [405, 'error-method'],
  )
  const preflight = await get(process, '/download/x/y', { method: 'OPTIONS' })
  t.match(preflight.headers['access-control-allow-headers'], /Range/)
})

t.test('any range is that part of the file', async (t) => {
  const process = await start(t)
  const { token } = await process.newAccount()
  const bytes = randomBytes(200_000)
  const item = await addFile(process, token, { bytes, modTime })
  const path = `/download/${item.id}/a`
  const ask = (range: string, headers: OutgoingHttpHeaders = {}) =>
    get(process, path, { headers: { range, ...headers } })
  const number = fc.nat(210_000)
  await fc.assert(
    fc.asyncProperty(number, number, async (a, b) => {
      const [first, last] = a < b ? [a, b] : [b, a]
      const { code, headers, body } = await ask(`bytes=${first}-${last}`)
      if (first >= bytes.length) return code === 416 && headers['content-range'] === 'bytes */200000'
      const end = Math.min(last + 1, bytes.length)
      return (
        code === 206 &&
        headers['content-range'] === `bytes ${first}-${end - 1}/200000` &&
        headers['content-length'] === String(end - first) &&
        body.equals(bytes.subarray(first, end))
      )
    }),
    { numRuns: 60 },
  )
  const last = await ask('bytes=-5')
  t.ok(last.body.equals(bytes.subarray(-5)))
  t.same(statusOf(await ask('bytes=200000-')), [416, 'error-range'])

  const several = await ask('bytes=0-9, 100-199, -3')
  t.equal(several.code, 206)
  const boundary = /^multipart\/byteranges; boundary=(.+)$/.exec(several.headers['content-type'] ?? '')?.[1]
  t.equal(several.headers['content-length'], String(several.body.length))
  const expected = [
    [0, 10],
    [100, 200],
    [199_997, 200_000],
  ].map(([start = 0, end = 0]) =>
    Buffer.concat([
      Buffer.from(
        `\r\n--${boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ${start}-${end - 1}/200000\r\n\r\n`,
      ),
      bytes.subarray(start, end),
    ]),
  )
  t.ok(several.body.equals(Buffer.concat([...expected, Buffer.from(`\r\n--${boundary}--\r\n`)])))

  const etag = last.headers.etag ?? ''
  const date = last.headers['last-modified'] ?? ''
  const codes = async (headers: OutgoingHttpHeaders) => {
    const { code, body } = await get(process, path, { headers })
    return [code, body.length]
  }
  t.same(await codes({ range: 'bytes=0-9', 'if-range': etag }), [206, 10])
  t.same(await codes({ range: 'bytes=0-9', 'if-range': '"other"' }), [200, 200_000])
  t.same(await codes({ range: 'bytes=0-9', 'if-range': date }), [206, 10])
  t.same(await codes({ range: 'bytes=0-9', 'if-range': new Date().toUTCString() }), [200, 200_000])
  t.same(await codes({ 'if-none-match': etag }), [304, 0])
  t.same(await codes({ 'if-modified-since': date }), [304, 0])
  t.same((await codes({ 'if-match': '"other"' }))[0], 412)
})

t.test('a caller with read access may download, at the time of the download', async (t) => {
  const process = await start(t)
  const { id, token, root } = await process.newAccount()
  const stranger = await process.newAccount()
  const { item: folder } = await process.ask(token, 'content', {
    $case: 'createFolder',
    value: { ...blank(CreateFolder), parentFolderId: root, isPublic: false },
  })
  const folderId = folder?.id ?? ''
  const item = await addFile(process, token, { bytes: Buffer.from('secret'), folderId })
  const path = `/download/${item.id}/a`
  const bad = `${token.slice(0, -4)}AAAA`
  const ask = (query = '', headers: OutgoingHttpHeaders = {}) => get(process, `${path}${query}`, { headers })
  const capability = (details: Partial<Parameters<typeof signCapability>[1]> = {}) =>
    `?c=${signCapability(process.keyring.derive('capability'), { folderId, ends: Date.now() / 1000 + 100, ownerTokenCounter: undefined, passwordVersion: new Uint8Array(0), ...details })}`

  t.same(statusOf(await ask()), [401, 'error-notOwner'])
  t.same(statusOf(await ask('', { authorization: `Bearer ${stranger.token}` })), [401, 'error-notOwner'])
  t.same(statusOf(await ask('', { authorization: `Bearer ${bad}` })), [401, 'error-token'])
  t.same(statusOf(await ask('?token=x')), [401, 'error-token'])
  t.same(statusOf(await ask(`?token=${token}`, { authorization: `Bearer ${stranger.token}` })), [
    401,
    'error-token',
  ])
  t.same(
    statusOf(await ask('', { cookie: `accountToken=${bad}` })),
    [401, 'error-notOwner'],
    'a stale cookie is none',
  )
  t.same(
    statusOf(await ask(capability())),
    [401, 'error-notOwner'],
    "a visitor's capability outlives no privacy",
  )
  for (const [why, query, headers] of [
    ['Bearer', '', { authorization: `Bearer ${token}` }],
    ['query', `?token=${token}`, {}],
    ['cookie', '', { cookie: `a=b; accountToken=${token}; c=d` }],
    ["owner's capability", capability({ ownerTokenCounter: 0 }), {}],
    [
      "owner's capability and a bad token",
      capability({ ownerTokenCounter: 0 }),
      { authorization: `Bearer ${bad}` },
    ],
    ['forged capability and a good token', '?c=AAAA', { authorization: `Bearer ${token}` }],
    [
      'capability of another counter and a good token',
      capability({ ownerTokenCounter: 7 }),
      { authorization: `Bearer ${token}` },
    ],
  ] as const) {
    t.equal((await ask(query, headers)).body.toString(), 'secret', why)
  }
  t.same(statusOf(await ask(capability({ ownerTokenCounter: 0, ends: 1 }))), [401, 'error-notOwner'], 'over')
  t.same(
    statusOf(await ask(capability({ ownerTokenCounter: 0, folderId: root }))),
    [401, 'error-notOwner'],
    'of another folder',
  )

  await update(process, token, folderId, { $case: 'isPublic', value: true })
  t.equal((await ask()).body.toString(), 'secret', 'refusals are not remembered')
  await update(process, token, folderId, { $case: 'isPublic', value: false })
  const changed = performance.now()
  while ((await ask()).code === 200) await delay(50)
  t.ok(performance.now() - changed < 3_000, 'a change for visitors holds within 3 s')

  await process.ask(token, 'done', { $case: 'resetToken', value: { tokenKeyId: 1 } })
  t.same(
    statusOf(await ask('', { authorization: `Bearer ${token}` })),
    [401, 'error-token'],
    'a reset token ends at once',
  )
  t.same(
    statusOf(await ask(capability({ ownerTokenCounter: 0 }))),
    [401, 'error-notOwner'],
    'and so do links given to it',
  )
  t.equal(process.keyring.ids.accountOf(item.id), id)
})

t.test('visitors get nothing from the second of an expiry on, at any level above the file', async (t) => {
  let nowMs = Date.now()
  const process = await start(t, { clock: { ...systemClock, now: () => nowMs } })
  const { token, root } = await process.newAccount()
  const add = async (parentFolderId: string) => {
    const value = { ...blank(CreateFolder), parentFolderId, isPublic: true }
    return (await process.ask(token, 'content', { $case: 'createFolder', value })).item?.id ?? ''
  }
  const above = await add(root)
  const folderId = await add(above)
  const item = await addFile(process, token, { bytes: Buffer.from('while it lasts'), folderId })
  const path = `/download/${item.id}/a`
  const expiry = Math.floor(nowMs / 1000) + 2
  await update(process, token, above, { $case: 'expiry', value: { expiry, deleteAfterExpiry: false } })
  t.equal((await get(process, path)).code, 200)
  nowMs = expiry * 1000 - 1
  t.equal((await get(process, path)).code, 200, 'remembered')
  nowMs += 1
  t.same(statusOf(await get(process, path)), [404, 'error-notFound'])
})

t.test('downloads and traffic are counted once, and reports survive lost answers', async (t) => {
  const losses = ['the question', 'the answer']
  const process = await OneProcess.start({
    accounts: (real) => ({
      async call(ask, options) {
        const loss = ask.operation?.$case === 'reportDownloads' ? losses.shift() : undefined
        if (loss === 'the question') throw new Error('lost')
        const reply = await real.call(ask, options)
        if (loss === 'the answer') throw new Error('lost')
        return reply
      },
    }),
  })
  const { token } = await process.newAccount()
  const item = await addFile(process, token, { bytes: randomBytes(1_000) })
  const path = `/download/${item.id}/a`
  const { etag } = (await get(process, path)).headers
  await get(process, path, { headers: { range: 'bytes=0-99' } })
  await get(process, path, { headers: { range: 'bytes=500-599,0-9' } })
  await get(process, path, { headers: { range: 'bytes=100-199' } })
  await get(process, path, { method: 'HEAD' })
  await get(process, path, { headers: { 'if-none-match': etag } })
  await get(process, path, { headers: { range: 'bytes=5000-' } })
  const seen = async () =>
    (
      await process.ask(token, 'file', {
        $case: 'openFile',
        value: { contentId: item.id, password: undefined },
      })
    ).item?.downloads
  const asked = performance.now()
  while ((await seen()) !== 3 && performance.now() - asked < 6_000) await delay(50)
  t.equal(await seen(), 3)
  await get(process, path)
  t.same(losses, [])
  await process.downloads.close()
  t.equal(await seen(), 4, 'and the rest at the close')
  const account = await process.ask(token, 'account', { $case: 'getAccount', value: {} })
  t.ok(
    account.trafficWeb > 1_000 + 100 + 110 + 100 + 1_000 && account.trafficWeb < 3_000,
    `${account.trafficWeb} bytes`,
  )
  t.equal(account.trafficDirect, 0)
  t.equal(await process.metric('holdfast_download_bytes_total', { traffic: 'web' }), account.trafficWeb)
  await process.close()
})

/** Behaves as the test says during reads. */
class TestStore extends MemoryBlobStore {
  reading:
    | ((bytes: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined) => AsyncIterable<Uint8Array>)
    | undefined

  override read(...[blob, range, options]: Parameters<BlobStore['read']>): AsyncIterable<Uint8Array> {
    const bytes = super.read(blob, range, options)
    return this.reading?.(bytes, options?.signal) ?? bytes
  }
}

t.test('a fault before the first byte is an answer, one after it cuts the connection', async (t) => {
  const blobs = new TestStore()
  const process = await start(t, { blobs })
  const { token } = await process.newAccount()
  const item = await addFile(process, token, { bytes: randomBytes(1_000_000) })
  const path = `/download/${item.id}/a`
  blobs.reading = async function* () {
    yield* []
    throw new BlobFault('IO', 'a disk is out of reach')
  }
  t.same(statusOf(await get(process, path)), [503, 'error-unavailable'])
  blobs.reading = async function* () {
    yield* []
    throw new BlobFault('CORRUPT', 'bits have rotted')
  }
  t.same(statusOf(await get(process, path)), [500, 'error-internal'])
  for (const [why, reading] of [
    [
      'corrupt',
      async function* (bytes: AsyncIterable<Uint8Array>) {
        let sent = 0
        for await (const chunk of bytes) {
          if (sent++ === 3) throw new BlobFault('CORRUPT', 'bits have rotted')
          yield chunk
        }
      },
    ],
    [
      'short',
      async function* (bytes: AsyncIterable<Uint8Array>) {
        let sent = 0
        for await (const chunk of bytes) if (sent++ < 3) yield chunk
      },
    ],
  ] as const) {
    blobs.reading = reading
    await t.rejects(
      get(process, path, { headers: { connection: 'keep-alive' } }),
      { code: 'ECONNRESET' },
      why,
    )
  }
  blobs.reading = undefined
  t.equal((await get(process, path)).body.length, 1_000_000)
})

t.test('pieces belong to the store again once the next is requested', async (t) => {
  const blobs = new TestStore()
  const process = await start(t, { blobs })
  const { token } = await process.newAccount()
  const bytes = randomBytes(5_000_000)
  const item = await addFile(process, token, { bytes })
  blobs.reading = async function* (source) {
    const shared = Buffer.alloc(1024 * 1024)
    for await (const chunk of source) {
      shared.set(chunk)
      yield shared.subarray(0, chunk.length)
      shared.fill(0)
    }
  }
  // A reader that begins late, so that the socket is full.
  const outgoing = request({ port: process.downloadPort, path: `/download/${item.id}/a`, agent: false })
  outgoing.end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  await delay(100)
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  t.ok(Buffer.concat(chunks).equals(bytes))
})

t.test('a slow reader holds little, one that closes frees everything at once', async (t) => {
  const blobs = new TestStore()
  const process = await start(t, { blobs })
  const { token } = await process.newAccount()
  const item = await addFile(process, token, { bytes: Buffer.alloc(64 * 1024 * 1024) })
  let pulled = 0
  const freed = Promise.withResolvers<boolean>()
  blobs.reading = async function* (source, signal) {
    try {
      for await (const chunk of source) {
        pulled += chunk.length
        yield chunk
      }
    } finally {
      freed.resolve(signal?.aborted === true)
    }
  }
  const socket = connect(process.downloadPort, '127.0.0.1')
  socket.pause()
  socket.write(`GET /download/${item.id}/a HTTP/1.1\r\nHost: x\r\n\r\n`)
  let before = -1
  while (pulled !== before || pulled === 0) {
    before = pulled
    await delay(100)
  }
  t.ok(pulled < 16 * 1024 * 1024, `${pulled} bytes are on their way`)
  socket.destroy()
  t.equal(await freed.promise, true, 'the signal says that the bytes are no longer wanted')
})

t.test('the last small segment of a body does not wait for an acknowledgement', async (t) => {
  const blobs = new TestStore()
  blobs.reading = async function* (source) {
    for await (const bytes of source) {
      yield bytes.subarray(0, 5_000)
      yield bytes.subarray(5_000)
    }
  }
  const process = await start(t, { blobs })
  const { token } = await process.newAccount()
  const file = await addFile(process, token, { bytes: randomBytes(5_010) })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const times: number[] = []
  for (let at = 0; at < 40; at++) {
    const begunMs = performance.now()
    const outgoing = request({ port: process.downloadPort, path: `/download/${file.id}/x`, agent })
    outgoing.end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    let bytes = 0
    for await (const chunk of response) bytes += (chunk as Buffer).length
    t.equal(bytes, 5_010)
    times.push(performance.now() - begunMs)
  }
  // A client acknowledges late once a connection is some packets old: each answer would then take
  // 40 ms.
  t.ok(Math.min(...times.slice(20)) < 30, `${times.slice(20).map(Math.round)} ms`)
})

t.test('a close lets running downloads end, within its time', async (t) => {
  const blobs = new TestStore()
  const process = await OneProcess.start({ blobs, drainMs: 300 })
  const { token } = await process.newAccount()
  const item = await addFile(process, token, { bytes: Buffer.alloc(1_000_000, 1) })
  const port = process.downloadPort
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  blobs.reading = async function* (source) {
    let first = true
    for await (const chunk of source) {
      if (!first) {
        reached.resolve()
        await gate.promise
      }
      first = false
      yield chunk
    }
  }
  const running = get(process, `/download/${item.id}/a`, { headers: { connection: 'keep-alive' } })
  await reached.promise
  const closed = process.downloads.close()
  await delay(50)
  const late = connect(port, '127.0.0.1')
  const [refused] = (await once(late, 'error')) as [Error & { code: string }]
  t.equal(refused.code, 'ECONNREFUSED', 'no new request is admitted')
  gate.resolve()
  t.equal((await running).body.length, 1_000_000)
  await closed
  await process.close()

  const cut = await OneProcess.start({ blobs: new TestStore(), drainMs: 50 })
  const owner = await cut.newAccount()
  const never = await addFile(cut, owner.token, { bytes: Buffer.alloc(1_000_000, 1) })
  const store = cut.blobs as TestStore
  const begun = Promise.withResolvers<void>()
  store.reading = async function* (source) {
    for await (const chunk of source) {
      yield chunk
      begun.resolve()
      await new Promise(() => {})
    }
  }
  const hanging = get(cut, `/download/${never.id}/a`)
  hanging.catch(() => undefined)
  await begun.promise
  await cut.downloads.close()
  await t.rejects(hanging, { code: 'ECONNRESET' })
  await cut.close()
})

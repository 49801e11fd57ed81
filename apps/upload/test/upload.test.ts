import { createHash, randomBytes } from 'node:crypto'
import { type EventEmitter, once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import process_ from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { AccountsUnavailable } from '@holdfast/accounts'
import { MemoryBlobStore } from '@holdfast/blob-store'
import t, { type Test } from 'tap'
import { OneProcess, type OneProcessOptions } from '../../../test/support/one-process.ts'

const boundary = 'xXxBOUNDARYxXx'
const formType = `multipart/form-data; boundary=${boundary}`

type Piece = [name: string, value: string | Buffer, fileName?: string, type?: string]

function form(...pieces: Piece[]): Buffer {
  const parts = pieces.flatMap(([name, value, fileName, type]) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${fileName === undefined ? '' : `; filename="${fileName}"`}\r\n` +
        `${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`,
    ),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

interface Answer {
  code: number
  status: string
  // biome-ignore lint/suspicious/noExplicitAny: the tests inspect answers
  data: any
  headers: IncomingMessage['headers']
}

async function post(
  process: OneProcess,
  body: Buffer | string | AsyncIterable<Buffer>,
  { path = '/uploadfile', headers = {} }: { path?: string; headers?: OutgoingHttpHeaders } = {},
): Promise<Answer> {
  const outgoing = request({
    port: process.uploadPort,
    method: 'POST',
    path,
    headers: { 'content-type': formType, connection: 'close', ...headers },
  })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  answered.catch(() => undefined)
  if (typeof body === 'string' || Buffer.isBuffer(body)) outgoing.end(body)
  else {
    let done = false
    outgoing.once('response', () => {
      done = true
    })
    outgoing.on('error', () => {})
    for await (const chunk of body) {
      if (done) break
      if (!outgoing.write(chunk)) await eitherOf(outgoing, 'drain', 'response', 'close')
    }
    outgoing.end()
  }
  const [response] = await answered
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const json = JSON.parse(Buffer.concat(chunks).toString())
  return { code: response.statusCode ?? 0, status: json.status, data: json.data, headers: response.headers }
}

/** Resolves with the first of these events; ignores errors. */
function eitherOf(emitter: EventEmitter, ...names: string[]): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const name of names) emitter.off(name, done)
      resolve()
    }
    for (const name of names) emitter.on(name, done)
  })
}

async function start(t: Test, options?: OneProcessOptions): Promise<OneProcess> {
  const process = await OneProcess.start(options)
  t.teardown(() => process.close())
  return process
}

async function bytesOf(process: OneProcess, token: string, id: string): Promise<Buffer> {
  const { item } = await process.ask(token, 'file', {
    $case: 'openFile',
    value: { contentId: id, password: undefined },
  })
  const blob = item?.blob
  if (!blob) throw new Error('no blob')
  const chunks: Buffer[] = []
  for await (const chunk of process.blobs.read(blob, { start: 0, end: blob.size }))
    chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

/** Nothing is staged and this many blobs exist; waits for cleanups. */
async function holds(t: Test, process: OneProcess, blobs: number, why: string): Promise<void> {
  for (let turn = 0; turn < 200 && (await process.blobs.usage()).openStages > 0; turn++) await delay(10)
  const usage = await process.blobs.usage()
  t.same([usage.openStages, usage.blobs], [0, blobs], why)
}

const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest('hex')

t.test('without a token an upload makes an account, a public folder and the file', async (t) => {
  const process = await start(t)
  const first = await post(process, form(['file', 'hello', 'größe 😀.txt', 'text/plain']))
  t.equal(first.code, 200)
  const { data } = first
  t.match(data, {
    type: 'file',
    name: 'größe 😀.txt',
    size: 5,
    md5: md5(Buffer.from('hello')),
    mimetype: 'text/plain',
  })
  t.match(data, {
    servers: ['store1'],
    downloadPage: `http://web.test/d/${data.parentFolderCode}`,
    downloads: 0,
  })
  t.match(data.code, /^[A-Za-z0-9]{8}$/)
  t.match(data.guestToken, /^[\w-]{64}$/)
  t.equal((await bytesOf(process, data.guestToken, data.id)).toString(), 'hello')

  const second = await post(
    process,
    form(['token', data.guestToken], ['folderId', data.parentFolder], ['file', 'again', 'b']),
  )
  t.equal(second.data.parentFolder, data.parentFolder)
  t.notOk('guestToken' in second.data)
  const folder = await process.ask(data.guestToken, 'content', {
    $case: 'readContent',
    value: {
      contentId: data.parentFolder,
      page: 1,
      pageSize: 9,
      sortField: 1,
      ascending: true,
      contentFilter: '',
      maxDepth: 1,
      password: undefined,
      contentName: undefined,
      columns: undefined,
    },
  })
  t.match(folder.item, { isPublic: true, name: data.parentFolderCode })
  t.equal(folder.item?.children.length, 2)
})

t.test('fields come in any order, before and after the file, under all three paths', async (t) => {
  const process = await start(t)
  const { token, id } = await process.newAccount()
  const made = await post(process, form(['file', 'x', 'x.bin']), {
    headers: { authorization: `Bearer ${token}` },
  })
  const folderId = made.data.parentFolder
  const file: Piece = ['file', 'bytes', 'x.bin', 'application/octet-stream']
  const fields: Piece[] = [
    ['folderId', folderId],
    ['token', token],
    ['modTime', '1500000000'],
    ['unknown', 'x'.repeat(100_000)],
    ['other file', 'y'.repeat(100_000), 'other.txt'],
    ['__proto__', 'z'],
  ]
  for (const [at, path] of [
    '/uploadfile',
    '/uploadFile/',
    '/contents/uploadfile',
    '/uploadfile/',
  ].entries()) {
    const answer = await post(process, form(...fields.slice(0, at * 2), file, ...fields.slice(at * 2)), {
      path,
    })
    t.match(
      answer,
      { code: 200, data: { parentFolder: folderId, modTime: 1500000000, size: 5 } },
      `${path} ${at * 2}`,
    )
    t.notOk('guestToken' in answer.data)
    t.equal(process.keyring.ids.accountOf(answer.data.id), id)
  }
  const empty = await post(process, form(['folderId', ''], ['token', token], file))
  t.not(empty.data.parentFolder, folderId, 'an empty folderId is none')
  const both = await post(process, form(['token', token], file), {
    headers: { authorization: `Bearer ${token}` },
  })
  t.equal(both.code, 200, 'the same token twice')
})

t.test('bytes arrive as they were sent, from none to many', async (t) => {
  const process = await start(t)
  const { token } = await process.newAccount()
  const headers = { authorization: `Bearer ${token}` }
  for (const size of [0, 1, 65_535, 65_536, 3_000_001]) {
    const bytes = randomBytes(size)
    const { data } = await post(process, form(['file', bytes, 'r']), { headers })
    t.match(data, { size, md5: md5(bytes) })
    t.ok(bytes.equals(await bytesOf(process, token, data.id)))
  }
  const hash = createHash('md5')
  const size = 64 * 1024 * 1024
  async function* large() {
    const whole = form(['file', '@@', 'large.iso'])
    const at = whole.indexOf('@@')
    yield whole.subarray(0, at)
    const block = randomBytes(1024 * 1024)
    for (let sent = 0; sent < size; sent += block.length) {
      block.writeUInt32LE(sent, 0)
      const chunk = Buffer.from(block)
      hash.update(chunk)
      yield chunk
    }
    yield whole.subarray(at + 2)
  }
  const { data } = await post(process, large(), { headers })
  t.match(data, { size, md5: hash.digest('hex'), mimetype: 'application/x-iso9660-image' })
})

t.test('a refused upload leaves nothing and gets the reason', async (t) => {
  const process = await start(t)
  const { token, root } = await process.newAccount()
  const other = await process.newAccount()
  const bad = `${token.slice(0, -4)}AAAA`
  const file: Piece = ['file', 'x', 'x']
  const bearer = { authorization: `Bearer ${token}` }
  const cases: [why: string, status: string, code: number, body: Buffer, headers?: OutgoingHttpHeaders][] = [
    ['no file', 'error-file', 400, form(['token', token])],
    ['no file and a bad token', 'error-token', 401, form(['token', bad])],
    ['a field named file', 'error-file', 400, form(['token', token], ['file', 'x'])],
    ['an empty file name', 'error-file', 400, form(['token', token], ['file', 'x', ''])],
    ['two files', 'error-file', 400, form(['token', token], file, file)],
    [
      'two files and two folders',
      'error-file',
      400,
      form(['folderId', root], file, ['folderId', root], file),
      bearer,
    ],
    ['two files, without a token', 'error-file', 400, form(file, file)],
    ['a folder without a token', 'error-token', 401, form(['folderId', root], file)],
    ['a folder without a token, after the file', 'error-token', 401, form(file, ['folderId', root])],
    ['a bad token', 'error-token', 401, form(['token', bad], file)],
    ['a bad token after the file', 'error-token', 401, form(file, ['token', bad])],
    ['no token at all in the field', 'error-token', 401, form(['token', 'x'], file)],
    ['two tokens', 'error-token', 401, form(['token', token], ['token', bad], file)],
    ['another token in the header', 'error-token', 401, form(['token', other.token], file), bearer],
    ['a header that is no token', 'error-token', 401, form(file), { authorization: token }],
    ['an empty bearer', 'error-token', 401, form(file), { authorization: 'Bearer ' }],
    ['a folder that is no UUID', 'error-folderId', 400, form(['folderId', 'AbCd1234'], file), bearer],
    ['two folders', 'error-folderId', 400, form(['folderId', root], ['folderId', other.root], file), bearer],
    ['one folder twice', 'error-folderId', 400, form(['folderId', root], ['folderId', root], file), bearer],
    ['one token twice', 'error-token', 401, form(['token', token], ['token', token], file)],
    ['a bad folder and a bad token', 'error-token', 401, form(['folderId', 'x'], ['token', bad], file)],
    [
      'an unknown folder',
      'error-notFound',
      404,
      form(['folderId', process.keyring.ids.content(other.id)], file),
      bearer,
    ],
    [
      'an unavailable folder',
      'error-notFound',
      404,
      form(['folderId', '00000000-0000-4000-8000-000000000000'], file),
      bearer,
    ],
    ["another's folder", 'error-notOwner', 401, form(['folderId', other.root], file), bearer],
    ["another's folder, after the file", 'error-notOwner', 401, form(file, ['folderId', other.root]), bearer],
    ['a bad time', 'error-modTime', 400, form(file, ['modTime', 'yesterday']), bearer],
    ['two times, one empty', 'error-modTime', 400, form(file, ['modTime', '7'], ['modTime', '']), bearer],
    ['a time in milliseconds', 'error-modTime', 400, form(file, ['modTime', '253402300800']), bearer],
    ['a key that is none', 'error-idempotencyKey', 400, form(file), { 'idempotency-key': 'ü' }],
    ['no form', 'error-body', 400, Buffer.from('{}'), { 'content-type': 'application/json' }],
    ['broken JSON', 'error-body', 400, Buffer.from('{'), { 'content-type': 'application/json' }],
    ['a form without a boundary', 'error-body', 400, form(file), { 'content-type': 'multipart/form-data' }],
    [
      'another boundary',
      'error-body',
      400,
      form(file),
      { 'content-type': 'multipart/form-data; boundary=y' },
    ],
    ['a cut form', 'error-body', 400, form(file).subarray(0, -12)],
    ['nothing', 'error-file', 400, Buffer.alloc(0), { 'content-type': undefined as unknown as string }],
    ['an empty form body', 'error-body', 400, Buffer.alloc(0)],
  ]
  for (const [why, status, code, body, headers = {}] of cases) {
    const clean = Object.fromEntries(
      Object.entries({ 'content-type': formType, ...headers }).filter(([, value]) => value),
    )
    const outgoing = request({
      port: process.uploadPort,
      method: 'POST',
      path: '/uploadfile',
      headers: { ...clean, connection: 'close' },
    })
    outgoing.end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    let text = ''
    for await (const chunk of response) text += chunk
    t.same([response.statusCode, text], [code, JSON.stringify({ status })], why)
  }
  await holds(t, process, 0, 'nothing was kept')
  const made = await post(process, form(file), { headers: bearer })
  const fileAsFolder = await post(process, form(['folderId', made.data.id], file), { headers: bearer })
  t.match(fileAsFolder, { code: 400, status: 'error-folderId' })
  for (const method of ['GET', 'PUT']) {
    const response = await fetch(`http://127.0.0.1:${process.uploadPort}/uploadfile`, { method })
    t.same([response.status, await response.json()], [405, { status: 'error-method' }])
  }
  const lost = await post(process, form(file), { path: '/other' })
  t.match(lost, { code: 404, status: 'error-notFound' })
})

t.test('a full account is refused before its bytes are read', async (t) => {
  const process = await start(t, { contentsMax: 3 })
  const { token } = await process.newAccount()
  const made = await post(process, form(['token', token], ['file', 'x', 'x']))
  t.equal(made.code, 200)
  const into: Piece[] = [
    ['token', token],
    ['folderId', made.data.parentFolder],
  ]
  t.equal((await post(process, form(...into, ['file', 'y', 'y']))).code, 200)
  const answer = await post(process, endless(...into))
  t.match(answer, { code: 403, status: 'error-limits', headers: { connection: 'close' } })
  await holds(t, process, 2, 'nothing more, although the last upload was allowed a moment ago')
})

t.test('a file past the largest is refused, by its announced length or when it passes it', async (t) => {
  const process = await start(t, { upload: { fileBytesMax: 100_000 } })
  const tooLarge = { code: 413, status: 'error-fileSize' }
  const exact = Buffer.alloc(100_000, 1)
  t.match(await post(process, form(['file', exact, 'x'])), { code: 200, data: { size: 100_000 } })
  t.match(await post(process, form(['file', Buffer.alloc(100_001), 'x'])), tooLarge)
  t.match(await post(process, endless()), tooLarge, 'without a length')
  const announced = { 'content-length': 5_000_000 }
  t.match(await post(process, endless(), { headers: announced }), tooLarge)
  const silent = await raw(process, head(5_000_000))
  await eitherOf(silent.socket, 'data')
  t.match(silent.text(), /^HTTP\/1\.1 413 /, 'before any of it arrives')
  silent.socket.destroy()
  await holds(t, process, 1, 'nothing of the refused ones')
  const stored = await process.metric('holdfast_upload_bytes_total', { outcome: 'stored' })
  t.equal(Math.floor(stored / 1_000), 100, 'the form of the one that was stored')
})

t.test('where guests may not upload, an upload needs the token of another account', async (t) => {
  const process = await start(t, { upload: { guestUploads: false } })
  const guest = await process.newAccount()
  const known = await process.newAccount('premium')
  const file: Piece = ['file', 'x', 'x']
  t.match(await post(process, form(file)), { code: 401, status: 'error-token' })
  t.match(await post(process, endless()), { code: 401, status: 'error-token' }, 'before the file ends')
  t.match(await post(process, form(['token', guest.token], file)), { code: 403, status: 'error-forbidden' })
  const into: Piece[] = [
    ['token', guest.token],
    ['folderId', guest.root],
  ]
  t.match(await post(process, form(file, ...into)), { code: 403, status: 'error-forbidden' })
  await holds(t, process, 0, 'nothing of the refused ones')
  t.match(await post(process, form(file, ['token', known.token])), { code: 200 })
})

/** A form with these fields and then a file that does not end while a reader listens. */
async function* endless(...fields: Piece[]): AsyncGenerator<Buffer> {
  const whole = form(...fields, ['file', '@@', 'endless'])
  yield whole.subarray(0, whole.indexOf('@@'))
  for (let sent = 0; sent < 500; sent++) yield Buffer.alloc(64 * 1024, 1)
}

t.test('a client that is still sending sees an early refusal', async (t) => {
  const process = await start(t)
  const { token } = await process.newAccount()
  const bad = `${token.slice(0, -4)}AAAA`
  const answer = await post(process, endless(), { headers: { authorization: `Bearer ${bad}` } })
  t.match(answer, { code: 401, status: 'error-token', headers: { connection: 'close' } })
  t.ok(answer.headers['x-request-id'], 'with the headers of any answer')
  t.equal(answer.headers['access-control-allow-origin'], '*')
  t.match(await post(process, endless(['token', bad])), { code: 401, status: 'error-token' })
  await holds(t, process, 0, 'nothing was staged')

  // A client that reads an answer only after it has sent everything.
  const patient = await raw(
    process,
    head(7_000_000, `Authorization: Bearer ${bad}\r\n`),
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n`,
  )
  patient.socket.pause()
  for (let sent = 0; sent < 6_000_000; sent += 100_000) {
    if (!patient.socket.write(Buffer.alloc(100_000))) await eitherOf(patient.socket, 'drain', 'close')
  }
  t.notOk(patient.socket.destroyed, 'its connection was not closed')
  patient.socket.resume()
  while (!patient.text().includes('}')) await delay(5)
  t.match(patient.text(), /^HTTP\/1\.1 401 [\s\S]*\{"status":"error-token"\}$/)
  patient.socket.destroy()

  // The connection ends although the client continues to send: 8 MiB are discarded at most.
  const socket = connect(process.uploadPort, '127.0.0.1')
  const errors: Error[] = []
  socket.on('error', (error) => errors.push(error))
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(
    `POST /uploadfile HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bad}\r\nContent-Type: ${formType}\r\nContent-Length: 1000000000\r\n\r\n`,
  )
  const opened = form(['file', '@@', 'x'])
  socket.write(opened.subarray(0, opened.indexOf('@@')))
  let sent = 0
  const closed = eitherOf(socket, 'close')
  while (!socket.destroyed && sent < 1e9) {
    sent += 65_536
    if (!socket.write(Buffer.alloc(65_536))) await eitherOf(socket, 'drain', 'close')
  }
  await closed
  t.match(text, /^HTTP\/1\.1 401 [\s\S]*\{"status":"error-token"\}$/)
  t.ok(sent < 64 * 1024 * 1024, `closed after ${sent} bytes`)
})

t.test('a client that waits for 100 Continue is refused before it sends', async (t) => {
  const process = await start(t)
  const { token } = await process.newAccount()
  const ask = async (bearer: string) => {
    const outgoing = request({
      port: process.uploadPort,
      method: 'POST',
      path: '/uploadfile',
      headers: {
        'content-type': formType,
        expect: '100-continue',
        authorization: `Bearer ${bearer}`,
        connection: 'close',
      },
    })
    outgoing.flushHeaders()
    let continued = false
    outgoing.on('continue', () => {
      continued = true
      outgoing.end(form(['file', 'x', 'x']))
    })
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    outgoing.on('error', () => {})
    outgoing.destroy()
    return [continued, response.statusCode]
  }
  t.same(await ask(token), [true, 200])
  t.same(await ask(`${token.slice(0, -4)}AAAA`), [false, 401])
})

async function raw(
  process: OneProcess,
  ...pieces: (string | Buffer)[]
): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(process.uploadPort, '127.0.0.1')
  socket.on('error', () => {})
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  for (const piece of pieces) socket.write(piece)
  return { socket, text: () => text }
}

function head(length: number, more = ''): string {
  return `POST /uploadfile HTTP/1.1\r\nHost: x\r\nContent-Type: ${formType}\r\nContent-Length: ${length}\r\n${more}\r\n`
}

t.test('a client that closes leaves nothing', async (t) => {
  const process = await start(t)
  const body = form(['file', randomBytes(300_000), 'x'])
  for (const bytes of [10, 200, 100_000, body.length - 5, body.length - 1]) {
    const { socket } = await raw(process, head(body.length), body.subarray(0, bytes))
    if (bytes > 200) while ((await process.blobs.usage()).stagedBytes === 0) await delay(5)
    else await delay(20)
    socket.destroy()
    await holds(t, process, 0, `after ${bytes} bytes`)
  }
  const { socket } = await raw(process, head(body.length + 10), body)
  while ((await process.blobs.usage()).stagedBytes < 300_000) await delay(5)
  socket.end()
  await eitherOf(socket, 'close')
  await holds(t, process, 0, 'a length that is not reached is a cut body, though the form is whole')
  const short = await raw(process, head(body.length - 3, 'Connection: close\r\n'), body)
  await eitherOf(short.socket, 'close')
  t.match(short.text(), /^HTTP\/1\.1 400 /)
  await holds(t, process, 0, 'a length that cuts the form')
})

t.test('a form that comes byte by byte, and two on one connection', async (t) => {
  const process = await start(t)
  const body = form(['file', 'drop by drop', 'd.txt'], ['modTime', '7'])
  const { socket, text } = await raw(process, head(body.length))
  socket.setNoDelay(true)
  for (const byte of body) {
    socket.write(Buffer.of(byte))
    await delay(0)
  }
  while (!text().includes('"status":"ok"')) await delay(5)
  t.match(text(), /"modTime":7,"size":12/)

  socket.write(
    Buffer.concat([
      Buffer.from(head(body.length)),
      body,
      Buffer.from(head(body.length, 'Connection: close\r\n')),
      body,
    ]),
  )
  await eitherOf(socket, 'close')
  t.equal(text().match(/"status":"ok"/g)?.length, 3, 'keep-alive and pipelining')
})

t.test('a slow store slows down the client, and takes no memory', async (t) => {
  const gate = Promise.withResolvers<void>()
  class SlowStore extends MemoryBlobStore {
    taken = 0
    override async stage(...args: Parameters<MemoryBlobStore['stage']>) {
      const stage = await super.stage(...args)
      const write = stage.write.bind(stage)
      stage.write = async (bytes) => {
        this.taken += bytes.length
        await gate.promise
        await write(bytes)
      }
      return stage
    }
  }
  const blobs = new SlowStore()
  const process = await start(t, { blobs })
  const bytes = Buffer.alloc(48 * 1024 * 1024, 5)
  const body = form(['file', bytes, 'x'])
  const { socket, text } = await raw(process, head(body.length))
  for (let at = 0; at < body.length; at += 1024 * 1024) socket.write(body.subarray(at, at + 1024 * 1024))
  let before = -1
  while (socket.writableLength !== before) {
    before = socket.writableLength
    await delay(100)
  }
  t.ok(blobs.taken <= 65_536, 'one piece was taken')
  t.ok(before > 20 * 1024 * 1024, `the client still has ${before} bytes`)
  gate.resolve()
  while (!text().includes('}}')) await delay(20)
  t.match(text(), new RegExp(`"size":${bytes.length}`))
  socket.destroy()
})

t.test('an upload that is repeated with its key has one effect', async (t) => {
  const process = await start(t)
  const { token, id } = await process.newAccount()
  const body = form(['token', token], ['file', 'once', 'o'])
  const headers = { 'idempotency-key': 'k1' }
  const [first, second] = [await post(process, body, { headers }), await post(process, body, { headers })]
  t.same(first.data, second.data)
  const account = await process.ask(token, 'account', { $case: 'getAccount', value: {} })
  t.match(account, { id, fileCount: 1, folderCount: 1, storage: 4 })
  const other = await post(process, form(['token', token], ['file', 'other bytes', 'o']), { headers })
  t.match(other, { code: 400, status: 'error-idempotencyKey' })

  const guest = form(['file', 'by a guest', 'g'])
  const strong = { 'idempotency-key': '1f0e6a34-7f55-4d8f-9e0f-b9a8b7c6d5e4' }
  const made = await Promise.all([1, 2, 3].map(() => post(process, guest, { headers: strong })))
  t.same(new Set(made.map(({ data }) => `${data.guestToken} ${data.id}`)).size, 1, 'guests too, also at once')
  const stranger = await post(process, form(['file', 'of another', 'g']), { headers: strong })
  t.equal(stranger.code, 200)
  t.not(stranger.data.guestToken, made[0]?.data.guestToken, 'a key alone opens no account')
})

t.test('faults of the parts behind are reported as such', async (t) => {
  let fail = true
  const process = await start(t, {
    accounts: (real) => ({
      call: (ask, options) =>
        fail && ask.operation?.$case === 'addFile'
          ? Promise.reject(new AccountsUnavailable('out of reach'))
          : real.call(ask, options),
    }),
    blobs: new MemoryBlobStore({ capacityBytes: 1_000_000 }),
  })
  const answer = await post(process, form(['file', 'x', 'x']))
  t.match(answer, { code: 503, status: 'error-unavailable', headers: { 'retry-after': /\d/ } })
  fail = false
  t.equal((await post(process, form(['file', 'x', 'x']))).code, 200)
  const full = await post(process, endless())
  t.match(full, { code: 507, status: 'error-storageFull' }, 'no room, known in mid-stream')
  t.match(
    await post(process, form(['file', Buffer.alloc(2_000_000), 'x'])),
    { code: 507 },
    'no room, announced',
  )
  t.equal((await process.blobs.usage()).openStages, 0)
})

t.test('no network takes all places, and a close lets running uploads end', async (t) => {
  const process = await OneProcess.start({ upload: { uploadsPerNetworkMax: 1, drainMs: 300 } })
  const body = form(['file', 'slow', 's'])
  const first = await raw(process, head(body.length), body.subarray(0, -10))
  await received(process, body.length - 10)
  t.equal((await process.blobs.usage()).openStages, 0, 'a few bytes take no stage')
  const second = await post(process, body)
  t.match(second, { code: 429, status: 'error-rateLimit', headers: { 'retry-after': '1' } })
  const closed = process.uploads.close()
  await delay(50)
  first.socket.write(body.subarray(-10))
  await eitherOf(first.socket, 'close')
  t.match(first.text(), /"status":"ok"/, 'what ran has ended well')
  await closed
  await process.close()

  const cut = await OneProcess.start({ upload: { drainMs: 50 } })
  const never = await raw(cut, head(body.length), body.subarray(0, -10))
  await received(cut, body.length - 10)
  await cut.uploads.close()
  t.equal(never.text(), '', 'an upload that does not end is cut')
  await holds(t, cut, 0, 'and leaves nothing')
  await cut.close()
})

/** Resolves when this number of bytes of running uploads have arrived. */
async function received(process: OneProcess, bytes: number): Promise<void> {
  while ((await process.metric('holdfast_uploads_in_flight_bytes')) < bytes) await delay(5)
}

/** An upload from this address that has sent this part of its file and sends no more. */
async function stuck(process: OneProcess, address: string, bytes: number) {
  const body = form(['file', Buffer.alloc(1_000_000, 7), 's'])
  return raw(process, head(body.length, `X-Forwarded-For: ${address}\r\n`), body.subarray(0, bytes))
}

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

t.test('slow uploads of a few networks do not block others', async (t) => {
  const process = await start(t, {
    rateLimits: 'default',
    upload: { trustProxy: ['127.0.0.1'], uploadsPerNetworkMax: 3, uploadsMax: 12, stagesMax: 12 },
  })
  const networks = ['192.0.2.1', '192.0.2.2', '2001:db8:1::1', '2001:db8:2::1']
  const large = form(['file', Buffer.alloc(200_000, 1), 'l'])
  const small = form(['file', 'ordinary', 's'])
  const clients: Awaited<ReturnType<typeof stuck>>[] = []
  for (const [at, network] of networks.entries())
    for (let count = 0; count < 3; count++)
      clients.push(await stuck(process, network, 30_000 + 1_000 * (3 * at + count)))
  let bytes = 0
  for (let at = 0; at < 12; at++) bytes += 30_000 + 1_000 * at
  await received(process, bytes)
  t.equal((await process.blobs.usage()).openStages, 12, 'all stages are taken')
  t.match(
    await post(process, small, from('192.0.2.1')),
    { code: 429, status: 'error-rateLimit' },
    'they get no more',
  )
  t.match(
    await post(process, small, from('2001:db8:1::2')),
    { code: 429, headers: { 'retry-after': '1' } },
    'a /64 is one network',
  )
  t.equal(
    (await post(process, large, from('198.51.100.1'))).code,
    200,
    'another network gets a place at once',
  )
  t.equal((await post(process, small, from('198.51.100.1'))).code, 200)
  const ended = clients.filter(({ text }) => text() !== '')
  t.equal(ended.length, 1, 'one upload made room for both')
  t.match(ended[0]?.text(), /^HTTP\/1\.1 503 [\s\S]*retry-after: 2[\s\S]*error-unavailable/i)
  t.equal(ended[0], clients[0], 'the one with the fewest bytes of the largest network')
  t.equal(await process.metric('holdfast_uploads_without_place_total', { reason: 'made room' }), 1)
  t.equal(await process.metric('holdfast_uploads_without_place_total', { reason: 'network' }), 2)
  t.equal(await process.metric('holdfast_uploads_total', { outcome: 'stored' }), 2)
  t.equal(await process.metric('holdfast_uploads_in_flight_stages'), 11)
  for (const { socket } of clients) socket.destroy()
  await holds(t, process, 2, 'all is as before')
  while ((await process.metric('holdfast_uploads_in_flight')) > 0) await delay(5)
  t.ok((await process.metric('holdfast_uploads_total', { outcome: 'aborted' })) >= 11)
})

t.test('without rate limits no network is refused, and the total bounds apply', async (t) => {
  const process = await start(t, {
    upload: { trustProxy: ['127.0.0.1'], uploadsPerNetworkMax: Number.POSITIVE_INFINITY, uploadsMax: 4 },
  })
  const clients = await Promise.all([1, 2, 3, 4].map(() => stuck(process, '192.0.2.1', 1_000)))
  await received(process, 4_000)
  t.match(
    await post(process, form(['file', 'x', 'x']), from('192.0.2.2')),
    { code: 503, status: 'error-unavailable', headers: { 'retry-after': /\d/ } },
    'none has had its time to get going',
  )
  for (const { socket } of clients) socket.destroy()
  while ((await process.metric('holdfast_uploads_in_flight')) > 0) await delay(5)
  t.equal((await post(process, form(['file', 'x', 'x']), from('192.0.2.1'))).code, 200)
})

t.test('uploads without a token draw on the budget of new accounts, unless they fail', async (t) => {
  const process = await start(t, { rateLimits: 'default', upload: { trustProxy: ['127.0.0.1'] } })
  const { token } = await process.newAccount()
  const file: Piece = ['file', 'x', 'x']
  for (let at = 0; at < 5; at++)
    t.equal(
      (await post(process, form(file, ['modTime', 'never']), from('192.0.2.1'))).status,
      'error-modTime',
    )
  const answers = await Promise.all(
    new Array(130).fill(0).map(() => post(process, form(file), from('192.0.2.1'))),
  )
  const made = answers.filter(({ code }) => code === 200).length
  const refused = answers.filter(({ status }) => status === 'error-rateLimit')
  // The minute may end in between.
  t.ok(made === 120 || made === 130, `${made} accounts`)
  t.equal(made + refused.length, 130)
  t.ok(refused.every(({ headers }) => Number(headers['retry-after']) > 0))
  t.equal(
    (await post(process, form(['token', token], file), from('192.0.2.1'))).code,
    200,
    'with a token it continues',
  )
})

t.test('pieces of one byte hold no more memory than others, and have a limit', async (t) => {
  const process = await start(t)
  const body = form(['file', Buffer.alloc(60_000, 1), 'tiny'])
  const pieces = (bytes: Buffer) =>
    Buffer.concat(
      [...bytes].map((byte) => Buffer.concat([Buffer.from('1\r\n'), Buffer.of(byte), Buffer.from('\r\n')])),
    )
  const chunked = `POST /uploadfile HTTP/1.1\r\nHost: x\r\nContent-Type: ${formType}\r\nTransfer-Encoding: chunked\r\n\r\n`
  const sent = pieces(body.subarray(0, -10))
  await post(process, body)
  const clients = []
  const before = memoryUsed()
  for (let at = 0; at < 4; at++) clients.push(await raw(process, chunked, sent))
  await received(process, 4 * (body.length - 10))
  const perUpload = (memoryUsed() - before) / 4
  // An object for each piece takes some 5 MiB an upload; the rest is what the process does beside.
  t.ok(perUpload < 2.5 * 1024 * 1024, `${Math.round(perUpload / 1024)} KiB an upload`)
  for (const { socket, text } of clients) {
    socket.write(Buffer.concat([pieces(body.subarray(-10)), Buffer.from('0\r\n\r\n')]))
    while (!text().includes('}}')) await delay(5)
    t.match(text(), /"size":60000/)
    socket.destroy()
  }
  const more = pieces(Buffer.alloc(60_000))
  const endless = await raw(process, chunked, sent)
  while (!endless.text().includes('}')) {
    if (endless.socket.writableLength === 0) endless.socket.write(more)
    await delay(1)
  }
  t.match(endless.text(), /^HTTP\/1\.1 429 [\s\S]*error-rateLimit/)
  endless.socket.destroy()
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Reachable memory. */
function memoryUsed(): number {
  collect()
  const { heapUsed, arrayBuffers } = process_.memoryUsage()
  return heapUsed + arrayBuffers
}

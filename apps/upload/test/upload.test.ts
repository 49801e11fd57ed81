import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { AccountsUnavailable } from '@holdfast/accounts'
import { MemoryBlobStore } from '@holdfast/blob-store'
import t from 'tap'
import type { OneProcess } from '../../../test/support/one-process.ts'
import { eitherOf, endless, form, formType, head, holds, type Piece, post, raw, start } from './posting.ts'

async function downloadedBytes(process: OneProcess, token: string, id: string): Promise<Buffer> {
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
  t.equal((await downloadedBytes(process, data.guestToken, data.id)).toString(), 'hello')

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
    t.ok(bytes.equals(await downloadedBytes(process, token, data.id)))
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
  const another = await post(process, form(['file', 'of another', 'g']), { headers: strong })
  t.equal(another.code, 200)
  t.not(another.data.guestToken, made[0]?.data.guestToken, 'a key alone opens no account')
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

t.test('servers are the nodes that acknowledged this copy', async (t) => {
  const blobs = new MemoryBlobStore()
  const stage = blobs.stage.bind(blobs)
  blobs.stage = async (options) => Object.assign(await stage(options), { acknowledgedBy: ['near', 'far'] })
  const process = await start(t, { blobs })
  const { data } = await post(process, form(['file', 'x', 'x']))
  t.same(data.servers, ['near', 'far'])
  t.equal(data.serverSelected, 'near')
})

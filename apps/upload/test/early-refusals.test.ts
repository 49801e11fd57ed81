/** Uploads that are refused before their bytes are read. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import {
  boundary,
  eitherOf,
  endless,
  form,
  formType,
  head,
  holds,
  type Piece,
  post,
  raw,
  start,
} from './posting.ts'

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
  await once(silent.socket, 'data', { signal: AbortSignal.timeout(10_000) })
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
  const deadline = AbortSignal.timeout(10_000)
  while (!patient.text().includes('}')) await delay(5, undefined, { signal: deadline })
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

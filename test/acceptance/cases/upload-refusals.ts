import assert from 'node:assert/strict'
import { TLSSocket } from 'node:tls'
import type { Item } from '../answer.ts'
import { connectTo, rawExchange } from '../http.ts'
import { multipart, type Part } from '../multipart.ts'
import { cases } from '../suite.ts'
import { type Account, eventually, filePart, randomContent, sleep, type World } from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'

export const uploadRefusals = cases('POST {upload_url}/uploadfile', (test) => {
  test('exactly one part is the file', ['error-file', 'error-body'], async (world) => {
    const guest = await world.guest()
    const to: Part = { name: 'folderId', value: guest.root }
    const bad: Part[][] = [
      [to],
      [to, filePart(), filePart()],
      [to, { name: 'file', value: 'a field' }],
      [to, { name: 'file', content: 'x' }],
      [to, { ...filePart(), name: 'other' }],
      [filePart(), to, filePart({ content: randomContent(200_000) })],
    ]
    for (const parts of bad) (await world.uploadForm(parts, { token: guest.token })).refused('error-file')
    ;(await world.uploadForm([])).refused('error-file')
    ;(
      await world.request('POST', `${world.uploadHost()}/uploadfile`, {
        json: { folderId: guest.root },
        token: guest.token,
      })
    ).refused('error-body', 'error-file')
    ;(
      await world.request('POST', `${world.uploadHost()}/uploadfile`, {
        body: 'x',
        type: 'multipart/form-data',
        token: guest.token,
      })
    ).refused('error-body')
    ;(
      await world.request('POST', `${world.uploadHost()}/uploadfile`, { body: '', token: guest.token })
    ).refused('error-body', 'error-file')
    const whole = multipart([to, filePart({ content: randomContent(100_000) })])
    for (const cut of [50, 200, 50_000, whole.body.length - 4, whole.body.length - 30])
      (
        await world.request('POST', `${world.uploadHost()}/uploadfile`, {
          body: whole.body.subarray(0, cut),
          type: whole.contentType,
          token: guest.token,
        })
      ).refused('error-body', 'error-file')
    const { statsCurrent } = await guest.details()
    assert.deepEqual([statsCurrent.fileCount, statsCurrent.folderCount], [0, 0], 'nothing is kept')
  })

  test(
    'a bad token is refused and does not make a guest',
    ['error-token', 'token', 'Authorization'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      ;(await world.uploadForm([filePart()], { token: 'nonsense' })).refused('error-token')
      ;(await world.uploadForm([{ name: 'token', value: 'nonsense' }, filePart()])).refused('error-token')
      ;(await world.uploadForm([filePart(), { name: 'token', value: 'nonsense' }])).refused('error-token')
      ;(
        await world.uploadForm([{ name: 'token', value: bob.token }, filePart()], { token: ann.token })
      ).refused('error-token')
      ;(
        await world.uploadForm([
          { name: 'token', value: ann.token },
          { name: 'token', value: bob.token },
          filePart(),
        ])
      ).refused('error-token')
      const folder = await ann.folder({ public: true })
      ;(await world.uploadForm([{ name: 'folderId', value: folder.id }, filePart()])).refused('error-token')
      ;(await world.uploadForm([filePart(), { name: 'folderId', value: folder.id }])).refused('error-token')
      for (const guest of [ann, bob]) assert.equal((await guest.details()).statsCurrent.fileCount, 0)
    },
  )

  test(
    "the folder must be one of the account's, named by its UUID",
    ['error-folderId', 'error-notFound', 'error-notOwner', 'error-protectedFolder'],
    async (world) => {
      const [ann, bob] = await Promise.all([world.guest(), world.guest()])
      const folder = await ann.folder()
      const file = await ann.file()
      const into = (value: string) =>
        world.uploadForm([{ name: 'folderId', value }, filePart()], { token: ann.token })
      for (const value of ['nonsense', folder.code, file.id, `${folder.id},${folder.id}`])
        (await into(value)).refused('error-folderId')
      ;(
        await world.uploadForm(
          [{ name: 'folderId', value: folder.id }, { name: 'folderId', value: folder.id }, filePart()],
          { token: ann.token },
        )
      ).refused('error-folderId')
      ;(await into(unknownId)).refused('error-notFound')
      ;(await into(bob.root)).refused('error-notOwner')
      ;(await into((await bob.folder({ public: true })).id)).refused('error-notOwner')
      ;(await into((await ann.details()).recycleBin.folder)).refused('error-protectedFolder')
      ;(await ann.remove(folder.id)).ok()
      ;(await into(folder.id)).refused('error-notFound')
      assert.equal((await ann.details()).statsCurrent.fileCount, 1)
    },
  )

  test('beyond a cap nothing is kept', ['error-limits'], async (world) => {
    const guest = await world.guest()
    await guest.operator({ limits: { contents: 1 } })
    ;(await world.uploadForm([filePart()], { token: guest.token })).refused('error-limits')
    assert.deepEqual((await guest.details()).statsCurrent.folderCount, 0, 'not even the folder')
    await guest.file()
    ;(await guest.upload()).refused('error-limits')
    await guest.operator({ limits: { contents: 10, storage: 20 } })
    ;(await guest.upload({ content: 'x'.repeat(14) })).refused('error-limits')
    await guest.file({ content: 'x'.repeat(13) })
    ;(await guest.upload({ content: 'x' })).refused('error-limits')
    await guest.file({ content: '' })
    assert.equal((await guest.details()).statsCurrent.storage, 20)
  })

  test('an early refusal comes before the bytes are sent', ['early refusal'], async (world) => {
    const guest = await world.guest()
    const head = (headers: string) =>
      `POST /uploadfile HTTP/1.1\r\nHost: ${world.uploadName}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 10000000000\r\n${headers}\r\n`
    const part = (name: string, value: string) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
    const start = `--b\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n${'x'.repeat(100_000)}`
    const early: [request: string, status: string][] = [
      [head('Authorization: Bearer nonsense\r\n') + start, 'error-token'],
      [head('') + part('token', 'nonsense') + start, 'error-token'],
      [
        head(`Authorization: Bearer ${guest.token}\r\n`) + part('folderId', 'nonsense') + start,
        'error-folderId',
      ],
      [
        head(`Authorization: Bearer ${guest.token}\r\n`) + part('folderId', unknownId) + start,
        'error-notFound',
      ],
    ]
    for (const [request, status] of early) {
      const { text } = await rawExchange(world.uploadHost(), request, {
        until: new RegExp(status),
        timeoutMs: 5_000,
        from: world.from,
        continues: world.waitsForBody,
      })
      assert.match(text, new RegExp(`"${status}"`), `no early ${status}: ${text.slice(0, 200)}`)
    }
    await guest.operator({ limits: { contents: 1 } })
    await guest.file()
    const full = head(`Authorization: Bearer ${guest.token}\r\n`) + part('folderId', guest.root) + start
    const { text } = await rawExchange(world.uploadHost(), full, {
      until: /error-limits/,
      timeoutMs: 5_000,
      from: world.from,
      continues: world.waitsForBody,
    })
    assert.match(text, /"error-limits"/)
  })

  test(
    'a client that continues to send after an early refusal still sees the answer',
    ['early refusal'],
    async (world) => {
      const answer = await world.uploadForm([
        { name: 'token', value: 'nonsense' },
        filePart({ content: randomContent(6_000_000) }),
      ])
      answer.refused('error-token')
    },
  )

  test('an aborted upload leaves nothing', ['aborted'], async (world) => {
    const guest = await world.guest()
    const form = multipart([
      { name: 'folderId', value: guest.root },
      filePart({ content: randomContent(2_000_000) }),
    ])
    const head = `POST /uploadfile HTTP/1.1\r\nHost: ${world.uploadName}\r\nAuthorization: Bearer ${guest.token}\r\nContent-Type: ${form.contentType}\r\nContent-Length: ${form.body.length}\r\n\r\n`
    for (const sent of [0, 100, 5_000, 1_000_000, form.body.length - 1])
      await abortAfter(world, Buffer.concat([Buffer.from(head), form.body.subarray(0, sent)]))
    await sleep(300)
    const { statsCurrent } = await guest.details()
    assert.deepEqual([statsCurrent.fileCount, statsCurrent.storage], [0, 0])
    assert.equal((await guest.file({ content: 'after' })).size, 5)
  })

  test(
    'changes during the upload count at the end',
    ['folderId', 'error-notFound', 'error-token', 'error-limits'],
    async (world) => {
      const meanwhile: [change: (guest: Account, folder: Item) => Promise<unknown>, status: string][] = [
        [async (guest, folder) => (await guest.remove(folder.id)).ok(), 'error-notFound'],
        [async (guest) => (await guest.call('POST', `/accounts/${guest.id}/resettoken`)).ok(), 'error-token'],
        [async (guest) => guest.operator({ limits: { contents: 1 } }), 'error-limits'],
        [async (guest) => guest.operator({ limits: { storage: 10 } }), 'error-limits'],
      ]
      for (const [change, status] of meanwhile) {
        const guest = await world.guest()
        const folder = await guest.folder()
        const answer = await uploadAround(world, guest, folder, () => change(guest, folder))
        assert.match(answer, new RegExp(`"${status}"`), answer)
        if (status === 'error-limits') assert.equal((await guest.details()).statsCurrent.fileCount, 0)
      }
      const guest = await world.guest()
      const folder = await guest.folder()
      const answer = await uploadAround(world, guest, folder, () =>
        guest.update(folder.id, 'name', 'renamed meanwhile'),
      )
      assert.match(answer, /"status":"ok"/)
    },
  )

  test(
    'hostile forms are refused and nothing stops',
    ['error-body', 'answers, in every request · hostile input'],
    async (world) => {
      const guest = await world.guest()
      const post = (body: string | Buffer, type: string) =>
        world.request('POST', `${world.uploadHost()}/uploadfile`, { body, type, token: guest.token })
      const many = multipart([
        ...Array.from({ length: 5_000 }, (_, n) => ({ name: `f${n}`, value: 'x' })),
        filePart(),
      ])
      const wide = multipart([{ name: 'folderId', value: 'x'.repeat(3_000_000) }, filePart()])
      const headed = `--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n${'X-A: b\r\n'.repeat(20_000)}\r\nx\r\n--b--\r\n`
      const answers = [
        await post(many.body, many.contentType),
        await post(wide.body, wide.contentType),
        await post(headed, 'multipart/form-data; boundary=b'),
        await post('x', 'multipart/form-data; boundary='),
        await post('x', `multipart/form-data; boundary=${'b'.repeat(5_000)}`),
        await post('--b\r\n\r\n\r\n--b--', 'multipart/form-data; boundary=b'),
        await post('--b--\r\n', 'multipart/mixed; boundary=b'),
      ]
      for (const answer of answers) {
        assert.ok(answer.code >= 400 && answer.code < 500, `${answer.code} ${answer.text}`)
        answer.envelope()
      }
      await eventually(async () => assert.equal((await guest.details()).statsCurrent.fileCount, 0), 1_000)
    },
  )
})

/** Sends half of an upload, calls a function, sends the rest; resolves with the raw answer. */
function uploadAround(
  world: World,
  guest: Account,
  folder: Item,
  happens: () => Promise<unknown>,
): Promise<string> {
  const target = new URL(world.uploadHost())
  const form = multipart([
    { name: 'folderId', value: folder.id },
    filePart({ content: randomContent(300_000) }),
  ])
  const head = `POST /uploadfile HTTP/1.1\r\nHost: ${world.uploadName}\r\nAuthorization: Bearer ${guest.token}\r\nContent-Type: ${form.contentType}\r\nContent-Length: ${form.body.length}\r\nConnection: close\r\n\r\n`
  return new Promise((resolve, reject) => {
    const socket = connectTo(target)
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    socket.on('error', (error) => (text === '' ? reject(error) : resolve(text)))
    socket.once('close', () => resolve(text))
    socket.write(Buffer.concat([Buffer.from(head), form.body.subarray(0, 100_000)]))
    // Time for the host to process it; the answer must not depend on that. A slow host begins after
    // the change, and refuses the upload before the rest is sent.
    sleep(200)
      .then(happens)
      .then(() => {
        if (socket.writable) socket.write(form.body.subarray(100_000))
      }, reject)
  })
}

/** Sends bytes and resets the connection. */
function abortAfter(world: World, bytes: Buffer): Promise<void> {
  const target = new URL(world.uploadHost())
  return new Promise((resolve) => {
    const socket = connectTo(target)
    socket.on('error', () => resolve())
    socket.once('close', () => resolve())
    socket.write(bytes, () =>
      setTimeout(() => (socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy()), 30),
    )
  })
}

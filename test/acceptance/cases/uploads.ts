import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { TLSSocket } from 'node:tls'
import type { Item } from '../answer.ts'
import { connectTo, rawExchange } from '../http.ts'
import { multipart, type Part } from '../multipart.ts'
import { cases } from '../suite.ts'
import {
  Account,
  eventually,
  filePart,
  md5,
  nowSeconds,
  randomContent,
  sha256,
  sleep,
  uuid,
  type World,
} from '../world.ts'

const unknownId = 'ffffffff-ffff-4fff-bfff-ffffffffffff'
export const regionCodes = ['eu-par', 'na-phx', 'na-nyc', 'ap-sgp', 'ap-hkg', 'ap-tyo', 'ap-syd', 'sa-sao']

/** Two blocks of 128 bytes with one md5, published by Wang, Feng, Lai and Yu in 2004. */
const colliding = [
  'd131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70',
  'd131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a085125e8f7cdc99fd91dbd7280373c5bd8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70',
].map((hex) => Buffer.from(hex, 'hex'))

/** The owner of a tokenless upload. */
async function guestOf(world: World, file: Item): Promise<Account> {
  const who = (await world.call('GET', '/accounts/getid', { token: file.guestToken })).ok()
  const details = (await world.call('GET', `/accounts/${who.id}`, { token: file.guestToken })).ok<{
    id: string
    rootFolder: string
    token: string
  }>()
  return new Account(world, details)
}

export const uploads = cases('POST {upload_url}/uploadfile', (test) => {
  test(
    'one request without anything makes a guest, a public folder and the file',
    ['success', 'without a token', 'file'],
    async (world) => {
      const answer = await world.uploadForm([filePart({ name: 'hello.txt', content: 'hello' })])
      const file = answer.ok()
      assert.match(file.id, uuid)
      assert.match(file.parentFolder, uuid)
      assert.match(file.code, /^[A-Za-z0-9]{8}$/)
      assert.match(file.parentFolderCode, /^[A-Za-z0-9]{8}$/)
      assert.equal(file.downloadPage, `${world.hosts.web}/d/${file.parentFolderCode}`)
      assert.deepEqual(
        [file.type, file.name, file.size, file.md5, file.mimetype],
        ['file', 'hello.txt', 5, md5('hello'), 'text/plain'],
      )
      assert.ok(Math.abs(file.createTime - nowSeconds()) < 60 && Math.abs(file.modTime - nowSeconds()) < 60)
      assert.ok(Array.isArray(file.servers) && file.servers.length > 0)
      assert.ok(file.guestToken.length > 0)
      const guest = await guestOf(world, file)
      await guest.operator({ tier: 'premium' })
      const folder = (await guest.read(file.parentFolder)).ok()
      assert.deepEqual(
        [folder.name, folder.code, folder.public, folder.parentFolder, folder.childrenCount],
        [file.parentFolderCode, file.parentFolderCode, true, guest.root, 1],
      )
    },
  )

  test(
    'guestToken and parentFolder keep later uploads together',
    ['without a token', 'token', 'folderId'],
    async (world) => {
      const first = (await world.uploadForm([filePart()])).ok()
      const parts = [
        { name: 'token', value: first.guestToken },
        { name: 'folderId', value: first.parentFolder },
        filePart({ name: 'second' }),
      ]
      const second = (await world.uploadForm(parts)).ok()
      assert.equal(second.parentFolder, first.parentFolder)
      assert.equal(second.guestToken, undefined, 'a token was sent')
      const { statsCurrent } = await (await guestOf(world, first)).details()
      assert.deepEqual([statsCurrent.fileCount, statsCurrent.folderCount], [2, 1])
    },
  )

  test('each tokenless upload is a guest of its own', ['without a token'], async (world) => {
    const files = await Promise.all([1, 2, 3].map(async () => (await world.uploadForm([filePart()])).ok()))
    assert.equal(new Set(files.map((file) => file.guestToken)).size, 3)
    assert.equal(new Set(files.map((file) => file.parentFolder)).size, 3)
  })

  test(
    'with a token but no folder a new public folder is made at the root',
    ['Authorization', 'folderId'],
    async (world) => {
      const ann = await world.premium()
      for (const parts of [[filePart()], [filePart(), { name: 'folderId', value: '' }]] as Part[][]) {
        const file = (await world.uploadForm(parts, { token: ann.token })).ok()
        assert.equal(file.guestToken, undefined)
        const folder = (await ann.read(file.parentFolder)).ok()
        assert.deepEqual(
          [folder.parentFolder, folder.public, folder.name, folder.code],
          [ann.root, true, file.parentFolderCode, file.parentFolderCode],
        )
      }
      assert.equal((await ann.details()).statsCurrent.folderCount, 2)
    },
  )

  test(
    'into a folder of the account, by form field or header, on every tier',
    ['any tier', 'token', 'Authorization', 'folderId'],
    async (world) => {
      for (const account of [await world.guest(), await world.standard(), await world.premium()]) {
        const folder = await account.folder()
        const byHeader = (
          await world.uploadForm([{ name: 'folderId', value: folder.id }, filePart()], {
            token: account.token,
          })
        ).ok()
        const byField = (
          await world.uploadForm([
            { name: 'folderId', value: folder.id },
            { name: 'token', value: account.token },
            filePart(),
          ])
        ).ok()
        const byBoth = (
          await world.uploadForm(
            [{ name: 'folderId', value: folder.id }, { name: 'token', value: account.token }, filePart()],
            { token: account.token },
          )
        ).ok()
        for (const file of [byHeader, byField, byBoth]) {
          assert.equal(file.parentFolder, folder.id)
          assert.equal(file.parentFolderCode, folder.code)
          assert.ok(!('guestToken' in file))
        }
        assert.equal((await account.details()).statsCurrent.fileCount, 3)
      }
    },
  )

  test(
    'fields come in any order, before or after the file, with unknown ones among them',
    ['field order'],
    async (world) => {
      const guest = await world.guest()
      const folder = await guest.folder()
      const fields: Part[] = [
        { name: 'token', value: guest.token },
        { name: 'folderId', value: folder.id },
        { name: 'modTime', value: '1000000000' },
        { name: 'nonsense', value: 'x'.repeat(1_000) },
        { name: '__proto__', value: 'x' },
        filePart({ content: randomContent(300_000) }),
      ]
      for (let turn = 0; turn < fields.length; turn++) {
        const parts = [...fields.slice(turn), ...fields.slice(0, turn)]
        const file = (await world.uploadForm(parts)).ok()
        assert.deepEqual([file.parentFolder, file.size, file.modTime], [folder.id, 300_000, 1_000_000_000])
      }
      const file = (await world.uploadForm([...fields].reverse())).ok()
      assert.equal(file.parentFolder, folder.id)
    },
  )

  test('downloads equal uploads, from zero bytes up', ['success', 'zero bytes'], async (world) => {
    const ann = await world.premium()
    for (const size of [0, 1, 4_095, 4_096, 4_097, 65_536, 1_048_576, 1_048_577, 9_000_001]) {
      const content = randomContent(size)
      const file = await ann.file({ content, name: `${size}.bin` })
      assert.deepEqual([file.size, file.md5], [size, md5(content)])
      const { link } = (await ann.read(file.id)).ok()
      const got = await world.request('GET', link)
      assert.equal(got.code, 200)
      assert.ok(got.body.equals(content), `${size} bytes differ`)
      assert.equal(got.header('content-length'), String(size))
    }
  })

  test('content that looks like the form itself is stored whole', ['file'], async (world) => {
    const ann = await world.premium()
    const boundary = 'b-0123456789-holdfast'
    const contents = [
      `--${boundary.slice(0, -1)}\r\n`,
      '\r\n--\r\n',
      `\r\n--${boundary}x`.slice(0, -3),
      '\r\n\r\n',
      `${'-'.repeat(10_000)}`,
      `--${boundary}`.repeat(3).slice(2),
    ]
    for (const content of contents) {
      const file = await ann.file({ content })
      assert.equal(file.md5, md5(content))
      assert.equal((await world.request('GET', (await ann.read(file.id)).ok().link)).text, content)
    }
  })

  test('a chunked body without a length, and other boundaries, are fine', ['file'], async (world) => {
    const form = multipart([filePart({ content: 'chunked' })], '----WebKitFormBoundaryABC123')
    const chunks = [form.body.subarray(0, 7), form.body.subarray(7, 50), form.body.subarray(50)]
    const text = [
      `POST /uploadfile HTTP/1.1\r\nHost: ${world.uploadName}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n`,
      `Content-Type: multipart/form-data; boundary="----WebKitFormBoundaryABC123"\r\n\r\n`,
      ...chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk.toString('latin1')}\r\n`),
      '0\r\n\r\n',
    ].join('')
    const answer = await rawExchange(world.uploadHost(), Buffer.from(text, 'latin1'), { from: world.from })
    assert.match(answer.text, /^HTTP\/1\.1 200 /)
    assert.ok(answer.text.includes(md5('chunked')))
  })

  test("a browser's modTime is kept", ['modTime', 'error-modTime'], async (world) => {
    const guest = await world.guest()
    assert.equal((await guest.file({ modTime: 1_234_567_890 })).modTime, 1_234_567_890)
    for (const value of ['x', '1.5', '99999999999999'])
      (await world.uploadForm([{ name: 'modTime', value }, filePart()], { token: guest.token })).refused(
        'error-modTime',
      )
    assert.equal((await guest.details()).statsCurrent.fileCount, 1)
  })

  test('a name is the last part of a path, cleaned, never refused', ['file names'], async (world) => {
    const guest = await world.guest()
    const folder = await guest.folder()
    const expected: [sent: string, kept: string][] = [
      ['plain.txt', 'plain.txt'],
      ['../../etc/passwd', 'passwd'],
      ['C:\\\\Users\\\\me\\\\photo.jpg', 'photo.jpg'],
      ['/absolute/path.txt', 'path.txt'],
      ['..', 'file'],
      ['.', 'file'],
      ['日本語 🗂.txt', '日本語 🗂.txt'],
      ['e\u0301.txt', 'e\u0301.txt'],
      ['<script>.html', '<script>.html'],
      ["it's 100% & more;=.txt", "it's 100% & more;=.txt"],
      ['.hidden', '.hidden'],
      [`${'x'.repeat(300)}.tar`, `${'x'.repeat(251)}.tar`],
      ['🗂'.repeat(300), '🗂'.repeat(255)],
    ]
    for (const [sent, kept] of expected)
      assert.equal((await guest.file({ in: folder.id, name: sent })).name, kept, sent)
    const tabbed = (await guest.file({ in: folder.id, name: 'a\tb.txt' })).name
    assert.ok(/^a.?b\.txt$/.test(tabbed) && !tabbed.includes('\t'), tabbed)
    const starred = (
      await world.uploadForm(
        [
          {
            name: 'file',
            content: 'x',
            disposition: `form-data; name="file"; filename="plain.txt"; filename*=UTF-8''na%C3%AFve.txt`,
          },
        ],
        { token: guest.token },
      )
    ).ok()
    assert.ok(['naïve.txt', 'plain.txt'].includes(starred.name), starred.name)
    const quoted = (
      await world.uploadForm(
        [{ name: 'file', content: 'x', disposition: 'form-data; name="file"; filename="a\\"b.txt"' }],
        { token: guest.token },
      )
    ).ok()
    assert.equal(quoted.name, 'a"b.txt')
  })

  test('mimetype is as the part says, or derived from the name', ['mimetype'], async (world) => {
    const guest = await world.guest()
    const types: [name: string, type: string | undefined, kept: string][] = [
      ['a.png', undefined, 'image/png'],
      ['a.png', 'application/octet-stream', 'image/png'],
      ['a.unknown-ending', undefined, 'application/octet-stream'],
      ['noending', 'application/octet-stream', 'application/octet-stream'],
      ['a.png', 'text/x-special', 'text/x-special'],
      ['a.mp4', undefined, 'video/mp4'],
    ]
    for (const [name, type, kept] of types)
      assert.equal(
        (await guest.file({ name, ...(type === undefined ? {} : { type }) })).mimetype,
        kept,
        `${name} as ${type}`,
      )
  })

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

  test('a client that expects 100 Continue gets it', ['file'], async (world) => {
    const guest = await world.guest()
    const form = multipart([{ name: 'folderId', value: guest.root }, filePart()])
    const head = `POST /uploadfile HTTP/1.1\r\nHost: ${world.uploadName}\r\nExpect: 100-continue\r\nAuthorization: Bearer ${guest.token}\r\nContent-Type: ${form.contentType}\r\nContent-Length: ${form.body.length}\r\nConnection: close\r\n\r\n`
    const before = await rawExchange(world.uploadHost(), head, { until: /100 Continue\r\n\r\n/ })
    assert.match(before.text, /^HTTP\/1\.1 100 Continue/)
    const whole = await rawExchange(world.uploadHost(), Buffer.concat([Buffer.from(head), form.body]))
    assert.match(whole.text, /HTTP\/1\.1 200 /)
  })

  test('equal bytes are stored once and counted for each', ['success'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    const content = randomContent(500_000)
    const files = await Promise.all([
      ann.file({ content }),
      ann.file({ content, name: 'again' }),
      bob.file({ content }),
    ])
    assert.equal(new Set(files.map((file) => file.md5)).size, 1)
    assert.equal((await ann.details()).statsCurrent.storage, 1_000_000)
    ;(await ann.remove((files[0] as Item).id)).ok()
    const link = (await bob.read((files[2] as Item).id)).ok().link
    assert.ok((await world.request('GET', link)).body.equals(content))
  })

  test('two contents with one md5 both come back intact', ['equal md5'], async (world) => {
    const [ann, bob] = await Promise.all([world.premium(), world.premium()])
    const [first, second] = colliding as [Buffer, Buffer]
    assert.ok(!first.equals(second))
    assert.equal(md5(first), md5(second), 'the pair of the test itself')
    const [one, two] = await Promise.all([ann.file({ content: first }), bob.file({ content: second })])
    assert.equal(one.md5, two.md5)
    const [gotOne, gotTwo] = await Promise.all(
      [ann, bob].map(async (owner, at) =>
        world.request('GET', (await owner.read([one, two][at]?.id ?? '')).ok().link),
      ),
    )
    assert.ok(gotOne?.body.equals(first))
    assert.ok(gotTwo?.body.equals(second))
    assert.notEqual(gotOne?.header('etag'), gotTwo?.header('etag'))
    ;(await ann.remove(one.id)).ok()
    assert.equal(
      createHash('sha256')
        .update((await world.request('GET', (await bob.read(two.id)).ok().link)).body)
        .digest('hex'),
      createHash('sha256').update(second).digest('hex'),
    )
  })

  test('a repeated Idempotency-Key is one upload', ['Idempotency-Key'], async (world) => {
    const guest = await world.guest()
    const upload = () =>
      guest.upload({ content: 'once', call: { headers: { 'idempotency-key': 'the-key-of-this-upload' } } })
    const first = (await upload()).ok()
    const again = (await upload()).ok()
    assert.equal(again.id, first.id)
    const racing = await Promise.all(
      Array.from({ length: 5 }, () =>
        guest.upload({ content: 'raced', call: { headers: { 'idempotency-key': 'another-key' } } }),
      ),
    )
    assert.equal(new Set(racing.map((answer) => answer.ok().id)).size, 1)
    assert.equal((await guest.details()).statsCurrent.fileCount, 2)
    const folder = () =>
      guest.call('POST', '/contents/createFolder', {
        json: { parentFolderId: guest.root },
        headers: { 'idempotency-key': 'a-folder' },
      })
    assert.equal((await folder()).ok().id, (await folder()).ok().id)
  })

  test(
    'without a token a repeated Idempotency-Key is one guest',
    ['Idempotency-Key', 'without a token'],
    async (world) => {
      const headers = { 'idempotency-key': `a-key-that-nobody-guesses-${sha256(String(Math.random()))}` }
      const upload = (content: string) => world.uploadForm([filePart({ content })], { headers })
      const [first, again] = [(await upload('once')).ok(), (await upload('once')).ok()]
      assert.deepEqual(
        [again.id, again.guestToken, again.parentFolder],
        [first.id, first.guestToken, first.parentFolder],
      )
      const { statsCurrent } = await (await guestOf(world, first)).details()
      assert.deepEqual([statsCurrent.fileCount, statsCurrent.folderCount], [1, 1])
    },
  )

  test('every regional host accepts uploads', ['regional hosts'], async (world) => {
    const guest = await world.guest()
    const { servers } = (await world.call('GET', '/servers')).ok<{ servers: { name: string }[] }>()
    // Proxies know the names of their regions.
    const names = world.isProxied
      ? servers.map(({ name }) => name)
      : regionCodes.map((code) => `upload-${code}`)
    for (const name of names) {
      const parts = [{ name: 'folderId', value: guest.root }, filePart({ content: name })]
      const answer = await world.uploadForm(parts, { token: guest.token, regional: name })
      assert.equal(answer.ok().size, name.length)
    }
  })

  test('/uploadFile and /contents/uploadfile are the same', ['aliases'], async (world) => {
    const guest = await world.guest()
    for (const path of ['/uploadFile', '/contents/uploadfile', '/uploadfile/'])
      assert.equal(
        (
          await world.uploadForm([{ name: 'folderId', value: guest.root }, filePart()], {
            path,
            token: guest.token,
          })
        ).ok().parentFolder,
        guest.root,
      )
  })

  test('many uploads at once into one account all arrive', ['success'], async (world) => {
    const ann = await world.premium()
    const folder = await ann.folder()
    const contents = Array.from({ length: 60 }, (_, number) => `content ${number}`)
    await Promise.all(
      contents.map((content, number) => ann.file({ in: folder.id, content, name: `${number}` })),
    )
    const { children } = (await ann.read(folder.id)).listing()
    assert.deepEqual(children.map((child) => child.md5).sort(), contents.map(md5).sort())
  })

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

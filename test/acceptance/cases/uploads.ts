import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Item } from '../answer.ts'
import { rawExchange } from '../http.ts'
import { multipart, type Part } from '../multipart.ts'
import { cases } from '../suite.ts'
import { Account, filePart, md5, nowSeconds, randomContent, sha256, uuid, type World } from '../world.ts'

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
      const headers = { 'idempotency-key': `a-key-that-is-not-guessed-${sha256(String(Math.random()))}` }
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
})

import { execFileSync } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { join } from 'node:path'
import type { AccountClient } from '@holdfast/accounts'
import { type BlobStore, MemoryBlobStore } from '@holdfast/blob-store'
import { hex, systemClock } from '@holdfast/kernel'
import { blank, DirectLink, type Item } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { OneProcess, type OneProcessOptions } from '../../../test/support/one-process.ts'

async function start(t: Test, options?: OneProcessOptions) {
  const process = await OneProcess.start(options)
  t.teardown(() => process.close())
  return { process, ...(await process.newAccount()) }
}

interface Answer {
  code: number
  headers: IncomingMessage['headers']
  body: Buffer
}

async function get(
  process: OneProcess,
  path: string,
  headers: OutgoingHttpHeaders = {},
  method = 'GET',
): Promise<Answer> {
  const outgoing = request({ port: process.downloadPort, path, method, headers, agent: false })
  outgoing.end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { code: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
}

const statusOf = ({ code, body }: Answer) => [code, JSON.parse(body.toString()).status]

async function addFile(
  process: OneProcess,
  token: string,
  folderId: string,
  name: string,
  bytes: Buffer,
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
  const value = {
    createAccount: undefined,
    folderId,
    name,
    mimetype: 'text/plain',
    blob,
    modTime: 1_500_000_000,
  }
  const { item } = await process.ask(token, 'content', { $case: 'addFile', value })
  if (!item) throw new Error('no item')
  return item
}

async function addFolder(
  process: OneProcess,
  token: string,
  parentFolderId: string,
  name: string,
): Promise<string> {
  const value = { parentFolderId, name, isPublic: false, modTime: undefined }
  const { item } = await process.ask(token, 'content', { $case: 'createFolder', value })
  return item?.id ?? ''
}

/** Makes or replaces a link; gives its path. */
async function putLink(
  process: OneProcess,
  token: string,
  contentId: string,
  { linkId, ...restrictions }: Partial<DirectLink> & { linkId?: string } = {},
): Promise<string> {
  const view = await process.ask(token, 'directLink', {
    $case: 'putDirectLink',
    value: { contentId, linkId, link: { ...blank(DirectLink), ...restrictions } },
  })
  return `/direct/${contentId}/${view.link?.id}/name`
}

function auth(user: string, password: string) {
  const salt = randomBytes(16)
  return { user, salt, hash: createHash('sha256').update(salt).update(password).digest() }
}

const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
})

t.test('a direct link opens a private file, and its restrictions refuse requests', async (t) => {
  let nowMs = Date.now()
  const { process, token, root } = await start(t, { clock: { ...systemClock, now: () => nowMs } })
  const folder = await addFolder(process, token, root, 'private')
  const { id } = await addFile(process, token, folder, 'a.txt', Buffer.from('content'))
  const path = await putLink(process, token, id)
  const linkId = path.split('/')[3] as string
  const open = await get(process, path)
  t.match(open, { code: 200, headers: { 'content-disposition': 'inline; filename="a.txt"' } })
  t.equal(open.body.toString(), 'content')
  t.match(await get(process, path, { range: 'bytes=3-' }), { code: 206, body: Buffer.from('tent') })
  t.equal((await get(process, path, {}, 'HEAD')).headers['content-length'], '7')
  t.same(statusOf(await get(process, `/direct/${id}/${randomUUID()}/x`)), [404, 'error-notFound'])

  const restrict = (restrictions: Partial<DirectLink>) =>
    putLink(process, token, id, { linkId, ...restrictions })
  const code = async (headers: OutgoingHttpHeaders = {}) => (await get(process, path, headers)).code
  await restrict({ sourceIpsAllowed: ['10.0.0.0/8', '2001:db8::1'] })
  t.same(statusOf(await get(process, path)), [403, 'error-forbidden'])
  t.equal(await code({ 'x-forwarded-for': '10.1.2.3' }), 200)
  t.equal(await code({ 'x-forwarded-for': '11.1.2.3' }), 403)
  t.equal(await code({ 'x-forwarded-for': '::ffff:10.1.2.3' }), 200, 'v4 in v6')
  t.equal(await code({ 'x-forwarded-for': '2001:0db8:0::1' }), 200)

  await restrict({ domainsAllowed: ['example.com'] })
  t.equal(await code(), 403)
  t.equal(await code({ referer: 'https://www.Example.com:8443/page?x' }), 200)
  t.equal(await code({ origin: 'https://example.com' }), 200)
  t.equal(
    await code({ origin: 'https://evil.com', referer: 'https://example.com/' }),
    403,
    'Origin counts first',
  )
  t.equal(await code({ origin: 'null', referer: 'https://example.com/' }), 200)
  t.equal(await code({ referer: 'https://notexample.com/' }), 403)
  await restrict({ domainsBlocked: ['example.com'] })
  t.equal(await code(), 200, 'the omitted restriction is gone, and a request without a domain passes')
  t.equal(await code({ referer: 'https://a.example.com./' }), 403)

  await restrict({ auth: [auth('ann', 'pa:ss'), auth('bób', 'ünï')] })
  const asked = await get(process, path)
  t.same(statusOf(asked), [401, 'error-passwordRequired'])
  t.match(asked.headers['www-authenticate'], /^Basic realm="[^"]+", charset="UTF-8"$/)
  const wrong = await get(process, path, basic('ann', 'pass'))
  t.same(statusOf(wrong), [401, 'error-passwordWrong'])
  t.ok(wrong.headers['www-authenticate'])
  t.equal(await code(basic('ann', 'pa:ss')), 200)
  t.equal(await code(basic('bób', 'ünï')), 200)
  t.equal(await code(basic('bób', 'pa:ss')), 401)
  t.equal(await code({ authorization: 'Basic !!!' }), 401)
  t.equal(await code({ authorization: `Bearer ${token}` }), 401)

  const expireTime = Math.floor(nowMs / 1000) + 2
  await restrict({ expireTime })
  t.equal(await code(), 200)
  nowMs = expireTime * 1000
  t.same(statusOf(await get(process, path)), [404, 'error-notFound'], 'over')
  await restrict({})
  t.equal(await code(), 200)
  await process.ask(token, 'done', { $case: 'deleteDirectLink', value: { contentId: id, linkId } })
  t.equal(await code(), 404)
})

t.test('wrong credentials draw on a budget of guesses', async (t) => {
  const { process, token, root } = await start(t, { rateLimits: 'default' })
  const { id } = await addFile(process, token, root, 'a.txt', Buffer.from('content'))
  const path = await putLink(process, token, id, { auth: [auth('ann', 'right')] })
  t.equal((await get(process, path, basic('ann', 'right'))).code, 200)
  let tries = 0
  for (; tries < 100; tries++)
    if ((await get(process, path, basic('ann', `wrong ${tries}`))).code === 429) break
  t.ok(tries < 50, `${tries} guesses`)
  const blocked = await get(process, path, basic('ann', 'right'))
  t.same(statusOf(blocked), [429, 'error-rateLimit'])
  t.ok(blocked.headers['retry-after'])
})

t.test(
  'of a burst of 300 wrong credentials no more than the budget is checked, and a right one behind it is not',
  async (t) => {
    const { process, token, root } = await start(t, { rateLimits: 'default' })
    const { id } = await addFile(process, token, root, 'a.txt', Buffer.from('content'))
    const path = await putLink(process, token, id, { auth: [auth('ann', 'right')] })
    const passwords = [...Array.from({ length: 300 }, (_, at) => `wrong ${at}`), 'right']
    const answers = await Promise.all(passwords.map((password) => get(process, path, basic('ann', password))))
    const codes = answers.map(({ code }) => code)
    t.equal(codes.filter((code) => code === 401).length, 30)
    t.equal(codes.at(-1), 429)
  },
)

/** A folder with files, empty folders, duplicates and hostile names. */
async function someFolder(process: OneProcess, token: string, root: string) {
  const top = await addFolder(process, token, root, 'Top: “folder”')
  const sub = await addFolder(process, token, top, 'sub')
  await addFolder(process, token, sub, 'empty')
  const large = randomBytes(700_000)
  const files = [
    await addFile(process, token, top, 'twin.txt', Buffer.from('first')),
    await addFile(process, token, top, 'TWIN.txt', Buffer.from('second')),
    await addFile(process, token, top, 'CON', Buffer.from('device')),
    await addFile(process, token, sub, 'large 日本.bin', large),
    await addFile(process, token, sub, 'none', Buffer.alloc(0)),
  ]
  for (let at = 0; at < 50; at++) await addFile(process, token, sub, `small ${at}`, Buffer.from(`${at}`))
  return { top, sub, files, large }
}

t.test('a folder comes as an archive that unpacks, whole and in ranges', async (t) => {
  const { process, token, root } = await start(t)
  const { top, large } = await someFolder(process, token, root)
  const path = await putLink(process, token, top)
  const whole = await get(process, path)
  t.match(whole, {
    code: 200,
    headers: {
      'content-type': 'application/zip',
      'accept-ranges': 'bytes',
      'content-length': String(whole.body.length),
    },
  })
  t.match(
    whole.headers['content-disposition'],
    /^attachment; filename="Top: _folder_.zip"; filename\*=UTF-8''Top%3A%20%E2%80%9Cfolder%E2%80%9D\.zip$/,
  )
  t.match(whole.headers.etag, /^"zip-[0-9a-f]{40}"$/)
  const dir = t.testdir()
  writeFileSync(join(dir, 'a.zip'), whole.body)
  t.match(execFileSync('unzip', ['-t', 'a.zip'], { cwd: dir, encoding: 'utf8' }), /No errors detected/)
  const script = `import zipfile; z = zipfile.ZipFile('a.zip'); z.extractall('out'); print('\\n'.join(z.namelist()[:4]))`
  t.equal(
    execFileSync('python3', ['-c', script], { cwd: dir, encoding: 'utf8' }),
    'Top_ “folder”/twin.txt\nTop_ “folder”/TWIN (2).txt\nTop_ “folder”/_CON\nTop_ “folder”/sub/large 日本.bin\n',
  )
  t.ok(readFileSync(join(dir, 'out', 'Top_ “folder”', 'sub', 'large 日本.bin')).equals(large))

  const { etag } = whole.headers
  const head = await get(process, path, {}, 'HEAD')
  t.same([head.headers.etag, head.headers['content-length']], [etag, String(whole.body.length)])
  for (const [first, last] of [
    [0, 10],
    [100, 300_000],
    [700_000, 702_000],
    [whole.body.length - 30, whole.body.length - 1],
  ] as const) {
    const part = await get(process, path, { range: `bytes=${first}-${last}` })
    t.equal(part.code, 206)
    t.ok(part.body.equals(whole.body.subarray(first, last + 1)), `${first}-${last}`)
  }
  const two = await get(process, path, { range: 'bytes=0-9,-10' })
  t.match(two.headers['content-type'], /^multipart\/byteranges/)
  t.equal((await get(process, path, { 'if-none-match': etag })).code, 304)

  const empty = await addFolder(process, token, root, 'empty')
  const archive = await get(process, await putLink(process, token, empty))
  t.equal(archive.body.length, 22)
  await process.downloads.close()
  const account = await process.ask(token, 'account', { $case: 'getAccount', value: {} })
  t.ok(account.trafficDirect >= whole.body.length && account.trafficWeb === 0, 'counted as direct traffic')
})

t.test('an archive is resumed as it was begun, and never mixed', async (t) => {
  const { process, token, root } = await start(t)
  const { top, sub, files } = await someFolder(process, token, root)
  const path = await putLink(process, token, top)
  const old = await get(process, path)
  const oldTag = old.headers.etag ?? ''
  const mid = Math.floor(old.body.length / 2)
  const range = `bytes=${mid}-`
  const isOldRest = ({ code, body, headers }: Answer) =>
    code === 206 && headers.etag === oldTag && body.equals(old.body.subarray(mid))
  t.ok(isOldRest(await get(process, path, { range })))

  await addFile(process, token, sub, 'new', Buffer.from('new'))
  await process.ask(token, 'content', {
    $case: 'updateContent',
    value: { contentId: sub, attribute: { $case: 'name', value: 'renamed' } },
  })
  t.ok(isOldRest(await get(process, path, { range })), 'the folder grew: an interrupted client continues')
  t.ok(isOldRest(await get(process, path, { range, 'if-range': oldTag })), 'also by ETag')
  t.ok(
    isOldRest(await get(process, path, { range, 'if-range': oldTag, 'x-forwarded-for': '9.9.9.9' })),
    'from elsewhere',
  )
  const stranger = await get(process, path, { range, 'x-forwarded-for': '9.9.9.9' })
  t.equal(stranger.code, 206)
  t.not(stranger.headers.etag, oldTag, 'a new client gets a part of the current archive')
  const other = await get(process, path, { range, 'if-range': '"zip-00"' })
  t.equal(other.code, 200)
  t.not(other.headers.etag, oldTag, 'a client with another archive gets the whole current one')
  t.ok(await unpacks(t, other.body))

  const again = await get(process, path)
  const againRest = `bytes=${mid}-`
  await process.ask(token, 'done', {
    $case: 'deleteContents',
    value: { contentIds: [files[3]?.id ?? ''], representation: undefined, heldSeconds: undefined },
  })
  const after = await get(process, path, { range: againRest })
  t.equal(after.code, 200, 'content was removed: the whole new archive, not a mixture')
  t.ok(after.body.length < again.body.length)
  t.ok(await unpacks(t, after.body))
  t.equal((await get(process, path, { range: againRest, 'if-range': again.headers.etag ?? '' })).code, 200)
})

async function unpacks(t: Test, archive: Buffer): Promise<boolean> {
  const file = join(t.testdir(), `${randomUUID()}.zip`)
  writeFileSync(file, archive)
  return /No errors detected/.test(execFileSync('unzip', ['-t', file], { encoding: 'utf8' }))
}

/** Records which blobs were pinned; reads wait for `gate`. */
class WatchedStore extends MemoryBlobStore {
  readonly pinned = new Set<string>()
  pins = 0
  /** Pins are made without a turn of the loop, as of blobs in memory. */
  pinsAtOnce = false
  gate: Promise<void> | undefined
  /** Pins of this blob that are to fail. */
  failing = { id: '', times: 0 }
  override pin(...[blob, options]: Parameters<BlobStore['pin']>): Promise<boolean> {
    const id = hex(blob.id)
    if (id === this.failing.id && this.failing.times-- > 0) return Promise.reject(new Error('not now'))
    this.pinned.add(id)
    this.pins++
    return this.pinsAtOnce ? Promise.resolve(true) : super.pin(blob, options)
  }
  override async *read(...args: Parameters<BlobStore['read']>): AsyncGenerator<Uint8Array> {
    await this.gate
    yield* super.read(...args)
  }
}

for (const times of [0, 2]) {
  const name = times === 0 ? '' : ', also that whose pin failed'
  t.test(`a running archive pins what it will still send${name}`, async (t) => {
    const blobs = new WatchedStore()
    const { process, token, root } = await start(t, { blobs })
    const { top, files } = await someFolder(process, token, root)
    const path = await putLink(process, token, top)
    const gate = Promise.withResolvers<void>()
    blobs.gate = gate.promise
    const expected = files
      .filter(({ size }) => size > 0)
      .map(({ blob }) => (blob === undefined ? '' : hex(blob.id)))
    blobs.failing = { id: expected[0] ?? '', times }
    const running = get(process, path)
    const givenUpMs = Date.now() + 60_000
    while (!expected.every((id) => blobs.pinned.has(id)) && Date.now() < givenUpMs)
      await new Promise((resolve) => setTimeout(resolve, 5))
    t.same(
      expected.filter((id) => !blobs.pinned.has(id)),
      [],
      'before the first of them is read',
    )
    gate.resolve()
    t.ok(await unpacks(t, (await running).body))
  })
}

t.test('archives that begin together pin a few files in each turn of the loop', async (t) => {
  const blobs = new WatchedStore()
  const { process, token, root } = await start(t, { blobs })
  const top = await addFolder(process, token, root, 'many')
  for (let at = 0; at < 300; at++) await addFile(process, token, top, `small ${at}`, Buffer.from(`${at}`))
  const path = await putLink(process, token, top)
  const gate = Promise.withResolvers<void>()
  blobs.gate = gate.promise
  blobs.pinsAtOnce = true
  blobs.pins = 0
  let most = 0
  let [before, isWatching] = [0, true]
  const watch = () => {
    most = Math.max(most, blobs.pins - before)
    before = blobs.pins
    if (isWatching) setImmediate(watch)
  }
  watch()
  const running = Array.from({ length: 4 }, () => get(process, path))
  const givenUpMs = Date.now() + 60_000
  while (blobs.pins < 4 * 300 && Date.now() < givenUpMs)
    await new Promise((resolve) => setTimeout(resolve, 5))
  isWatching = false
  most = Math.max(most, blobs.pins - before)
  t.ok(most <= 2 * 64, `${most} in one turn`)
  gate.resolve()
  for (const { body } of await Promise.all(running)) t.ok(await unpacks(t, body))
})

t.test('concurrent requests share one layout of a folder, until it changes', async (t) => {
  let manifests = 0
  const accounts = (real: AccountClient): AccountClient => ({
    call(...[request, options]) {
      const { operation } = request
      if (operation?.$case === 'openDirectLink' && !operation.value.versionOnly) manifests++
      return real.call(request, options)
    },
  })
  const { process, token, root } = await start(t, { accounts })
  const { top, sub } = await someFolder(process, token, root)
  const paths = [await putLink(process, token, top), await putLink(process, token, top)]
  const asked = async () => {
    const answers = await Promise.all([...paths, ...paths].map((path) => get(process, path)))
    const tags = new Set(answers.map(({ headers }) => headers.etag))
    t.equal(tags.size, 1)
    return [...tags][0]
  }
  const before = await asked()
  t.equal(manifests, 1)
  await get(process, paths[0] ?? '', { range: 'bytes=100-' })
  await addFile(process, token, root, 'elsewhere', Buffer.from('elsewhere'))
  t.equal(await asked(), before)
  t.equal(manifests, 1, 'later, in ranges, and after changes elsewhere')
  await addFile(process, token, sub, 'new', Buffer.from('new'))
  const after = await asked()
  t.not(after, before)
  t.equal(manifests, 2)
})

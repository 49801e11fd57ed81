import { createHash } from 'node:crypto'
import type { AccountClient } from '@holdfast/accounts'
import {
  AnswerBudget,
  createHttpHost,
  createLog,
  createRateLimits,
  ItemPresenter,
  ownParts,
} from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import { MemoryLookupStore } from '@holdfast/journal/testing'
import { Keyring, systemClock } from '@holdfast/kernel'
import { OperatorActs, Reports } from '@holdfast/moderation'
import { type AccountOperation, type AccountReply, ArchiveView, blank, Item } from '@holdfast/wire'
import { Registry } from 'prom-client'
import t from 'tap'
import { webPages } from '../src/index.ts'
import { bytesText } from '../src/listing-page.ts'
import { startPage, type UploadRules } from '../src/start-page.ts'

const keyring = new Keyring(new Uint8Array(32))
const account = keyring.ids.account('eu-par')
const shared = keyring.ids.content(account)
const passwordHash = createHash('sha256').update('correct horse').digest('hex')

const unlimited = { folderSeconds: undefined, folderSecondsMax: undefined, idleSeconds: undefined }
const rules: UploadRules = {
  guestUploads: true,
  fileBytesMax: undefined,
  lifetimes: { guest: unlimited, standard: unlimited },
}

t.test('hostile names and descriptions are text, and only our own files may run on a page', async (t) => {
  const { host } = await start(t, () =>
    view(folder('<script>alert(1)</script>', { description: '</p><img src=x onerror=alert(1)>' })),
  )
  const answer = await host.inject('/d/CodeCode')
  t.equal(answer.statusCode, 200)
  t.match(answer.headers['content-type'], 'text/html')
  t.notMatch(answer.body, /<script>|<img/)
  t.match(answer.body, '&lt;script&gt;alert(1)&lt;/script&gt;')
  t.match(answer.body, '<p class="description">&lt;/p&gt;&lt;img src=x onerror=alert(1)&gt;</p>')
  const policy = String(answer.headers['content-security-policy'])
  t.match(policy, "default-src 'none'")
  t.notMatch(policy, /unsafe|\*/)
  t.equal(answer.headers['referrer-policy'], 'no-referrer')
  for (const path of ['/', '/profile', '/d/CodeCode']) {
    const { body } = await host.inject(path)
    t.notMatch(
      body,
      /<script(?![^>]*\ssrc=)|<[a-z][^>]*\s(on\w+|style)=|="javascript:/i,
      `${path} has nothing inline`,
    )
  }
})

t.test(
  'a listing shows files by signed links, folders by codes, locked folders without any of their content',
  async (t) => {
    const children = [
      folder('sub', { code: 'SubCode1' }),
      folder('locked', { code: 'LockCode', canAccess: false, password: true }),
      file('a & b.txt', { size: 1_234_567, downloads: 3 }),
    ]
    const { host } = await start(t, () =>
      view(folder('shared', { children, childrenCount: 3 }), { totalCount: 3 }),
    )
    const { body } = await host.inject('/d/CodeCode')
    t.match(body, 'href="/d/SubCode1"')
    t.match(body, 'href="/d/LockCode"')
    t.match(body, /href="https:\/\/dl\.example\.org\/download\/[^"]+\/a%20%26%20b\.txt\?c=[A-Za-z0-9_-]+"/)
    t.match(body, '1.2 MB')
    t.match(body, '3 entries')
  },
)

t.test('a page shows the attributes of its file, and the expiry of its folder', async (t) => {
  const shown = { mimetype: 'audio/ogg', createTime: 86_400, downloads: 41, size: 2_500_000 }
  const blob = {
    id: Buffer.alloc(48, 0xab),
    incarnation: Buffer.alloc(16),
    size: 0,
    crc32: 0,
    placementGroup: 0,
  }
  const { host } = await start(t, () => view(file('a.ogg', { ...shown, blob })))
  const { body } = await host.inject('/d/CodeCode')
  for (const value of ['audio/ogg', '41', '<code>abababababababababababababababab</code>'])
    t.match(body, `<dd>${value}</dd>`)
  t.match(body, '<dd><time datetime="1970-01-02T00:00:00.000Z">1970-01-02 00:00 UTC</time></dd>')
  t.match(body, '2.5 MB')
  const closing = await start(t, () => view(folder('f', { expiry: 2 * 86_400 })))
  t.match((await closing.host.inject('/d/CodeCode')).body, 'open until <time datetime="1970-01-03T')
})

t.test('content is reported by a form, and an invalid report is refused with the reason', async (t) => {
  const { host, reports } = await start(t, () => view(file('a.txt')), { mode: 'default' })
  t.match((await host.inject('/d/CodeCode')).body, /href="\/report\/[\w-]+"/)
  const form = await host.inject('/report/CodeCode')
  t.match(form, { statusCode: 200, body: /<form[^>]+method="post" action="\/report\/CodeCode"/ })
  const send = (fields: Record<string, string>, name = 'CodeCode') =>
    host.inject({
      method: 'POST',
      url: `/report/${name}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams(fields).toString(),
    })
  const text = `${'\u4e2d'.repeat(990)}"\\\n\u0000`
  const fields = { category: 'malware', text, contact: 'ann@example.org' }
  t.match(await send(fields), { statusCode: 201, body: /Thank you/ })
  const [report] = (await reports.page('new')).reports
  t.match(report, { content: shared, account, category: 'malware', contact: 'ann@example.org', state: 'new' })
  t.equal(report?.address, '127.0.0.1')
  t.match(await send({ ...fields, category: 'dull' }), { statusCode: 400, body: /Choose what is wrong/ })
  t.match(await send({ ...fields, text: 'x'.repeat(1_001) }), { statusCode: 400, body: /too long/ })
  t.match(await send({ ...fields, contact: 'nowhere' }), { statusCode: 400, body: /no mail address/ })
  t.match(await send({ ...fields, text: '', contact: '' }), { statusCode: 201 })
  t.match(await send(fields, 'Nothing1'), { statusCode: 404 })
  t.equal((await reports.page('new')).reports.length, 2)
  // Also when a window of the budget ends meanwhile.
  let last = 201
  for (let count = 0; count < 25 && last !== 429; count++) last = (await send(fields)).statusCode
  t.equal(last, 429, 'a network has a budget')
})

t.test('a visitor sees that a report of much reported content was not added', async (t) => {
  const { host, reports } = await start(t, () => view(file('a.txt')))
  const of = { content: shared, account, category: 'other', text: '', contact: '' } as const
  for (let number = 0; number < 20; number++) await reports.add({ ...of, address: `198.51.100.${number}` })
  const answer = await host.inject({
    method: 'POST',
    url: '/report/CodeCode',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: 'category=other',
  })
  t.match(answer, { statusCode: 429, body: /was not added/, headers: { 'retry-after': '86400' } })
})

t.test('paging and sorting reach the account, invalid values do not', async (t) => {
  const { host, asked } = await start(t, () => view(folder('shared'), { totalCount: 450, page: 2 }))
  const { body } = await host.inject('/d/CodeCode?page=2&sort=size&order=desc')
  t.match(asked.at(-1), { page: 2, pageSize: 200, ascending: false, sortField: 3 })
  t.match(body, 'Page 2 of 3')
  t.match(body, 'href="?sort=size&amp;order=desc&amp;page=3"')
  await host.inject('/d/CodeCode?page=-1&sort=constructor&order=up&page=7')
  t.match(asked.at(-1), { page: 1, ascending: true, sortField: 2 })
})

t.test('refusals are pages with the code of the API', async (t) => {
  const { host } = await start(t, (request) =>
    request.contentId === shared
      ? { $case: 'refusal', value: { status: 'error-notOwner' } }
      : view(folder('x')),
  )
  const codes = async (path: string) => (await host.inject(path)).statusCode
  t.equal(await codes('/d/CodeCode'), 401, 'private')
  t.equal(await codes('/d/Unknown8'), 404)
  t.equal(await codes('/d/6ba7b810-9dad-11d1-80b4-00c04fd430c8'), 404, 'an id that was never ours')
  t.equal(await codes('/d/..%2f..%2fetc'), 404)
  t.equal(await codes('/d/%00'), 404)
  const elsewhere = await host.inject('/nowhere')
  t.same(
    [elsewhere.statusCode, elsewhere.json()],
    [404, { status: 'error-notFound' }],
    'other paths keep the envelope',
  )
})

t.test(
  'a protected folder requires its password, remembers it for this browser, and reports a wrong one',
  async (t) => {
    const { host, asked } = await start(t, ({ password }) => {
      if (password === passwordHash) return view(folder('secret plans'))
      const status = password === undefined ? 'error-passwordRequired' : 'error-passwordWrong'
      return { $case: 'refusal', value: { status } }
    })
    const before = await host.inject('/d/CodeCode')
    t.equal(before.statusCode, 401)
    t.match(before.body, /<form[^>]*method="post"[^>]*action="\/d\/CodeCode"/)
    t.notMatch(before.body, 'secret plans')

    const type = 'application/x-www-form-urlencoded'
    const post = (payload: string) =>
      host.inject({ method: 'POST', url: '/d/CodeCode', payload, headers: { 'content-type': type } })
    const wrong = await post('password=nope')
    t.equal(wrong.statusCode, 401)
    t.match(wrong.body, 'That is not it')
    t.equal(wrong.headers['set-cookie'], undefined)

    const right = await post('password=correct+horse')
    t.equal(right.statusCode, 303)
    t.equal(right.headers.location, '/d/CodeCode')
    t.match(
      String(right.headers['set-cookie']),
      /^folderPassword=[0-9a-f]{64}; Path=\/d; HttpOnly; SameSite=Lax; Secure$/,
    )

    const cookie = String(right.headers['set-cookie']).split(';')[0] as string
    const after = await host.inject({ url: '/d/CodeCode', headers: { cookie: `other=1; ${cookie}` } })
    t.equal(after.statusCode, 200)
    t.match(after.body, 'secret plans')
    t.equal(asked.at(-1)?.password, passwordHash)
    t.equal((await post('')).statusCode, 400)
  },
)

t.test('guesses of passwords and codes on the pages are bounded as on the API', async (t) => {
  const refused = { $case: 'refusal', value: { status: 'error-passwordWrong' } } as const
  const { host } = await start(t, () => refused, { mode: 'default' })
  const guess = (n: number) =>
    host.inject({ url: '/d/CodeCode', headers: { cookie: `folderPassword=${String(n).padStart(64, '0')}` } })
  const codes = []
  for (let n = 0; n < 32; n++) codes.push((await guess(n)).statusCode)
  t.equal(codes[0], 401)
  t.equal(codes.at(-1), 429)
  t.ok((await guess(99)).headers['retry-after'])
})

t.test('existing assets come with a type and an ETag', async (t) => {
  const { host } = await start(t, () => view(folder('x')))
  for (const [name, type] of [
    ['style.css', 'text/css'],
    ['upload.js', 'text/javascript'],
    ['icon.svg', 'image/svg+xml'],
  ]) {
    const answer = await host.inject(`/assets/${name}`)
    t.match(answer.headers['content-type'], type as string)
    const again = await host.inject({
      url: `/assets/${name}`,
      headers: { 'if-none-match': String(answer.headers.etag) },
    })
    t.same([again.statusCode, again.body], [304, ''])
  }
  const { body } = await host.inject('/assets/style.css')
  t.ok(body.includes('--ground:') && body.includes('.drop {'), 'what pages share, and their own')
  t.equal((await host.inject('/assets/../package.json')).statusCode, 404)
})

t.test('sizes are written with three digits at most', async (t) => {
  const texts = [0, 999, 1000, 99_949, 99_950, 999_499, 999_500, 1.5e12, 9e18].map(bytesText)
  t.same(texts, ['0 B', '999 B', '1.0 kB', '99.9 kB', '100 kB', '999 kB', '1.0 MB', '1.5 TB', '9000 PB'])
})

t.test('the start page shows the operator’s bounds of uploads', async (t) => {
  const page = (more: Partial<UploadRules>) =>
    startPage({ uploadUrl: 'https://up.example.org', rules: { ...rules, ...more } }).body.text
  t.notMatch(page({}), 'id="rules"')
  t.match(page({}), 'No account needed')
  t.match(page({ guestUploads: false }), 'Uploads need an account.')
  t.match(page({ guestUploads: false }), /curl -H \S+Authorization: Bearer \$token\S+ -F/)
  t.match(page({}), 'curl -F')
  const guest = { folderSeconds: 86_400, folderSecondsMax: 7 * 86_400, idleSeconds: 5_400 }
  const standard = { ...unlimited, folderSecondsMax: 90 * 86_400 }
  const text = page({ fileBytesMax: 1.5 * 1024 ** 3, lifetimes: { guest, standard } })
  for (const [fileBytesMax, reported] of [
    [1_000_000, '1 MB'],
    [2 ** 20, '1 MiB'],
    [500, '500 bytes'],
  ] as const)
    t.match(page({ fileBytesMax, lifetimes: { guest, standard } }), `at most ${reported}.`)
  for (const line of [
    'A file has at most 1.5 GiB.',
    'Without an account, a folder is deleted 1 day after it was made, 7 days at most.',
    'Without an account, a file is deleted when it was not downloaded for 1.5 hours.',
    'In standard accounts, a folder is deleted 90 days after it was made.',
  ])
    t.match(text, `<li>${line}</li>`)
})

t.test('the rows of a page are made in pieces, each when it is the turn of its network', async (t) => {
  const children = Array.from({ length: 200 }, (_, number) => folder(`<${number}>`, { code: 'SubCode1' }))
  const answers = new AnswerBudget(plainBudget)
  const take = answers.turns.take.bind(answers.turns)
  const held: number[] = []
  answers.turns.take = (...piece) => {
    held.push(answers.held)
    return take(...piece)
  }
  const { host } = await start(t, () => view(folder('shared', { children })), { answers })
  const { body } = await host.inject('/d/CodeCode')
  t.same(
    [...body.matchAll(/<bdi>&lt;(\d+)&gt;<\/bdi>/g)].map(([, number]) => Number(number)),
    children.map((_, number) => number),
  )
  t.equal(held.length, 13, 'pieces of 16 rows')
  t.ok(
    held.every((bytes) => bytes >= 100_000),
    'room for all of them is taken before the first',
  )
  t.equal(answers.held, 0, 'and returned with the answer')
})

t.test('the button of a folder leads to its archive, with the password that was kept', async (t) => {
  const asked: Opened[] = []
  const archive = (request: Opened): Result => {
    asked.push(request)
    const { password } = request
    if (password === undefined) return { $case: 'refusal', value: { status: 'error-passwordRequired' } }
    if (password !== passwordHash) return { $case: 'refusal', value: { status: 'error-passwordWrong' } }
    const passwordVersions = [Buffer.alloc(16, 1)]
    return { $case: 'archive', value: { ...blank(ArchiveView), name: 'some & more', passwordVersions } }
  }
  const children = [file('a.txt')]
  const listing = () => view(folder('shared', { children, childrenCount: 1 }))
  const { host } = await start(t, listing, { archive })
  t.match((await host.inject('/d/CodeCode')).body, '<a class="button" href="/d/CodeCode/archive"')
  const { host: empty } = await start(t, () => view(folder('empty')))
  t.notMatch((await empty.inject('/d/CodeCode')).body, '/archive')
  const open = (password?: string) =>
    host.inject({
      url: '/d/CodeCode/archive',
      headers: password === undefined ? {} : { cookie: `folderPassword=${password}` },
    })
  const { statusCode, headers } = await open(passwordHash)
  t.equal(statusCode, 303)
  t.match(
    headers.location,
    /^https:\/\/dl\.example\.org\/download\/archive\/some%20%26%20more\.zip\?c=[\w-]+$/,
  )
  const contentIds = [shared]
  t.same(asked.at(-1), { contentIds, password: passwordHash, passwordVersions: [], versionOnly: true })
  for (const password of [undefined, '0'.repeat(64)]) {
    const refused = await open(password)
    t.match([refused.statusCode, refused.headers.location], [303, '/d/CodeCode'])
  }
  t.equal((await host.inject('/d/unknown/archive')).statusCode, 404)
})

type Read = Extract<AccountOperation, { $case: 'readContent' }>['value']
type Opened = Extract<AccountOperation, { $case: 'openArchive' }>['value']
type Result = NonNullable<AccountReply['result']>

async function start(
  t: { teardown(undo: () => unknown): void },
  answer: (request: Read) => Result,
  {
    mode = 'off',
    answers = new AnswerBudget(plainBudget),
    archive = () => ({ $case: 'refusal', value: { status: 'error-notFound' } }),
  }: { mode?: 'off' | 'default'; answers?: AnswerBudget; archive?: (request: Opened) => Result } = {},
) {
  const asked: Read[] = []
  const accounts: AccountClient = {
    call: async ({ operation, caller }) => {
      if (operation?.$case === 'openArchive' && caller?.who?.$case === 'visitor')
        return { result: archive(operation.value) }
      if (operation?.$case !== 'readContent' || caller?.who?.$case !== 'visitor')
        throw new Error('not what pages ask')
      asked.push(operation.value)
      return { result: answer(operation.value) }
    },
  }
  const codes = { contentOf: async (code: string) => (code === 'CodeCode' ? shared : undefined) }
  const rateLimits = createRateLimits({ mode, clock: systemClock })
  const log = createLog({ level: 'silent' })
  const host = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log,
    metrics: new Registry(),
    rateLimits,
    trustProxy: false,
    cors: true,
  })
  const presenter = new ItemPresenter({
    downloadUrl: 'https://dl.example.org',
    serversOf: () => ['store1'],
    directUrlOf: undefined,
    capabilityKey: keyring.derive('capability'),
  })
  const urls = { upload: 'https://up.example.org', web: 'https://files.example.org' }
  const lookups = new MemoryLookupStore()
  const acts = new OperatorActs({ lookups, clock: systemClock })
  const reports = new Reports({ lookups, clock: systemClock, acts, networkOf: (address) => address })
  const { ids } = keyring
  host.register(
    webPages({
      ...{ accounts, codes, ids, clock: systemClock, rateLimits, presenter, answers, urls, rules, reports },
    }),
  )
  t.teardown(() => host.close())
  await host.ready()
  return { host, asked, reports }
}

function view(item: Item, page: { totalCount?: number; page?: number } = {}): Result {
  const listing = { page: 1, pageSize: 200, totalCount: item.children.length, ...page }
  const value = { item, page: listing, tokenCounter: 0, tokenKeyId: 0, files: undefined, places: [] }
  return { $case: 'content', value }
}

function file(name: string, more: Partial<Item> = {}): Item {
  const blob = { id: Buffer.alloc(48), incarnation: Buffer.alloc(16), size: 0, crc32: 0, placementGroup: 0 }
  return { ...folder(name), isFolder: false, mimetype: 'text/plain', blob, ...more }
}

function folder(name: string, more: Partial<Item> = {}): Item {
  return {
    ...blank(Item),
    id: keyring.ids.content(account),
    isFolder: true,
    name,
    code: 'CodeCode',
    createTime: 1_790_000_000,
    modTime: 1_790_000_000,
    canAccess: true,
    isPublic: true,
    hasChildren: true,
    ...more,
  }
}

/** What operators do about abuse, over one running service. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '@holdfast/http-kit'
import { readConfig, type Standalone, startStandalone } from '@holdfast/standalone'
import t from 'tap'
import { ctl } from '../src/index.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-abuse-'))
t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
const env = {
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
  HOLDFAST_RATE_LIMITS: 'off',
  HOLDFAST_DOWNLOAD_RECORD_DAYS: '1',
  HOLDFAST_TRUST_PROXY: '1',
  HOLDFAST_DATA_DIR: dataDir,
  HOLDFAST_ADMIN_TOKEN: 'operator-secret-0123456789',
}
const { config, secrets } = readConfig(env, { readSecret: () => '' })
const service: Standalone = await startStandalone({ config, secrets, log: createLog({ level: 'silent' }) })
t.teardown(() => service.close())
const { upload, download, api, admin, web } = service.addresses

async function run(words: string, ...rest: string[]) {
  const out: string[] = []
  const err: string[] = []
  const code = await ctl([...words.split(' '), ...rest], {
    env: {
      USER: 'ann',
      HOLDFAST_ADMIN_PORT: new URL(admin).port,
      HOLDFAST_ADMIN_TOKEN: env.HOLDFAST_ADMIN_TOKEN,
    },
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

// biome-ignore lint/suspicious/noExplicitAny: the test inspects answers
async function send(text: string, name: string, { from = '192.0.2.7', token = '' } = {}): Promise<any> {
  const form = new FormData()
  form.set('file', new File([text], name))
  const headers = { 'x-forwarded-for': from, ...(token === '' ? {} : { authorization: `Bearer ${token}` }) }
  return (await fetch(`${upload}/uploadfile`, { method: 'POST', body: form, headers })).json()
}

const md5Of = (text: string) => createHash('md5').update(text).digest('hex')

t.test('uploads and downloads are found by address, account, name and hash', async (t) => {
  const { data } = await send('recorded', 'Tax Fraud.pdf', { from: '198.51.100.9' })
  await send('another', 'cat.jpg', { from: '203.0.113.1' })
  const owner = JSON.parse((await run(`content show ${data.id}`)).out)
  const found = async (words: string, ...rest: string[]) => JSON.parse((await run(words, ...rest)).out)
  const row = {
    address: '198.51.100.9',
    account: owner.account,
    content: data.id,
    name: 'Tax Fraud.pdf',
    size: 8,
  }
  t.match(await found('uploads --address 198.51.100.0/24'), [
    { ...row, md5: owner.md5, blake3: owner.blake3 },
  ])
  for (const words of [
    `uploads --hash ${md5Of('recorded').toUpperCase()}`,
    `uploads --hash ${owner.blake3}`,
    `uploads --account ${owner.account}`,
    `uploads --content ${data.id}`,
  ])
    t.same((await found(words)).length, 1, words)
  t.match(await found('uploads --name', 'tax f'), [row])
  t.same(await found('uploads --name nothing --address 198.51.100.9'), [])
  t.equal((await found('uploads --count 1')).length, 1)
  const headers = { authorization: `Bearer ${data.guestToken}`, 'x-forwarded-for': '203.0.113.77' }
  t.equal(await (await fetch(`${download}/download/${data.id}/x`, { headers })).text(), 'recorded')
  const link = await fetch(`${api}/contents/${owner.parentFolder}/directlinks`, { method: 'POST', headers })
  const { directLink } = ((await link.json()) as { data: { directLink: string } }).data
  t.equal((await fetch(directLink, { headers })).status, 200)
  t.match(await found('downloads --address 203.0.113.77'), [
    { content: owner.parentFolder, name: 'ZIP archive', md5: null },
    { ...row, address: '203.0.113.77' },
  ])
  t.match(await run('uploads --address nowhere'), { code: 1, err: /CIDR range/ })
  t.match(await run('uploads --hash 12'), { code: 1, err: /md5 or a BLAKE3/ })
  t.match(await run('uploads --account nobody@example.org'), { code: 1, err: /no such account/ })
  t.match(await run('uploads --count 0'), { code: 2 })
})

t.test(
  'a report is accepted: all copies, uploads, links and archives answer 451, until undone',
  async (t) => {
    const copies = [await send('vile', 'a.txt'), await send('vile', 'b.txt'), await send('vile', 'c.txt')]
    const owner = copies[0].data
    const headers = { authorization: `Bearer ${owner.guestToken}` }
    await run(`account tier ${(await shown(owner.id)).account} premium`)
    const copied = await fetch(`${api}/contents/copy`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ contentsId: owner.id, folderId: owner.parentFolder }),
    })
    t.equal(copied.status, 200)
    const linked = async (id: string) =>
      (await (await fetch(`${api}/contents/${id}/directlinks`, { method: 'POST', headers })).json()) as {
        data: { directLink: string }
      }
    const direct = [await linked(owner.id), await linked(owner.parentFolder)].map(
      ({ data }) => data.directLink,
    )
    const listed = await run(`content find ${(await shown(owner.id)).account} a`)
    const ids: string[] = JSON.parse(listed.out)
      .filter((hit: { type: string }) => hit.type === 'file')
      .map((hit: { id: string }) => hit.id)
    t.equal(ids.length, 2, 'the file and its copy')
    const codes = async () => {
      const answers = [
        ...ids.map((id) => fetch(`${download}/download/${id}/x`, { headers })),
        ...copies.slice(1).map(({ data }) =>
          fetch(`${download}/download/${data.id}/x`, {
            headers: { authorization: `Bearer ${data.guestToken}` },
          }),
        ),
        ...direct.map((link) => fetch(link)),
      ]
      const uploads = await Promise.all(['vile', 'vile'].map((text) => send(text, 'again.txt')))
      const codes = (await Promise.all(answers)).map((answer) => answer.status)
      return { codes, uploads: uploads.map(({ status }) => status) }
    }
    const all = (code: number, status: string) => ({ codes: Array(6).fill(code), uploads: [status, status] })
    t.same(await codes(), all(200, 'ok'))

    const page = await fetch(`${web}/report/${owner.parentFolderCode}`, {
      method: 'POST',
      body: new URLSearchParams({ category: 'illegal', text: 'Look at a.txt' }),
      headers: { 'x-forwarded-for': '192.0.2.66' },
    })
    t.equal(page.status, 201)
    const [report] = JSON.parse((await run('reports list')).out)
    t.match(report, {
      content: owner.parentFolder,
      state: 'new',
      text: 'Look at a.txt',
      address: '192.0.2.66',
    })
    t.match(JSON.parse((await run(`reports show ${report.id}`)).out), { id: report.id, category: 'illegal' })
    t.match(await run('reports show nothing'), { code: 1, err: /no such report/ })
    t.match(await run('reports list --state old'), { code: 2 })
    const accepted = await run(`reports accept ${report.id} --block --suspend`)
    const lines = [String.raw`\S+ block content \S+`, String.raw`\S+ block account [\da-f-]{36}`]
    t.match(accepted, { code: 0, out: new RegExp(`^${[...lines, `${report.id} accepted`].join('\n')}$`) })
    t.same(await codes(), all(451, 'error-blocked'))
    const acts = JSON.parse((await run('acts --count 3')).out)
    t.match(acts, [
      { kind: 'accept', what: new RegExp(report.id) },
      { kind: 'block', what: /^account/, reason: `report ${report.id}` },
      { kind: 'block', what: /^content/ },
    ])
    t.same(JSON.parse((await run('reports list')).out), [])
    t.equal(JSON.parse((await run('reports list --state accepted')).out).length, 1)
    t.match(await run(`undo ${acts[2].id}`), { code: 0 })
    const rejected = await run(`reports reject ${report.id} --reason error`)
    const { id: suspension } = acts[1]
    const stays = `${suspension} block ${acts[1].what} still holds: undo ${suspension}`
    t.same(rejected, { code: 0, out: `${report.id} rejected\n${stays}`, err: '' })
    t.match(await run(`undo ${suspension}`), { code: 0 })
    t.same(await codes(), all(200, 'ok'))
    const again = await run(`reports reject ${report.id}`)
    t.same(again, { code: 0, out: `${report.id} rejected`, err: '' }, 'nothing holds')
    const deleted = await run(`reports accept ${report.id} --delete`)
    t.match(deleted, { code: 0, out: / delete content / })
    const deletion = deleted.out.split(' ')[0] as string
    t.match(await run(`reports reject ${report.id}`), { out: new RegExp(`still holds: undo ${deletion}$`) })
    t.match(await run(`content show ${owner.id}`), { code: 1, err: /no such content/ })
    t.match(await run('reports accept'), { code: 2 })
  },
)

t.test('a report of a folder takes down what is below it, at any depth', async (t) => {
  const { data } = await send('on top', 'top.txt')
  const headers = { authorization: `Bearer ${data.guestToken}`, 'content-type': 'application/json' }
  const files: string[] = [data.id]
  let parentFolderId: string = data.parentFolder
  for (const folderName of ['below', 'further below']) {
    const body = JSON.stringify({ parentFolderId, folderName })
    const made = await fetch(`${api}/contents/createFolder`, { method: 'POST', headers, body })
    parentFolderId = ((await made.json()) as { data: { id: string } }).data.id
    const form = new FormData()
    form.set('folderId', parentFolderId)
    form.set('file', new File([folderName], 'below.txt'))
    const { authorization } = headers
    const sent = await fetch(`${upload}/uploadfile`, {
      method: 'POST',
      headers: { authorization },
      body: form,
    })
    files.push(((await sent.json()) as { data: { id: string } }).data.id)
  }
  const codes = () =>
    Promise.all(files.map(async (id) => (await fetch(`${download}/download/${id}/x`, { headers })).status))
  t.same(await codes(), [200, 200, 200])
  const body = new URLSearchParams({ category: 'illegal', text: 'All of it' })
  await fetch(`${web}/report/${data.parentFolderCode}`, { method: 'POST', body })
  const [report] = JSON.parse((await run('reports list')).out)
  const accepted = await run(`reports accept ${report.id} --block`)
  t.match(accepted, { code: 0, out: / block content / })
  t.same(await codes(), [451, 451, 451])
  t.match(await run(`undo ${accepted.out.split(' ')[0]}`), { code: 0 })
  t.same(await codes(), [200, 200, 200])
})

t.test('the page finds, blocks and undoes, and acts only for its own forms', async (t) => {
  const { data } = await send('on the page', '<b>bold.txt', { from: '198.51.100.44' })
  const { account, blake3, md5 } = await shown(data.id)
  const origin = new URL(admin).origin
  const page = async (path: string, more: RequestInit = {}) => {
    const answer = await fetch(`${origin}${path}`, { redirect: 'manual', ...more })
    return { code: answer.status, text: await answer.text(), headers: answer.headers }
  }
  const stranger = await page('/moderation', { headers: { authorization: 'Bearer wrong' } })
  t.match(stranger, { code: 401, text: /name="token"/ }, 'another token is asked for one')
  t.notMatch(stranger.text, /Last uploads/)
  // If the system knows the user of a connection, the service's own user needs no token.
  t.equal((await page('/moderation')).code, process.platform === 'linux' ? 200 : 401)
  const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
    method: 'POST',
    body: new URLSearchParams(fields),
    headers: { origin, ...headers },
  })
  t.match(await page('/moderation/sign-in', form({ token: 'wrong' })), { code: 401, text: /not it/ })
  const signedIn = await page('/moderation/sign-in', form({ token: env.HOLDFAST_ADMIN_TOKEN }))
  t.equal(signedIn.code, 303)
  const set = signedIn.headers.get('set-cookie') ?? ''
  t.match(set, /HttpOnly; SameSite=Strict/)
  const cookie = set.split(';')[0] ?? ''
  const forged = {
    headers: { cookie: cookie.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')), authorization: 'x' },
  }
  t.equal((await page('/moderation', forged)).code, 401)
  const see = (path: string) => page(path, { headers: { cookie } })
  const home = await see('/moderation')
  t.match(home, { code: 200, text: /Last uploads/ })
  t.match(home.text, '&lt;b&gt;bold.txt')
  t.notMatch(home.text, /<b>bold|<script|\sstyle="|\son[a-z]+="/)
  t.match(home.headers.get('content-security-policy'), "default-src 'none'")
  for (const q of [
    data.id,
    data.parentFolder,
    `${web}/d/${data.parentFolderCode}`,
    account,
    md5,
    blake3,
    '198.51.100.0/24',
    'bold',
  ])
    t.match((await see(`/moderation?${new URLSearchParams({ q })}`)).text, /bold/, q)
  for (const path of [
    '/moderation/reports',
    '/moderation/reports?state=accepted',
    '/moderation/acts',
    '/moderation/blocked?list=network',
  ])
    t.equal((await see(path)).code, 200, path)
  t.equal((await see('/moderation?q=nobody@example.org')).code, 404)
  t.match(await page('/moderation', { headers: { cookie, 'sec-fetch-site': 'cross-site' } }), { code: 403 })
  t.match(await page('/moderation', { headers: { cookie, 'sec-fetch-site': 'same-origin' } }), { code: 200 })

  const mark = /name="mark" value="([^"]+)"/.exec((await see(`/moderation?q=${data.id}`)).text)?.[1] ?? ''
  const block = { mark, act: 'block', list: 'content', name: blake3, back: '/moderation?q=x', reason: 'seen' }
  const headers = { authorization: `Bearer ${data.guestToken}` }
  const code = async () => (await fetch(`${download}/download/${data.id}/x`, { headers })).status
  for (const [fields, sent] of [
    [
      { ...block, mark: 'x' },
      { cookie, origin },
    ],
    [block, { cookie, origin: 'https://evil.example' }],
    [block, { cookie, origin: 'null' }],
    [block, { cookie, origin, 'sec-fetch-site': 'same-site' }],
  ] as const)
    t.equal((await page('/moderation/act', form(fields, sent))).code, 403)
  t.equal(
    (await page('/moderation/act', { ...form(block), headers: { cookie } })).code,
    403,
    'without an origin',
  )
  t.equal(await code(), 200)
  const done = await page('/moderation/act', form(block, { cookie }))
  t.same([done.code, done.headers.get('location')], [303, '/moderation?q=x'])
  t.equal(await code(), 451)
  const [act] = JSON.parse((await run('acts --count 1')).out)
  t.match((await see(`/moderation?q=${data.id}`)).text, /It is blocked/)
  t.match(act, { kind: 'block', reason: 'seen', by: 'page from 127.0.0.1' })
  const away = await page(
    '/moderation/act',
    form({ mark, act: 'undo', name: act.id, back: '//evil.example' }, { cookie }),
  )
  t.same([away.code, away.headers.get('location')], [303, '/moderation'], 'it leads nowhere else')
  t.equal(await code(), 200)
  await run(`block content ${md5}`)
  t.match((await see(`/moderation?q=${data.id}`)).text, /It is blocked/, 'by its other hash')
  await run(`unblock content ${md5}`)
  t.equal((await page('/moderation/act', form({ mark, act: 'delete', name: data.id }, { cookie }))).code, 303)
  t.equal((await page('/moderation/act', form({ mark, act: 'delete', name: data.id }, { cookie }))).code, 400)
  t.equal((await page('/moderation/act', form({ mark, act: 'dance' }, { cookie }))).code, 400)
})

async function shown(name: string) {
  return JSON.parse((await run(`content show ${name}`)).out)
}

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLog } from '@holdfast/http-kit'
import { readConfig, startStandalone } from '@holdfast/standalone'
import t from 'tap'
import { commands } from '../src/commands.ts'
import { ctl, type ExitCode } from '../src/index.ts'

const ports = {
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
}
const adminToken = 'operator-secret-0123456789'
const someone = '6ba7b810-9dad-41d1-80b4-00c04fd430c8'

t.test('against a running service', async (t) => {
  const { service, run } = await start(t)
  const made = await run('account create')
  const guest = JSON.parse(made.out)
  const { id } = JSON.parse((await run('account create ann@example.org')).out)

  t.test('an account is made, with its token, and found by id and address', async (t) => {
    t.match(guest, { tier: 'guest', token: /^[\w-]{64}$/ })
    const shown = await run(`account show ${id},ANN@example.org`)
    t.equal(shown.code, 0)
    t.match(shown.out, /"tier": "standard"[\s\S]*"tier": "standard"/)
    const twice = await run('account create ann@example.org')
    t.equal(twice.code, 1)
    t.match(twice.err, 'known already')
    t.equal((await run('account create not-an-address')).code, 1)
  })

  t.test('an address is invited, for some days', async (t) => {
    const invited = JSON.parse((await run('invite bob@example.org --days 2')).out)
    t.match(invited, {
      email: 'bob@example.org',
      page: /^\/profile#invitation=[\w.-]+&email=bob%40example.org$/,
      link: `${service.addresses.web}${invited.page}`,
    })
    const seconds = invited.expireTime - Date.now() / 1000
    t.equal(Math.round(seconds / 86_400), 2)
    t.equal((await run('invite bob@example.org --days 0')).code, 1)
    t.equal((await run('invite bob')).code, 1)
    t.equal((await run('invite bob@example.com')).code, 1, 'HOLDFAST_SIGNUP_DOMAINS')
  })

  t.test('an invitation is withdrawn by its address, and that can be undone', async (t) => {
    const { out } = await run('block invitation Bob@example.org --reason left')
    t.match(await run('invite bob@example.org'), { code: 1, err: /were withdrawn/ })
    t.equal((await run('blocked invitation')).out, 'bob@example.org')
    await run(`undo ${out.split(' ')[0]}`)
    t.equal((await run('invite bob@example.org')).code, 0)
  })

  t.test('several accounts change in one call, and a failing one does not prevent the others', async (t) => {
    t.same(await run(`account tier ${id} ${guest.id} premium --type gift`), {
      code: 0,
      out: `${id} premium\n${guest.id} premium`,
      err: '',
    })
    const mixed = await run(`account tier ${id} ${someone} ${guest.id} standard`)
    t.equal(mixed.code, 1)
    t.equal(mixed.out, `${id} standard\n${guest.id} standard`)
    t.equal(mixed.err, `ctl: ${someone}: no such account`)
  })

  t.test('commands for a cluster are refused', async (t) => {
    for (const words of [
      'region evacuate eu-par',
      'region return eu-par',
      'node drain one',
      'node remove one',
      'node return one',
    ])
      t.match(await run(words), { code: 1, err: 'this service is no cluster' })
    t.equal((await run('node drain')).code, 2)
    t.equal((await run('node drain one two')).code, 2)
  })

  t.test('limits are set one by one, and restored to the tier’s', async (t) => {
    await run(`account tier ${id} standard`)
    const limits = async (words: string) =>
      JSON.parse((await run(`account limits ${id} ${words}`)).out.slice(id.length))
    t.match(await limits('--contents 5 --storage 1000'), { contents: 5, storage: 1000 })
    t.match(await limits('--contents none'), { contents: 10_000, storage: 1000 })
    t.match(await limits('--storage none'), { contents: 10_000, storage: null })
  })

  t.test('the bin is switched, and a sign-in link mailed', async (t) => {
    t.equal((await run(`account bin ${id} on`)).out, `${id} bin on`)
    t.match((await run(`account show ${id}`)).out, '"enabled": true')
    t.equal((await run(`account bin ${id} off`)).out, `${id} bin off`)
    t.equal((await run(`account mail ${id}`)).out, `${id} ann@example.org`)
    t.equal((await run(`account mail ${guest.id}`)).code, 1)
  })

  t.test('a legacy folder is printed as its id and its code of 6, or its id alone', async (t) => {
    const folder = await run(`legacy-folder ${guest.id} --name Old`)
    t.match(folder.out, /^[0-9a-f-]{36} [A-Za-z0-9]{6}$/)
    const page = await fetch(`${service.addresses.web}/d/${folder.out.split(' ')[1]}`)
    t.match(await page.text(), '<bdi>Old</bdi>')
    const bare = await run(`legacy-folder ${guest.id} --no-code`)
    t.match(bare.out, /^[0-9a-f-]{36}$/)
    t.equal((await fetch(`${service.addresses.web}/d/${bare.out}`)).status, 401)
  })

  t.test('the service reports its state, its settings and what it has collected', async (t) => {
    t.match(JSON.parse((await run('status')).out), { ready: true, role: 'standalone', store: { blobs: 0 } })
    t.match((await run('config')).out, /^HOLDFAST_API_PORT=/)
    t.match(JSON.parse((await run('collect --grace 0')).out), {
      deleted: 0,
      freedBytes: 0,
      liveBytes: 0,
      blobs: 0,
    })
    t.same(JSON.parse((await run('bans')).out), [])
    t.equal((await run('unban 192.0.2.1')).out, '192.0.2.1 was not banned')
    t.match(await run('unban nonsense'), { code: 1, err: /error-network/ })
  })
})

t.test(
  'content is blocked by its hash, alone or from a file, and each act is logged and undone',
  async (t) => {
    const { service, run } = await start(t)
    const { upload, download } = service.addresses
    const md5 = createHash('md5').update('bad').digest('hex')
    const form = new FormData()
    form.set('file', new File(['bad'], 'a.txt'))
    // biome-ignore lint/suspicious/noExplicitAny: the test inspects answers
    const put = async (): Promise<any> =>
      (await fetch(`${upload}/uploadfile`, { method: 'POST', body: form })).json()
    const { data } = await put()
    const read = async () => {
      const headers = { authorization: `Bearer ${data.guestToken}` }
      return (await fetch(`${download}/download/${data.id}/a.txt`, { headers })).status
    }
    t.equal(await read(), 200)
    const blocked = await run(`block content ${md5.toUpperCase()} --reason abuse`)
    t.match(blocked, { code: 0, out: /^\d{13}-[0-9a-f]{16} 1 blocked$/ })
    t.equal(await read(), 451)
    t.match(await put(), { status: 'error-blocked' })
    const dir = t.testdir({ list: `# ours\n${md5}  a.txt\n${'0'.repeat(64)} *b.txt\n` })
    t.match((await run(`block content --file ${dir}/list`)).out, / 1 blocked, 1 were so already$/)
    t.equal((await run('blocked content')).out, `${'0'.repeat(64)}\n${md5}`)
    const [act] = blocked.out.split(' ')
    t.match((await run(`undo ${act}`)).out, / 1 changed$/)
    t.equal(await read(), 200)
    t.equal((await run('blocked content')).out, '0'.repeat(64), 'the other act stays')
    const acts = JSON.parse((await run('acts')).out)
    t.match(acts, [
      { kind: 'undo', undoes: act, by: 'ann from 127.0.0.1' },
      { kind: 'block', what: /^content/ },
      { kind: 'block', reason: 'abuse', what: `content ${md5}`, by: 'ann from 127.0.0.1' },
    ])
    t.equal(JSON.parse((await run('acts --count 1')).out).length, 1)
    t.match((await run(`unblock content ${'0'.repeat(64)} ${md5}`)).out, / 1 unblocked, 1 were so already$/)
    t.match(await run('block content xyz'), { code: 1, err: /md5 or a BLAKE3/ })
    const wrong = t.testdir({ list: `${md5}\n\\${'1'.repeat(32)}  a\\\\b\nno hash\n${md5}0\n` })
    const refused = await run(`block content --file ${wrong}/list`)
    t.match(refused, { code: 1, err: new RegExp(`ctl: no, ${md5}0: a name is malformed`) }, 'it says which')
    t.equal((await run('blocked content')).out, '', 'nothing is done')
    await run('block network 192.0.2.7/24')
    t.match((await run('unblock network 192.0.2.0/24')).out, / 1 unblocked$/, 'the same network')
    const account = JSON.parse((await run('account create')).out).id
    t.match(JSON.parse((await run(`account show ${account}`)).out), { blockedBy: null })
    const [suspension] = (await run(`block account ${account}`)).out.split(' ')
    t.match(JSON.parse((await run(`account show ${account}`)).out), { blockedBy: suspension })
    t.match(await run('undo 0-0'), { code: 1, err: /no such act/ })
    for (const id of ['nonsense', data.id])
      t.match(await run(`deletions undo ${account} ${id}`), { code: 1, err: /no such deletion/ })
    t.match(await run('invite ann@example.org --days 0'), { code: 1, err: /--days takes a whole number/ })
    const directory = t.testdir({ 'release.json': '{"format":9,"version":"9.9.9"}' })
    t.match(await run(`upgrade ${directory}`), { code: 1, err: /does not open it: start 9\.9\.9/ })
    t.match(await run('block content --file /nowhere'), { code: 2, err: /cannot be read/ })
  },
)

t.test('content is found by id, code, link and name, looked at and deleted', async (t) => {
  const { service, run } = await start(t)
  const { upload, web, download } = service.addresses
  const send = async (fields: Record<string, string> = {}) => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.set(name, value)
    form.set('file', new File(['abuse'], 'Bad Thing.txt'))
    // biome-ignore lint/suspicious/noExplicitAny: the test inspects answers
    return ((await (await fetch(`${upload}/uploadfile`, { method: 'POST', body: form })).json()) as any).data
  }
  const file = await send()
  const again = await send()
  const md5 = createHash('md5').update('abuse').digest('hex')
  const folder = JSON.parse((await run(`content show ${web}/d/${file.parentFolderCode}`)).out)
  t.match(folder, { type: 'folder', public: true, children: [{ id: file.id, md5 }] })
  for (const name of [
    file.id,
    file.code,
    `${download}/download/${file.id}/x`,
    `${download}/direct/${file.id}/y/z`,
  ])
    t.match(JSON.parse((await run(`content show ${name}`)).out), { id: file.id, md5, blockedBy: null })
  const seen = JSON.parse((await run(`content show ${file.id}`)).out)
  const other = JSON.parse((await run(`content show ${again.id}`)).out)
  t.same(seen.usedBy, [seen.account, other.account].sort(), 'who else has the same bytes')
  const suspended = await run(`block account ${seen.account}`)
  await run(`block content ${seen.blake3}`)
  const [act] = suspended.out.split(' ')
  t.match(JSON.parse((await run(`content show ${file.code}`)).out), {
    accountBlockedBy: act,
    blockedBy: /^\d/,
  })
  t.match(JSON.parse((await run(`content find ${seen.account} thing`)).out), [{ id: file.id, type: 'file' }])
  t.same(JSON.parse((await run(`content find ${seen.account} thing --page 2`)).out), [])
  const deleted = await run(`content delete ${file.code} --reason spam`)
  t.match(deleted, { code: 0, out: / 1 deleted$/ })
  t.match(await run(`content show ${file.id}`), { code: 1, err: /no such content/ })
  t.match(JSON.parse((await run('acts --count 1')).out), [
    { kind: 'delete', reason: 'spam', what: `content ${file.id} of account ${seen.account}: Bad Thing.txt` },
  ])
  t.match(await run(`undo ${deleted.out.split(' ')[0]}`), { code: 0, out: /1 changed$/ })
  t.match(JSON.parse((await run(`content show ${file.id}`)).out), { name: 'Bad Thing.txt' })
  t.equal(JSON.parse((await run(`content show ${again.id}`)).out).name, 'Bad Thing.txt')
  for (const name of ['nothing', someone, 'AAAAAAAA'])
    t.match(await run(`content show ${name}`), { code: 1, err: /no such content/ }, name)
})

t.test('an account is suspended by id or address, and a network kept out of the public hosts', async (t) => {
  const { service, run } = await start(t)
  const { api } = service.addresses
  const { id, token } = JSON.parse((await run('account create')).out)
  const ann = JSON.parse((await run('account create ann@example.org')).out)
  const code = async () =>
    (await fetch(`${api}/accounts/getid`, { headers: { authorization: `Bearer ${token}` } })).status
  await run(`account tier ${id} premium`)
  t.match(JSON.parse((await run('acts --count 1')).out), [
    { kind: 'call', by: 'ann from 127.0.0.1', what: `POST /admin/accounts/${id} {"tier":"premium"}` },
  ])
  t.equal(await code(), 200)
  const suspended = await run(`block account ${id} ANN@example.org`)
  t.match(suspended.out, / 2 blocked$/)
  t.equal(await code(), 451)
  t.same((await run('blocked account')).out.split('\n'), [id, ann.id].sort())
  t.equal(JSON.parse((await run(`account show ${id}`)).out).id, id, 'the operator still sees it')
  t.match(await run(`block account ${someone}`), { code: 1, err: /no such account/ })
  t.match((await run(`undo ${suspended.out.split(' ')[0]}`)).out, / 2 changed$/)
  t.equal(await code(), 200)
  t.match((await run('block network 127.0.0.0/8')).out, / 1 blocked$/)
  t.equal(await code(), 403)
  t.match((await run('unblock network 127.0.0.0/8')).out, / 1 unblocked$/, 'the admin host still answers')
  t.equal(await code(), 200)
  t.match(await run('block network 300.0.0.0/8'), { code: 1, err: /CIDR/ })
  for (const wide of ['0.0.0.0/0', '128.0.0.0/1', '::/0', '2000::/3'])
    t.match(await run(`block network 192.0.2.7 ${wide}`), { code: 1, out: '', err: /--yes/ }, wide)
  t.equal((await run('blocked network')).out, '', 'nothing of it is done')
  t.match((await run('block network 0.0.0.0/0 --yes')).out, / 1 blocked$/)
  t.match((await run('unblock network 0.0.0.0/0')).out, / 1 unblocked$/)
})

t.test('invalid arguments do nothing, and the message says what is valid', async (t) => {
  const { run } = runner({})
  const senseless = [
    '',
    'acount show x',
    'account',
    'account show',
    `account tier ${someone} gold`,
    'account tier premium',
    `account bin ${someone}`,
    `account limits ${someone}`,
    `account limits ${someone} --contents many`,
    `account show ${someone} --force`,
    'status now',
    'collect --grace soon',
    'block content',
    'content show',
    'content find x',
    'content delete',
    'block something x',
    'undo',
    'acts --count 0',
  ]
  for (const words of senseless) {
    const { code, err, out } = await run(words)
    t.same([code, out], [2, ''], words)
    t.notMatch(err, /\n/, 'one line')
  }
  const said: [words: string, line: RegExp][] = [
    ['', /^ctl: name a command; .*--help$/],
    ['acount show x', /no command "acount show", did you mean "account show"\?/],
    ['account shwo x', /no command "account shwo", did you mean "account show"\?/],
    ['account', /account is not a complete command: .*"account show".*"account delete"$/],
    ['account frobnicate x', /no "account frobnicate": it could be "account show"/],
    ['stauts', /no command "stauts", did you mean "status"\?/],
    ['bans now', /bans: unexpected argument: now; write it like: bans$/],
    ['frobnicate', /^ctl: there is no command "frobnicate"; all commands: .*--help$/],
    [`account show ${someone} --force`, /account show: Unknown option '--force'; it takes --admin$/],
    ['account tier x gold', /account tier: .*guest, standard, premium; write it like: account tier </],
  ]
  for (const [words, line] of said) t.match((await run(words)).err, line)
  t.match((await run('account tier x gold')).err, 'guest, standard, premium')
  const help = await run('--help')
  t.equal(help.code, 0)
  t.match(help.out, 'legacy-folder')
})

t.test('after a command --help shows its usage alone', async (t) => {
  const { run } = runner({})
  for (const { words, usage, meaning } of commands) {
    const { code, out, err } = await run(`${words} --help`)
    t.same([code, err], [0, ''], words)
    t.ok(out.includes(`  ${`${words} ${usage}`.trim()}\n      ${meaning}\n`), words)
    const others = commands.filter((other) => other.words !== words)
    t.same(
      others
        .filter((other) => out.includes(`\n  ${`${other.words} ${other.usage}`.trim()}\n`))
        .map((one) => one.words),
      [],
      words,
    )
    t.equal((await run(`-h ${words}`)).out, out)
  }
  const account = await run('account --help')
  t.match(account, { code: 0, out: /account show[\s\S]*account delete/ })
  t.notMatch(account.out, 'certs issue')
  t.match(await run('account show x --force --help'), { code: 0, out: /account show/ })
  t.match(await run('acount show --help'), { code: 2, err: /did you mean "account show"/ })
})

t.test('no answer, or a foreign one, is distinguished from a refusal', async (t) => {
  const { run } = runner({ HOLDFAST_ADMIN_PORT: '1' })
  const stopped = await run('status')
  t.equal(stopped.code, 3)
  t.match(stopped.err, /127\.0\.0\.1:1.*is the service running/)
  t.equal((await run('status --admin http://127.0.0.1:2')).code, 3)
})

t.test('what only one process can do is refused by a cluster, with the other way', async (t) => {
  // A process of a cluster answers so to a path that it does not have.
  const server = createServer((_request, response) => {
    response.writeHead(404).end('{"status":"error-notFound"}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { run } = runner({ HOLDFAST_ADMIN_PORT: String((server.address() as AddressInfo).port) })
  const ways: [string, RegExp][] = [
    ['verify', /^ctl: a cluster does not verify itself: .* ctl backup /],
    ['import /srv/photos', /^ctl: \/srv\/photos: a cluster has neither import nor export/],
    ['import /srv/photos --account ann@example.org', /a cluster has neither import nor export/],
    ['export ann@example.org /mnt/out', /a cluster has neither import nor export/],
    ['clock accept', /^ctl: the processes of a cluster compare their clocks/],
  ]
  for (const [words, err] of ways) t.match(await run(words), { code: 1, out: '', err }, words)
  t.match(await run('account show ann@example.org'), { code: 1, err: /no such account/ })
})

t.test('the admin host is named with or without a scheme, and an invalid address is reported', async (t) => {
  const { service, run } = await start(t)
  const { host, port } = new URL(service.addresses.admin)
  for (const admin of [host, `localhost:${port}`, `http://${host}/`, `HTTP://${host}`])
    t.equal(
      (await runner({ HOLDFAST_ADMIN_TOKEN: adminToken }).run(`status --admin ${admin}`)).code,
      0,
      admin,
    )
  for (const admin of [
    '127.0.0.1:99999',
    'ftp://127.0.0.1',
    'http://',
    ':8090',
    'a b:1',
    'http://u:p@127.0.0.1',
  ]) {
    const answer = await runner({}).run(`status --admin ${admin.replace(' ', '%')}`)
    t.equal(answer.code, 2, admin)
    t.match(answer.err, /--admin: .* is no address/)
  }
  t.match((await runner({ HOLDFAST_ADMIN_PORT: 'many' }).run('status')).err, 'HOLDFAST_ADMIN_PORT')
  t.equal((await run('status')).code, 0)
  const unreadable = await ctl(['status'], {
    env: { HOLDFAST_ADMIN_TOKEN_FILE: '/nowhere' },
    readSecret: () => {
      throw new Error('ENOENT: no such file')
    },
    print: () => {},
    complain: (line) => t.match(line, 'HOLDFAST_ADMIN_TOKEN_FILE cannot be read'),
  })
  t.equal(unreadable, 2)
})

t.test('a token is not sent to another machine without TLS, unless the operator says so', async (t) => {
  const { run } = runner({ HOLDFAST_ADMIN_TOKEN: adminToken })
  // No machine has these addresses.
  t.match(await run('status --admin 192.0.2.1:1'), { code: 2, err: /the token would go to 192.0.2.1:1/ })
  t.equal((await run('status --admin 127.0.0.1:1')).code, 3)
  t.equal((await run('status --admin http://127.0.0.2:1')).code, 3)
  t.equal((await runner({}).run('status --admin [::1]:1')).code, 3)
})

t.test('a reader that closes the pipe ends it quietly', async (t) => {
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
  const child = spawn(process.execPath, [main, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const [code] = await once(child, 'close')
  t.equal(said, '')
  t.equal(code, 0)
})

t.test('the token is sent, from the variable or the file, and a wrong one is reported', async (t) => {
  const { service } = await start(t)
  const HOLDFAST_ADMIN_PORT = new URL(service.addresses.admin).port
  const right = runner({ HOLDFAST_ADMIN_PORT, HOLDFAST_ADMIN_TOKEN_FILE: '/run/token' })
  t.equal((await right.run('status')).code, 0)
  const wrong = runner({ HOLDFAST_ADMIN_PORT, HOLDFAST_ADMIN_TOKEN: 'wrong' })
  const refused = await wrong.run('status')
  t.equal(refused.code, 1)
  t.match(refused.err, 'HOLDFAST_ADMIN_TOKEN')
})

async function start(t: { teardown(undo: () => unknown): void }) {
  const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-ctl-'))
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  const env = {
    ...ports,
    HOLDFAST_DATA_DIR: dataDir,
    HOLDFAST_ADMIN_TOKEN: adminToken,
    HOLDFAST_SIGNUP_DOMAINS: 'example.org',
  }
  const { config, secrets } = readConfig(env, { readSecret: () => '' })
  const settings = [{ name: 'HOLDFAST_API_PORT', value: '0', fallback: '8080', meaning: '' }]
  const service = await startStandalone({ config, secrets, settings, log: createLog({ level: 'silent' }) })
  t.teardown(() => service.close())
  return { service, ...runner({ HOLDFAST_ADMIN_PORT: new URL(service.addresses.admin).port }) }
}

function runner(env: Record<string, string>) {
  const run = async (words: string): Promise<{ code: ExitCode; out: string; err: string }> => {
    const out: string[] = []
    const err: string[] = []
    const code = await ctl(
      words.split(' ').filter((word) => word !== ''),
      {
        env: { USER: 'ann', ...env },
        readSecret: () => `${adminToken}\n`,
        print: (line) => out.push(line),
        complain: (line) => err.push(line),
      },
    )
    return { code, out: out.join('\n'), err: err.join('\n') }
  }
  return { run }
}

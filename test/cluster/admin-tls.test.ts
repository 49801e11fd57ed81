/** Admin hosts of a cluster that answer by TLS: the operator's program, metrics, the log. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import https from 'node:https'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { ctl } from '@holdfast/ctl'
import { Authority } from '@holdfast/trust'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { newMemoryCluster } from './in-memory.ts'

const adminToken = 'the-admin-token-of-this-test'
const metricsToken = 'metrics-token-of-this-test'

async function clusterWith(t: Test, mode: 'offered' | 'required') {
  const cluster = await newMemoryCluster(t, {
    logOf: () => pino({ level: 'silent' }),
    settings: {
      HOLDFAST_ADMIN_TLS: mode,
      HOLDFAST_ADMIN_TOKEN: adminToken,
      HOLDFAST_METRICS_TOKEN: metricsToken,
    },
  })
  const ca = join(cluster.directory, 'certs/machine/ca.pem')
  const agent = new https.Agent({ ca: readFileSync(ca) })
  t.teardown(() => agent.destroy())
  return { ...(await cluster.startAll('')), running: cluster.running, ca, agent }
}

/** The authority of another cluster. */
async function strangersCa(t: Test): Promise<string> {
  const folder = t.testdir({})
  await Authority.create(folder, { name: 'other', days: 2 })
  return join(folder, 'ca.pem')
}

async function run(words: string, env: Record<string, string>) {
  const said: string[] = []
  const code = await ctl(words.split(' '), {
    env,
    readSecret: (path) => readFileSync(path, 'utf8'),
    print: (line) => said.push(line),
    complain: (line) => said.push(line),
  })
  return { code, said: said.join('\n') }
}

t.test('every admin host answers by TLS, and closes connections without it', async (t) => {
  const { running, api, ca, agent } = await clusterWith(t, 'required')
  const scraped = async (url: string, token: string) => {
    const request = https.request(`${url}/metrics`, { agent, headers: { authorization: `Bearer ${token}` } })
    const [answer] = await once(request.end(), 'response')
    return { code: answer.statusCode, text: await text(answer) }
  }
  for (const { addresses } of running) {
    const { admin = '' } = addresses
    t.match(admin, /^https:/)
    await t.rejects(fetch(`${admin.replace('https:', 'http:')}/livez`), `${admin} without TLS`)
    t.equal((await scraped(admin, metricsToken)).code, 200)
    t.equal((await scraped(admin, 'a-token-of-a-stranger')).code, 401)
  }
  const { text: figures } = await scraped(api.addresses.admin ?? '', metricsToken)
  t.match(figures, 'holdfast_connections_refused_total{host="admin",reason="handshake"} 1')

  const { host } = new URL(api.addresses.admin ?? '')
  const signIn = https.request(`${api.addresses.admin}/moderation/sign-in`, {
    ...{ agent, method: 'POST' },
    headers: { origin: `https://${host}`, 'content-type': 'application/x-www-form-urlencoded' },
  })
  const [answer] = await once(signIn.end(new URLSearchParams({ token: adminToken }).toString()), 'response')
  answer.resume()
  t.match(answer.headers['set-cookie'], [/; SameSite=Strict; Secure$/], 'the page has it by TLS alone')

  const own = { HOLDFAST_ADMIN_TOKEN: adminToken, HOLDFAST_TLS_CA: ca }
  t.match(await run(`status --admin ${host}`, own), { code: 0, said: /"cluster"/ })
  const [bind, port] = host.split(':')
  const settings = { HOLDFAST_ADMIN_BIND: bind ?? '', HOLDFAST_ADMIN_PORT: port ?? '' }
  t.match(await run('status', { ...own, ...settings, HOLDFAST_ADMIN_TLS: 'required' }), { code: 0 })
  const wrong: [words: string, env: Record<string, string>, RegExp][] = [
    [host, { HOLDFAST_ADMIN_TOKEN: adminToken }, /by TLS alone .*set HOLDFAST_TLS_CA/],
    [`https://${host}`, {}, /set HOLDFAST_TLS_CA to the file of the authority/],
    [host, { HOLDFAST_ADMIN_TLS: 'required' }, /no answer from https:.*set HOLDFAST_TLS_CA/],
    [host, { HOLDFAST_TLS_CA: await strangersCa(t) }, /set HOLDFAST_TLS_CA/],
    [`localhost:${port}`, { HOLDFAST_TLS_CA: ca }, /call it by an address of its certificate/],
  ]
  for (const [admin, env, said] of wrong)
    t.match(await run(`status --admin ${admin}`, env), { code: 3, said }, admin)
  t.match(await run(`certs show ${dirname(dirname(ca))}`, { HOLDFAST_TLS_CA: '/nowhere' }), { code: 0 })
  t.match(await run('status', { HOLDFAST_TLS_CA: '/nowhere' }), {
    code: 2,
    said: /HOLDFAST_TLS_CA cannot be read/,
  })
  const noPem = new URL(import.meta.url).pathname
  t.match(await run('status', { HOLDFAST_TLS_CA: noPem }), {
    code: 2,
    said: /HOLDFAST_TLS_CA is no file of certificates/,
  })
})

t.test('while a cluster changes to it, both ways are answered', async (t) => {
  const { api, ca } = await clusterWith(t, 'offered')
  const { host } = new URL(api.addresses.admin ?? '')
  t.match(api.addresses.admin, /^http:/)
  const token = { HOLDFAST_ADMIN_TOKEN: adminToken }
  t.match(await run(`status --admin ${host}`, token), { code: 0 })
  t.match(await run(`status --admin ${host}`, { ...token, HOLDFAST_TLS_CA: ca }), { code: 0 })
})

t.test('a host without TLS is named to an operator who asks by it', async (t) => {
  const cluster = await newMemoryCluster(t, { logOf: () => pino({ level: 'silent' }) })
  const [node] = await cluster.startNodes()
  const { host } = new URL(node?.addresses.admin ?? '')
  const ca = join(cluster.directory, 'certs/machine/ca.pem')
  t.match(await run(`status --admin ${host}`, { HOLDFAST_TLS_CA: ca }), {
    code: 3,
    said: /it may answer without TLS: set HOLDFAST_ADMIN_TLS=off/,
  })
  const off = { HOLDFAST_TLS_CA: ca, HOLDFAST_ADMIN_TLS: 'off' }
  t.match(await run(`status --admin ${host}`, off), { code: 0 })
})

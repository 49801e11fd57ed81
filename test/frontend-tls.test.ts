/** The real nginx and Caddy, with rendered files, in front of hosts that ask for TLS. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import https from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { healthRoute, ok } from '@holdfast/http-kit'
import { Authority, clusterNames } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import t, { type Test } from 'tap'
import { tool } from '../infra/check/tools.ts'
import { readDeployment } from '../infra/regions/deployment.ts'
import { planOf } from '../infra/regions/plan.ts'
import { places } from '../infra/regions/platform.ts'
import { caddyfile, nginxConfig } from '../infra/regions/render/proxies.ts'
import { freePorts } from '../infra/servers/ports.ts'
import { type DialledHost, listening, open, refused } from '../libs/http-kit/test/dialled-host.ts'
import { until } from './support/until.ts'

const read = (path: string) => readFileSync(path, 'utf8')
const example = join(import.meta.dirname, '../infra/regions/three-hosts.yaml')
const plan = planOf(readDeployment(read(example), example))
const [region] = plan.regions
const [proxyHost] = region?.hosts ?? []
if (region === undefined || proxyHost === undefined) throw new Error('three-hosts.yaml has no host')
const { names } = region
const addresses = ['10.1.0.11', '10.1.0.12'] as const
const bodyBytes = 8 * 1024 * 1024

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(`${proxy} calls frontends by TLS, and skips processes that are down or no frontends`, async (t) => {
    const folder = t.testdir({})
    const authority = await Authority.create(join(folder, 'ca'), { name: 'test', days: 30 })
    await authority.issue({ host: 'tls', names: [clusterNames.proxy] }, { days: 10, kind: 'proxy' })
    await authority.issuePublic({ host: 'tls', names: Object.values(names) }, { days: 10 })
    await cp(join(folder, 'ca/tls'), join(folder, 'tls'), { recursive: true })
    const frontend = await startHost(t, authority, { folder, host: 'one', names: [clusterNames.frontend] })
    const [down, port, ...others] = (await freePorts(4)) as [number, number, ...number[]]
    const start = (...ports: [number, number]) => startProxy(t, proxy, { folder, port, others, ports })
    let running = await start(down, frontend.port)

    const asked = (path: string, body?: Buffer) => call({ folder, port }, path, body)
    for (let count = 0; count < 20; count++) t.equal((await asked('/now')).code, 200)
    t.match((await asked('/now')).body, '"address":"127.0.0.1"')
    t.ok((await open(frontend.held)) <= 4, 'connections are kept')

    await running.stop()
    running = await start(frontend.port, frontend.port)
    const sent = await Promise.all(
      Array.from({ length: 4 }, () => asked('/bytes', Buffer.alloc(bodyBytes, 7))),
    )
    t.same(
      sent.map(({ body }) => JSON.parse(body).data),
      sent.map(() => bodyBytes),
    )

    // The proxy that ended may have cut a handshake of its health check.
    const cut = await refused(frontend.held, 'handshake')
    let ended = false
    const codes = new Map<number, number>()
    const load = (async () => {
      while (!ended) {
        const { code } = await asked('/now')
        codes.set(code, (codes.get(code) ?? 0) + 1)
      }
    })()
    await frontend.renew()
    const before = codes.get(200) ?? 0
    await until(() => (codes.get(200) ?? 0) > before + 10)
    ended = true
    await load
    t.same([...codes.keys()], [200], 'also while the certificate changes')
    t.equal(await refused(frontend.held, 'handshake'), cut)

    // A process of the cluster that is no frontend took the place of one.
    await running.stop()
    const impostor = await startHost(t, authority, { folder, host: 'two', names: ['127.0.0.1'] })
    running = await start(impostor.port, impostor.port)
    // By then Caddy's health check has failed, because this process does not answer it.
    t.match(String(running.firstCode), /^50[23]$/)
    t.equal(impostor.held.begun(), 0)
    await running.stop()
  })

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(`${proxy} gives calls to processes that are ready`, async (t) => {
    const folder = t.testdir({})
    const authority = await Authority.create(join(folder, 'ca'), { name: 'test', days: 30 })
    await authority.issue({ host: 'tls', names: [clusterNames.proxy] }, { days: 10, kind: 'proxy' })
    await authority.issuePublic({ host: 'tls', names: Object.values(names) }, { days: 10 })
    await cp(join(folder, 'ca/tls'), join(folder, 'tls'), { recursive: true })
    const named = { folder, names: [clusterNames.frontend] }
    const one = await startHost(t, authority, { ...named, host: 'one' })
    const two = await startHost(t, authority, { ...named, host: 'two' })
    const [port, ...others] = (await freePorts(3)) as [number, ...number[]]
    const running = await startProxy(t, proxy, { folder, port, others, ports: [one.port, two.port] })
    const health = async () => (await call({ folder, port }, '/health')).code

    one.ready = false
    await until(async () => {
      const codes = await Promise.all(Array.from({ length: 8 }, health))
      return codes.every((code) => code === 200)
    })
    for (let count = 0; count < 20; count++) t.equal(await health(), 200, 'the other one is asked')
    one.ready = true
    two.ready = false
    await until(async () => {
      const codes = await Promise.all(Array.from({ length: 8 }, health))
      return codes.every((code) => code === 200)
    })
    one.ready = false
    await until(async () => (await health()) === 503)
    await running.stop()
  })

interface StartedHost {
  held: DialledHost
  port: number
  ready: boolean
  renew(): Promise<void>
}

async function startHost(
  t: Test,
  authority: Authority,
  { folder, ...named }: { folder: string; host: string; names: string[] },
): Promise<StartedHost> {
  const at = (name: string) => join(folder, 'ca', named.host, name)
  await authority.issue(named, { days: 10 })
  const files = openTlsFiles({ ca: at('ca.pem'), own: { cert: at('node.pem'), key: at('node.key') } })
  t.teardown(() => files.close())
  const held = await listening(t, {
    trustProxy: ['127.0.0.1'],
    tls: { context: files, peerName: clusterNames.proxy, plainToo: false },
    routes(app) {
      healthRoute(app, { isReady: async () => started.ready })
      app.addContentTypeParser('x/bytes', (_request, _payload, done) => done(null))
      app.post('/bytes', async ({ raw }) => {
        let bytes = 0
        for await (const piece of raw) bytes += piece.length
        return ok(bytes)
      })
    },
  })
  const started: StartedHost = {
    held,
    ready: true,
    port: (held.app.server.address() as { port: number }).port,
    async renew() {
      await authority.issue(named, { days: 10 })
      if (!files.reload()) throw new Error('the certificate is the same')
    },
  }
  return started
}

/** @param place.ports of the API processes of both hosts */
async function startProxy(
  t: Test,
  proxy: 'nginx' | 'caddy',
  place: { folder: string; port: number; others: number[]; ports: [number, number] },
): Promise<{ firstCode: number; stop(): Promise<void> }> {
  const running = (proxy === 'nginx' ? startNginx : startCaddy)(place)
  const stop = async () => {
    // Caddy would wait for connections that idle, and nginx ends its other processes.
    running.kill(proxy === 'caddy' ? 'SIGKILL' : 'SIGTERM')
    if (running.exitCode === null && running.signalCode === null) await once(running, 'exit')
  }
  t.teardown(stop)
  let firstCode = 0
  await until(async () => {
    if (running.exitCode !== null) return true
    firstCode = (await call(place, '/now')).code
    return true
  })
  if (running.exitCode !== null) throw new Error(`the proxy ended with ${running.exitCode}`)
  return { firstCode, stop }
}

function here(text: string, { folder, ports }: { folder: string; ports: [number, number] }): string {
  const placed = text.replaceAll(places.etc, folder)
  return addresses.reduce(
    (all, address, at) => all.replaceAll(`${address}:8080`, `127.0.0.1:${ports[at]}`),
    placed,
  )
}

type Place = Parameters<typeof startProxy>[2]

function startNginx({ folder, port, others, ports }: Place): ChildProcess {
  if (region === undefined || proxyHost === undefined) throw new Error('no host')
  const text = here(nginxConfig(plan, region, proxyHost), { folder, ports })
    .replaceAll('listen 443', `listen 127.0.0.1:${port}`)
    .replaceAll(/ *listen \[::\]:.*\n/g, '')
    .replace('listen 80;', `listen 127.0.0.1:${others[0]};`)
    .replace(/listen [\d.]+:2020 /, `listen 127.0.0.1:${others[1]} `)
  writeFileSync(join(folder, 'rendered.conf'), text)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((what) => `${what}_temp_path ${folder};`)
    .join(' ')
  const main = join(folder, 'nginx.conf')
  writeFileSync(
    main,
    `daemon off; pid ${folder}/pid; events {} http { access_log off; ${temporary} include rendered.conf; }`,
  )
  const { path, env } = tool('nginx')
  return spawn(path, ['-p', folder, '-e', 'stderr', '-c', main], { env, stdio: 'ignore' })
}

function startCaddy({ folder, port, ports }: Place): ChildProcess {
  if (region === undefined || proxyHost === undefined) throw new Error('no host')
  const options = ['auto_https disable_redirects', `https_port ${port}`, 'default_bind 127.0.0.1']
  const [sites = ''] = here(caddyfile(plan, region, proxyHost), { folder, ports }).split(/\nhttps:\/\/:2020 /)
  const text = sites
    .replace(/\tservers [^}]*\}\n|\tservers .*\n(\t.*\n)*?\t\}\n/, '')
    .replace(/\tadmin .*\n/, `\tadmin off\n\t${options.join('\n\t')}\n`)
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, text)
  const { path, env } = tool('caddy')
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  return spawn(path, ['run', '--adapter', 'caddyfile', '--config', file], {
    env: { ...env, ...home },
    stdio: 'ignore',
  })
}

async function call({ folder, port }: { folder: string; port: number }, path: string, body?: Buffer) {
  const request = https.request({
    ...{ host: '127.0.0.1', port, path, servername: names.api, agent: false },
    ...(body === undefined ? {} : { method: 'POST' }),
    headers: {
      host: names.api,
      ...(body && { 'content-type': 'x/bytes', 'content-length': String(body.length) }),
    },
    ca: read(join(folder, 'tls/ca.pem')),
  })
  request.end(body)
  const [response] = await once(request, 'response')
  return { code: response.statusCode as number, body: (await buffer(response)).toString() }
}

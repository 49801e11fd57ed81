/** The real nginx and Caddy, with the files of infra/deploy, in front of the real service. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer } from 'node:stream/consumers'
import { healthPath } from '@holdfast/http-kit'
import t, { type Test } from 'tap'
import { makeSecrets } from '../infra/check/sandbox.ts'
import { tool } from '../infra/check/tools.ts'
import { readDeployment } from '../infra/regions/deployment.ts'
import { planOf } from '../infra/regions/plan.ts'
import { caddyfile, nginxConfig } from '../infra/regions/render/proxies.ts'
import { freePorts } from '../infra/servers/ports.ts'
import { allCases } from './acceptance/cases.ts'
import { directCases, isOf, unlimitedCases } from './acceptance/proxied.ts'
import { Standalone } from './support/standalone.ts'

const recipe = (name: string) => readFileSync(join(import.meta.dirname, '../infra/deploy', name), 'utf8')
const servicePorts = ['8080', '8081', '8082']
const settings = recipe('holdfast.env')
const names = {
  web: hostName('WEB'),
  api: hostName('API'),
  upload: hostName('UPLOAD'),
  download: hostName('DOWNLOAD'),
}
const [, region] = /^HOLDFAST_REGION=(.*)$/m.exec(settings) ?? []
const regionalUpload = names.upload.replace('upload', `upload-${region}`)
/** Names have at most 255 characters: of 4 bytes each, which a header needs 12 characters for. */
const longestName = '😀'.repeat(250)
/** In paths and queries; in no log of a proxy. */
const secret = 'Zk5hQmNk-0123_456789'
/** Elsewhere the machine has one address of loopback. */
const ownAddresses = process.platform === 'linux' ? ['--network', '127.77'] : []

interface ProxiedService {
  service: Standalone
  port: number
  /** File with the authority of its certificate. */
  authority: string
  /** All that the proxy logged. */
  logged: () => string
}

/** As those of an error of the service. */
const faultHeaders = {
  'content-type': 'application/json; charset=utf-8',
  'access-control-allow-origin': '*',
  'access-control-expose-headers': /Retry-After/,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'retry-after': '1',
  'x-content-type-options': 'nosniff',
}

for (const proxy of ['nginx', 'caddy'] as const) {
  t.test(`${proxy} passes what clients send, and says where they are`, async (t) => {
    const proxied = await startBehind(t, proxy, { HOLDFAST_LOG_LEVEL: 'debug' })
    const { service } = proxied
    const bytes = Buffer.alloc(3_000_000, 'holdfast')
    const form = new FormData()
    form.set('file', new Blob([bytes]), longestName)
    const sent = new Response(form)
    const answer = await call(proxied, names.upload, '/uploadfile', {
      method: 'POST',
      headers: { 'content-type': sent.headers.get('content-type') ?? '', 'x-forwarded-for': '198.51.100.7' },
      body: Buffer.from(await sent.arrayBuffer()),
    })
    t.equal(answer.code, 200, answer.body.toString().slice(0, 500))
    const { data } = JSON.parse(answer.body.toString())
    t.notMatch(service.output, '198.51.100.7', 'what a client claims does not count')
    t.match(service.output, '"address":"127.0.0.1"')

    const path = `/download/${data.id}/${encodeURIComponent(longestName)}`
    const headers = { authorization: `Bearer ${data.guestToken}`, range: 'bytes=8-15' }
    const part = await call(proxied, names.download, path, { headers })
    t.equal(part.code, 206, part.body.toString().slice(0, 300))
    t.equal(part.body.toString(), 'holdfast')
    t.equal((await call(proxied, names.api, '/regions')).code, 200)
  })

  t.test(`${proxy} answers with the error of the contract while the service is away`, async (t) => {
    const proxied = await startBehind(t, proxy, {})
    await proxied.service.kill()
    for (const name of [names.api, names.upload, names.download]) {
      const { code, headers, body } = await call(proxied, name, `/${secret}?token=${secret}`)
      t.match(String(code), /^50[234]$/)
      t.match(headers, faultHeaders)
      t.strictSame(JSON.parse(body.toString()), { status: 'error-unavailable' })
    }
    t.notMatch(proxied.logged(), secret)
  })

  t.test(`${proxy} carries the acceptance suite`, async (t) => {
    const { service, port, authority } = await startBehind(t, proxy, {})
    const at = (name: string) => `https://${name}:${port}`
    const suite = spawn(
      process.execPath,
      [
        join(import.meta.dirname, 'acceptance/run.ts'),
        ...['--api', at(names.api), '--web', at(names.web)],
        ...['--upload', at(names.upload), '--download', at(names.download)],
        ...['--admin', service.admin, '--outbox', service.outbox],
        ...['--proxied', '--names-at', '127.0.0.1', ...ownAddresses],
      ],
      { env: { ...process.env, NODE_EXTRA_CA_CERTS: authority }, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let passed = 0
    const faults: string[] = []
    for await (const line of createInterface(suite.stdout)) {
      if (line.startsWith('ok ')) passed++
      else if (/^NOT OK|^ {9}|^not in/.test(line)) faults.push(line)
    }
    const [code] = suite.exitCode === null ? await once(suite, 'exit') : [suite.exitCode]
    t.strictSame(faults, [])
    t.equal(code, 0)
    t.equal(passed, allCases.filter(({ name }) => !isOf(directCases, name)).length)
  })
}

t.test('connections that end without an answer do not take the processes from others', async (t) => {
  const { codeOf } = await behindRendered(t, 'caddy', await Promise.all([cuttingServer(t), cuttingServer(t)]))
  // Uploads: a proxy does not send those again.
  const cut = await Promise.all(Array.from({ length: 6 }, () => codeOf('/cut', 'POST')))
  t.ok(
    cut.every((code) => code === 502),
    `${cut}`,
  )
  t.equal(await codeOf('/'), 200)
})

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(`behind ${proxy} an account that cannot be reached takes no process from others`, async (t) => {
    const refuses = (path: string) => (path === '/account' ? 503 : 200)
    const ports = await Promise.all([frontend(t, refuses), frontend(t, refuses)])
    const { codeOf } = await behindRendered(t, proxy, ports)
    for (let at = 0; at < 30; at++) {
      const codes = await Promise.all(Array.from({ length: 10 }, () => codeOf('/account')))
      t.ok(codes.every((code) => code === 503))
    }
    t.equal(await codeOf('/'), 200)
  })

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(
    `a rendered ${proxy} answers with the error of the contract while the service is away`,
    async (t) => {
      const { at } = await behindRendered(t, proxy, await freePorts(1))
      const answer = await fetch(`${at}/regions`)
      t.match(String(answer.status), /^50[23]$/)
      t.match(Object.fromEntries(answer.headers), faultHeaders)
      t.strictSame(await answer.json(), { status: 'error-unavailable' })
    },
  )

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(`a rendered ${proxy} logs no path and no query, also after a fault`, async (t) => {
    const { codeOf, logged } = await behindRendered(t, proxy, await freePorts(1))
    t.match(String(await codeOf(`/${secret}?token=${secret}`)), /^50[23]$/)
    t.notMatch(logged(), secret)
  })

t.test('behind Caddy a process that refuses at once gets no more than its share', async (t) => {
  const refused = { count: 0 }
  const refuses = (path: string) => {
    if (path === healthPath) return 200
    refused.count++
    return 503
  }
  const serves = () => 200
  const ports = [await frontend(t, refuses), await frontend(t, serves, 20)]
  const { codeOf } = await behindRendered(t, 'caddy', ports)
  refused.count = 0
  const users = Array.from({ length: 10 }, async () => {
    for (let at = 0; at < 20; at++) await codeOf('/change', 'POST')
  })
  await Promise.all(users)
  t.ok(refused.count <= 110, `${refused.count} of 200 requests`)
})

t.test('Caddy serves on when it reads its files again while it carries calls', async (t) => {
  const folder = t.testdir({})
  const [port, admin] = (await freePorts(2)) as [number, number]
  const backends = [await frontend(t, () => 200, 50), await frontend(t, () => 200, 50)]
  const running = startRenderedCaddy(folder, { backends, port, admin: `127.0.0.1:${admin}` })
  t.teardown(() => ended(running))
  const codeOf = await answering(running, port)
  const adapt = spawnSync(tool('caddy').path, [
    ...['adapt', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')],
  ])
  let reads = 0
  const users = Array.from({ length: 20 }, async () => {
    // It closes idle connections, also one on which a request is just coming.
    while (reads < 10) await codeOf('/').catch(passCut)
  })
  for (; reads < 10; reads++) {
    const read = await fetch(`http://127.0.0.1:${admin}/load`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'cache-control': 'must-revalidate' },
      body: adapt.stdout,
    })
    t.equal(read.status, 200, await read.text())
    await codeOf('/').catch(passCut)
  }
  await Promise.all(users)
  t.equal(await codeOf('/'), 200)
  t.equal(running.exitCode, null)
})

/**
 * A proxy with the rendered file in front of these processes.
 *
 * @returns at: its address. codeOf: the code of an answer. logged: all that the proxy logged.
 */
async function behindRendered(t: Test, proxy: 'nginx' | 'caddy', backends: readonly number[]) {
  const [port] = (await freePorts(1)) as [number]
  const folder = t.testdir({})
  const running =
    proxy === 'caddy'
      ? startRenderedCaddy(folder, { backends, port, admin: 'off' })
      : startRenderedNginx(folder, backends, port)
  t.teardown(() => ended(running))
  const codeOf = await answering(running, port)
  return { at: `http://127.0.0.1:${port}`, codeOf, logged: () => logsIn(folder) }
}

/** The fault of a connection that was cut. @throws any other */
function passCut(error: unknown): void {
  if (!(error instanceof TypeError)) throw error
}

async function ended(running: ChildProcess): Promise<void> {
  running.kill('SIGTERM')
  if (running.exitCode === null) await once(running, 'exit')
}

/** Waits until it answers. @returns the code of an answer */
async function answering(running: ChildProcess, port: number) {
  const codeOf = async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method })
    await answer.text()
    return answer.status
  }
  while (running.exitCode === null && (await codeOf('/').catch(() => 0)) === 0)
    await new Promise((later) => setTimeout(later, 50))
  return codeOf
}

/** @param options.admin where it takes other files, or `off` */
function startRenderedCaddy(
  folder: string,
  { backends, port, admin }: { backends: readonly number[]; port: number; admin: string },
): ChildProcess {
  const file = join(folder, 'Caddyfile')
  const [, api] = caddyfile(...rendered).split(`${rendered[1].names.api} {`)
  const [, block] = /^(\treverse_proxy [\s\S]*?\n\t\})\n/m.exec(api ?? '') ?? []
  if (block === undefined) throw new Error('there is no reverse_proxy for the API')
  const [faults = ''] = /^\thandle_errors \{[\s\S]*?^\t\}/m.exec(api ?? '') ?? []
  const to = backends.map((one) => `127.0.0.1:${one}`).join(' ')
  const proxied = block.replace(/reverse_proxy .* \{/, `reverse_proxy ${to} {`)
  const site = `http://127.0.0.1:${port} {\n${proxied}\n${faults}\n}`
  const [log = ''] = /^\tlog \{[\s\S]*?^\t\}/m.exec(caddyfile(...rendered)) ?? []
  writeFileSync(file, `{\n\tadmin ${admin}\n${log}\n}\n\n${site}\n`)
  const { path, env } = tool('caddy')
  return spawn(path, ['run', '--adapter', 'caddyfile', '--config', file], { env, stdio: loggedIn(folder) })
}

function startRenderedNginx(folder: string, backends: readonly number[], port: number): ChildProcess {
  const text = nginxConfig(...rendered)
  const [upstream = ''] = /^upstream holdfast_api \{[\s\S]*?^\}/m.exec(text) ?? []
  const [server = ''] =
    /^server \{\n(?:(?!\}).*\n)*? {4}proxy_pass http:\/\/holdfast_api;[\s\S]*?^\}/m.exec(text) ?? []
  if (upstream === '' || server === '') throw new Error('there is no upstream of the API')
  const [, options = ''] = /server \S+ (max_fails.*;)/.exec(upstream) ?? []
  const to = backends.map((one) => `  server 127.0.0.1:${one} ${options}\n`).join('')
  const own = upstream.replace(/( *server .*\n)+/, to)
  const site = server
    .replace(/^ {2}(listen|ssl_).*\n/gm, '')
    .replace('server {', `server {\n  listen 127.0.0.1:${port};`)
  return nginxLike(folder, { text: `${own}\n${site}` })
}

/** With the logs of the main file that Debian's package has, in the folder. */
function nginxLike(
  folder: string,
  { text, connections = 768 }: { text: string; connections?: number },
): ChildProcess {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (what) => `${what}_temp_path ${folder};`,
  )
  const main = join(folder, 'nginx.conf')
  const events = `events { worker_connections ${connections}; }`
  const logs = `access_log ${folder}/access.log;`
  writeFileSync(
    main,
    `daemon off; pid ${folder}/pid; error_log ${folder}/error.log; ${events} http { ${logs} ${temporary.join(' ')}\n${text} }`,
  )
  const { path, env } = tool('nginx')
  return spawn(path, ['-p', folder, '-e', 'stderr', '-c', main], { env, stdio: loggedIn(folder) })
}

function loggedIn(folder: string): ['ignore', 'ignore', number] {
  return ['ignore', 'ignore', openSync(join(folder, 'stderr.log'), 'a')]
}

function logsIn(folder: string): string {
  const logs = readdirSync(folder).filter((name) => name.endsWith('.log'))
  return logs.map((name) => readFileSync(join(folder, name), 'utf8')).join('')
}

/** Of a region, whose frontends speak no TLS. */
const rendered = (() => {
  const deployed = join(import.meta.dirname, '../infra/regions/three.yaml')
  const text = readFileSync(deployed, 'utf8').replace(/^settings:.*$/m, '$&\n  HOLDFAST_FRONTEND_TLS: off')
  const plan = planOf(readDeployment(text, deployed))
  const [region] = plan.regions
  const [host] = region?.hosts ?? []
  if (region === undefined || host === undefined) throw new Error('three.yaml has no host')
  return [plan, region, host] as const
})()

/** Answers each path with a code. @returns its port */
async function frontend(t: Test, codeOf: (path: string) => number, afterMs = 0): Promise<number> {
  const server = createServer((request, response) => {
    response.statusCode = codeOf(request.url ?? '')
    setTimeout(() => response.end(), response.statusCode === 200 ? afterMs : 0)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** Ends the connections of requests to `/cut`. @returns its port */
async function cuttingServer(t: Test): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === '/cut') request.socket.destroy()
    else response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test('the cases left out behind proxies exist', async (t) => {
  for (const [begin] of [...directCases, ...unlimitedCases])
    t.ok(
      allCases.some(({ name }) => name.startsWith(begin)),
      begin,
    )
})

function hostName(host: string): string {
  const [, name] = new RegExp(`^HOLDFAST_PUBLIC_${host}_URL=https://(\\S+)$`, 'm').exec(settings) ?? []
  if (name === undefined) throw new Error(`holdfast.env has no ${host}`)
  return name
}

/** The service with the settings of holdfast.env, at a port that any user may open. */
async function startBehind(
  t: Test,
  proxy: 'nginx' | 'caddy',
  more: Record<string, string>,
): Promise<ProxiedService> {
  const folder = t.testdir({})
  const [port] = (await freePorts(1)) as [number]
  const given = [...settings.matchAll(/^(HOLDFAST_\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [
    name,
    value.startsWith('https:') ? `${value}:${port}` : value,
  ])
  const service = await Standalone.start({ settings: { ...Object.fromEntries(given), ...more } })
  const stop: (() => Promise<void>)[] = [() => service.stop()]
  t.teardown(async () => {
    for (const one of stop.reverse()) await one()
  })
  const start = proxy === 'nginx' ? startNginx : startCaddy
  const { running, authority } = start(folder, port, service)
  stop.push(async () => {
    running.kill('SIGTERM')
    if (running.exitCode === null) await once(running, 'exit')
  })
  const proxied = { service, port, authority, logged: () => logsIn(folder) }
  await listening(proxied, running)
  return proxied
}

interface StartedProxy {
  running: ChildProcess
  authority: string
}

function startNginx(folder: string, port: number, service: Standalone): StartedProxy {
  makeSecrets(folder, [...Object.values(names), regionalUpload])
  const text = recipe('nginx.conf')
    .replaceAll('/etc/holdfast', folder)
    .replace(/server \{\n {2}listen 80 [^}]*\}\n/, '')
    .replace(/ {2}listen \[::\]:443.*\n/g, '')
    .replaceAll('listen 443', `listen 127.0.0.1:${port}`)
  // Each case calls from an address of its own, and its connections stay open after it.
  const running = nginxLike(folder, { text: toService(text, service), connections: 4096 })
  return { running, authority: join(folder, 'tls/public.pem') }
}

/** It makes certificates by itself, as it gets them on the internet. */
function startCaddy(folder: string, port: number, service: Standalone): StartedProxy {
  const here = ['auto_https disable_redirects', 'local_certs', 'skip_install_trust']
  const text = recipe('Caddyfile').replace(
    /\tadmin .*\n/,
    `\tadmin off\n\t${here.join('\n\t')}\n\thttps_port ${port}\n`,
  )
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, toService(text, service))
  const { path, env } = tool('caddy')
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const running = spawn(path, ['run', '--adapter', 'caddyfile', '--config', file], {
    env: { ...env, ...home },
    stdio: loggedIn(folder),
  })
  return { running, authority: join(folder, 'caddy/pki/authorities/local/root.crt') }
}

function toService(text: string, { ports }: Standalone): string {
  return servicePorts.reduce(
    (all, from, at) => all.replaceAll(`127.0.0.1:${from}`, `127.0.0.1:${ports[at]}`),
    text.replaceAll('{$HOLDFAST_UPSTREAM:127.0.0.1}', '127.0.0.1'),
  )
}

async function listening(proxied: ProxiedService, running: ChildProcess): Promise<void> {
  for (;;) {
    if (running.exitCode !== null) throw new Error(`the proxy ended with ${running.exitCode}`)
    const there = await call(proxied, names.api, '/regions').catch(() => undefined)
    if (there?.code === 200) return
    await new Promise((later) => setTimeout(later, 50))
  }
}

interface RequestOptions {
  method?: string
  headers?: Record<string, string>
  body?: Buffer
}

async function call(
  { port, authority }: ProxiedService,
  host: string,
  path: string,
  { method = 'GET', headers = {}, body }: RequestOptions = {},
) {
  const length = body === undefined ? {} : { 'content-length': String(body.length) }
  const request = https.request({
    ...{ host: '127.0.0.1', port, path, method, servername: host, agent: false },
    headers: { host, ...headers, ...length },
    ca: readFileSync(authority),
  })
  request.end(body)
  const [response] = await once(request, 'response')
  return {
    code: response.statusCode as number,
    headers: response.headers as Record<string, string>,
    body: await buffer(response),
  }
}

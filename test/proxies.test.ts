/** The real nginx and Caddy, with the files of infra/deploy, in front of the real service. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { makeSecrets } from '../infra/check/sandbox.ts'
import { tool } from '../infra/check/tools.ts'
import { freePorts } from '../infra/servers/ports.ts'
import { Standalone } from './support/standalone.ts'

const recipe = (name: string) => readFileSync(join(import.meta.dirname, '../infra/deploy', name), 'utf8')
const servicePorts = ['8080', '8081', '8082']
const names = {
  api: 'api.files.example',
  upload: 'upload.files.example',
  download: 'download.files-content.example',
}
/** Names have at most 255 characters: of 4 bytes each, which a header needs 12 characters for. */
const longestName = '😀'.repeat(250)

for (const proxy of ['nginx', 'caddy'] as const)
  t.test(`${proxy} passes what clients send, and says where they are`, async (t) => {
    const folder = t.testdir({})
    makeSecrets(folder)
    const service = await Standalone.start({
      settings: { HOLDFAST_TRUST_PROXY: '1', HOLDFAST_LOG_LEVEL: 'debug' },
    })
    const [port] = (await freePorts(1)) as [number]
    const running = proxy === 'nginx' ? startNginx(folder, port, service) : startCaddy(folder, port, service)
    t.teardown(async () => {
      running.kill('SIGTERM')
      await once(running, 'exit')
      await service.stop()
    })
    await listening(port, running)

    const bytes = Buffer.alloc(3_000_000, 'holdfast')
    const form = new FormData()
    form.set('file', new Blob([bytes]), longestName)
    const sent = new Response(form)
    const answer = await call(port, names.upload, '/uploadfile', {
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
    const part = await call(port, names.download, path, { headers })
    t.equal(part.code, 206, part.body.toString().slice(0, 300))
    t.equal(part.body.toString(), 'holdfast')
    t.equal((await call(port, names.api, '/regions')).code, 200)
  })

function startNginx(folder: string, port: number, service: Standalone): ChildProcess {
  const text = recipe('nginx.conf')
    .replaceAll('/etc/holdfast', folder)
    .replace(/server \{\n {2}listen 80 [^}]*\}\n/, '')
    .replace(/ {2}listen \[::\]:443.*\n/g, '')
    .replaceAll('listen 443', `listen 127.0.0.1:${port}`)
  writeFileSync(join(folder, 'recipe.conf'), toService(text, service))
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((what) => `${what}_temp_path ${folder};`)
    .join(' ')
  const main = join(folder, 'nginx.conf')
  writeFileSync(
    main,
    `daemon off; pid ${folder}/pid; events {} http { access_log off; ${temporary} include recipe.conf; }`,
  )
  const { path, env } = tool('nginx')
  return spawn(path, ['-p', folder, '-e', 'stderr', '-c', main], { env, stdio: 'ignore' })
}

function startCaddy(folder: string, port: number, service: Standalone): ChildProcess {
  const certificate = `\ttls ${folder}/tls/public.pem ${folder}/tls/public.key\n`
  const text = recipe('Caddyfile')
    .replace('{\n\temail', `{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port ${port}\n\temail`)
    .replace(/^(\S.*example \{\n)/gm, `$1${certificate}`)
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, toService(text, service))
  const { path, env } = tool('caddy')
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  return spawn(path, ['run', '--adapter', 'caddyfile', '--config', file], {
    env: { ...env, ...home },
    stdio: 'ignore',
  })
}

function toService(text: string, { ports }: Standalone): string {
  return servicePorts.reduce(
    (all, from, at) => all.replaceAll(`127.0.0.1:${from}`, `127.0.0.1:${ports[at]}`),
    text.replaceAll('{$HOLDFAST_UPSTREAM:127.0.0.1}', '127.0.0.1'),
  )
}

async function listening(port: number, proxy: ChildProcess): Promise<void> {
  for (;;) {
    if (proxy.exitCode !== null) throw new Error(`the proxy ended with ${proxy.exitCode}`)
    const there = await call(port, names.api, '/regions').catch(() => undefined)
    if (there?.code === 200) return
    await new Promise((later) => setTimeout(later, 50))
  }
}

interface Sent {
  method?: string
  headers?: Record<string, string>
  body?: Buffer
}

async function call(
  port: number,
  host: string,
  path: string,
  { method = 'GET', headers = {}, body }: Sent = {},
) {
  const length = body === undefined ? {} : { 'content-length': String(body.length) }
  const request = https.request({
    ...{ host: '127.0.0.1', port, path, method, servername: host, agent: false },
    headers: { host, ...headers, ...length },
    // Of a throwaway certificate.
    rejectUnauthorized: false,
  })
  request.end(body)
  const [response] = await once(request, 'response')
  return { code: response.statusCode as number, body: await buffer(response) }
}

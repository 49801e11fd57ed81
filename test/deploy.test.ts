/** The files of infra/deploy, read by the programs that read them in production. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { readConfig } from '@holdfast/config'
import { defaultIdle } from '@holdfast/http-kit'
import { Authority } from '@holdfast/trust'
import t from 'tap'
import { parse } from 'yaml'
import { layOut, makeSecrets } from '../infra/check/sandbox.ts'
import { type ToolName, tool } from '../infra/check/tools.ts'
import { validators } from '../infra/check/validators.ts'
import { readDeployment } from '../infra/regions/deployment.ts'
import { render } from '../infra/regions/render.ts'

const root = join(import.meta.dirname, '..')
const fileOf = (name: string) => join(root, 'infra/deploy', name)
const textOf = (name: string) => readFileSync(fileOf(name), 'utf8')
/** The most that systemd may measure, ten times: 0 is no exposure, 100 an ordinary unit. */
const exposureMost = '15'

t.test('the settings are accepted, also those that are commented out', async (t) => {
  const lines = textOf('holdfast.env').split('\n')
  for (const shown of [lines, lines.map((line) => line.replace(/^#(?=HOLDFAST_)/, ''))]) {
    const settings = shown.filter((line) => line.startsWith('HOLDFAST_')).map((line) => line.split(/=(.*)/s))
    const { config } = readConfig(Object.fromEntries(settings), {
      readSecret: (path) => `secret of ${path}`.replaceAll(' ', '-'),
    })
    t.not(config.publicUrls.download, config.publicUrls.api, 'downloads have a name of their own')
  }
})

t.test('systemd reads the unit and finds it closed', async (t) => {
  const folder = t.testdir({})
  const launcher = join(folder, 'opt/holdfast/infra/launch.sh')
  mkdirSync(dirname(launcher), { recursive: true })
  writeFileSync(launcher, '#!/bin/sh\n')
  chmodSync(launcher, 0o755)
  cpSync(fileOf('holdfast.service'), join(folder, 'etc/systemd/system/holdfast.service'))
  const verify = ['verify', '--man=no', '--recursive-errors=no', `--root=${folder}`, 'holdfast.service']
  t.strictSame(said('systemd-analyze', verify), { status: 0, output: '' })
  const security = ['security', '--offline=true', `--threshold=${exposureMost}`, `--root=${folder}`]
  const { status, output } = said('systemd-analyze', [...security, 'holdfast.service'])
  t.equal(status, 0, output)
})

t.test('the unit starts by the launcher, after its mount', async (t) => {
  const unit = textOf('holdfast.service')
  t.match(unit, /^ExecStart=\S+\/infra\/launch\.sh apps\/standalone\/src\/main\.ts$/m)
  const [, data = ''] = /HOLDFAST_DATA_DIR=(\S+)/.exec(unit) ?? []
  t.match(unit, `RequiresMountsFor=${data}\n`)
})

t.test('nginx and Caddy accept their files', async (t) => {
  const folder = t.testdir({})
  makeSecrets(folder)
  const recipe = textOf('nginx.conf')
    .replaceAll('/etc/holdfast', folder)
    .replace(/listen (\[::\]:)?(\d+)/g, (_, any = '', port) => `listen ${any}${Number(port) + 20_000}`)
  writeFileSync(join(folder, 'recipe.conf'), recipe)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((what) => `${what}_temp_path ${folder};`)
    .join(' ')
  const main = join(folder, 'nginx.conf')
  writeFileSync(
    main,
    `pid ${folder}/pid; events {} http { access_log off; ${temporary} include recipe.conf; }`,
  )
  const nginx = said('nginx', ['-t', '-q', '-p', folder, '-e', 'stderr', '-c', main])
  t.equal(nginx.status, 0, nginx.output)
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const validate = ['validate', '--adapter', 'caddyfile', '--config', fileOf('Caddyfile')]
  const caddy = said('caddy', validate, home)
  t.equal(caddy.status, 0, caddy.output)
})

t.test('both proxies accept the longest names that a deployment may have', async (t) => {
  const folder = t.testdir({})
  const name = 'three-hosts.yaml'
  const zone = `${'a23456789.'.repeat(23)}example`
  makeSecrets(join(folder, 'etc'))
  for (const proxy of ['nginx', 'caddy']) {
    const text = readFileSync(join(root, 'infra/regions', name), 'utf8')
      .replaceAll(/(?<=^(domain|downloads): )\S+/gm, zone)
      .replace('proxy: nginx', `proxy: ${proxy}`)
    const sandbox = layOut(render(readDeployment(text, name)), join(folder, proxy), join(folder, 'etc'))
    const checks = await validators.find((one) => one.name === proxy)?.checks(sandbox)
    t.equal(checks?.length, 2, 'two hosts have a proxy')
    for (const { args } of checks ?? []) {
      const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
      t.match(said(proxy as ToolName, args, home), { status: 0 })
    }
    t.throws(() => readDeployment(text.replaceAll(zone, `a${zone}`), name), {
      message: /domain must be a domain name in small letters, with at most 237 signs/,
    })
  }
})

t.test('compose starts the image as closed as the unit, with the same settings', async (t) => {
  const read = said('compose-spec', [fileOf('compose.yaml')])
  t.equal(read.status, 0, read.output)
  const { holdfast, caddy } = parse(textOf('compose.yaml')).services
  t.match(holdfast, { read_only: true, cap_drop: ['ALL'], env_file: ['holdfast.env'] })
  const image = textOf('Containerfile')
  t.match(image, `USER ${holdfast.user}\n`)
  t.match(
    image,
    `HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["${holdfast.healthcheck.test[1]}"]`,
  )
  t.match(holdfast.volumes, ['data:/var/lib/holdfast'])
  t.match(image, 'HOLDFAST_DATA_DIR=/var/lib/holdfast')
  const [, program] = /^ExecStart=\S+ (\S+)$/m.exec(textOf('holdfast.service')) ?? []
  t.match(image, `ENTRYPOINT ["infra/launch.sh", "${program}"]`)
  const [upstream, admin] = Object.keys(caddy.environment)
  t.match(textOf('Caddyfile'), `{$${upstream}:127.0.0.1}:8080`)
  t.match(textOf('Caddyfile'), `admin {$${admin}:unix//`)
})

/** The code with which the check of a container ends. */
async function checked(admin: { bind: string; server: Server; tls?: string }): Promise<number> {
  const env = {
    HOLDFAST_ADMIN_BIND: admin.bind,
    HOLDFAST_ADMIN_PORT: String((admin.server.address() as AddressInfo).port),
    ...(admin.tls && { HOLDFAST_ADMIN_TLS: admin.tls }),
  }
  const [code] = await once(spawn(fileOf('healthy.sh'), { env, stdio: 'inherit' }), 'close')
  return code
}

t.test('the check of a container asks an admin host by TLS that answers nothing else', async (t) => {
  const folder = t.testdir({})
  const authority = await Authority.create(folder, { name: 'test', days: 2 })
  await authority.issue({ host: 'node', names: ['127.0.0.1'] }, { days: 2 })
  const [cert, key] = ['pem', 'key'].map((end) => readFileSync(join(folder, `node/node.${end}`)))
  const server = createTlsServer({ cert, key }, (_, response) => response.end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const admin = { bind: '127.0.0.1', server }
  t.equal(await checked({ ...admin, tls: 'required' }), 0)
  t.equal(await checked(admin), 1)
})

t.test('the check of a container asks the address on which the admin host listens', async (t) => {
  for (const [listen, bind] of [
    ['127.0.0.2', '127.0.0.2'],
    ['::1', '::1'],
    ['127.0.0.1', ''],
    ['127.0.0.1', '0.0.0.0'],
    ['::1', '::'],
  ] as const) {
    const asked: string[] = []
    const server = createServer((request, response) => {
      asked.push(request.url ?? '')
      response.writeHead(asked.length === 1 ? 200 : 503).end()
    })
    server.listen(0, listen)
    await once(server, 'listening')
    const check = () => checked({ bind, server })
    t.strictSame([await check(), await check(), asked], [0, 1, ['/livez', '/livez']], bind || 'no setting')
    server.close()
  }
})

t.test('the unit, the settings and both proxies have the same names', async (t) => {
  const names = [...textOf('holdfast.env').matchAll(/^HOLDFAST_PUBLIC_\w+=https:\/\/(\S+)$/gm)].map(
    ([, name = '']) => name,
  )
  t.equal(names.length, 4)
  for (const proxy of ['nginx.conf', 'Caddyfile'])
    for (const name of names) t.match(textOf(proxy), new RegExp(`[ \\n]${name}[ ,;]`), `${proxy}: ${name}`)
  t.notMatch(textOf('nginx.conf') + textOf('Caddyfile'), '8090', 'the admin host is behind no proxy')
})

/** Path and text of the files of proxies: of infra/deploy, and rendered ones. */
function proxyFiles(): (readonly [path: string, text: string])[] {
  const examples = ['one.yaml', 'three-hosts.yaml'].map((name) =>
    readDeployment(readFileSync(join(root, 'infra/regions', name), 'utf8'), name),
  )
  const rendered = examples.flatMap((deployment) =>
    [...render(deployment)].filter(([path]) => /\/(Caddyfile|nginx\/.*\.conf)$/.test(path)),
  )
  return [...rendered, ...['nginx.conf', 'Caddyfile'].map((name) => [name, textOf(name)] as const)]
}

t.test('no file of a proxy lets it log paths or queries', async (t) => {
  for (const [path, text] of proxyFiles()) {
    if (path.includes('nginx'))
      for (const [server] of text.matchAll(/^server \{[\s\S]*?^\}/gm)) {
        t.match(server, /^ {2}access_log off;$/m, path)
        if (!server.includes('/metrics')) t.match(server, /^ {2}error_log stderr emerg;$/m, path)
      }
    else
      t.match(adapted(text, t.testdir({})), /"encoder":\{"fields":\{"request":\{"filter":"delete"\}\}/, path)
  }
})

t.test('no other user of a host tells Caddy what to serve', async (t) => {
  for (const [path, text] of proxyFiles())
    if (!path.includes('nginx'))
      t.match(adapted(text, t.testdir({})), /^\{"admin":\{"listen":"unix\/\//, `${path}: a socket, no port`)
})

t.test('proxies close idle connections to the service long before it does', async (t) => {
  const files = proxyFiles()
  for (const kind of ['nginx', 'Caddyfile'])
    t.ok(files.filter(([path]) => path.includes(kind)).length >= 2, `${kind}: one, and rendered ones`)
  for (const [path, text] of files) {
    const kept = path.includes('nginx') ? keptByNginx(text) : keptByCaddy(text, t.testdir({}))
    t.equal(kept.length, 3, `${path} says it for each host`)
    // Unless the proxy is named in HOLDFAST_TRUST_PROXY it is a client like any other.
    const { silentMs: _, handshakeMs: __, ...times } = defaultIdle
    for (const [name, ms] of Object.entries(times))
      for (const seconds of kept) t.ok(2 * seconds * 1_000 < ms, `${path}: ${seconds} s, ${name} ${ms}`)
  }
})

/** Seconds, of each host of the service. */
function keptByNginx(text: string): number[] {
  return [...text.matchAll(/^upstream [^}]*keepalive_timeout (\d+)s;/gm)].map(([, seconds]) =>
    Number(seconds),
  )
}

function keptByCaddy(text: string, folder: string): number[] {
  return [...adapted(text, folder).matchAll(/"idle_timeout":(\d+)/g)].map(
    ([, nanoseconds]) => Number(nanoseconds) / 1e9,
  )
}

/** @returns the configuration that Caddy makes of a Caddyfile: JSON. */
function adapted(text: string, folder: string): string {
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, text)
  const home = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const { status, output } = said('caddy', ['adapt', '--adapter', 'caddyfile', '--config', file], home)
  if (status !== 0) throw new Error(output)
  return output
}

function said(name: ToolName, args: readonly string[], more: NodeJS.ProcessEnv = {}) {
  const { path, env } = tool(name)
  const { status, stdout, stderr } = spawnSync(path, args, { env: { ...env, ...more }, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

/** Rendered files under the real Prometheus, alertmanager and proxies, on addresses of loopback. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Authority } from '@holdfast/trust'
import t, { type Test } from 'tap'
import { type ToolName, tool } from '../infra/check/tools.ts'
import { readDeployment } from '../infra/regions/deployment.ts'
import { allHosts, planOf } from '../infra/regions/plan.ts'
import { places } from '../infra/regions/platform.ts'
import { render } from '../infra/regions/render.ts'
import { freePorts } from '../infra/servers/ports.ts'
import { onLoopback } from './support/on-loopback.ts'

const example = readFileSync(join(import.meta.dirname, '../infra/regions/three.yaml'), 'utf8')
const proxies = { caddy: '/etc/caddy/Caddyfile', nginx: '/etc/nginx/conf.d/holdfast.conf' }
const startMs = 30_000
/** Elsewhere than Linux the machine has one address of loopback. */
const skip = process.platform === 'linux' ? false : 'it needs several addresses'

for (const proxy of ['caddy', 'nginx'] as const)
  t.test(
    `three Prometheus send an alert to three alertmanagers, and one page is sent, by ${proxy}`,
    {
      skip,
    },
    async (t) => {
      const pages: string[] = []
      const receiver = await webhook(t, (body) => pages.push(body))
      const deployed = await lay(t, proxy, receiver)
      for (const host of ['par3', 'nyc3', 'sgp3']) deployed.startAlertmanager(host)
      deployed.startProxy('par1')
      const prometheus = ['par3', 'nyc3', 'sgp3'].map((host) => deployed.startPrometheus(host))
      await until(() => pages.length > 0, 'a page')
      const jobs = 'up{job=~"prometheus|alertmanager|proxy",machine=~"par1|par3"}'
      const up = () => ask(prometheus[0] ?? 0, jobs)
      await until(
        async () => (await up()).filter(({ value }) => value === '1').length === 3,
        'three jobs',
        async () => JSON.stringify(await up()),
      )
      // The last alertmanager waits for those before it for twice the wait of one.
      await new Promise((later) => setTimeout(later, 5 * deployed.peerSeconds * 1_000))
      t.equal(pages.length, 1, pages.join('\n'))
      t.match(JSON.parse(pages[0] ?? ''), { receiver: 'page', commonLabels: { alertname: 'Tried' } })

      const { address, port } = deployed.alertmanager('par3')
      await t.rejects(get({ address, port, ca: deployed.authority }), 'a certificate is asked for')
      const own = {
        cert: deployed.pem('par1', 'prometheus.pem'),
        key: deployed.pem('par1', 'prometheus.key'),
      }
      t.equal((await get({ address, port, ca: deployed.authority, ...own })).statusCode, 200)
    },
  )

interface DeployedObservers {
  peerSeconds: number
  authority: string
  alertmanager(host: string): { address: string; port: number }
  pem(host: string, name: string): string
  startAlertmanager(host: string): void
  startProxy(host: string): void
  /** @returns its port on loopback */
  startPrometheus(host: string): number
}

/** The files of every host, with addresses and ports of this machine. */
async function lay(t: Test, proxy: 'caddy' | 'nginx', receiver: number): Promise<DeployedObservers> {
  const folder = t.testdir({})
  const peerSeconds = 1
  const text = example
    .replace('proxy: caddy', `proxy: ${proxy}`)
    .replace(/page: \S+,/, `page: 'http://127.0.0.1:${receiver}/',`)
  const deployment = onLoopback(readDeployment(text, 'three.yaml'), (internal) =>
    internal.replace(/^10\.(\d)\.0\./, '127.77.$1.'),
  )
  const hosts = allHosts(planOf(deployment))
  const [web, gossip, metrics, http, tls, ...own] = (await freePorts(5 + hosts.length)) as [
    number,
    number,
    number,
    number,
    number,
    ...number[],
  ]
  const authority = await Authority.create(join(folder, 'ca'), { name: 'tried', days: 2 })
  for (const { name, internal } of hosts)
    for (const kind of ['prometheus', 'proxy'] as const)
      await authority.issue({ host: name, names: [internal] }, { days: 2, kind })
  for (const { name } of hosts)
    await authority.issuePublic({ host: name, names: ['files.example'] }, { days: 2 })
  for (const [path, text] of render(deployment)) {
    const [, host = ''] = /^hosts\/([^/]+)\//.exec(path) ?? []
    const at = hosts.findIndex(({ name }) => name === host)
    if (at < 0) continue
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(
      file,
      text
        .replaceAll(places.tls, join(folder, 'ca', host))
        .replaceAll('/etc/prometheus', join(folder, 'hosts', host, 'etc/prometheus'))
        .replaceAll(':9093', `:${web}`)
        .replaceAll(':9094', `:${gossip}`)
        .replaceAll(':2020', `:${metrics}`)
        .replaceAll(':9090', `:${own[at]}`)
        .replaceAll('group_wait: 30s', 'group_wait: 1s')
        .replaceAll('_interval: 15s', '_interval: 1s')
        // Each of them sends the same alert: elsewhere this label makes three of it.
        .replace(/^ +region: .*\n/m, ''),
    )
    if (path.endsWith('/holdfast.rules.yml')) writeFileSync(file, alwaysFires)
  }
  const on = (host: string, path: string) => join(folder, 'hosts', host, path)
  const start = (name: ToolName, args: string[]) => {
    const { path, env } = tool(name)
    const child = spawn(path, args, { env: { ...env, HOME: folder, XDG_DATA_HOME: folder }, stdio: 'ignore' })
    // Killed, nginx would leave its workers behind.
    t.teardown(() => ended(child, name === 'nginx' ? 'SIGTERM' : 'SIGKILL'))
  }
  /** What the distribution's unit passes, and where the program looks for its file. */
  const unitWords = (name: 'prometheus' | 'prometheus-alertmanager', host: string) => {
    const { path, env } = tool(name)
    const { stdout, stderr } = spawnSync(path, ['--help'], { env, encoding: 'utf8' })
    const [, config = ''] = /--config\.file="([^"]*)"/.exec(`${stdout}${stderr}`) ?? []
    const [, words = ''] =
      /^ARGS="(.*)"\n$/.exec(readFileSync(on(host, `/etc/default/${name}`), 'utf8')) ?? []
    return [`--config.file=${on(host, config)}`, ...words.split(' ')]
  }
  return {
    peerSeconds,
    authority: readFileSync(join(folder, 'ca/ca.pem'), 'utf8'),
    pem: (host, name) => readFileSync(join(folder, 'ca', host, name), 'utf8'),
    alertmanager: (host) => ({
      address: hosts.find(({ name }) => name === host)?.internal ?? '',
      port: web,
    }),
    startAlertmanager: (host) =>
      start('prometheus-alertmanager', [
        ...unitWords('prometheus-alertmanager', host),
        ...[`--storage.path=${on(host, 'alerts')}`, `--cluster.peer-timeout=${peerSeconds}s`],
        '--cluster.settle-timeout=5s',
      ]),
    startPrometheus(host) {
      start('prometheus', [
        ...unitWords('prometheus', host),
        // An alert that it sends before it has found the alertmanagers is lost.
        ...[`--storage.tsdb.path=${on(host, 'series')}`, '--rules.alert.resend-delay=2s'],
      ])
      return own[hosts.findIndex(({ name }) => name === host)] ?? 0
    },
    startProxy(host) {
      const file = on(host, proxies[proxy])
      const text = readFileSync(file, 'utf8')
      if (proxy === 'caddy') {
        writeFileSync(
          file,
          text.replace(/\tadmin .*\n/, `\tadmin off\n\thttp_port ${http}\n\thttps_port ${tls}\n`),
        )
        start('caddy', ['run', '--adapter', 'caddyfile', '--config', file])
        return
      }
      const ported = text
        .replaceAll('listen 443', `listen 127.0.0.1:${tls}`)
        .replaceAll('listen 80', `listen 127.0.0.1:${http}`)
        .replace(/ *listen \[::\].*\n/g, '')
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((what) => `${what}_temp_path ${folder};`)
        .join(' ')
      const main = join(folder, 'nginx.conf')
      writeFileSync(
        main,
        `daemon off; pid ${folder}/pid; events {} http { access_log off; ${temporary}\n${ported}}`,
      )
      start('nginx', ['-p', folder, '-e', 'stderr', '-c', main])
    },
  }
}

const alwaysFires = `groups:
  - name: tried
    rules:
      - { alert: Tried, expr: vector(1), labels: { severity: page } }
`

async function webhook(t: Test, reported: (body: string) => void): Promise<number> {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      reported(body)
      response.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

async function ask(port: number, query: string) {
  const url = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`
  const answer = await fetch(url).catch(() => undefined)
  if (answer?.status !== 200) return []
  const { data } = (await answer.json()) as {
    data: { result: { metric: Record<string, string>; value: [number, string] }[] }
  }
  return data.result.map(({ metric, value }) => ({ metric, value: value[1] }))
}

async function get({ address, port, ...identity }: { address: string; port: number } & https.RequestOptions) {
  const request = https.request({ ...identity, host: address, port, path: '/-/ready', agent: false })
  request.end()
  const [response] = await once(request, 'response')
  response.resume()
  return response as { statusCode: number }
}

async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  why: () => Promise<string> = async () => '',
): Promise<void> {
  const startedMs = performance.now()
  while (!(await holds())) {
    if (performance.now() - startedMs > startMs) throw new Error(`no ${what} in time ${await why()}`)
    await new Promise((later) => setTimeout(later, 100))
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal)
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
}

/**
 * Two real nats-servers with the rendered configuration and the secrets that `up` lays: they join,
 * and another program with a certificate of the same authority does not.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { connect } from 'node:tls'
import { Authority } from '@holdfast/trust'
import t from 'tap'
import { readDeployment } from '../infra/regions/deployment.ts'
import { type HostWork, needsOf, upScript, workOf } from '../infra/regions/hosts.ts'
import { natsPasswordsText } from '../infra/regions/render/nats.ts'
import { startConfiguredNats } from '../infra/servers/nats.ts'
import { onLoopback } from './support/on-loopback.ts'
import { until } from './support/until.ts'

/** Loopback addresses that no other test uses. */
const network = '127.0.78'
const example = join(import.meta.dirname, '../infra/regions/three-hosts.yaml')
/** Signs that addresses and shells give a meaning. */
const passwords = { own: String.raw`it's p@ss/w%rd: "#1" C:\ü$HOME\\`, system: 'system' }

t.test('servers of a region join by certificate and password', async (t) => {
  const folder = t.testdir()
  const authority = await Authority.create(join(folder, 'ca'), { name: 'test', days: 5 })
  const works = workOf(deployment()).slice(0, 2)
  for (const { host } of works) {
    const names = { host: host.name, names: [host.internal] }
    await authority.issue(names, { days: 3 })
    await authority.issue(names, { days: 3, kind: 'proxy' })
  }
  const bin = programs(join(folder, 'bin'))
  const record = join(folder, 'record')
  for (const work of works) {
    const root = join(folder, work.host.name)
    laySecrets(root, work)
    for (const name of ['ca.pem', 'node.pem', 'node.key'])
      writeFileSync(join(root, tls, name), readFileSync(join(folder, 'ca', work.host.name, name)))
    const up = () => {
      const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, HOLDFAST_ROOT: root, RECORD: record }
      const { status, stdout, stderr } = spawnSync('sh', {
        input: upScript(work, 'servers'),
        env,
        encoding: 'utf8',
      })
      t.equal(status, 0, stderr)
      return stdout
    }
    t.match(up(), 'changed /etc/holdfast/secrets/nats-routes.conf\n')
    const routes = readFileSync(join(root, '/etc/holdfast/secrets/nats-routes.conf'), 'utf8')
    const [, encoded = ''] = /nats:\/\/holdfast:([^@]*)@/.exec(routes) ?? []
    t.equal(decodeURIComponent(encoded), passwords.own)
    t.notMatch(up(), 'nats-routes.conf', 'a second time it stays')
    t.match(readFileSync(record, 'utf8'), /^restart holdfast-nats/m)
    writeFileSync(record, '')
    writeFileSync(users(root), natsPasswordsText({ own: 'new', system: 'system' }))
    t.match(up(), /^reloaded holdfast-nats.service$/m, 'a new password, or another server of the region')
    layPasswords(root)
    t.match(up(), /^reloaded holdfast-nats.service$/m)
    t.notMatch(readFileSync(record, 'utf8'), /^restart holdfast-nats/m)
    writeFileSync(join(root, '/etc/holdfast/nats.conf'), 'of before')
    up()
    t.match(readFileSync(record, 'utf8'), /^restart holdfast-nats/m, 'it reads gateways at its start alone')
  }
  const started = await Promise.all(works.map((work) => startRendered(join(folder, work.host.name), work)))
  t.teardown(() => Promise.all(started.map((server) => server.stop())))
  for (const { host } of works)
    await until(async () => {
      const answer = await fetch(`http://${host.internal}:8222/routez`)
      return ((await answer.json()) as { num_routes: number }).num_routes > 0
    })
  const [{ host } = { host: undefined }] = works
  const said = await asRoute(host?.internal ?? '', {
    ca: readFileSync(join(folder, 'ca/ca.pem')),
    cert: readFileSync(join(folder, 'ca/par1/proxy.pem')),
    key: readFileSync(join(folder, 'ca/par1/proxy.key')),
  })
  t.match(said, /^INFO .*"auth_required":true/)
  t.match(said, "-ERR 'Authorization Violation'", 'the certificate of a proxy is not enough')
})

const tls = '/etc/holdfast/tls'

function deployment() {
  return onLoopback(readDeployment(readFileSync(example, 'utf8'), example), (internal) =>
    internal.replace('10.1.0.', `${network}.`),
  )
}

/** Only what is read; what is merely looked for is empty. */
function laySecrets(root: string, work: HostWork): void {
  for (const path of needsOf(work)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), '')
  }
  layPasswords(root)
}

function layPasswords(root: string): void {
  writeFileSync(users(root), natsPasswordsText(passwords).replace('\n', ' # for "holdfast"\n'))
}

function users(root: string): string {
  return join(root, '/etc/holdfast/secrets/nats-users.conf')
}

/** Programs of a host that these tests do without. */
function programs(folder: string): string {
  mkdirSync(folder)
  for (const [name, script] of [
    ['systemctl', 'echo "$@" >> "$RECORD"'],
    // It would look for certificates below the root of this machine.
    ['nats-server', ''],
    ['ss', 'echo listening'],
    ['chown', ''],
  ] as const) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  return folder
}

function startRendered(root: string, { host, files }: HostWork) {
  const conf = files.get('/etc/holdfast/nats.conf') ?? ''
  return startConfiguredNats({
    directory: join(root, 'etc/holdfast'),
    address: { host: host.internal, port: 4222 },
    files: {
      'nats.conf': conf
        .replaceAll('/etc/holdfast/', `${root}/etc/holdfast/`)
        // Both are on one machine.
        .replace('http: "127.0.0.1:8222"', `http: "${host.internal}:8222"`),
    },
  })
}

/** What a server says to a route that shows a certificate and sends no password. */
function asRoute(host: string, identity: { ca: Buffer; cert: Buffer; key: Buffer }): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    const socket = connect({ host, port: 6222, ...identity, timeout: 30_000 })
    socket.once('timeout', () => socket.destroy(new Error(`the server still runs: ${said}`)))
    socket.once('error', reject)
    socket.on('data', (bytes) => {
      if (said === '')
        socket.write(
          'CONNECT {"verbose":false,"pedantic":false,"tls_required":true,"name":"x","cluster":"eu-par"}\r\nPING\r\n',
        )
      said += bytes.toString()
    })
    socket.once('close', () => resolve(said))
  })
}

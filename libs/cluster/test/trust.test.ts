/** Files of certificates and secrets that change while a process runs. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readClusterConfig } from '@holdfast/config'
import { Authority } from '@holdfast/trust'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { certificateMetrics } from '../src/servers/certificate-metrics.ts'
import { liveSecrets } from '../src/servers/live-secrets.ts'
import { openTrust } from '../src/servers/trust.ts'

function logged() {
  const lines: { level: number; msg: string }[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  return { log, lines }
}

t.test('the age of certificates in use is a metric, also after a renewal', async (t) => {
  const directory = t.testdir()
  const authority = await Authority.create(directory, { name: 'test', days: 300 })
  await authority.issue({ host: 'node', names: [] }, { days: 3 })
  const at = (name: string) => join(directory, 'node', name)
  const { log, lines } = logged()
  const own = { cert: at('node.pem'), key: at('node.key') }
  const trust = openTrust(
    {
      tls: { ca: at('ca.pem'), own },
      natsTlsCa: at('ca.pem'),
      cassandra: { nodes: {}, replicas: 1, tlsCa: undefined },
    },
    log,
  )
  t.teardown(() => trust.close())
  t.equal(trust.nats, trust.peers, 'the same files are watched once')
  t.equal(trust.cassandra, undefined)
  const registry = new Registry()
  certificateMetrics(registry, trust)
  const daysLeft = async (labels: string) => {
    const line = new RegExp(`^holdfast_certificate_expires_timestamp_seconds\\{${labels}\\} (.*)$`, 'm')
    const [, seconds] = line.exec(await registry.metrics()) ?? []
    return Math.round((Number(seconds) - Date.now() / 1000) / 86_400)
  }
  t.equal(await daysLeft('use="peers",certificate="own"'), 3)
  t.equal(await daysLeft('use="nats",certificate="authority"'), 300)
  t.notMatch(await registry.metrics(), 'cassandra')
  await authority.renew({ withinDays: 5, days: 20 })
  trust.peers?.reload()
  t.equal(await daysLeft('use="peers",certificate="own"'), 20)
  t.match(
    lines.map(({ msg }) => msg),
    ['certificates were replaced'],
  )
})

t.test('files that do not fit each other are a wrong setting at the start', async (t) => {
  const { log } = logged()
  const tls = { ca: '/none/ca.pem', own: { cert: '/none/node.pem', key: '/none/node.key' } }
  t.throws(
    () =>
      openTrust({ tls, natsTlsCa: undefined, cassandra: { nodes: {}, replicas: 1, tlsCa: undefined } }, log),
    { code: 'SETTINGS', message: /\/none\/node\.pem cannot be read/ },
  )
})

t.test('secrets are read again, and a wrong one changes nothing', async (t) => {
  const directory = t.testdir({
    secret: 'the-first-secret-0',
    token: 'an-admin-token-00',
    metrics: 'a-metrics-token-0',
    nats: 'one',
  })
  const at = (name: string) => join(directory, name)
  const env = {
    HOLDFAST_NODE_NAME: 'a',
    HOLDFAST_CLUSTER_SECRET_FILE: at('secret'),
    HOLDFAST_ADMIN_TOKEN_FILE: at('token'),
    HOLDFAST_METRICS_TOKEN_FILE: at('metrics'),
    HOLDFAST_NATS_USER: 'holdfast',
    HOLDFAST_NATS_PASSWORD_FILE: at('nats'),
  }
  const { log, lines } = logged()
  const secrets = liveSecrets({
    read: () => readClusterConfig(env, { readSecret: (path) => readFileSync(path, 'utf8') }).secrets,
    log,
    rereadMs: 5,
  })
  t.teardown(() => secrets.close())
  t.same(secrets.clusterSecret, ['the-first-secret-0'])
  writeFileSync(at('secret'), 'the-next-secret-00\nthe-first-secret-0\n')
  await until(() => secrets.clusterSecret.length === 2)
  writeFileSync(at('nats'), 'two')
  await until(() => secrets.nats?.password === 'two')
  writeFileSync(at('metrics'), 'a-metrics-token-1')
  await until(() => secrets.metricsToken === 'a-metrics-token-1')
  writeFileSync(at('token'), 'short')
  await until(() => lines.some(({ level }) => level === 50))
  t.equal(secrets.adminToken, 'an-admin-token-00')
  t.notMatch(JSON.stringify(lines), /secret-0|an-admin|a-metrics|"two"/, 'no secret is in the log')
  writeFileSync(at('token'), 'an-admin-token-01')
  await until(() => secrets.adminToken === 'an-admin-token-01')
})

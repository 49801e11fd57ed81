import { createRateLimits } from '@holdfast/http-kit'
import { type PartFailure, systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { type Phase, Readiness } from '../src/health/readiness.ts'
import { createAdminHost } from '../src/host.ts'

t.test('a client at the wrong process learns when to retry, and only the operator learns why', async (t) => {
  let broken = false
  const readiness = new Readiness({
    store: async () => {
      if (broken) throw new Error('a disk is gone')
    },
  })
  const host = createAdminHost({
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    readiness,
    adminToken: undefined,
    metricsToken: undefined,
    uidOf: async () => 0,
    operations: {
      status: async () => ({}),
      collect: async () => ({}),
      reconcile: async () => ({}),
      settings: () => [],
      bans: () => [],
      liftBan: () => false,
      acceptClock: undefined,
      backupJobs: undefined,
      cluster: undefined,
    },
    connections: undefined,
    tls: undefined,
    moderation: undefined,
    accounts: undefined,
  })
  t.teardown(() => host.close())
  const ask = async (path: string, remoteAddress = '192.0.2.1') => {
    const { statusCode, headers, body } = await host.inject({ url: path, remoteAddress })
    return { code: statusCode, retryAfter: headers['retry-after'], body: JSON.parse(body) }
  }
  const unready = { code: 503, retryAfter: '2', body: { status: 'error-unavailable' } }
  const inPhase = (phase: Phase) => {
    readiness.phase = phase
    return ask('/readyz')
  }
  t.same(await inPhase('starting'), unready)
  t.same(await inPhase('draining'), unready)
  t.same(await ask('/readyz?verbose'), unready)
  t.same(await ask('/readyz?verbose', '127.0.0.1'), {
    ...unready,
    body: { ...unready.body, data: { checks: { phase: 'draining', store: 'ok' } } },
  })
  const ready = { code: 200, retryAfter: undefined, body: { status: 'ok', data: {} } }
  t.same(await inPhase('ready'), ready)
  broken = true
  t.same(await ask('/readyz'), unready)
})

t.test('a part that does not recover within a minute makes the process count as dead', async (t) => {
  const clock = { nowMs: 1_000, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  let failing: PartFailure | undefined
  const readiness = new Readiness({}, { vital: { metadata: () => failing }, clock })
  const host = createAdminHost({
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    readiness,
    adminToken: undefined,
    metricsToken: undefined,
    uidOf: async () => 0,
    operations: {
      status: async () => ({}),
      collect: async () => ({}),
      reconcile: async () => ({}),
      settings: () => [],
      bans: () => [],
      liftBan: () => false,
      acceptClock: undefined,
      backupJobs: undefined,
      cluster: undefined,
    },
    connections: undefined,
    tls: undefined,
    moderation: undefined,
    accounts: undefined,
  })
  t.teardown(() => host.close())
  const code = async () => (await host.inject('/livez')).statusCode
  t.equal(await code(), 200)
  failing = { reason: 'EIO', sinceMs: 1_000, needsRestart: false }
  clock.nowMs = 60_999
  t.equal(await code(), 200, 'it may recover')
  clock.nowMs = 61_000
  t.equal(await code(), 503)
  t.match((await host.inject({ url: '/livez?verbose', remoteAddress: '127.0.0.1' })).json(), {
    data: { hopeless: /metadata .*EIO/ },
  })
  t.equal(readiness.endReason, undefined, 'it keeps trying')
  failing = { reason: 'its file is damaged', sinceMs: 1_001, needsRestart: true }
  t.equal(readiness.endReason, undefined)
  clock.nowMs = 61_001
  t.match(readiness.endReason, /its file is damaged/, 'the process ends')
  failing = undefined
  t.equal(await code(), 200)
})

t.test('readiness runs its checks at most once a second; a new phase counts at once', async (t) => {
  const clock = { nowMs: 1_000, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  let checked = 0
  let fails = false
  const check = async () => {
    checked++
    if (fails) throw new Error('no link')
  }
  const readiness = new Readiness({ check }, { clock })
  t.equal(await readiness.isReady(), false, 'it starts')
  t.equal(checked, 0)
  readiness.phase = 'ready'
  t.same(await Promise.all([readiness.isReady(), readiness.isReady()]), [true, true])
  t.equal(checked, 1)
  fails = true
  clock.nowMs += 999
  t.equal(await readiness.isReady(), true)
  clock.nowMs += 1
  t.equal(await readiness.isReady(), false)
  t.equal(checked, 2)
  fails = false
  clock.nowMs += 1_000
  const asked = readiness.isReady()
  readiness.phase = 'draining'
  t.equal(await asked, false, 'it drains since')
})

/** The admin host has few connections. A call beyond them is refused before anything is done. */
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { createRateLimits } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { Readiness } from '../src/health/readiness.ts'
import { createAdminHost } from '../src/host.ts'

const max = 4

t.test('a call beyond the number of connections is refused without effect, and succeeds later', async (t) => {
  const under = new Map<number, () => void>()
  let asked = 0
  const host = createAdminHost({
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    readiness: new Readiness({}),
    adminToken: undefined,
    metricsToken: undefined,
    uidOf: async () => 0,
    connections: { max, perNetworkMax: Number.POSITIVE_INFINITY },
    tls: undefined,
    operations: {
      status: async () => ({}),
      collect: () => {
        const done = Promise.withResolvers<Record<string, unknown>>()
        under.set(asked++, () => done.resolve({}))
        host.server.emit('asked')
        return done.promise
      },
      reconcile: async () => ({}),
      settings: () => [],
      bans: () => [],
      liftBan: () => false,
      acceptClock: undefined,
      backupJobs: undefined,
      cluster: undefined,
    },
    moderation: undefined,
    accounts: undefined,
  })
  await host.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => host.close())
  t.ok(host.server.timeout > 10 * 60_000, 'a long call is awaited for as long as ctl does it')
  const { port } = host.server.address() as AddressInfo
  const call = async () => {
    const socket = connect(port, '127.0.0.1')
    socket.write('POST /admin/collect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n')
    socket.write('Connection: close\r\n\r\n')
    return text(socket)
  }

  const calls: Promise<string>[] = []
  while (calls.length < max) {
    calls.push(call())
    await once(host.server, 'asked')
  }
  const refused = await call()
  t.match(refused, /^HTTP\/1\.1 503 .*"status":"error-unavailable"/s)
  t.match(refused, /Retry-After: \d/)
  t.equal(asked, max, 'nothing was done for it')

  under.get(0)?.()
  t.match(await calls[0], / 200 /)
  const again = call()
  await once(host.server, 'asked')
  for (const end of under.values()) end()
  t.match(await again, / 200 /)
  for (const answered of calls) t.match(await answered, / 200 /)
})

import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { createRateLimits } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { uidIn } from '../src/access/local-caller.ts'
import { Readiness } from '../src/health/readiness.ts'
import { createAdminHost } from '../src/host.ts'

const connection = {
  remoteAddress: '127.0.0.1',
  remotePort: 0xcafe,
  localAddress: '127.0.0.1',
  localPort: 8090,
}
const row = ({ from = '0100007F:CAFE', to = '0100007F:1F9A', state = '01', uid = 1234, inode = 77 } = {}) =>
  `   3: ${from} ${to} ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 0 20 4 30 10 -1`

t.test('the user of a connection is in the row of the client’s end', async (t) => {
  const head =
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode'
  const serverEnd = row({ from: '0100007F:1F9A', to: '0100007F:CAFE', uid: 0 })
  const others = [row({ from: '0100007F:CAFF', uid: 0 }), row({ to: '0200007F:1F9A', uid: 0 })]
  t.equal(uidIn([head, serverEnd, ...others, row(), ''].join('\n'), connection), 1234)
  t.equal(uidIn([head, serverEnd, ...others].join('\n'), connection), undefined)
  t.equal(uidIn('', connection), undefined)
})

t.test('a socket that is closed or still connecting has no user, although the table has a uid', async (t) => {
  t.equal(uidIn(row({ uid: 0, inode: 0 }), connection), undefined, 'no process holds it any more')
  t.equal(uidIn(row({ uid: 0, state: '02' }), connection), undefined, 'SYN_SENT on a reused port')
  t.equal(uidIn(row({ uid: 0, state: '06', inode: 0 }), connection), undefined, 'TIME_WAIT')
  t.equal(uidIn(`${row({ uid: 0, inode: 0 })}\n${row()}`, connection), 1234)
})

t.test('addresses of IPv6 and IPv4 within IPv6 are found', async (t) => {
  const six = '00000000000000000000000001000000'
  const v6 = { ...connection, remoteAddress: '::1', localAddress: '::1' }
  t.equal(uidIn(row({ from: `${six}:CAFE`, to: `${six}:1F9A` }), v6), 1234)
  t.equal(uidIn(row(), v6), undefined)
  const mapped = { ...connection, remoteAddress: '::ffff:127.0.0.1', localAddress: '::ffff:127.0.0.1' }
  t.equal(uidIn(row(), mapped), 1234, 'a client with a socket of IPv4')
  const within = '0000000000000000FFFF00000100007F'
  t.equal(uidIn(row({ from: `${within}:CAFE`, to: `${within}:1F9A` }), mapped), 1234)
})

t.test('the admin host accepts root and its own user, and requires the token of others', async (t) => {
  const token = 'operator-secret-0123456789'
  const host = createAdminHost({
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    readiness: new Readiness({}),
    adminToken: token,
    metricsToken: undefined,
    uidOf: undefined,
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
  await host.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => host.close())
  const { port } = host.server.address() as AddressInfo
  const own = async () => {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }
  const send = async (socket: Socket, path: string, headers = '') => {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}Connection: close\r\n\r\n`)
    return (await text(socket)).split('\r\n')[0]
  }
  if (process.platform !== 'linux') {
    t.match(await send(await own(), '/admin/status'), / 401 /, 'the user of a connection is unknown')
    return
  }
  t.match(await send(await own(), '/admin/status'), / 200 /)
  /** The user of a socket is that of the process at the moment in which it is made. */
  const asUser = async (uid: number) => {
    process.seteuid?.(uid)
    try {
      return await own()
    } finally {
      process.seteuid?.(0)
    }
  }
  if (process.geteuid?.() !== 0) {
    t.pass('only root can connect as another user; what the tables say of one is tested above')
    return
  }
  t.match(await send(await asUser(4242), '/admin/status'), / 401 /)
  t.match(await send(await asUser(4242), '/metrics'), / 401 /)
  t.match(await send(await asUser(65_534), '/admin/status'), / 401 /)
  t.match(await send(await asUser(4242), '/admin/status', `Authorization: Bearer ${token}\r\n`), / 200 /)
  t.match(await send(await asUser(4242), '/livez'), / 200 /)
})

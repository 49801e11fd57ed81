import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Bus } from '@holdfast/bus'
import { busContract } from '@holdfast/bus/testing'
import { Authority, type TlsFiles } from '@holdfast/trust'
import { openTlsFiles } from '@holdfast/trust/testing'
import { connect as connectOnce } from 'nats'
import t, { type Test } from 'tap'
import { startNats } from '../../../infra/servers/nats.ts'
import { freePort } from '../../../infra/servers/ports.ts'
import { NatsBus } from '../src/index.ts'
import { plainLink } from '../src/testing.ts'

const port = await freePort()
const server = await startNats({ directory: t.testdir(), port })
t.teardown(() => server.stop())

async function connect(t: Test, name: string): Promise<NatsBus> {
  const bus = await NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${port}`], name })
  t.teardown(() => bus.close())
  return bus
}

t.test('the bus over a nats-server', async (t) => {
  busContract<Test>({
    test: t.test,
    open: async (t) => ({ server: await connect(t, 'server'), client: await connect(t, 'client') }),
    // The server has processed everything that was flushed; the client uses that same server.
    settled: async (buses) => {
      for (const bus of Object.values(buses) as Bus[]) await (bus as NatsBus).flush()
    },
  })
})

t.test('other processes can send and receive the same messages', async (t) => {
  const bus = await connect(t, 'one')
  const other = await connectOnce({ servers: [`127.0.0.1:${port}`] })
  t.teardown(() => other.close())
  const heard = Promise.withResolvers<string>()
  other.subscribe('topic', { callback: (_, { data }) => heard.resolve(Buffer.from(data).toString()) })
  other.subscribe('ask.something', {
    // The first of one part, then the answer.
    callback: (_, message) => void message.respond(Buffer.from([0, 0, 0, 1, ...message.data])),
  })
  await other.flush()
  const reply = await bus.request('something', Buffer.of(7), { timeoutMs: 5_000 })
  t.strictSame([...reply], [7])
  bus.publish('topic', Buffer.from('news'))
  t.equal(await heard.promise, 'news')
})

t.test('requests fail at once while the server is away, and work again when it is back', async (t) => {
  const directory = t.testdir()
  const own = await freePort()
  let server = await startNats({ directory, port: own })
  const links: boolean[] = []
  const change = { next: Promise.withResolvers<void>() }
  const open = (name: string) =>
    NatsBus.connect({
      ...plainLink,
      servers: [`127.0.0.1:${own}`],
      name,
      onLink: (up) => {
        links.push(up)
        change.next.resolve()
        change.next = Promise.withResolvers<void>()
      },
    })
  const bus = await open('one')
  t.teardown(() => bus.close())
  bus.serve('asked', async (message) => message)
  await bus.flush()
  const broken = change.next.promise
  await server.stop('SIGKILL')
  await broken
  t.equal(bus.up, false)
  await t.rejects(bus.request('asked', Buffer.from('a'), { timeoutMs: 10_000 }), { code: 'NO_RESPONDERS' })
  bus.publish('topic', Buffer.from('dropped'))
  const back = change.next.promise
  server = await startNats({ directory, port: own })
  t.teardown(() => server.stop())
  await back
  await bus.flush()
  t.equal(Buffer.from(await bus.request('asked', Buffer.from('b'), { timeoutMs: 10_000 })).toString(), 'b')
  t.same(links, [false, true])
})

t.test('a bus that is closed while its server stops leaves nothing behind', async (t) => {
  const own = await freePort()
  const server = await startNats({ directory: t.testdir(), port: own })
  const bus = await NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${own}`] })
  bus.subscribe('topic', () => {})
  await bus.flush()
  server.signal('SIGSTOP')
  const closed = bus.close()
  await server.stop('SIGKILL')
  await closed
  t.equal(bus.up, false)
  const sockets = process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap')
  const others = await connect(t, 'another')
  t.ok(others.up)
  t.equal(sockets.length, 0, 'no link is left, and no attempt is running')
})

t.test('a server refuses wrong and missing credentials, which is reported at the start', async (t) => {
  const credentials = { user: 'holdfast', password: 'right' }
  const own = await freePort()
  const server = await startNats({ directory: t.testdir(), port: own, credentials })
  t.teardown(() => server.stop())
  const open = (given?: { user: string; password: string }) =>
    NatsBus.connect({ ...plainLink, servers: [`127.0.0.1:${own}`], credentials: given && (() => given) })
  await t.rejects(open(), { name: 'BusFault', code: 'REFUSED', message: `127.0.0.1:${own}` })
  await t.rejects(open({ ...credentials, password: 'wrong' }), { code: 'REFUSED' })
  const bus = await open(credentials)
  t.teardown(() => bus.close())
  bus.serve('asked', async (message) => message)
  await bus.flush()
  t.equal(Buffer.from(await bus.request('asked', Buffer.from('a'), { timeoutMs: 60_000 })).toString(), 'a')
})

t.test('a server without a certificate of the authority is awaited and receives no data', async (t) => {
  const own = await freePort()
  const directory = t.testdir()
  const made = async (name: string) => {
    const authority = await Authority.create(join(directory, name), { name, days: 2 })
    await authority.issue({ host: 'nats', names: ['127.0.0.1'] }, { days: 2 })
    const [ca, cert, key] = ['ca.pem', 'node.pem', 'node.key'].map((file) =>
      join(directory, name, 'nats', file),
    )
    return { ca, cert, key } as { ca: string; cert: string; key: string }
  }
  const start = (name: string, tls?: { ca: string; cert: string; key: string }) =>
    startNats({ directory: join(directory, name), port: own, ...(tls === undefined ? {} : { tls }) })
  const right = await made('right')
  const open = (files: typeof right) => {
    const tls = openTlsFiles({ ca: files.ca, own: files })
    t.teardown(() => tls.close())
    return tls
  }
  let waited = Promise.withResolvers<unknown>()
  let server = await start('plain')
  const connect = (tls: TlsFiles, onWaiting: (error: unknown) => void) =>
    NatsBus.connect({
      ...plainLink,
      servers: [`127.0.0.1:${own}`],
      tls,
      onWaiting: (error) => {
        // It also waits while no server runs.
        if ((error as { code: string }).code !== 'CONNECTION_REFUSED') onWaiting(error)
      },
    })
  const files = open(right)
  const connecting = connect(files, (error) => waited.resolve(error))
  t.teardown(async () => (await connecting).close())
  t.match(await waited.promise, { code: 'SERVER_OPT_NA' })
  await server.stop()
  waited = Promise.withResolvers()
  const other = await made('other')
  server = await start('other', other)
  t.match(await waited.promise, { message: /certificate/ })
  await server.stop()
  server = await start('right', right)
  t.teardown(() => server.stop())
  const bus = await connecting
  t.ok(bus.up)

  // The server refuses a client without a certificate, or with one of another authority. It accepts
  // the client as soon as the client has a certificate of the right authority.
  const mine = Object.fromEntries(
    (['ca', 'cert', 'key'] as const).map((part) => [part, join(directory, `mine.${part}`)]),
  ) as typeof right
  const put = (from: typeof right, parts: ('ca' | 'cert' | 'key')[]) => {
    for (const part of parts) copyFileSync(from[part], mine[part])
  }
  put(right, ['ca'])
  put(other, ['cert', 'key'])
  const wrong = open(mine)
  // This client shows no certificate.
  await t.rejects(connectOnce({ servers: `127.0.0.1:${own}`, reconnect: false, tls: { caFile: right.ca } }))
  const refused = Promise.withResolvers<unknown>()
  const late = connect(wrong, refused.resolve)
  t.ok(await refused.promise)
  put(right, ['cert', 'key'])
  t.ok(wrong.reload())
  await (await late).close()
})

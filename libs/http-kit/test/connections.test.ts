/** How connections end: by themselves, by time, and when the host closes. */

import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { type Client, type DialledHost, get, listening, open, openOf } from './dialled-host.ts'

t.test('a connection that sends nothing does not hold up the close', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  await until(async () => (await open(held)) === 1)
  await held.app.close()
  await client.closed
})

t.test('a connection that ends before it sent anything is closed', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  client.socket.end()
  await client.closed
  await until(async () => (await open(held)) === 0)
})

/** One has sent nothing, the other was answered. */
async function idling(held: DialledHost, from: string): Promise<Client[]> {
  const silent = await held.dial(from)
  const kept = await held.dial(from)
  kept.socket.write(get('/now'))
  await until(() => kept.received() !== '')
  return [silent, kept]
}

t.test('an idle connection of a proxy outlives those of clients', async (t) => {
  const held = await listening(t, {
    trustProxy: ['127.0.0.9'],
    idle: { silentMs: 50, handshakeMs: 50, keptMs: 50, proxyMs: 60_000 },
  })
  const ofProxy = await idling(held, '127.0.0.9')
  for (const client of await idling(held, '127.0.0.1')) await client.closed
  t.equal(openOf(ofProxy), 2)
  for (const { socket } of ofProxy) socket.write(get('/now'))
  await until(() => ofProxy.every(({ received }) => received().endsWith('"127.0.0.9"}}')))
})

t.test('an idle connection of a proxy is closed in the end, one with a request is not', async (t) => {
  const held = await listening(t, {
    trustProxy: ['127.0.0.9'],
    idle: { silentMs: 60_000, handshakeMs: 50, keptMs: 60_000, proxyMs: 300 },
  })
  const clients = await idling(held, '127.0.0.1')
  const [, asking] = (await idling(held, '127.0.0.9')) as [Client, Client]
  asking.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  for (const client of await idling(held, '127.0.0.9')) await client.closed
  t.ok(asking.isOpen())
  held.answer()
  await until(() => asking.received().match(/200 OK/g)?.length === 2)
  await asking.closed
  t.equal(openOf(clients), 2)
})

t.test('an answer that ends its connection in a close says so', async (t) => {
  const held = await listening(t, { drainMs: 10_000 })
  const client = await held.dial()
  client.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  const closed = held.app.close()
  await until(() => !held.app.server.listening)
  held.answer()
  await client.closed
  t.match(client.received(), /^HTTP\/1\.1 200 .*\r\nConnection: close\r\n/s)
  await closed
})

t.test('connections with half a request head do not block a close', async (t) => {
  const held = await listening(t)
  const first = await held.dial()
  first.socket.write(get('/now'))
  await until(() => first.received().includes('200'))
  const halves = await Promise.all(Array.from({ length: 20 }, () => held.dial()))
  for (const { socket } of [first, ...halves]) socket.write('GET /now HTTP/1.1\r\nHost: a\r\n')
  const last = await held.dial()
  last.socket.write(get('/now')) // the halves were read before it is answered
  await until(() => last.received().includes('200'))
  await held.app.close()
  await Promise.all([first, ...halves].map(({ closed }) => closed))
})

t.test('two Host headers are refused', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  client.socket.write('GET /now HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n')
  await until(() => client.received() !== '')
  t.match(client.received(), /^HTTP\/1\.1 400 .*error-host/s)
})

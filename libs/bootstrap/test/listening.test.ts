import { lookup } from 'node:dns/promises'
import { connect, type Socket } from 'node:net'
import fastify from 'fastify'
import t from 'tap'
import { listen, urlOf } from '../src/index.ts'

t.test('localhost is listened to on all of its addresses, by one server', async (t) => {
  const addresses = new Set((await lookup('localhost', { all: true })).map(({ address }) => address))
  addresses.add('127.0.0.1')
  let connections = 0
  // A host with its own server listens once; `createHttpHost` makes one.
  const { createServer } = await import('node:http')
  const app = fastify({
    serverFactory: (handle) => createServer(handle as never).on('connection', () => connections++),
  })
  app.get('/', async () => 'here')
  await listen(app, { name: 'api', host: 'localhost', port: 0 })
  const { port } = app.server.address() as { port: number }
  for (const address of addresses) {
    const answer = await fetch(urlOf(address, port))
    t.equal(await answer.text(), 'here', address)
  }
  t.ok(connections >= addresses.size, 'each of them is seen by the one server')
  await app.close()
  for (const address of addresses) await t.rejects(fetch(urlOf(address, port)), `${address} is closed`)
})

t.test('a crowd is accepted in a few turns of the loop', async (t) => {
  const app = fastify()
  t.teardown(() => app.close())
  await listen(app, { name: 'api', host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { port: number }
  const crowd = 64
  let turns = 0
  let accepted = 0
  const all = new Promise<void>((resolve) => {
    app.server.on('connection', (socket: Socket) => {
      socket.destroy()
      if (++accepted === crowd) resolve()
    })
  })
  const sockets = Array.from({ length: crowd }, () =>
    connect({ port, host: '127.0.0.1' }).on('error', () => {}),
  )
  const count = () => {
    turns++
    if (accepted < crowd) setImmediate(count)
  }
  count()
  await all
  for (const socket of sockets) socket.destroy()
  if (process.platform === 'linux') t.ok(turns < crowd * 0.75, `${turns} turns for ${crowd} connections`)
  t.end()
})

t.test('a port that is taken is told, also when its owner listens with several sockets', async (t) => {
  const [one, other] = [fastify(), fastify()]
  t.teardown(() => Promise.all([one.close(), other.close()]))
  await listen(one, { name: 'api', host: '127.0.0.1', port: 0 })
  const { port } = one.server.address() as { port: number }
  await t.rejects(listen(other, { name: 'api', host: '127.0.0.1', port }), { code: 'PORT_TAKEN' })
})

t.test('a close waits for the answers of all sockets of a host', async (t) => {
  const app = fastify()
  const waiting: (() => void)[] = []
  app.get('/', async () => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    return 'whole'
  })
  await listen(app, { name: 'api', host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { port: number }
  const count = 32
  const answers = Array.from({ length: count }, async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })
    return await response.text()
  })
  while (waiting.length < count) await new Promise((resolve) => setImmediate(resolve))
  let isClosed = false
  const closing = app.close().then(() => {
    isClosed = true
  })
  // Until the host no longer accepts.
  for (let refused = false; !refused; )
    refused = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(1_000) }).then(
      () => false,
      () => true,
    )
  t.notOk(isClosed)
  const last = waiting.pop()
  for (const answer of waiting) answer()
  last?.()
  t.same(await Promise.all(answers), Array(count).fill('whole'))
  await closing
})

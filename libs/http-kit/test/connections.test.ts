import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { type Clock, systemClock } from '@holdfast/kernel'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { requestsAheadMax } from '../src/connections/connections.ts'
import {
  clientAddress,
  createHttpHost,
  createRateLimits,
  drainOnClose,
  type HttpHostOptions,
  ok,
} from '../src/index.ts'

/** More than the systems of both ends take. */
const largeBytes = 128 * 1024 * 1024

interface Held {
  app: FastifyInstance
  metrics: Registry
  /** Requests that are being handled, the latest last. */
  handled: string[]
  /** How many requests have begun. */
  begun(): number
  /** Read of all bodies so far. */
  bodyBytes(): number
  /** How many answers of `/large` wait for their readers. */
  largeSent(): number
  /** Lets the oldest of them be answered. */
  answer(): void
  /** From an address of 127.0.0.0/8. */
  dial(from?: string): Promise<Client>
}

interface Client {
  socket: Socket
  received(): string
  closed: Promise<void>
  isOpen(): boolean
}

/** A host whose `/held` waits until it is told to answer. */
async function listening(
  t: Test,
  { drainMs, ...options }: Partial<HttpHostOptions> & { drainMs?: number } = {},
): Promise<Held> {
  const metrics = new Registry()
  const app = createHttpHost({
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics,
    trustProxy: false,
    cors: false,
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    ...options,
  })
  if (drainMs !== undefined) drainOnClose(app, { drainMs })
  const handled: string[] = []
  const waiting: (() => void)[] = []
  app.get('/held/:name', async (request) => {
    handled.push((request.params as { name: string }).name)
    await new Promise<void>((resolve) => waiting.push(resolve))
    return ok({ address: clientAddress(request) })
  })
  let begun = 0
  let bodyBytes = 0
  app.addHook('onRequest', (request, _reply, done) => {
    begun++
    request.raw.on('data', (piece: Buffer) => {
      bodyBytes += piece.length
    })
    done()
  })
  let largeSent = 0
  app.get('/large', (_request, reply) => {
    reply.hijack()
    reply.raw.end(Buffer.alloc(largeBytes))
    largeSent++
  })
  app.get('/now', async (request) => ok({ address: clientAddress(request) }))
  app.post('/body', async () => ok({}))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as { port: number }
  const sockets: Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    for (const one of waiting) one()
    await app.close()
  })
  return {
    app,
    metrics,
    handled,
    begun: () => begun,
    bodyBytes: () => bodyBytes,
    largeSent: () => largeSent,
    answer: () => waiting.shift()?.(),
    async dial(from = '127.0.0.1') {
      const socket = connect({ port, host: '127.0.0.1', localAddress: from })
      sockets.push(socket)
      let text = ''
      let open = true
      socket.setEncoding('latin1').on('data', (more: string) => {
        text += more
      })
      socket.on('error', () => {})
      // One that nothing was read of ends with an error.
      const closed = new Promise<void>((resolve) => {
        socket.once('close', () => {
          open = false
          resolve()
        })
      })
      await once(socket, 'connect')
      return { socket, received: () => text, closed, isOpen: () => open }
    },
  }
}

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5))
}

async function figure(metrics: Registry, name: string, labels: Record<string, string>): Promise<number> {
  const { values } = (await metrics.getSingleMetric(name)?.get()) ?? { values: [] }
  const found = values.find(({ labels: has }) =>
    Object.entries(labels).every(([key, value]) => has[key] === value),
  )
  return found?.value ?? 0
}

const open = (held: Held) => figure(held.metrics, 'holdfast_connections', { host: 'api' })
const refused = (held: Held, reason: string) =>
  figure(held.metrics, 'holdfast_connections_refused_total', { host: 'api', reason })
const evicted = (held: Held, reason: string) =>
  figure(held.metrics, 'holdfast_connections_evicted_total', { host: 'api', reason })

/** Elsewhere Node accepts one in a turn. */
const onLinux = { skip: process.platform !== 'linux' && 'accept4 is a call of Linux' }

/** A connection counts as about to send for a second. */
const idle = () => new Promise((resolve) => setTimeout(resolve, 1_050))

t.test('a connection that ends with requests ahead makes no stack for each of them', async (t) => {
  const held = await listening(t)
  const stacks: (string | undefined)[] = []
  held.app.server.prependListener('request', (request: IncomingMessage) =>
    request.on('error', ({ stack }) => stacks.push(stack)),
  )
  const { stackTraceLimit } = Error
  const client = await held.dial()
  client.socket.write(get('/held/a').repeat(20))
  await until(() => held.handled.length === 1)
  client.socket.resetAndDestroy()
  await until(() => stacks.length === 19)
  t.same(new Set(stacks), new Set(['Error: aborted']), 'without a stack line')
  t.equal(Error.stackTraceLimit, stackTraceLimit, 'later errors have theirs')
})

/** All in one tick: the system has them in the listener's queue before the loop goes on. */
function crowd(t: Test, held: Held, count: number) {
  const { port } = held.app.server.address() as { port: number }
  return Array.from({ length: count }, () => {
    const client = { socket: connect({ port, host: '127.0.0.1' }), received: '' }
    client.socket.setEncoding('latin1').on('data', (more: string) => {
      client.received += more
    })
    client.socket.on('error', () => {})
    t.teardown(() => client.socket.destroy())
    return client
  })
}

/** Turns of the loop until then. */
async function turnsUntil(condition: () => Promise<boolean>): Promise<number> {
  for (let turns = 0; ; turns++) {
    if (await condition()) return turns
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('a crowd is accepted in a few turns of the loop', onLinux, async (t) => {
  const held = await listening(t)
  crowd(t, held, 200)
  t.ok((await turnsUntil(async () => (await open(held)) === 200)) < 20)
})

t.test('of a crowd, what fits is served and the rest is refused', async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 10 } })
  const clients = crowd(t, held, 40)
  await until(() => clients.filter(({ received }) => received.includes('429')).length === 30)
  t.match(clients[20]?.received, /^HTTP\/1\.1 429 [\s\S]*Retry-After: \d+[\s\S]*"error-rateLimit"}$/)
  t.equal(await refused(held, 'network'), 30)
  for (const { socket } of clients.slice(0, 10)) socket.write(get('/now'))
  await until(() => clients.slice(0, 10).every(({ received }) => received.includes('"127.0.0.1"')))
  for (const { socket } of clients) socket.destroy()
  await until(async () => (await open(held)) === 0)
})

/** Connections of this port in a state, as the system counts them at its end. */
function inState(port: number, state: string): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/self/net/tcp', 'latin1').split('\n')
  return lines.filter((line) => {
    const fields = line.trim().split(/\s+/)
    return fields[1] === local && fields[3] === state
  }).length
}
const established = '01'
const closedByClient = '08'

t.test('those of a crowd that have ended take no place', onLinux, async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 10 } })
  const { port } = held.app.server.address() as { port: number }
  const ended = crowd(t, held, 40)
  // They are dialled in the next tick. The loop waits until the system has their ends.
  await new Promise<void>((resolve) => process.nextTick(resolve))
  while (inState(port, established) < 40);
  for (const { socket } of ended) socket.destroy()
  while (inState(port, closedByClient) < 40);
  // Node itself accepts the first of each turn, and that one has a place for a moment.
  const clients = crowd(t, held, 5)
  for (const { socket } of clients) socket.write(get('/now'))
  await until(() => clients.every(({ received }) => received.includes('HTTP/1.1')))
  t.same(
    clients.filter(({ received }) => !received.includes('"127.0.0.1"')),
    [],
  )
  t.equal(await refused(held, 'network'), 0)
})

t.test('silent ones of a crowd make room before their sockets are made', async (t) => {
  const held = await listening(t, { connections: { max: 20, perNetworkMax: 20 } })
  crowd(t, held, 60)
  await until(
    async () =>
      (await evicted(held, 'silent')) + (await refused(held, 'full')) + (await refused(held, 'network')) ===
      40,
  )
  t.equal(await open(held), 20)
})

t.test('a close waits for each connection of a crowd, and for no silent one', async (t) => {
  const held = await listening(t)
  const clients = crowd(t, held, 6)
  for (const [at, { socket }] of clients.slice(0, 5).entries()) socket.write(get(`/held/${at}`))
  await until(() => held.handled.length === 5)
  let isClosed = false
  const closed = held.app.close().then(() => {
    isClosed = true
  })
  for (let answered = 1; answered <= 5; answered++) {
    t.notOk(isClosed)
    held.answer()
    await until(() => clients.filter(({ received }) => received.includes('"ok"')).length === answered)
    for (const client of clients) if (client.received.includes('"ok"')) client.socket.destroy()
  }
  await closed
})

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

t.test('requests sent ahead are handled one at a time, in their order', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  client.socket.write(get('/held/a') + get('/held/b') + get('/held/c'))
  await until(() => held.handled.length === 1)
  await new Promise((resolve) => setImmediate(resolve))
  t.same(held.handled, ['a'], 'the second one waits for its turn')
  held.answer()
  await until(() => held.handled.length === 2)
  held.answer()
  await until(() => held.handled.length === 3)
  held.answer()
  await until(() => client.received().split('HTTP/1.1 200').length === 4)
  t.same(held.handled, ['a', 'b', 'c'])
})

t.test('a connection that sends too many requests ahead is closed, one at the bound is served', async (t) => {
  const held = await listening(t)
  const fair = await held.dial()
  fair.socket.write(get('/now').repeat(requestsAheadMax + 1))
  await until(() => fair.received().split('HTTP/1.1 200').length === requestsAheadMax + 2)
  const greedy = await held.dial()
  greedy.socket.write(get('/held/x'))
  await until(() => held.handled.length === 1)
  greedy.socket.write(get('/now').repeat(500))
  await greedy.closed
  t.same(held.handled, ['x'])
  t.equal(await refused(held, 'pipelining'), 1)
  await until(async () => (await open(held)) === 1)
})

t.test('of too many requests in a first packet few are read, and none is handled', async (t) => {
  const held = await listening(t)
  let read = 0
  held.app.server.prependListener('request', () => read++)
  const greedy = await held.dial()
  greedy.socket.write(get('/held/x').repeat(500))
  await greedy.closed
  t.ok(read < 3 * requestsAheadMax, `${read} requests`)
  t.same(held.handled, [])
  const fair = await held.dial()
  fair.socket.write(get('/now', `X-Long: ${'x'.repeat(100)}\r\n`).repeat(requestsAheadMax + 1))
  await until(() => fair.received().split('HTTP/1.1 200').length === requestsAheadMax + 2)
})

t.test(
  'a body that is there before its connection is served arrives whole, read by the parser',
  async (t) => {
    const { app, dial } = await listening(t, { bodyBytesMax: 1024 * 1024 })
    const bodies: Buffer[] = []
    const listeners: number[] = []
    app.server.on('request', (request) => {
      const pieces: Buffer[] = []
      listeners.push(request.socket.listenerCount('data'))
      request
        .on('data', (piece: Buffer) => pieces.push(piece))
        .on('end', () => bodies.push(Buffer.concat(pieces)))
    })
    // Few lines are put back as they came, many are parsed in pieces.
    for (const text of ['               ', '              \n']) {
      const body = `{${text.repeat(20 * 1024)}}`
      // Each waits for the turn of its network, while its socket reads on.
      const clients = await Promise.all(Array.from({ length: 16 }, () => dial()))
      for (const client of clients)
        client.socket.write(
          `POST /body HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        )
      await Promise.all(clients.map(({ closed }) => closed))
      t.equal(bodies.length, clients.length)
      t.ok(bodies.splice(0).every((got) => got.equals(Buffer.from(body))))
      // A second listener would make the parser read from the buffer of the socket.
      t.strictSame(new Set(listeners.splice(0)), new Set([1]))
    }
  },
)

t.test('what cannot be parsed is not answered in the place of a request before it', async (t) => {
  const held = await listening(t)
  const waiting = await held.dial()
  waiting.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  const seen = once(held.app.server, 'clientError')
  waiting.socket.write('no request\r\n\r\n')
  await seen
  held.answer()
  await waiting.closed
  t.match(waiting.received(), /^HTTP\/1\.1 200 .*"address":"127\.0\.0\.1"\}\}$/s, 'and nothing else')
  const own = await held.dial()
  own.socket.write(
    'POST /body HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nno length',
  )
  await own.closed
  t.match(own.received(), /^HTTP\/1\.1 400 .*error-request/s)
  const answered = await held.dial()
  answered.socket.write(`${get('/now')}no request\r\n\r\n`)
  await answered.closed
  t.notMatch(answered.received(), '400')
})

t.test('a request behind one whose connection ends is not handled', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  client.socket.write(get('/held/a', 'Connection: close\r\n') + get('/held/b'))
  await until(() => held.handled.length === 1)
  held.answer()
  await client.closed
  t.same(held.handled, ['a'])
})

/** One has sent nothing, the other was answered. */
async function idling(held: Held, from: string): Promise<Client[]> {
  const silent = await held.dial(from)
  const kept = await held.dial(from)
  kept.socket.write(get('/now'))
  await until(() => kept.received() !== '')
  return [silent, kept]
}

t.test('an idle connection of a proxy outlives those of clients', async (t) => {
  const held = await listening(t, {
    trustProxy: ['127.0.0.9'],
    idle: { silentMs: 50, keptMs: 50, proxyMs: 60_000 },
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
    idle: { silentMs: 60_000, keptMs: 60_000, proxyMs: 300 },
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

t.test('a network at its maximum loses its longest idle connection, or is refused', async (t) => {
  const held = await listening(t, { connections: { max: 100, perNetworkMax: 2 } })
  const first = await held.dial()
  const second = await held.dial()
  second.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  const early = await held.dial()
  await early.closed
  t.match(early.received(), /^HTTP\/1\.1 429 .*Retry-After.*error-rateLimit/s, 'none is idle for a second')
  await idle()
  const third = await held.dial()
  await first.closed
  t.equal(await evicted(held, 'network'), 1)
  third.socket.write(get('/held/b'))
  await until(() => held.handled.length === 2)
  await idle()
  const fourth = await held.dial()
  await fourth.closed
  t.equal(await refused(held, 'network'), 2, 'both are busy')
  const other = await held.dial('127.0.0.2')
  other.socket.write(get('/now'))
  await until(() => other.received().includes('200'))
  t.equal(await open(held), 3)
})

t.test('above half of the maximum the largest network gives up idle connections for new ones', async (t) => {
  const held = await listening(t, { connections: { max: 10, perNetworkMax: 100 } })
  const idlers: Client[] = []
  for (let at = 0; at < 5; at++) {
    const client = await held.dial('127.0.0.9')
    client.socket.write(get('/now'))
    await until(() => client.received().includes('200'))
    idlers.push(client)
  }
  // Half a head is idle, too.
  idlers[4]?.socket.write('GET / HTTP/1.1\r\nHost:')
  await until(async () => (await open(held)) === 5)
  await idle()
  for (let at = 1; at <= 4; at++) {
    const newcomer = await held.dial(`127.0.0.${at}`)
    newcomer.socket.write(get('/now'))
    await until(() => newcomer.received().includes('200'))
  }
  await until(() => idlers.filter((client) => client.isOpen()).length === 1)
  t.equal(await evicted(held, 'idle'), 4)
  t.equal(await open(held), 5)
})

t.test('silent connections are closed before used ones, from any number of networks', async (t) => {
  const held = await listening(t, { connections: { max: 16, perNetworkMax: 100 } })
  const used: Client[] = []
  for (let at = 0; at < 3; at++) {
    const client = await held.dial('127.0.0.9')
    client.socket.write(get('/now'))
    await until(() => client.received().includes('200'))
    used.push(client)
  }
  await idle()
  // One from each network, more than there is room for; half a head counts as silence, too.
  const silent: Client[] = []
  for (let at = 1; at <= 30; at++) {
    const client = await held.dial(`127.0.1.${at}`)
    client.socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-')
    silent.push(client)
  }
  await until(() => silent.filter((client) => client.isOpen()).length <= 13)
  const newcomer = await held.dial('127.0.0.8')
  newcomer.socket.write(get('/now'))
  await until(() => newcomer.received().includes('200') || !newcomer.isOpen())
  t.ok(newcomer.isOpen(), 'there is room for a newcomer')
  t.same(
    used.map((client) => client.isOpen()),
    [true, true, true],
    'those in use stay',
  )
  t.equal(await refused(held, 'full'), 0)
  t.equal(await evicted(held, 'idle'), 0)
  t.equal(await evicted(held, 'silent'), 18)
})

t.test(
  'a full host closes slow connections of the largest network; a request that waits for the service stays',
  async (t) => {
    const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 } })
    const slow: Client[] = []
    for (let at = 0; at < 4; at++) {
      const client = await held.dial('127.0.0.9')
      client.socket.write('POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{')
      slow.push(client)
    }
    const busy = await held.dial('127.0.0.9')
    busy.socket.write(get('/held/a'))
    await until(() => held.handled.length === 1)
    const one = await held.dial('127.0.0.1')
    one.socket.write(get('/held/b'))
    await until(() => held.handled.length === 2)
    // Its pace is known after two seconds.
    await idle()
    await idle()
    for (const from of ['127.0.0.2', '127.0.0.3']) {
      const newcomer = await held.dial(from)
      newcomer.socket.write(get('/now'))
      await until(() => newcomer.received().includes('200'))
    }
    t.equal(await evicted(held, 'slow'), 2)
    t.ok(busy.isOpen())
    t.ok(one.isOpen())
    t.equal(slow.filter((client) => client.isOpen()).length, 2)
  },
)

t.test('a full host refuses when all networks have the same', async (t) => {
  const held = await listening(t, { connections: { max: 3, perNetworkMax: 100 } })
  for (const at of [1, 2, 3]) {
    const client = await held.dial(`127.0.0.${at}`)
    client.socket.write(get(`/held/${at}`))
  }
  await until(() => held.handled.length === 3)
  const late = await held.dial('127.0.0.4')
  await late.closed
  t.match(late.received(), /^HTTP\/1\.1 503 .*error-unavailable/s)
  t.equal(await refused(held, 'full'), 1)
  held.answer()
  held.answer()
  held.answer()
  await until(async () => {
    const next = await held.dial('127.0.0.4')
    next.socket.write(get('/now'))
    await until(() => next.received() !== '' || !next.isOpen())
    return next.received().includes('200')
  })
})

/** A clock that advances only when told. */
function handClock() {
  let nowMs = 1_000
  const clock: Clock = { now: () => nowMs, monotonic: () => nowMs }
  return {
    clock,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const unfinished = (headers = '') =>
  `POST /body HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: 1000\r\n\r\n{`

/** Requests whose body does not arrive, each on its connection. */
async function dialSlow(held: Held, from: string[], headers?: string): Promise<Client[]> {
  const clients: Client[] = []
  for (const address of from) {
    const client = await held.dial(address)
    const before = held.begun()
    client.socket.write(unfinished(headers))
    await until(() => held.begun() > before)
    clients.push(client)
  }
  return clients
}

/** @returns the code, or the fate of the connection */
async function ask(held: Held, from: string, headers?: string): Promise<string> {
  const client = await held.dial(from)
  client.socket.write(get('/now', headers))
  await until(() => client.received() !== '' || !client.isOpen())
  return /^HTTP\/1\.1 (\d+)/.exec(client.received())?.[1] ?? 'closed'
}

const openOf = (clients: Client[]) => clients.filter((client) => client.isOpen()).length

t.test('on a host full of networks that keep asking, connections end with their answers', async (t) => {
  const { clock } = handClock()
  const held = await listening(t, { clock, connections: { max: 8, perNetworkMax: 8 } })
  const crowd = await Promise.all(Array.from({ length: 8 }, (_, number) => held.dial(`127.0.${number}.1`)))
  const askAll = async () => {
    const before = crowd.map(({ received }) => received().length)
    for (const { socket } of crowd) if (!socket.destroyed) socket.write(get('/now'))
    await until(() =>
      crowd.every((one, at) => !one.isOpen() || one.received().length > (before[at] as number)),
    )
  }
  await askAll()
  t.ok(
    crowd.every(({ isOpen }) => isOpen()),
    'all are kept while nobody is refused',
  )
  const late = await held.dial('127.0.100.1')
  await late.closed
  t.match(late.received(), /^HTTP\/1\.1 503 /, 'by the clock none idles')
  await askAll()
  await Promise.all(crowd.map(({ closed }) => closed))
  t.match(crowd[0]?.received(), /connection: close/i)
  const newcomer = await held.dial('127.0.100.1')
  newcomer.socket.write(get('/now'))
  await until(() => newcomer.received() !== '')
  t.match(newcomer.received(), '200 OK')
})

t.test('one slow request from each of many networks blocks no client', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const slow = await dialSlow(
    held,
    [1, 2, 3, 4].map((at) => `127.0.1.${at}`),
  )
  const steady = (await dialSlow(held, ['127.0.1.5']))[0] as Client
  const waiting = await held.dial('127.0.1.6')
  waiting.socket.write(get('/held/a'))
  await until(() => held.handled.length === 1)
  t.equal(await ask(held, '127.0.2.1'), '503', 'the pace of a request is not known at once')
  pass(2_000)
  steady.socket.write('x'.repeat(900))
  await until(() => held.bodyBytes() >= 900)
  t.equal(await ask(held, '127.0.2.2'), '200')
  t.equal(await evicted(held, 'slow'), 1)
  t.equal(await evicted(held, 'idle'), 0)
  await until(() => openOf(slow) === 3)
  t.ok(steady.isOpen(), 'the slowest is closed first')
  t.ok(waiting.isOpen(), 'a request that waits for us is not slow')
})

t.test('requests of a poor mobile connection are not slow, whatever came before', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 2, perNetworkMax: 100 }, clock, bodyBytesMax: 1e6 })
  const clients: Client[] = []
  for (const at of [1, 2]) {
    const client = await held.dial(`127.0.1.${at}`)
    client.socket.write('POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{')
    clients.push(client)
  }
  await until(() => held.begun() === 2)
  pass(2_000)
  for (const client of clients) client.socket.write('x'.repeat(10_000))
  await until(() => held.bodyBytes() >= 20_000)
  t.equal(await ask(held, '127.0.2.1'), '503')
  t.equal(openOf(clients), 2)
})

t.test('a network gains no places from others by reconnecting', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const early = await dialSlow(held, ['127.0.1.1', '127.0.1.1', '127.0.1.1'])
  pass(1_000)
  const late = await dialSlow(held, ['127.0.1.1', '127.0.1.2', '127.0.1.2'])
  pass(500)
  t.equal(await ask(held, '127.0.2.1'), '200')
  await until(() => openOf(late) === 2)
  t.notOk(late[0]?.isOpen(), 'the youngest of the largest network')
  t.equal(openOf(early), 3)
  t.equal(await evicted(held, 'young'), 1)
})

t.test('a connection that was just made is not closed for a network that has more', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  await dialSlow(held, ['127.0.1.1', '127.0.1.1', '127.0.1.1', '127.0.1.2', '127.0.1.2'])
  const user = await held.dial('127.0.2.1')
  await until(async () => (await open(held)) === 6)
  t.equal(await ask(held, '127.0.1.2'), '503', 'its head may be on its way')
  pass(300)
  t.equal(await ask(held, '127.0.1.2'), '503', 'it does not give way to a larger network')
  user.socket.write(get('/now'))
  await until(() => user.received() !== '' || !user.isOpen())
  t.match(user.received(), /^HTTP\/1\.1 200 /)
})

t.test('a full host closes what idles for long, not what was just answered', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, { connections: { max: 6, perNetworkMax: 100 }, clock })
  const use = async (client: Client, times: number) => {
    client.socket.write(get('/now'))
    await until(() => client.received().split('HTTP/1.1 200').length === times + 1)
  }
  const dialUsed = async (from: string[]) => {
    const clients = await Promise.all(from.map((address) => held.dial(address)))
    for (const client of clients) await use(client, 1)
    return clients
  }
  const longIdle = await dialUsed(['127.0.1.1', '127.0.1.2', '127.0.1.3'])
  // This network has the most.
  const busy = await dialUsed(['127.0.2.1', '127.0.2.1', '127.0.2.1'])
  pass(1_000)
  for (const client of busy) await use(client, 2)
  t.equal(await ask(held, '127.0.3.1'), '200')
  await until(() => openOf(longIdle) === 2)
  t.equal(openOf(busy), 3, 'their next request may be on its way')
  t.notOk(longIdle[0]?.isOpen(), 'the longest idle connection is closed')
})

t.test('a full host closes a waiting request of a network above its fair share', async (t) => {
  const held = await listening(t, { connections: { max: 12, perNetworkMax: 100 } })
  const begin = async (from: string) => {
    const client = await held.dial(from)
    const before = held.handled.length
    client.socket.write(get('/held/a'))
    await until(() => held.handled.length > before)
    return client
  }
  const first = []
  for (let at = 0; at < 6; at++) first.push(await begin('127.0.1.1'))
  for (let at = 0; at < 6; at++) first.push(await begin('127.0.1.2'))
  t.equal(await ask(held, '127.0.1.3'), '503', 'six are a fair share')
  for (const { socket } of first.slice(0, 6)) socket.destroy()
  await until(async () => (await open(held)) === 6)
  for (let at = 0; at < 6; at++) await begin('127.0.1.2')
  t.equal(await ask(held, '127.0.1.3'), '200')
  t.equal(await evicted(held, 'young'), 1)
})

t.test(
  'a full host closes the reader that has taken nothing for the longest time',
  { skip: process.platform !== 'linux' && 'only Linux tells what a reader has taken' },
  async (t) => {
    const { clock, pass } = handClock()
    const held = await listening(t, { connections: { max: 4, perNetworkMax: 100 }, clock })
    const begin = async (from: string) => {
      const client = await held.dial(from)
      client.socket.pause()
      client.socket.write(get('/large'))
      const sent = held.largeSent()
      await until(() => held.largeSent() > sent)
      return client
    }
    const stuck = await begin('127.0.1.1')
    const steady = await begin('127.0.1.2')
    const waiting = await held.dial('127.0.1.3')
    waiting.socket.write(get('/held/a'))
    await until(() => held.handled.length === 1)
    const other = await held.dial('127.0.1.4')
    other.socket.write(get('/held/b'))
    await until(() => held.handled.length === 2)
    const look = async () => {
      pass(100)
      return await ask(held, '127.0.2.1')
    }
    t.equal(await look(), '503', 'the first look sees what the systems took at once')
    // The system may still fill the buffers of the one that reads nothing: then look again.
    for (let status = '503'; status === '503'; status = await look()) {
      const taken = steady.socket.bytesRead
      steady.socket.resume()
      await until(() => steady.socket.bytesRead > taken + 16 * 1024 * 1024)
      steady.socket.pause()
      pass(100)
    }
    stuck.socket.resume()
    await stuck.closed
    t.equal(await evicted(held, 'stalled'), 1)
    t.same(
      [steady, waiting, other].map((client) => client.isOpen()),
      [true, true, true],
    )
  },
)

t.test(
  'a full host closes no stalled reader for a network that has many connections, or for a proxy',
  onLinux,
  async (t) => {
    const { clock, pass } = handClock()
    const held = await listening(t, {
      connections: { max: 12, perNetworkMax: 100 },
      clock,
      trustProxy: ['127.0.4.1'],
    })
    const stuck = await held.dial('127.0.1.1')
    stuck.socket.pause()
    stuck.socket.write(get('/large'))
    await until(() => held.largeSent() === 1)
    const waitFrom = async (from: string, count: number) => {
      for (let at = 0; at < count; at++) {
        const before = held.handled.length
        ;(await held.dial(from)).socket.write(get('/held/a'))
        await until(() => held.handled.length > before)
      }
    }
    await waitFrom('127.0.2.1', 6)
    await waitFrom('127.0.3.1', 5)
    // The system may still fill the stuck reader's buffers: it has stalled when these are full.
    const statusAfter = async (from: string) => {
      pass(100)
      return await ask(held, from)
    }
    for (let look = 0; look < 20; look++) {
      t.equal(await statusAfter('127.0.2.1'), '503')
      t.equal(await statusAfter('127.0.4.1'), '503')
    }
    t.equal(await evicted(held, 'stalled'), 0)
    for (let status = '503'; status === '503'; ) status = await statusAfter('127.0.3.1')
    t.equal(await evicted(held, 'stalled'), 1)
  },
)

t.test('a few clients of a proxy do not block its other clients', async (t) => {
  const { clock, pass } = handClock()
  const held = await listening(t, {
    connections: { max: 40, perNetworkMax: 20 },
    clock,
    trustProxy: ['loopback'],
  })
  const from = (client: number) => `X-Forwarded-For: 9.9.${client}.1\r\n`
  const greedy: Client[] = []
  for (const client of [1, 2, 3, 4])
    greedy.push(...(await dialSlow(held, Array(10).fill('127.0.0.1'), from(client))))
  t.equal(await open(held), 40)
  for (let at = 0; at < 5; at++) {
    pass(500)
    t.equal(await ask(held, '127.0.0.1', `X-Forwarded-For: 8.8.${at}.1\r\n`), '200')
  }
  t.equal((await evicted(held, 'young')) + (await evicted(held, 'slow')) > 0, true)
  t.equal(await refused(held, 'full'), 0)
  t.ok(openOf(greedy) < 40)
})

t.test(
  'a client of a proxy gets its fair share of a scarce host, and its maximum of a free one',
  async (t) => {
    const { clock } = handClock()
    const held = await listening(t, {
      connections: { max: 40, perNetworkMax: 30 },
      clock,
      trustProxy: ['loopback'],
    })
    const from = (client: number) => `X-Forwarded-For: 9.9.${client}.1\r\n`
    await dialSlow(held, Array(4).fill('127.0.0.1'), from(1))
    await dialSlow(held, Array(4).fill('127.0.0.1'), from(2))
    await dialSlow(held, Array(10).fill('127.0.0.1'), from(3))
    await dialSlow(held, Array(2).fill('127.0.0.1'), from(4))
    t.equal(await ask(held, '127.0.0.1', from(3)), '429', 'a fourth of 40')
    t.equal(await ask(held, '127.0.0.1', from(1)), '200')
  },
)

t.test('a proxy has no maximum of its own; the requests of its clients have', async (t) => {
  const held = await listening(t, {
    connections: { max: 100, perNetworkMax: 2 },
    trustProxy: ['loopback'],
  })
  const ask = async (name: string, client: string) => {
    const connection = await held.dial()
    connection.socket.write(get(`/held/${name}`, `X-Forwarded-For: ${client}\r\n`))
    return connection
  }
  for (const [at, client] of [
    '10.0.0.1',
    '10.0.0.1',
    '10.0.0.2',
    '[2001:db8::1]:80',
    '2001:db8::2',
  ].entries())
    await ask(`${at}`, client)
  await until(() => held.handled.length === 5)
  const over = await ask('over', '10.0.0.1:4444')
  await until(() => over.received() !== '')
  t.match(over.received(), /^HTTP\/1\.1 429 /)
  const over6 = await ask('over', '2001:db8::ffff')
  await until(() => over6.received() !== '')
  t.match(over6.received(), /^HTTP\/1\.1 429 /, 'a /64 is one network')
  held.answer()
  await until(async () => {
    const next = await held.dial()
    next.socket.write(get('/now', 'X-Forwarded-For: 10.0.0.1\r\n'))
    await until(() => next.received() !== '')
    return next.received().includes('HTTP/1.1 200')
  })
})

t.test('a /48 of v6 has the requests of two networks under way behind a proxy', async (t) => {
  const held = await listening(t, {
    connections: { max: 100, perNetworkMax: 2 },
    trustProxy: ['loopback'],
  })
  const ask = async (client: string) => {
    const connection = await held.dial()
    connection.socket.write(get('/held/a', `X-Forwarded-For: ${client}\r\n`))
    return connection
  }
  for (let network = 0; network < 4; network++) await ask(`2001:db8:1:${network}::1`)
  await until(() => held.handled.length === 4)
  const over = await ask('2001:db8:1:4::1')
  await until(() => over.received() !== '')
  t.match(over.received(), /^HTTP\/1\.1 429 /)
  await ask('2001:db8:2::1')
  await until(() => held.handled.length === 5)
  held.answer()
  await until(async () => {
    const next = await ask('2001:db8:1:5::1')
    await until(() => next.received() !== '' || held.handled.length === 6)
    return held.handled.length === 6
  })
})

t.test('addresses with ports are read; invalid text counts as the proxy that passed it on', async (t) => {
  const held = await listening(t, { trustProxy: ['127.0.0.0/8', '10.0.0.0/8'] })
  const addressOf = async (forwarded: string) => {
    const client = await held.dial('127.0.0.7')
    client.socket.write(get('/now', `X-Forwarded-For: ${forwarded}\r\n`))
    await until(() => client.received().includes('"address"'))
    return /"address":"([^"]*)"/.exec(client.received())?.[1]
  }
  t.equal(await addressOf('1.2.3.4'), '1.2.3.4')
  t.equal(await addressOf('1.2.3.4:5555'), '1.2.3.4')
  t.equal(await addressOf('[2001:db8::7]:80'), '2001:db8::7')
  t.equal(await addressOf('[2001:db8::7]'), '2001:db8::7')
  t.equal(await addressOf('::ffff:1.2.3.4'), '1.2.3.4')
  t.equal(
    await addressOf('1.2.3.4:5555, 10.0.0.8:1234'),
    '1.2.3.4',
    'a proxy that reports itself with its port is recognised',
  )
  t.equal(await addressOf('nonsense'), '127.0.0.7')
  t.equal(await addressOf('unknown, 10.0.0.8'), '10.0.0.8')
  t.equal(await addressOf('127.1'), '127.0.0.7', 'a short form is no address')
  t.equal(await addressOf('9.9.9.9, 1.2.3.4'), '1.2.3.4', 'an untrusted sender is ignored')
})

t.test('two Host headers are refused', async (t) => {
  const held = await listening(t)
  const client = await held.dial()
  client.socket.write('GET /now HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n')
  await until(() => client.received() !== '')
  t.match(client.received(), /^HTTP\/1\.1 400 .*error-host/s)
})

/** Reads that may take the parser long wait for each other, on every host. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { systemClock } from '@holdfast/kernel'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import {
  createHttpHost,
  createRateLimits,
  ok,
  ownParts,
  type PiecesLane,
  RefusalError,
  SmallPiecesLane,
  type Turn,
} from '../src/index.ts'

/** A host whose lane lets nothing begin before the test says so. */
async function waitingHost(
  t: Test,
  { isFree = false, isKnown = false, own = undefined as PiecesLane | undefined } = {},
) {
  const turns: Turn[] = []
  const took: number[] = []
  const lane: PiecesLane = own ?? {
    isKnown: () => isKnown,
    enter: (_network, turn) => void turns.push(turn),
    begin: (_network, turn) => {
      if (isFree) turn.readOn()
      else turns.push(turn)
    },
    beginBody: (_network, body) => {
      const wait = () => {
        body.pause()
        turns.push(body)
      }
      if (isFree) body.readOn()
      else wait()
      return {
        took: (ms) => {
          took.push(ms)
          if (!turns.includes(body)) wait()
        },
        leave: () => {},
      }
    },
  }
  const app = createHttpHost({
    ...ownParts,
    isBanned: undefined,
    name: 'api',
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
    trustProxy: false,
    cors: false,
    rateLimits: createRateLimits({ mode: 'off', clock: systemClock }),
    bodyBytesMax: 10_000_000,
    lane,
  })
  const begun: string[] = []
  app.addHook('onRequest', (request, _reply, done) => {
    begun.push(request.url)
    done()
  })
  app.get('/now', async () => ok({}))
  app.get('/later', () => new Promise(() => {}))
  app.post('/body', async () => ok({}))
  app.post('/read', (request, reply) => {
    let bytes = 0
    request.raw.on('data', (piece: Buffer) => {
      bytes += piece.length
    })
    request.raw.once('end', () => void reply.send(ok({ bytes })))
  })
  app.addContentTypeParser('test/pieces', (_request, _body, done) => done(null))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const sockets: Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    // A waiting connection does not notice that its client is gone. Neither does a connection on
    // which a request waits behind another one.
    const serving = setInterval(() => {
      turns.shift()?.readOn()
      if (turns.length === 0) app.server.closeAllConnections()
    }, 1)
    await app.close()
    clearInterval(serving)
  })
  const dial = async () => {
    const socket = connect((app.server.address() as { port: number }).port, '127.0.0.1')
    sockets.push(socket)
    let text = ''
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more
    })
    socket.on('error', () => {})
    await once(socket, 'connect')
    return { socket, received: () => text }
  }
  return { turns, took, begun, dial }
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
const chunkedHead = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: test/pieces\r\nTransfer-Encoding: chunked\r\n\r\n`
const pieces = (count: number) => '1\r\nx\r\n'.repeat(count)
const end = '0\r\n\r\n'

/** The loop has polled several times. */
async function polls(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
}

t.test('a first read of very many lines is parsed in its turn, others at once', async (t) => {
  const host = await waitingHost(t)
  const costly = await host.dial()
  costly.socket.write(`${chunkedHead('/read')}${pieces(5_000)}`)
  await until(() => host.turns.length === 1)
  const plain = await host.dial()
  plain.socket.write(get('/now'))
  await until(() => plain.received().includes('200 OK'))
  t.same(host.begun, ['/now'], 'nothing of the other one is parsed')
  host.turns.shift()?.readOn()
  t.same(host.begun, ['/now'], 'it begins after the turn: it asks the lane for its own')
  // Its request begins with it. What follows waits again.
  await until(() => host.turns.length > 0 && host.took.length > 0)
  t.same(host.begun, ['/now', '/read'])
  t.equal(host.took.length, 1)
  const serving = setInterval(() => host.turns.shift()?.readOn(), 1)
  t.teardown(() => clearInterval(serving))
  costly.socket.write(end)
  await until(() => costly.received().includes('"bytes":5000'))
  t.match(costly.received(), /^HTTP\/1\.1 200 OK/)
})

t.test('a body that is paused in its first read keeps its order', async (t) => {
  const host = await waitingHost(t)
  const serving = setInterval(() => host.turns.shift()?.readOn(), 1)
  t.teardown(() => clearInterval(serving))
  const clients = await Promise.all(Array.from({ length: 4 }, () => host.dial()))
  for (const { socket } of clients) socket.write(`${chunkedHead('/read')}${pieces(50_000)}${end}`)
  await until(() => clients.every(({ received }) => received() !== ''))
  for (const { received } of clients) t.match(received(), '"bytes":50000')
})

t.test('a connection whose first bytes wait too long for the parser gets an envelope', async (t) => {
  const host = await waitingHost(t)
  const { socket, received } = await host.dial()
  socket.write(`${chunkedHead('/read')}${pieces(5_000)}`)
  await until(() => host.turns.length === 1)
  host.turns.shift()?.refuse(new RefusalError('error-rateLimit'))
  await once(socket, 'close')
  t.match(received(), /^HTTP\/1\.1 429 .*"error-rateLimit"/s)
})

t.test('a request of unknown length begins in its turn', async (t) => {
  const host = await waitingHost(t)
  const first = await host.dial()
  const second = await host.dial()
  for (const { socket } of [first, second]) socket.write(`${chunkedHead('/read')}1\r\nx\r\n${end}`)
  await until(() => host.turns.length === 2)
  t.same(host.begun, [])
  host.turns.shift()?.readOn()
  await until(() => first.received().includes('"bytes":1'))
  host.turns.shift()?.refuse(new RefusalError('error-rateLimit'))
  await once(second.socket, 'close')
  t.match(second.received(), /^HTTP\/1\.1 429 .*"error-rateLimit"/s)
  t.same(host.begun, ['/read'])
})

t.test('nothing is read of a request that waits, when its first read had many lines', async (t) => {
  const host = await waitingHost(t)
  const { socket, received } = await host.dial()
  // More lines than a connection may send requests ahead, and fewer than take the parser long.
  socket.write(`${chunkedHead('/read')}${pieces(400)}`)
  await until(() => host.turns.length === 1)
  socket.write(pieces(5_000))
  await polls()
  t.same(host.took, [], 'the parser got no more pieces')
  host.turns.shift()?.readOn()
  await until(() => host.took.length === 1)
  socket.write(end)
  host.turns.shift()?.readOn()
  await until(() => received().includes('"bytes":5400'))
  t.same(host.begun, ['/read'])
})

t.test('nothing follows a read of small pieces before its turn', async (t) => {
  const host = await waitingHost(t, { isFree: true })
  const { socket, received } = await host.dial()
  socket.write(chunkedHead('/read'))
  await until(() => host.begun.length === 1)
  socket.write(`${pieces(50_000)}${end}`)
  await until(() => host.turns.length === 1)
  await polls()
  t.equal(host.took.length, 1, 'one read of at most 64 KiB')
  t.ok((host.took[0] as number) > 0)
  t.equal(host.turns.length, 1)
  const serving = setInterval(() => host.turns.shift()?.readOn(), 1)
  t.teardown(() => clearInterval(serving))
  await until(() => received().includes('"bytes":50000'))
  t.ok(host.took.length >= 4, `${host.took.length} reads of 300,000 bytes`)
  socket.write(get('/now'))
  await until(() => received().split('200 OK').length === 3)
})

t.test('a body in small pieces that no handler reads waits, too', async (t) => {
  const host = await waitingHost(t, { isFree: true })
  const { socket, received } = await host.dial()
  socket.write(chunkedHead('/nowhere'))
  await until(() => received().includes('404'))
  socket.write(pieces(20_000))
  await until(() => host.turns.length === 1)
  await polls()
  t.equal(host.took.length, 1)
})

t.test('a request of unknown length behind another one is not read before its turn', async (t) => {
  const host = await waitingHost(t, { isFree: true })
  const { socket } = await host.dial()
  socket.write(get('/later') + chunkedHead('/read'))
  await until(() => host.begun.length === 1)
  socket.write(pieces(20_000))
  await polls()
  t.same(host.took, [], 'its pieces are still with its client')
})

t.test('a newcomer of a network that sent small pieces is not read before its turn', async (t) => {
  const host = await waitingHost(t, { isFree: true, isKnown: true })
  const { socket, received } = await host.dial()
  socket.write(get('/now'))
  await until(() => host.turns.length === 1)
  await polls()
  t.same(host.begun, [])
  host.turns.shift()?.readOn()
  await until(() => received().includes('200 OK'))
})

t.test('a request that is whole while the lane is busy begins, or is refused', async (t) => {
  const time = { nowMs: 0, monotonic: () => time.nowMs }
  const lane = new SmallPiecesLane(time)
  const host = await waitingHost(t, { own: lane })
  const busy = await Promise.all([host.dial(), host.dial()])
  for (const { socket } of busy) socket.write(`${chunkedHead('/read')}1\r\nx\r\n`)
  await until(() => host.begun.length === 2)
  const whole = await host.dial()
  whole.socket.write(`${chunkedHead('/read')}2\r\nxy\r\n${end}`)
  await polls()
  t.equal(whole.received(), '', 'it waits for its turn')
  time.nowMs = 10
  await until(() => whole.received().includes('"bytes":2'))
  for (const { socket } of busy) socket.destroy()
  const other = lane.beginBody('other', { pause() {}, readOn: () => true, refuse() {} })
  for (let rests = 0; rests < 10; rests++) other.took(80)
  const late = await host.dial()
  late.socket.write(`${chunkedHead('/read')}2\r\nxy\r\n${end}`)
  await polls()
  t.equal(late.received(), '')
  time.nowMs += 2_600
  await once(late.socket, 'close')
  t.match(late.received(), /^HTTP\/1\.1 429 .*"error-rateLimit"/s, 'too late')
  other.leave()
})

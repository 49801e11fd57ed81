/** Requests that arrive before the answer to the one before them. */

import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { systemClock } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import { requestsAheadMax } from '../src/connections/connections.ts'
import { get, listening, open, refused } from './dialled-host.ts'

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

/** A host on which each request takes a millisecond and nothing else takes time. */
async function slowHost(t: Test) {
  let begun = () => 0
  const held = await listening(t, { clock: { now: () => systemClock.now(), monotonic: () => begun() } })
  begun = held.begun
  return held
}

/** The most that began in one turn of the loop. @param all that begin in the end */
async function mostInATurn(held: { begun: () => number }, all: number): Promise<number> {
  let most = 0
  for (let before = held.begun(); before < all; before = held.begun()) {
    await new Promise((resolve) => setImmediate(resolve))
    most = Math.max(most, held.begun() - before)
  }
  return most
}

/** What one turn begins. An observer in the same loop may see two of them as one. */
const inATurn = 4

t.test('requests sent ahead begin for a few milliseconds of a turn of the loop', async (t) => {
  const ahead = 40
  const held = await slowHost(t)
  const clients = await Promise.all(Array.from({ length: 4 }, () => held.dial()))
  for (const { socket } of clients) socket.write(get('/now'))
  await until(() => held.begun() === clients.length)
  for (const { socket } of clients) socket.write(get('/now').repeat(ahead))
  const most = await mostInATurn(held, clients.length * (ahead + 1))
  t.ok(most <= 2 * inATurn, `${most} in one turn`)
  await until(() => clients.every((client) => client.received().split('HTTP/1.1 200').length === ahead + 2))
})

t.test('requests of many connections, one each, begin for a few milliseconds of a turn, too', async (t) => {
  const held = await slowHost(t)
  const clients = await Promise.all(Array.from({ length: 60 }, () => held.dial()))
  for (const { socket } of clients) socket.write(get('/now'))
  await until(() => clients.every((client) => client.received().includes('HTTP/1.1 200')))
  for (const { socket } of clients) socket.write(get('/now'))
  const most = await mostInATurn(held, 2 * clients.length)
  t.ok(most <= 2 * inATurn, `${most} in one turn`)
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

t.test('the refusal of unreadable bytes does not replace the answer to an earlier request', async (t) => {
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

/**
 * Bodies that come byte by byte: they are read one after the other, and nothing is kept for a
 * piece.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Refusal } from '@holdfast/http-kit'
import t, { type Test } from 'tap'
import { requestBytes, slowest } from '../src/request-bytes.ts'
import { SmallPiecesLane } from '../src/small-pieces-lane.ts'

/** Time does not advance until it is set. */
function lane() {
  let nowMs = 0
  const called: string[] = []
  const arrived: (() => boolean)[] = []
  const small = new SmallPiecesLane({
    clock: { monotonic: () => nowMs },
    arrivals: {
      enter: (network, read) => {
        called.push(`${network} arrives`)
        arrived.push(read)
      },
    },
  })
  const of = (network: string, name = network) => ({
    begin: () => small.of(network).begin(readOn(name), refused(name)),
    wait: (tookMs: number) => {
      if (tookMs > 0) small.of(network).took(tookMs)
      small.of(network).wait(readOn(name), refused(name))
    },
    enter: (isThere = true) =>
      small.enter(network, () => {
        called.push(`${name} is read`)
        return isThere
      }),
  })
  const readOn = (name: string) => () => void called.push(name)
  const refused = (name: string) => (refusal: Refusal) => void called.push(`${name}: ${refusal.status}`)
  /** Continues until this number were called. */
  const until = async (ms: number, count: number) => {
    nowMs = ms
    while (called.length < count) await new Promise((resolve) => setTimeout(resolve, 1))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return { of, called, arrived, until }
}

t.test('after a long read the lane rests for three times as long', async (t) => {
  const { of, called, until } = lane()
  of('one').wait(10)
  of('two').wait(0)
  await until(29, 0)
  t.same(called, [])
  await until(30, 1)
  t.same(called, ['one'], 'and then one at a time')
  await until(32, 2)
  t.same(called, ['one', 'two'])
})

t.test('networks take turns, and a wait that is too long is refused', async (t) => {
  const { of, called, until } = lane()
  for (const name of ['one', 'one again', 'one once more']) of('one', name).wait(1)
  of('two').wait(0)
  await until(9, 1)
  await until(11, 2)
  t.same(called, ['one', 'two'])
  await until(2_500, 4)
  t.same(called.slice(2), ['one again: error-rateLimit', 'one once more: error-rateLimit'])
})

t.test('new connections of a network that recently sent small pieces are read in turn', async (t) => {
  const { of, called, until } = lane()
  of('one').enter()
  t.same(called, ['one arrives'])
  of('one').wait(10)
  of('one').enter(false)
  of('one', 'one again').enter()
  of('two').enter()
  t.same(called.slice(1), ['two arrives'], 'others are read elsewhere')
  await until(30, 3)
  t.same(called.slice(2), ['one'])
  await until(32, 5)
  t.same(called.slice(3), ['one is read', 'one again is read'], 'a closed connection takes no turn')
  await until(20_000, 5)
  of('one').enter()
  t.same(called.slice(5), ['one arrives'], 'it is forgotten in time')
})

t.test('new connections that already wait when their network becomes known are read in turn', async (t) => {
  const { of, called, arrived, until } = lane()
  of('one').enter()
  of('two').enter()
  of('one').wait(10)
  t.same(
    arrived.map((read) => read()),
    [false, true],
  )
  t.same(called.slice(2), ['two is read'])
  await until(30, 4)
  await until(32, 5)
  t.same(called.slice(3), ['one', 'one is read'])
})

t.test('bodies of unknown length begin one by one, at once when none is running', async (t) => {
  const { of, called, until } = lane()
  t.equal(of('one').begin(), true)
  t.equal(of('two').begin(), false, 'the first one may be of small pieces')
  await until(2, 1)
  t.same(called, ['two'])
})

/** Requests as a server receives them. */
async function served(t: Test, handle: (request: IncomingMessage) => Promise<void>) {
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    void handle(request).finally(() => response.end('read'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')
    return socket
  }
}

const pieces = (count: number) => '1\r\nx\r\n'.repeat(count)

t.test('a body in small pieces waits for its turn, and is whole in the end', async (t) => {
  const turns: (() => void)[] = []
  let bytes = 0
  const done = Promise.withResolvers<void>()
  const took: number[] = []
  const wait = (readOn: () => void) => void turns.push(readOn)
  const dial = await served(t, async (request) => {
    for await (const piece of requestBytes(request, slowest, {
      isScarce: () => false,
      lane: { begin: () => true, took: (ms) => void took.push(ms), wait },
    }))
      bytes += piece.length
    done.resolve()
  })
  const socket = dial()
  // More than one read of the socket.
  socket.write(`${pieces(50_000)}0\r\n\r\n`)
  while (turns.length === 0) await new Promise((resolve) => setImmediate(resolve))
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.ok(bytes > 500 && bytes < 25_000, `${bytes} bytes, and no more before its turn`)
  t.equal(turns.length, 1)
  t.ok(took.length === 1 && (took[0] as number) > 0, 'the duration of the read is reported')
  const answered = once(socket, 'data')
  const serving = setInterval(() => turns.shift()?.(), 1)
  t.teardown(() => clearInterval(serving))
  turns.shift()?.()
  await done.promise
  t.equal(bytes, 50_000)
  t.match(String((await answered)[0]), /^HTTP\/1\.1 200/)
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx`)
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 200/, 'the connection continues')
})

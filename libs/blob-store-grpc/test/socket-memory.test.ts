import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { SocketMemory } from '../src/socket-memory.ts'

const chunk = () => new Uint8Array(new ArrayBuffer(64 * 1024)).fill(7)

t.test('chunks of which the parser passes on views are left to the collector', async (t) => {
  const memory = new SocketMemory()
  const chunks = [chunk(), chunk(), chunk()] as const
  memory.read(chunks[0])
  memory.read(chunks[1])
  memory.handedOn(chunks[0].subarray(100))
  memory.read(chunks[2])
  memory.handedOn(chunks[2].subarray(0, 10))
  for (const { length } of chunks) t.equal(length, 64 * 1024)
})

t.test('chunks that the parser has copied are released', async (t) => {
  const memory = new SocketMemory()
  const chunks = [chunk(), chunk(), chunk()] as const
  memory.read(chunks[0])
  memory.read(chunks[1])
  t.equal(chunks[0].length, 64 * 1024, 'not before it is known')
  memory.handedOn(chunks[0].slice(100))
  memory.read(chunks[2])
  for (const { length } of chunks) t.equal(length, 0)
})

t.test(
  "this Node's parser copies: what the socket has read can be released before the body is read",
  async (t) => {
    const bytes = Buffer.alloc(3_000_000)
    for (let at = 0; at < bytes.length; at++) bytes[at] = (at * 31) & 0xff
    const server = createServer((_, answer) => answer.end(bytes))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const memory = new SocketMemory()
    const chunks: Uint8Array[] = []
    const asked = request({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
    asked.once('socket', (socket) =>
      socket.on('data', (read: Uint8Array) => {
        chunks.push(read)
        memory.read(read)
      }),
    )
    const pieces: Buffer[] = []
    for await (const piece of await new Promise<AsyncIterable<Buffer>>((resolve) => {
      asked.once('response', resolve).end()
    })) {
      memory.handedOn(piece)
      pieces.push(piece)
    }
    t.ok(Buffer.concat(pieces).equals(bytes))
    const large = chunks.filter(({ buffer }) => buffer.byteLength === 0).length
    t.ok(large > chunks.length / 2, `${large} of ${chunks.length} were released`)
  },
)

/** Requests of peers on a node are bounded; those beyond a bound are refused and counted. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type BlobInfo, type BlobName, MemoryBlobStore } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { hex, systemClock } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { ClusterSecret } from '../src/cluster-secret.ts'
import { type NodeBounds, RemoteBlobStore, type ServedStore, serveBlobStore } from '../src/index.ts'
import { plainRemote, plainServer } from '../src/testing.ts'

const secret = 'a secret of this test'
const KiB = 1024

async function served(t: Test, store: ServedStore, bounds: NodeBounds) {
  const server = await serveBlobStore(store, { ...plainServer, secret, bounds })
  t.teardown(() => server.close({ drainMs: 0 }))
  const { control, bytes } = server
  const remote = new RemoteBlobStore({ ...plainRemote, control, bytes, secret })
  t.teardown(() => remote.close())
  return { server, remote }
}

/** Holds calls and reads until they are released. */
class HeldBlobStore extends MemoryBlobStore {
  readonly gate = Promise.withResolvers<void>()
  asked = 0

  override async find(id: Uint8Array): Promise<BlobInfo[]> {
    this.asked++
    await this.gate.promise
    return super.find(id)
  }

  override async *read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    this.asked++
    await this.gate.promise
    yield* super.read(blob, range, options)
  }

  /** Resolves when this number wait. */
  async held(count: number): Promise<void> {
    while (this.asked < count) await new Promise(setImmediate)
  }
}

t.test('calls past the bound are refused as unavailable, on any connection', async (t) => {
  const store = new HeldBlobStore()
  const { server, remote } = await served(t, store, { callsMax: 2 })
  const { control, bytes } = server
  const other = new RemoteBlobStore({ ...plainRemote, node: 'b', control, bytes, secret })
  t.teardown(() => other.close())
  const id = randomBytes(48)
  const running = [remote.find(id), remote.find(id)]
  await store.held(2)
  t.equal(server.figures().calls, 2)
  await t.rejects(other.find(id), { code: 'UNAVAILABLE', message: /too many calls/ })
  t.equal(store.asked, 2, 'the store was not asked')
  t.match(server.figures(), { calls: 2, refused: { calls: 1 } })
  store.gate.resolve()
  await Promise.all(running)
  t.same(await other.find(id), [])
  while (server.figures().calls > 0) await new Promise(setImmediate)
})

t.test('cancelled calls make room', async (t) => {
  const store = new HeldBlobStore()
  const { server, remote } = await served(t, store, { callsMax: 2 })
  const gone = new RemoteBlobStore({ ...plainRemote, control: server.control, bytes: server.bytes, secret })
  const running = [gone.find(randomBytes(48)), gone.find(randomBytes(48))].map((call) => call.catch(() => 0))
  await store.held(2)
  await gone.close()
  await Promise.all(running)
  while (server.figures().calls > 0) await new Promise(setImmediate)
  store.gate.resolve()
  t.same(await remote.find(randomBytes(48)), [])
})

t.test('bytes in transit have a total bound, and their memory is released at the end', async (t) => {
  const store = new HeldBlobStore()
  const { server, remote } = await served(t, store, { bytesMax: 400 * KiB })
  const content = randomBytes(600 * KiB)
  const info = await put(store, content)
  const first = get(remote, info, 0, content.length)
  await store.held(1)
  t.equal(server.figures().bytes, 256 * KiB, 'a read holds one piece, however long it is')
  await t.rejects(get(remote, info, 0, content.length), { code: 'UNAVAILABLE', message: /under way/ })
  t.equal(server.figures().refused.bytes, 1)
  store.gate.resolve()
  t.same(await get(remote, info, 0, 100), content.subarray(0, 100), 'a short one has room')
  t.same(await first, content)
  t.equal(server.figures().bytes, 0)
  await put(remote, randomBytes(100 * KiB))
  t.equal(server.figures().bytes, 0)
})

t.test('connections are bounded; unproven ones are dropped for peers', async (t) => {
  const store = new HeldBlobStore()
  const { server, remote } = await served(t, store, { connections: { control: 4, bytes: 8 } })
  const info = await put(store, randomBytes(10))
  const port = Number(new URL(server.bytes).port)
  const strangers: Socket[] = []
  t.teardown(() => strangers.map((socket) => socket.destroy()))
  for (let n = 0; n < 5; n++) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    strangers.push(socket.resume())
    await once(socket, 'connect')
  }
  await once(strangers[0] as Socket, 'close')
  t.match(server.figures(), { connections: { bytes: 4 }, refused: { strangers: 1, connections: 0 } })
  const reads: Promise<Uint8Array>[] = []
  for (let n = 1; n <= 8; n++) {
    reads.push(get(remote, info, 0, 10))
    await store.held(n)
  }
  t.match(server.figures(), { connections: { bytes: 8 }, refused: { strangers: 5 } })
  await t.rejects(get(remote, info, 0, 10), { code: 'UNAVAILABLE' })
  t.equal(server.figures().refused.connections, 1)
  store.gate.resolve()
  await Promise.all(reads)
})

t.test('a second request ahead of an answer ends the connection', async (t) => {
  const store = new HeldBlobStore()
  const { server } = await served(t, store, {})
  const info = await put(store, randomBytes(10))
  const path = `/blobs/${hex(info.id)}/${hex(info.incarnation)}`
  const proof = new ClusterSecret(secret, systemClock).prove({ method: 'GET', path })
  const socket = connect(Number(new URL(server.bytes).port), '127.0.0.1').on('error', () => undefined)
  socket.resume().write(`GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: ${proof}\r\n\r\n`.repeat(2))
  await once(socket, 'close')
  t.equal(server.figures().refused.ahead, 1)
  store.gate.resolve()
})

t.test('a request with an ambiguous transfer encoding is refused before its proof is checked', async (t) => {
  const { server } = await served(t, new HeldBlobStore(), {})
  for (const coding of ['gzip, chunked', 'identity', ', chunked']) {
    const socket = connect(Number(new URL(server.bytes).port), '127.0.0.1').on('error', () => undefined)
    socket.write(`POST /blobs HTTP/1.1\r\nhost: a\r\ntransfer-encoding: ${coding}\r\n\r\n0\r\n\r\n`)
    const pieces: Buffer[] = await socket.toArray()
    t.match(Buffer.concat(pieces).toString(), /^HTTP\/1\.1 400 .*connection: close/is, coding)
  }
  t.equal(server.figures().refused.unproven, 0)
})

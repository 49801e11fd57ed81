/** Faults between nodes, and what the caller sees. */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Client, credentials, Metadata, status } from '@grpc/grpc-js'
import {
  BlobFault,
  type BlobInfo,
  type BlobName,
  digestOf,
  MemoryBlobStore,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { ChunkStore } from '@holdfast/chunk-store'
import { testChunkStore } from '@holdfast/chunk-store/testing'
import { hex, systemClock } from '@holdfast/kernel'
import { StorageServiceService } from '@holdfast/wire/storage'
import t, { type Test } from 'tap'
import { batchKey, batchOf, batchRequestBytesMax, digestOfNames, namesOf } from '../src/batch.ts'
import { ClusterSecret } from '../src/cluster-secret.ts'
import { type NodeBounds, RemoteBlobStore, type ServedStore, serveBlobStore } from '../src/index.ts'
import { putPath } from '../src/put-terms.ts'
import { proveCall } from '../src/server/proven-calls.ts'
import { plainRemote, plainServer } from '../src/testing.ts'

const secret = 'a secret of this test'
const MiB = 1024 * 1024
const pinned = { pinMs: 60_000 }
const asItIs = (message: Buffer) => message

function smallBlob(bytes = randomBytes(700)) {
  return { id: digestOf(bytes).id, bytes }
}

function terms() {
  return { uploadId: randomBytes(16), placement: { group: 5, version: 1 }, pinMs: 60_000 }
}

async function served(
  t: Test,
  store: ServedStore,
  { bounds = {}, ...options }: { progressTimeoutMs?: number; bounds?: NodeBounds } = {},
) {
  const server = await serveBlobStore(store, { ...plainServer, secret, bounds })
  t.teardown(() => server.close({ drainMs: 0 }))
  const { control, bytes } = server
  const remote = new RemoteBlobStore({ ...plainRemote, control, bytes, secret }, options)
  t.teardown(() => remote.close())
  return { server, remote }
}

t.test('a caller without the secret gets nothing, over gRPC or HTTP', async (t) => {
  const store = new MemoryBlobStore()
  const info = await put(store, Buffer.from('private'))
  const { server } = await served(t, store)
  const { control, bytes } = server
  const stranger = new RemoteBlobStore({ ...plainRemote, control, bytes, secret: 'some other secret' })
  t.teardown(() => stranger.close())
  await t.rejects(stranger.stat(info), { code: 'INVALID' })
  await t.rejects(stranger.stage(), { code: 'INVALID' })
  await t.rejects(stranger.put(smallBlob(), terms()), { code: 'INVALID' })
  await t.rejects(get(stranger, info, 0, 7), { code: 'INVALID' })
  await t.rejects(
    async () => {
      for await (const _ of stranger.inventory()) t.fail('an inventory for a stranger')
    },
    { code: 'INVALID' },
  )
})

t.test('a proof is valid for one call and one minute', async (t) => {
  let now = 1_000_000
  const clock = { now: () => now, monotonic: () => now }
  const key = new ClusterSecret(secret, clock)
  const call = { method: 'GET', path: '/blobs/a/b' }
  const proof = key.prove(call)
  t.ok(key.verify(call, proof))
  t.notOk(key.verify({ ...call, path: '/blobs/a/c' }, proof))
  t.notOk(key.verify({ ...call, method: 'PUT' }, proof))
  t.notOk(key.verify(call, undefined))
  t.notOk(key.verify(call, `${proof}x`))
  now += 61_000
  t.notOk(key.verify(call, proof))
  t.throws(() => new ClusterSecret('short', clock), RangeError)
})

t.test('a proof of one message, range or upload is not valid for another', async (t) => {
  const store = new MemoryBlobStore()
  const [one, other] = [await put(store, Buffer.from('one')), await put(store, Buffer.from('another'))]
  const { server, remote } = await served(t, store)
  const key = new ClusterSecret(secret, systemClock)

  const { path, requestSerialize, responseDeserialize } = StorageServiceService.delete
  const named = ({ id, incarnation }: BlobName) =>
    requestSerialize({ id: Buffer.from(id), incarnation: Buffer.from(incarnation) })
  const client = new Client(server.control, credentials.createInsecure())
  t.teardown(() => client.close())
  const metadata = new Metadata()
  proveCall(metadata, { secret: key, path, message: named(one) })
  const deleted = (message: Buffer) =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, asItIs, responseDeserialize, message, metadata, (error, answer) =>
        error === null ? resolve(answer) : reject(error),
      )
    })
  await t.rejects(deleted(named(other)), { code: status.UNAUTHENTICATED })
  t.ok(await store.stat(other))
  t.same(await deleted(named(one)), { deleted: false }, 'it is asked, and keeps what is pinned')

  const blob = `/blobs/${hex(other.id)}/${hex(other.incarnation)}`
  const authorization = key.prove({ method: 'GET', path: blob, content: 'bytes=0-0' })
  const part = async (range: string) =>
    (await fetch(server.bytes + blob, { headers: { range, authorization } })).status
  t.equal(await part('bytes=0-6'), 401)
  t.equal(await part('bytes=0-0'), 200)

  for (const [what, trailers] of [
    [
      'other bytes',
      (path: string) => ({ 'holdfast-proof': key.prove({ method: 'PUT', path, content: '4 bytes, 1' }) }),
    ],
    ['no proof', () => ({})],
  ] as const) {
    const uploadId = randomBytes(16)
    await remote.stage({ uploadId })
    const path = `/stages/${hex(uploadId)}`
    const sending = request(server.bytes + path, {
      method: 'PUT',
      headers: { authorization: key.prove({ method: 'PUT', path }), 'transfer-encoding': 'chunked' },
    })
    sending.addTrailers(trailers(path))
    sending.end('evil')
    const [answer] = (await once(sending, 'response')) as [IncomingMessage]
    answer.resume()
    t.match(answer.headers, { 'holdfast-fault': 'CORRUPT' }, what)
    t.equal(await remote.committed(uploadId), undefined)
    t.equal((await store.usage()).openStages, 0)
  }
})

t.test('an unproven caller is refused before its message is read, and is not kept', async (t) => {
  const { server, remote } = await served(t, new MemoryBlobStore())
  const { path, requestSerialize } = StorageServiceService.find
  const open = () => {
    const session = connectHttp2(`http://${server.control}`).on('error', () => undefined)
    t.teardown(() => session.destroy())
    return session
  }
  const announced = (bytes: number) => {
    const head = Buffer.alloc(5)
    head.writeUInt32BE(bytes, 1)
    return head
  }
  /** The headers of the answer to a message that is announced and never comes. */
  const begun = async (session: ClientHttp2Session, bytes: number, proof: Metadata) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...proof.toHttp2Headers(),
    })
    stream.on('error', () => undefined)
    stream.write(announced(bytes))
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    return Number(headers['grpc-status'])
  }

  const session = open()
  const ended = once(session, 'close')
  const answers = await Promise.all(
    Array.from({ length: 300 }, () => begun(session, 4_000_000, new Metadata())),
  )
  t.same(new Set(answers), new Set([status.UNAUTHENTICATED]), 'none had to end its message')
  await ended
  t.pass('its connection ends')

  const proof = new Metadata()
  const message = requestSerialize({ id: Buffer.alloc(48) })
  proveCall(proof, { secret: new ClusterSecret(secret, systemClock), path, message })
  t.equal(
    await begun(open(), 100_000, proof),
    status.RESOURCE_EXHAUSTED,
    'nor is that much accepted from a peer',
  )

  await remote.find(Buffer.alloc(48))
  const sockets: Socket[] = []
  t.teardown(() => sockets.map((socket) => socket.destroy()))
  const [host, port] = server.control.split(':') as [string, string]
  for (let n = 0; n <= 64; n++) {
    const socket = connect(Number(port), host).on('error', () => undefined)
    sockets.push(socket.resume())
    await once(socket, 'connect')
  }
  await once(sockets[0] as Socket, 'close')
  t.equal(sockets.at(-1)?.closed, false, 'of the silent connections the oldest is closed')
  t.same(await remote.find(Buffer.alloc(48)), [], 'and peers stay')
})

class FaultyBlobStore extends MemoryBlobStore {
  fault: BlobFault | undefined
  afterBytes = 0
  override async *read(
    blob: BlobName,
    range: { start: number; end: number },
    options: { signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    let sent = 0
    for await (const bytes of super.read(blob, range, options)) {
      if (this.fault !== undefined && sent >= this.afterBytes) throw this.fault
      sent += bytes.length
      yield bytes
    }
  }
}

t.test('a fault of the store keeps its code, before and in the middle of the bytes', async (t) => {
  const store = new FaultyBlobStore()
  const bytes = randomBytes(3 * MiB)
  const info = await put(store, bytes)
  const { remote } = await served(t, store)
  for (const code of ['CORRUPT', 'IO', 'UNAVAILABLE', 'STALE_PLACEMENT'] as const)
    for (const afterBytes of [0, MiB]) {
      store.fault = new BlobFault(code, 'planted')
      store.afterBytes = afterBytes
      const got: Buffer[] = []
      const reading = (async () => {
        for await (const piece of remote.read(info, { start: 0, end: info.size }))
          got.push(Buffer.from(piece))
      })()
      await t.rejects(reading, { name: 'BlobFault', code, category: store.fault.category })
      t.ok(bytes.subarray(0, afterBytes).indexOf(Buffer.concat(got)) === 0, 'the bytes before it are correct')
    }
  store.fault = undefined
  t.ok(bytes.equals(await get(remote, info)), 'and the next reader gets all of it')
})

t.test('a disk that fills up in the middle of an upload refuses it as FULL and keeps nothing', async (t) => {
  const store = new MemoryBlobStore({ capacityBytes: 4 * MiB })
  const { remote } = await served(t, store)
  await t.rejects(remote.stage({ expectedBytes: 5 * MiB }), { code: 'FULL', category: 'full' })
  const stage = await remote.stage()
  const writing = (async () => {
    for (let n = 0; n < 200; n++) await stage.write(randomBytes(MiB / 4))
    await stage.commit(pinned)
  })()
  await t.rejects(writing, { code: 'FULL', category: 'full' })
  const usage = await remote.usage()
  t.same([usage.openStages, usage.stagedBytes, usage.blobs], [0, 0, 0])
})

t.test(
  'a dead node is UNAVAILABLE; a call without an answer is UNKNOWN where it may have changed something',
  async (t) => {
    const store = new MemoryBlobStore()
    const info = await put(store, Buffer.from('x'))
    const { server, remote } = await served(t, store)
    await server.close({ drainMs: 0 })
    await t.rejects(remote.stat(info), { code: 'UNAVAILABLE' })
    await t.rejects(get(remote, info, 0, 1), { code: 'UNAVAILABLE' })
    await t.rejects(remote.delete(info), { code: 'UNAVAILABLE' })

    const sockets: Socket[] = []
    const mute = createServer((socket) => sockets.push(socket.resume()))
    mute.listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const { port } = mute.address() as { port: number }
    const lost = new RemoteBlobStore(
      {
        ...plainRemote,
        control: `127.0.0.1:${port}`,
        bytes: `http://127.0.0.1:${port}`,
        secret,
      },
      { callTimeoutMs: 100, commitTimeoutMs: 100, progressTimeoutMs: 100 },
    )
    t.teardown(async () => {
      await lost.close()
      for (const socket of sockets) socket.destroy()
      mute.close()
    })
    await t.rejects(lost.delete(info), { code: 'UNKNOWN', category: 'unknown' })
    await t.rejects(lost.put(smallBlob(), terms()), { code: 'UNKNOWN' })
    await t.rejects(remote.put(smallBlob(), terms()), { code: 'UNAVAILABLE' })
    await t.rejects(get(lost, info, 0, 1), { code: 'UNAVAILABLE' })
  },
)

t.test('an upload is lost with a node that dies in the middle, and the next write reports it', async (t) => {
  const { server, remote } = await served(t, new MemoryBlobStore())
  const stage = await remote.stage()
  await stage.write(randomBytes(MiB))
  await server.close({ drainMs: 0 })
  const writing = (async () => {
    for (;;) await stage.write(randomBytes(MiB))
  })()
  await t.rejects(writing, { code: 'UNAVAILABLE' })
  await t.rejects(stage.commit(pinned), { code: 'UNAVAILABLE' })
})

t.test('a commit whose answer was lost is sent again and has one effect', async (t) => {
  const store = new MemoryBlobStore()
  const { remote } = await served(t, store)
  const bytes = randomBytes(100_000)
  const uploadId = randomBytes(16)
  const stage = await remote.stage({ uploadId })
  await stage.write(bytes)
  const info = await stage.commit({ ...pinned, createdMs: 123, asNew: true })
  t.equal(info.createdMs, 123)
  t.same(await remote.committed(uploadId), info, 'the upload is known by its id')
  t.equal(await remote.committed(randomBytes(16)), undefined)
  t.equal((await store.usage()).blobs, 1)

  const stranger = await remote.stage()
  await remote.stage({ uploadId: stranger.uploadId }).then(
    () => t.fail('two stages of one id'),
    (error) => t.equal(error.code, 'INVALID'),
  )
  await stranger.abort()
})

t.test('a small blob whose answer was lost is sent again, and has one effect', async (t) => {
  const lines: Socket[] = []
  let puts = 0
  const store = new (class extends MemoryBlobStore {
    override async put(...args: Parameters<MemoryBlobStore['put']>) {
      const info = await super.put(...args)
      if (puts++ === 0) for (const line of lines) line.destroy()
      return info
    }
  })()
  const server = await serveBlobStore(store, { ...plainServer, secret })
  t.teardown(() => server.close({ drainMs: 0 }))
  const { port, hostname } = new URL(server.bytes)
  const line = createServer((near) => {
    const far = connect(Number(port), hostname)
    near
      .on('error', () => {})
      .pipe(far.on('error', () => {}))
      .pipe(near)
    lines.push(near, far)
  })
  await once(line.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => line.close())
  const bytes = `http://127.0.0.1:${(line.address() as AddressInfo).port}`
  const remote = new RemoteBlobStore({ ...plainRemote, control: server.control, bytes, secret })
  t.teardown(() => remote.close())
  const options = terms()
  const info = await remote.put(smallBlob(), options)
  t.same(info.incarnation, options.uploadId)
  t.same([puts, (await store.usage()).blobs], [2, 1])
})

t.test('a small blob is valid for the proven name and terms, and for no more bytes', async (t) => {
  const store = new MemoryBlobStore()
  const { server } = await served(t, store)
  const key = new ClusterSecret(secret, systemClock)
  const [blob, options] = [smallBlob(), terms()]
  const path = putPath(blob.id, options)
  const authorization = key.prove({ method: 'PUT', path })
  const answerTo = async (path: string, body: Buffer) => {
    const answer = await fetch(server.bytes + path, { method: 'PUT', headers: { authorization }, body })
    return [answer.status, answer.headers.get('holdfast-fault')]
  }
  t.same(await answerTo(putPath(blob.id, { ...options, asNew: true }), blob.bytes), [401, null])
  t.same(await answerTo(path, randomBytes(700)), [500, 'CORRUPT'])
  t.same(await answerTo(path, randomBytes(smallBlobBytesMax + 1)), [400, 'INVALID'])
  t.equal((await store.usage()).blobs, 0)
  t.same(await answerTo(path, blob.bytes), [200, null])
})

t.test('a request for many copies is valid for the proven names', async (t) => {
  const store = new MemoryBlobStore()
  const { server } = await served(t, store)
  const key = new ClusterSecret(secret, systemClock)
  const copies = [await put(store, randomBytes(700)), await put(store, randomBytes(10))]
  const names = namesOf(copies)
  const content = digestOfNames(names)
  const authorization = key.prove({ method: 'POST', path: '/blobs', content })
  const asked = (body: Buffer, digest = content) =>
    fetch(`${server.bytes}/blobs`, {
      method: 'POST',
      headers: { authorization, [batchKey]: digest },
      body,
    })
  const answer = Buffer.from(await (await asked(names)).arrayBuffer())
  t.same(
    batchOf(answer, copies).map((bytes) => bytes?.length),
    [700, 10],
  )
  const others = namesOf(copies.reverse())
  t.equal((await asked(others)).status, 400)
  t.equal((await asked(others, digestOfNames(others))).status, 401)
  t.equal((await asked(Buffer.alloc(batchRequestBytesMax + 1))).status, 400)

  copies.reverse()
  const turned = Buffer.from(answer)
  turned[20] = (turned[20] as number) ^ 1
  t.same(batchOf(turned, copies)[0], undefined, 'bytes that changed in transit are refused')
  t.equal(batchOf(turned, copies)[1]?.length, 10)
  for (const cut of [answer.subarray(0, 4), answer.subarray(0, 100), Buffer.concat([answer, names])])
    t.throws(() => batchOf(cut, copies), { code: 'UNAVAILABLE' })
})

t.test('small blobs in transit into a node are bounded in memory', async (t) => {
  const gate = Promise.withResolvers<void>()
  const store = new (class extends MemoryBlobStore {
    override async put(...args: Parameters<MemoryBlobStore['put']>) {
      await gate.promise
      return super.put(...args)
    }
  })()
  const { remote } = await served(t, store, { bounds: { bytesMax: 64 * MiB } })
  let refused = 0
  const codes = await Promise.all(
    Array.from({ length: 300 }, () =>
      remote.put(smallBlob(randomBytes(smallBlobBytesMax)), terms()).then(
        () => 'stored',
        ({ code }: BlobFault) => {
          if (++refused === 44) gate.resolve()
          return code
        },
      ),
    ),
  )
  t.equal(codes.filter((code) => code === 'stored').length, 256)
  t.equal(codes.filter((code) => code === 'UNAVAILABLE').length, 44)
})

t.test('a small range comes in one piece, correct or not at all', async (t) => {
  await using opened = new AsyncDisposableStack()
  const chunks = await ChunkStore.open({
    ...testChunkStore,
    path: t.testdir(),
    extentBytes: 16 * MiB,
    hashThreadsMax: 1,
  })
  opened.defer(() => chunks.close()) // before its directory is removed
  const { remote } = await served(t, chunks)
  const bytes = randomBytes(5_000)
  const info = await put(chunks, bytes)
  for (const [start, end] of [
    [0, 5_000],
    [1, 4_999],
    [4_999, 5_000],
  ] as const) {
    const whole = await remote.readWhole(info, { start, end })
    t.ok(bytes.subarray(start, end).equals(whole?.bytes as Buffer), `${start}..${end}`)
    t.ok(bytes.subarray(start, end).equals(await get(remote, info, start, end)))
  }
  t.equal(await remote.readWhole(info, { start: 0, end: 0 }), undefined)
  t.equal(await remote.readWhole(info, { start: 0, end: MiB }), undefined)
  await t.rejects(remote.readWhole(info, { start: 0, end: 5_001 }), RangeError)
  const stranger = { id: randomBytes(48), incarnation: randomBytes(16), placementGroup: undefined }
  await t.rejects(remote.readWhole(stranger, { start: 0, end: 1 }), { code: 'NOT_FOUND' })
  // A store without this method is read piece by piece.
  const memory = new MemoryBlobStore()
  const plain = await served(t, memory)
  const other = await put(memory, bytes)
  t.equal(await plain.remote.readWhole(other, { start: 0, end: 5_000 }), undefined)
  t.ok(bytes.equals(await get(plain.remote, other)))

  const line = createHttpServer((_, response) => {
    response.writeHead(200, { 'content-length': 5_000, 'holdfast-crc32': '1' }).end(bytes)
  })
  await once(line.listen(0, '127.0.0.1'), 'listening')
  const { port } = line.address() as AddressInfo
  const liar = new RemoteBlobStore({
    ...plainRemote,
    control: plain.server.control,
    bytes: `http://127.0.0.1:${port}`,
    secret,
  })
  t.teardown(async () => {
    await liar.close()
    line.close()
  })
  await t.rejects(liar.readWhole(info, { start: 0, end: 5_000 }), { code: 'UNAVAILABLE' })
  await t.rejects(get(liar, info, 0, 5_000), { code: 'UNAVAILABLE' })
})

t.test('a slow node holds the writer back instead of filling memory', async (t) => {
  const gate = Promise.withResolvers<void>()
  const store = new MemoryBlobStore()
  const stage = store.stage.bind(store)
  store.stage = async (options) => {
    const real = await stage(options)
    const write = real.write.bind(real)
    real.write = async (bytes) => {
      await gate.promise
      await write(bytes)
    }
    return real
  }
  const { remote } = await served(t, store)
  const upload = await remote.stage()
  const piece = randomBytes(MiB)
  let accepted = 0
  const writing = (async () => {
    for (let n = 0; n < 64; n++) {
      const room = upload.write(piece)
      accepted++
      await room
    }
  })()
  const held = await Promise.race([
    writing.then(() => false),
    new Promise((resolve) => setTimeout(() => resolve(true), 300)),
  ])
  t.ok(held, 'the writer waits')
  t.ok(accepted < 32, `${accepted} MiB were taken`)
  gate.resolve()
  await writing
  t.equal((await upload.commit(pinned)).size, 64 * MiB)
})

t.test('the replication log travels whole', async (t) => {
  const store = new MemoryBlobStore()
  const { remote } = await served(t, store)
  const first = await remote.pull({ limit: 10 })
  t.equal(first.kind, 'unknown position')
  if (first.kind !== 'unknown position') return
  const stage = await remote.stage({ placement: { group: 7, version: 3 } })
  await stage.write(Buffer.from('seven'))
  const copy = await stage.commit({ pinMs: 0, asNew: true })
  await put(remote, Buffer.from('of no group'))
  await remote.delete(copy)
  const pulled = await remote.pull({ after: first.now, limit: 10, groups: [7] })
  t.match(pulled, { kind: 'entries', behind: 0, through: { sequence: 3 } })
  if (pulled.kind !== 'entries') return
  t.same(
    pulled.entries.map(({ kind, sequence }) => [kind, sequence]),
    [
      ['committed', 1],
      ['deleted', 3],
    ],
  )
  t.same(pulled.entries[0]?.copy, copy)
  t.equal(copy.placementGroup, 7)
  t.type(await remote.deletedMs(copy), 'number')
  t.equal(await remote.deletedMs({ ...copy, incarnation: randomBytes(16) }), undefined)
  const listed: BlobInfo[] = []
  for await (const info of remote.inventory({ groups: [7] })) listed.push(info)
  t.same(listed, [])
  store.crash()
  t.equal((await remote.pull({ after: first.now, limit: 10 })).kind, 'unknown position', 'a new life')
})

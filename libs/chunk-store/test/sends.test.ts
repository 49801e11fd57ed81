/**
 * The path from the page cache to a socket without a copy; where a system or file system has none,
 * everything is read instead.
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, constants, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { BlobSender } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { alignedBytes } from '@holdfast/kernel'
import t, { type Test } from 'tap'
import { NodeDisk } from '../src/disk/node-disk.ts'
import { SpliceSender } from '../src/disk/splice-sender.ts'
import { ChunkStore } from '../src/index.ts'
import { testChunkStore } from '../src/testing.ts'

const MiB = 1024 * 1024

/**
 * Whether held pages stay unchanged when their place is written past the page cache, and through
 * it.
 */
function keeps(directory: string): { direct: boolean; buffered: boolean } | undefined {
  const pipe = SpliceSender.create()
  if (pipe === undefined) return undefined
  const path = join(directory, 'file')
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT)
  const direct = openSync(path, constants.O_RDWR | constants.O_DIRECT)
  try {
    const block = alignedBytes(4096)
    return {
      direct: pipe.keeps({ file, direct, block }),
      buffered: pipe.keeps({ file, direct: file, block }),
    }
  } finally {
    pipe.close()
    closeSync(file)
    closeSync(direct)
  }
}

const kept = process.platform === 'linux' ? keeps(t.testdir()) : undefined
const skip = kept?.direct !== true && 'this system or file system has no such way'

async function sockets(t: Test): Promise<{ near: Socket; descriptor: number; far: Socket }> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const far = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [near] = (await once(server, 'connection')) as [Socket]
  server.close()
  t.teardown(() => far.destroy())
  t.teardown(() => near.destroy())
  return { near, descriptor: (near as unknown as { _handle: { fd: number } })._handle.fd, far }
}

async function stored(t: Test, bytes: Buffer) {
  t.teardown(() => store?.close()) // before the directory is removed
  const path = t.testdir()
  const bounds = { extentBytes: 64 * MiB, extentStepBytes: 32 * MiB, lowWaterBytes: MiB, ballastBytes: MiB }
  const store = await ChunkStore.open({ ...testChunkStore, path, hashThreadsMax: 1, ...bounds })
  const info = await put(store, bytes, { pinMs: 0 })
  t.ok(bytes.equals(await get(store, info))) // and it is in memory
  const sender = (await store.openSender(info)) as BlobSender
  t.teardown(() => sender.release())
  return { path, store, info, sender }
}

/** The system may evict the pages at any time: then they are read once more, a few times. */
async function send(sender: BlobSender, range: { start: number; end: number }, descriptor: number) {
  for (let left = 10; ; left--) {
    const sent = sender.send(range, descriptor)
    if (sent !== undefined) return sent
    if (left === 0) throw new Error(`nothing at ${range.start}`)
    for await (const _ of sender.read(range));
  }
}

t.test('held pages stay unchanged when their place is written past the page cache', { skip }, async (t) => {
  t.same(kept, { direct: true, buffered: false }, 'and not when it is written through it')
})

t.test('a range goes to the socket, and the rest is returned when that is full', { skip }, async (t) => {
  const bytes = randomBytes(12 * MiB + 1000)
  const { sender } = await stored(t, bytes)
  const { near, descriptor, far } = await sockets(t)
  let position = 5
  let waits = 0
  const end = bytes.length - 7
  const received: Buffer[] = []
  far.on('data', (data) => received.push(data))
  far.pause()
  while (position < end) {
    const sent = await send(sender, { start: position, end }, descriptor)
    position += sent.count
    const { rest } = sent
    if (rest === undefined) continue
    waits++
    t.ok(bytes.subarray(position, position + rest.bytes.length).equals(rest.bytes), 'what follows')
    far.resume()
    await new Promise((resolve) => near.write(rest.bytes, resolve))
    position += rest.bytes.length
    rest.release()
  }
  t.equal(position, end)
  t.ok(waits > 0)
  near.end()
  await once(far, 'end')
  t.ok(bytes.subarray(5, end).equals(Buffer.concat(received)))
})

t.test(
  'sent bytes arrive unchanged, also when their place is freed before they are read',
  { skip },
  async (t) => {
    t.teardown(() => store?.close()) // before the directory is removed
    const path = t.testdir()
    const disk = new NodeDisk()
    let freeBytes = 1e12
    disk.space = async () => ({ freeBytes, totalBytes: 1e12 })
    const bounds = {
      extentBytes: 16 * MiB,
      extentStepBytes: 4 * MiB,
      lowWaterBytes: 8 * MiB,
      ballastBytes: 0,
    }
    const store = await ChunkStore.open(
      { ...testChunkStore, path, hashThreadsMax: 1, ...bounds },
      { disk, background: false },
    )
    const bytes = randomBytes(8 * MiB)
    const info = await put(store, bytes, { pinMs: 0 })
    const stays = await put(store, randomBytes(MiB), { pinMs: 0 })
    t.ok(bytes.equals(await get(store, info)))
    const far: Socket[] = []
    const wanted: Buffer[] = []
    // From many places, so that the last page of each is a different large page of the kernel.
    for (let start = 0; start < bytes.length; start += 300_000) {
      const pair = await sockets(t)
      pair.far.pause()
      const sender = (await store.openSender(info)) as BlobSender
      const sent = await send(sender, { start, end: bytes.length }, pair.descriptor)
      sent.rest?.release()
      sender.release()
      pair.near.end()
      far.push(pair.far)
      wanted.push(bytes.subarray(start, start + sent.count))
    }
    await store.delete(info)
    freeBytes = MiB
    const before = (await store.usage()).diskBytes
    await store.compact()
    t.ok((await store.usage()).diskBytes < before - 7 * MiB, 'its place was freed')
    for (const [n, socket] of far.entries()) {
      const received: Buffer[] = []
      for await (const data of socket) received.push(data)
      if (!wanted[n]?.equals(Buffer.concat(received))) t.fail(`other bytes, from ${n * 300_000} on`)
    }
    t.equal((await get(store, stays)).length, MiB)
  },
)

t.test('of a chunk with a flipped bit nothing is sent', { skip }, async (t) => {
  const bytes = randomBytes(3 * MiB)
  const { path, store, info, sender } = await stored(t, bytes)
  const { near, descriptor, far } = await sockets(t)
  const received: Buffer[] = []
  far.on('data', (data) => received.push(data))
  const first = await send(sender, { start: MiB, end: MiB + 1000 }, descriptor)
  t.same(first, { count: 1000, rest: undefined })
  flip(join(path, 'extents'), bytes.subarray(MiB + 2000, MiB + 2100))
  t.equal(sender.send({ start: MiB, end: 2 * MiB }, descriptor), undefined)
  t.equal(sender.send({ start: MiB + 1000, end: MiB + 1001 }, descriptor), undefined)
  t.match(
    await send(sender, { start: 2 * MiB, end: 2 * MiB + 10 }, descriptor),
    { count: 10 },
    'the way is clear',
  )
  await t.rejects(get(store, info), { code: 'CORRUPT' })
  near.end()
  await once(far, 'end')
  const sent = [bytes.subarray(MiB, MiB + 1000), bytes.subarray(2 * MiB, 2 * MiB + 10)]
  t.ok(Buffer.concat(sent).equals(Buffer.concat(received)))
})

t.test('a reader keeps its blob, and releases it once', { skip }, async (t) => {
  const bytes = randomBytes(MiB)
  const { store, info, sender } = await stored(t, bytes)
  const { descriptor } = await sockets(t)
  t.equal(await store.delete(info), 'deleted')
  t.match(await send(sender, { start: 10, end: 20 }, descriptor), { count: 10 })
  t.equal(store.counters().activeReaders, 1)
  sender.release()
  sender.release()
  t.equal(store.counters().activeReaders, 0)
  await t.rejects(store.openSender(info), { code: 'NOT_FOUND' })
  const small = await put(store, Buffer.from('small'))
  t.equal(await store.openSender(small), undefined)
})

/** One bit behind these bytes' beginning, under the running store. */
function flip(directory: string, at: Buffer): void {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    const place = readFileSync(path).indexOf(at)
    if (place < 0) continue
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.from([(at[0] as number) ^ 1]), 0, 1, place)
    closeSync(file)
  }
}

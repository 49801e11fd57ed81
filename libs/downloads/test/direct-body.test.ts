/**
 * Bodies that go from a real store to real clients without passing through this process, where the
 * system supports it; the same bytes where not.
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { BlobSender } from '@holdfast/blob-store'
import { put } from '@holdfast/blob-store/testing'
import { ChunkStore } from '@holdfast/chunk-store'
import { testChunkStore } from '@holdfast/chunk-store/testing'
import { AnswerBudget } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import t, { type Test } from 'tap'
import { type DirectBytes, sendDirect } from '../src/bytes/direct-body.ts'
import type { ByteRange } from '../src/bytes/ranges.ts'
import type { DownloadPace } from '../src/bytes/response-body.ts'
import { directBytes, storedBytes } from '../src/bytes/stored-bytes.ts'

const MiB = 1024 * 1024
const bytes = randomBytes(12 * MiB + 1000)

interface ServeOptions {
  range: ByteRange
  pace?: DownloadPace
  /** In front of the store's. */
  send?(inner: BlobSender): BlobSender['send']
}

/** One store, its one blob, and a host that answers with ranges of it. */
async function host(t: Test) {
  const bounds = { extentBytes: 64 * MiB, extentStepBytes: 32 * MiB, lowWaterBytes: MiB, ballastBytes: MiB }
  t.teardown(() => store?.close()) // before the directory is removed
  const store = await ChunkStore.open({ ...testChunkStore, path: t.testdir(), hashThreadsMax: 1, ...bounds })
  const blob = await put(store, bytes, { pinMs: 0 })
  const all = { start: 0, end: bytes.length }
  for await (const _ of storedBytes(store, blob, all, new AbortController().signal)); // into memory
  const ended: Promise<unknown>[] = []
  let sent = 0
  let served: ServeOptions = { range: all }
  const answer = async (response: ServerResponse) => {
    const { range, pace, send } = served
    const direct = (await directBytes(store, blob, range)) as DirectBytes
    const { sender } = direct
    if (send !== undefined) direct.sender = { ...sender, send: send(sender) }
    response.writeHead(200, { 'content-length': range.end - range.start })
    const share = new AnswerBudget(plainBudget).open('192.0.2.0/24', () => response.destroy())
    await sendDirect(response, direct, (count) => (sent += count), share, pace)
  }
  const server = createServer((_, response) => {
    ended.push(answer(response).catch((error: unknown) => error))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const serve = (what: ServeOptions) => {
    served = what
    sent = 0
  }
  return { store, blob, port, serve, sent: () => sent, ended: () => ended.shift() }
}

t.test('any range of a blob arrives, several in sequence on a connection', async (t) => {
  const { store, port, serve, sent, ended } = await host(t)
  for (const [start, end] of [
    [0, bytes.length],
    [0, 1],
    [MiB - 70_000, MiB + 1],
    [5, 12 * MiB],
    [3 * MiB, 3 * MiB + 400_000],
  ] as const) {
    serve({ range: { start, end } })
    const answer = await fetch(`http://127.0.0.1:${port}/`)
    const got = Buffer.from(await answer.arrayBuffer())
    t.ok(bytes.subarray(start, end).equals(got), `${start} … ${end}`)
    t.equal(await ended(), undefined)
    t.equal(sent(), end - start)
  }
  t.equal(store.counters().activeReaders, 0)
})

t.test('bytes that are not in memory are read from the copy that the reader began with', async (t) => {
  const { store, blob, port, serve, sent, ended } = await host(t)
  const all = { start: 0, end: bytes.length }
  let sends = 0
  const send = (inner: BlobSender) => (range: ByteRange, socket: number) => {
    if (++sends > 2) return undefined
    if (sends === 2) void store.delete(blob)
    return inner.send(range, socket)
  }
  serve({ range: all, send })
  const answer = await fetch(`http://127.0.0.1:${port}/`)
  t.ok(bytes.equals(Buffer.from(await answer.arrayBuffer())))
  t.equal(await ended(), undefined)
  t.equal(sent(), bytes.length)
  t.equal(store.counters().activeReaders, 0)
})

t.test('a slow client gets everything, one that closes or reads nothing frees everything', async (t) => {
  const { store, port, serve, sent, ended } = await host(t)
  const range = { start: 0, end: bytes.length }
  for (const how of ['slow', 'gone', 'takes nothing']) {
    serve({ range, ...(how === 'takes nothing' ? { pace: { progressBytes: MiB, progressMs: 200 } } : {}) })
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    await once(socket, 'readable') // and nothing is read until now
    if (how === 'gone') socket.destroy()
    if (how === 'slow') {
      const parts: Buffer[] = []
      for await (const part of socket) {
        parts.push(part as Buffer)
        if (parts.length % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      }
      t.ok(Buffer.concat(parts).subarray(-bytes.length).equals(bytes))
    }
    const end = await ended()
    if (how === 'takes nothing') t.match(end, { message: 'the reader is too slow' })
    else t.equal(end, undefined)
    t.equal(sent() === bytes.length, how === 'slow', how)
    t.equal(store.counters().activeReaders, 0)
  }
})

t.test('a fault in the middle cuts the connection', async (t) => {
  const { store, port, serve, ended } = await host(t)
  const send = () => () => {
    throw new Error('a fault')
  }
  serve({ range: { start: 0, end: MiB }, send })
  const answer = await fetch(`http://127.0.0.1:${port}/`)
  await t.rejects(answer.arrayBuffer())
  t.match(await ended(), { message: 'a fault' })
  t.equal(store.counters().activeReaders, 0)
})

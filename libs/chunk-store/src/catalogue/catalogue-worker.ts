/**
 * The thread that owns the catalogue's files: writes block it, synced ones for as long as the
 * device takes. Requests are answered in order.
 */
import { type FileHandle, open as openFile, readdir } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { asBuffer, writableBytes } from '@holdfast/kernel'
import { pack, unpack } from '../memory/packed.ts'
import type { Engine, EngineName } from './engines/engine.ts'
import type { CatalogueAnswer, CatalogueRequest } from './threaded-catalogue.ts'

const port = parentPort
if (port === null) throw new Error('the catalogue runs in a worker thread')

const { path, engine: engineName } = workerData as { path: string; engine: EngineName }
/** Only the one in use is loaded: the other may not exist for this system. */
const Chosen =
  engineName === 'rocksdb'
    ? (await import('./engines/rocks-engine.ts')).RocksEngine
    : (await import('./engines/level-engine.ts')).LevelEngine
/** Enough for a manifest, a log and a memtable that is being flushed. */
const roomToOpenBytes = 512 * 1024
let db: Engine = new Chosen(path)
/** A write failed. It accepts nothing more until it is reopened, but it can be read. */
let refusesWrites = false
/** Why it could not be reopened, and when that is retried. It cannot be read meanwhile. */
let closed: { why: unknown; againMs: number; pauseMs: number } | undefined
/**
 * Opening reads everything that was not in tables yet: retries are frequent at first, then less
 * often.
 */
const pauseLeastMs = 250
const pauseMostMs = 4000
/** Files that opening needs beside existing ones: logs, a manifest, tables that it writes. */
const moreFiles = 16
/**
 * Batches since the last synced one, in order. A failed sync may have lost earlier acknowledged
 * batches, and the kernel reports that once: so they are applied again after it is reopened. With
 * more of them the next batch is synced.
 */
let unsynced: Uint8Array[] = []
let unsyncedBytes = 0
const unsyncedBytesMax = 8 * 1024 * 1024

let turn: Promise<void> = open()
port.on('message', (request: CatalogueRequest) => {
  turn = turn.then(() => answer(request))
})

async function open(): Promise<void> {
  try {
    await db.open()
    send({ number: 0 })
  } catch (error) {
    fail(0, error)
  }
}

async function answer(request: CatalogueRequest): Promise<void> {
  const { number } = request
  try {
    if (closed !== undefined && request.kind !== 'close') await reopen()
    switch (request.kind) {
      case 'get':
        return send({ number, values: pack(await db.getMany(unpack(request.keys) as Buffer[])) })
      case 'apply':
        await apply(request)
        return send({ number })
      case 'scan':
        return send({ number, rows: await scan(request) })
      case 'close':
        await db.close().catch(ignoreIfRefusing)
        send({ number })
        return port?.close()
    }
  } catch (error) {
    fail(number, error)
  }
}

function fail(number: number, error: unknown): void {
  send({ number, error: describe(error), isClosed: closed !== undefined })
}

async function apply({ changes, sync }: CatalogueRequest & { kind: 'apply' }): Promise<void> {
  if (refusesWrites) await openAnew()
  const isFull = unsyncedBytes + changes.length > unsyncedBytesMax
  await write(changes, sync || isFull)
  if (sync || isFull) forgetUnsynced()
  else {
    unsynced.push(changes)
    unsyncedBytes += changes.length
  }
}

function forgetUnsynced(): void {
  unsynced = []
  unsyncedBytes = 0
}

async function write(changes: Uint8Array, sync: boolean): Promise<void> {
  try {
    await db.write(unpack(changes), sync)
  } catch (error) {
    refusesWrites = true
    throw error
  }
}

/**
 * Closes and reopens the database, only once there are room and descriptors: a closed database that
 * cannot be reopened cannot be read either.
 */
async function openAnew(): Promise<void> {
  const freeBytes = await writableBytes(path)
  if (freeBytes < roomToOpenBytes) throw new Error(`no space left: only ${freeBytes} bytes are free`)
  await tryDescriptors()
  await db.close().catch(() => {}) // reports the error once more, and is closed
  await reopen()
}

/** @throws EMFILE, ENFILE, ENOMEM. */
async function tryDescriptors(): Promise<void> {
  const tried: FileHandle[] = []
  try {
    const files = (await readdir(path)).length + moreFiles
    while (tried.length < files) tried.push(await openFile(path, 'r'))
  } finally {
    for (const file of tried) await file.close()
  }
}

async function reopen(): Promise<void> {
  if (closed !== undefined && performance.now() < closed.againMs) throw closed.why
  db = new Chosen(path)
  try {
    await db.open()
  } catch (error) {
    const pauseMs = closed === undefined ? pauseLeastMs : Math.min(pauseMostMs, 2 * closed.pauseMs)
    closed = { why: error, againMs: performance.now() + pauseMs, pauseMs }
    throw error
  }
  closed = undefined
  refusesWrites = false
  for (const [n, changes] of unsynced.entries()) await write(changes, n === unsynced.length - 1)
  forgetUnsynced()
}

function ignoreIfRefusing(error: unknown): void {
  if (!refusesWrites) throw error
}

async function scan({ from, after, until, limit }: CatalogueRequest & { kind: 'scan' }) {
  const rows = await db.scan({
    from: asBuffer(from),
    after: after && asBuffer(after),
    until: asBuffer(until),
    limit,
  })
  return rows.map(([key, value]) => ({ key: Uint8Array.from(key), value: Uint8Array.from(value) }))
}

function send(message: Omit<CatalogueAnswer, 'recovering'>): void {
  port?.postMessage({ ...message, recovering: refusesWrites || closed !== undefined })
}

function describe(error: unknown): string {
  const { message, cause } = error as Error & { cause?: Error }
  return cause === undefined ? message : `${message}: ${cause.message}`
}

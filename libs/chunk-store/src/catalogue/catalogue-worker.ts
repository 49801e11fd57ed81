/**
 * The thread that owns RocksDB: every write of the binding blocks its thread, a synced one for as
 * long as the device takes. Requests are answered in order. `batch` is used throughout, because the
 * binding's `put` silently does not sync.
 */
import { type FileHandle, open as openFile, readdir } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { writableBytes } from '@holdfast/kernel'
import { RocksLevel } from '@nxtedition/rocksdb'
import { pack, unpack } from '../memory/packed.ts'
import type { CatalogueAnswer, CatalogueRequest } from './rocks-catalogue.ts'

const port = parentPort
if (port === null) throw new Error('the catalogue runs in a worker thread')

const path = workerData.path as string
/** Enough for a manifest, a log and a memtable that is being flushed. */
const roomToOpenBytes = 512 * 1024
/**
 * Written to tables of 8 MiB, of which six may wait. The default is 64 MiB: memory that grows for
 * 80,000 uploads, and slow to insert into.
 */
const memtableMemoryBudget = 32 * 1024 * 1024
let db = make()
/** A write failed. RocksDB then accepts nothing more until it is reopened, but it can be read. */
let refusesWrites = false
/**
 * Why it could not be reopened, and when that is retried: the binding ends the process when a
 * closed database is read.
 */
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
        return send({ number, values: pack(db._getManySync(unpack(request.keys) as Buffer[])) })
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
  write(changes, sync || isFull)
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

function write(changes: Uint8Array, sync: boolean): void {
  const batch = db.batch()
  try {
    const parts = unpack(changes)
    for (let n = 0; n < parts.length; n += 2) {
      const value = parts[n + 1]
      if (value === undefined) batch._del(parts[n] as Buffer)
      else batch._put(parts[n] as Buffer, value)
    }
    batch._writeSync({ sync })
  } catch (error) {
    refusesWrites = true
    throw error
  } finally {
    batch._closeSync()
  }
}

/**
 * Not before there is room, and descriptors: a closed database that cannot be reopened could not
 * even be read.
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
  db = make()
  try {
    await db.open()
  } catch (error) {
    const pauseMs = closed === undefined ? pauseLeastMs : Math.min(pauseMostMs, 2 * closed.pauseMs)
    closed = { why: error, againMs: performance.now() + pauseMs, pauseMs }
    throw error
  }
  closed = undefined
  refusesWrites = false
  for (const [n, changes] of unsynced.entries()) write(changes, n === unsynced.length - 1)
  forgetUnsynced()
}

function ignoreIfRefusing(error: unknown): void {
  if (!refusesWrites) throw error
}

function make(): RocksLevel {
  return new RocksLevel(path, {
    createIfMissing: true,
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    compression: false,
    walCompression: false,
    cacheSize: 32 * 1024 * 1024,
    compaction: 'level',
    memtableMemoryBudget,
  })
}

async function scan({ from, after, until, limit }: CatalogueRequest & { kind: 'scan' }) {
  const begin = after === undefined ? { gte: buffer(from) } : { gt: buffer(after) }
  const iterator = db.iterator({ ...begin, lt: buffer(until), limit })
  const rows: { key: Uint8Array; value: Uint8Array }[] = []
  try {
    while (rows.length < limit) {
      const some = await iterator.nextv(Math.min(1000, limit - rows.length))
      if (some.length === 0) break
      for (const [key, value] of some) rows.push({ key: Uint8Array.from(key), value: Uint8Array.from(value) })
    }
  } finally {
    await iterator.close()
  }
  return rows
}

function send(message: Omit<CatalogueAnswer, 'recovering'>): void {
  port?.postMessage({ ...message, recovering: refusesWrites || closed !== undefined })
}

function buffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function describe(error: unknown): string {
  const { message, cause } = error as Error & { cause?: Error }
  return cause === undefined ? message : `${message}: ${cause.message}`
}

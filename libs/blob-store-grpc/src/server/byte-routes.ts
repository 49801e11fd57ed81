/**
 * The bytes, by HTTP/1.1:
 *
 *   PUT /stages/<upload id>             the body is the blob, the trailer proves it; answers
 *                                       `{id, size, crc32}` of what has come
 *   PUT /blobs/<id>/<upload id>?<terms> the body is a small blob, its name proves it; answers the
 *                                       the copy's description
 *   POST /blobs                         the body names small copies; answers the bytes of those
 *                                       that are readable here (`batch.ts`)
 *   GET /blobs/<id>/<incarnation>       with `Range: bytes=a-b`; the trailers say how it ended, or
 *                                       the headers where all of it is in memory
 *
 * A body that fails in the middle ends with the trailer `holdfast-fault`, so that "corrupt" does
 * not look like "gone". The trailer `holdfast-crc32` covers the bytes sent; a small answer in one
 * piece has it as a header. The reader checks length and sum: a short body never passes for a whole
 * one.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  BlobFault,
  type BlobName,
  batchBytesMax,
  readsWhole,
  releaseBuffer,
  smallBlobBytesMax,
} from '@holdfast/blob-store'
import { hex, isFramed } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import { batchAnswer, batchKey, batchRequestBytesMax, digestOfNames, parseCopyNames } from '../batch.ts'
import type { CallNotes } from '../client-requests.ts'
import { type ClusterSecret, sentContent } from '../cluster-secret.ts'
import { faultKey, faultOfStore, httpStatusOfFault } from '../faults.ts'
import { putAnswerOf, putTermsOf } from '../put-terms.ts'
import { type Callers, peerOf } from './callers.ts'
import type { NodeLoad } from './node-load.ts'
import type { OpenStages } from './open-stages.ts'
import type { ServedStore } from './served-store.ts'

export const crcKey = 'holdfast-crc32'
export const proofKey = 'holdfast-proof'
/**
 * A reader that reads nothing for this long is dropped: it holds buffers and, in the store, space.
 */
const readerIdleMs = 120_000
/** How long the body of a refused upload is read and discarded. */
const refusedBodyMs = 1_000
/** The sender has the whole body of a small blob: one that is silent for this long is dropped. */
const smallBodyMs = 15_000
/** Bytes of its body that a stream holds at most. Pieces of a read are largest while few read. */
const heldBytes = { received: 64 * 1024, sent: 256 * 1024 }

export class ByteRoutes {
  readonly #store: ServedStore
  readonly #stages: OpenStages
  readonly #secret: ClusterSecret
  readonly #callers: Callers
  readonly #load: NodeLoad
  readonly #notes: CallNotes
  /** Connections with a running request. Peers send one request at a time on each. */
  readonly #answering = new WeakSet<object>()

  constructor(parts: {
    store: ServedStore
    stages: OpenStages
    secret: ClusterSecret
    callers: Callers
    load: NodeLoad
    notes: CallNotes
  }) {
    this.#store = parts.store
    this.#stages = parts.stages
    this.#secret = parts.secret
    this.#callers = parts.callers
    this.#load = parts.load
    this.#notes = parts.notes
  }

  /** Never rejects. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    if (!isFramed(request)) {
      response.writeHead(400, { connection: 'close' }).end()
      return
    }
    if (this.#answering.has(socket)) {
      this.#load.refused.ahead++
      socket.destroy()
      return
    }
    this.#answering.add(socket)
    response.once('close', () => this.#answering.delete(socket))
    try {
      const { method = '', url: path = '' } = request
      const content = request.headers.range ?? request.headers[batchKey] ?? ''
      const call = { method, path, content: String(content) }
      if (!this.#secret.verify(call, request.headers.authorization)) {
        this.#load.refused.unproven++
        this.#callers.refused(peerOf(socket))
        response.writeHead(401, { connection: 'close' }).end()
        return
      }
      this.#callers.proven(peerOf(socket))
      const kind = () => `${method} /${path.split('/')[1]}`
      const named = { name: `${method} ${path}`, kind, response }
      await this.#notes.answering(request.headers, named, () => this.#route(request, response))
    } catch (error) {
      refuse(request, response, error)
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = request
    const [, stage] = /^\/stages\/([0-9a-f]{32})$/.exec(path) ?? []
    const [, id, incarnation, terms] = /^\/blobs\/([0-9a-f]{96})\/([0-9a-f]{32})(?:\?(.*))?$/.exec(path) ?? []
    if (method === 'POST' && path === '/blobs') await this.#sendBatch(request, response)
    else if (method === 'PUT' && stage !== undefined)
      await this.#receive(Buffer.from(stage, 'hex'), request, response)
    else if (id !== undefined && incarnation !== undefined && (method === 'GET' || method === 'PUT')) {
      const blob = {
        id: Buffer.from(id, 'hex'),
        incarnation: Buffer.from(incarnation, 'hex'),
        placementGroup: undefined,
      }
      if (method === 'GET') await this.#send(blob, request, response)
      else await this.#put(blob, terms, request, response)
    } else response.writeHead(404, { connection: 'close' }).end()
  }

  async #receive(uploadId: Buffer, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const letGo = this.#load.holdBytes(heldBytes.received)
    try {
      await this.#receiveHeld(uploadId, request, response)
    } finally {
      letGo()
    }
  }

  async #receiveHeld(uploadId: Buffer, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { stage, touch, signal } = this.#stages.receive(uploadId)
    const cut = () => request.destroy(new BlobFault('CLOSED', 'the upload was aborted'))
    signal.addEventListener('abort', cut, { once: true })
    try {
      // An early end of the loop leaves the connection open, because the refusal is sent on it.
      const pieces: AsyncIterable<Uint8Array> = request.iterator({ destroyOnReturn: false })
      for await (const bytes of pieces) {
        touch()
        const room = stage.write(bytes)
        if (room !== undefined) await room
        releaseBuffer(bytes)
      }
      const { id, size, crc32 } = await stage.seal()
      touch()
      const sent = { method: 'PUT', path: request.url ?? '', content: sentContent({ size, crc32 }) }
      const proof = request.trailers[proofKey]
      if (!this.#secret.verify(sent, proof))
        throw new BlobFault('CORRUPT', 'these are not the bytes that the sender proves')
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ id: hex(id), size, crc32 }))
    } catch (error) {
      signal.removeEventListener('abort', cut) // its own end leaves the connection for the answer
      await this.#stages.abort(uploadId)
      throw error
    }
    signal.removeEventListener('abort', cut)
  }

  async #put(
    { id, incarnation }: BlobName,
    terms: string | undefined,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const options = { ...putTermsOf(terms), uploadId: incarnation }
    const length = Number(request.headers['content-length'])
    if (!(length <= smallBlobBytesMax))
      throw new BlobFault('INVALID', `a small blob of ${request.headers['content-length']} bytes`)
    const letGo = this.#load.holdBytes(length)
    try {
      const bytes = await bodyOf(request, length)
      const answer = putAnswerOf(await this.#store.put({ id, bytes }, options))
      response.setHeader('content-type', 'application/json')
      response.end(answer)
    } finally {
      letGo()
    }
  }

  async #send(blob: BlobName, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (await this.#sendWhole(blob, request, response)) return
    const info = await this.#store.stat(blob)
    if (info === undefined) throw new BlobFault('NOT_FOUND', 'no such copy is here')
    const range = rangeOf(request.headers.range, info.size)
    if (range === undefined) {
      response.writeHead(416, { 'content-range': `bytes */${info.size}` }).end()
      return
    }
    const letGo = this.#load.holdBytes(Math.min(range.end - range.start, heldBytes.sent))
    const stop = new AbortController()
    response.once('close', () => stop.abort())
    response.setTimeout(readerIdleMs, () => response.destroy())
    const source = this.#store.read(blob, range, { signal: stop.signal })[Symbol.asyncIterator]()
    let sum = 0
    try {
      let next = await source.next() // a fault before the first bytes is answered with a status
      response.writeHead(200, { trailer: `${faultKey}, ${crcKey}`, 'transfer-encoding': 'chunked' })
      while (!next.done) {
        sum = crc32(next.value, sum)
        await written(response, next.value)
        next = await source.next()
      }
      response.addTrailers({ [crcKey]: String(sum) })
    } catch (error) {
      if (!response.headersSent) throw error
      response.addTrailers({ [faultKey]: faultOfStore(error).code })
    } finally {
      letGo()
      await source.return?.()
    }
    response.end()
  }

  async #sendBatch(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const length = Number(request.headers['content-length'])
    if (!(length <= batchRequestBytesMax)) throw new BlobFault('INVALID', 'too many names in one question')
    const letGo = this.#load.holdBytes(batchBytesMax + length)
    response.once('close', letGo)
    const names = await bodyOf(request, length)
    if (digestOfNames(names) !== request.headers[batchKey])
      throw new BlobFault('INVALID', 'these are not the names that the caller proves')
    const answer = batchAnswer(await this.#store.readBatch(parseCopyNames(names)))
    response.setTimeout(readerIdleMs, () => response.destroy())
    response.writeHead(200, { 'content-length': answer.length }).end(answer)
  }

  /** @returns false when the bytes are too many for one piece, or not in memory. */
  async #sendWhole(blob: BlobName, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const range = rangeOf(request.headers.range, Number.MAX_SAFE_INTEGER)
    if (range === undefined || range.end - range.start > smallBlobBytesMax || !readsWhole(this.#store))
      return false
    const whole = await this.#store.readWhole(blob, range).catch((error: unknown) => {
      if (error instanceof RangeError) return undefined // its answer reports the blob's size
      throw error
    })
    if (whole === undefined) return false
    const { bytes } = whole
    response.once('close', () => whole.release())
    response.once('close', this.#load.holdBytes(bytes.length))
    response.setTimeout(readerIdleMs, () => response.destroy())
    response.writeHead(200, { 'content-length': bytes.length, [crcKey]: String(crc32(bytes)) })
    response.end(bytes)
    return true
  }
}

/** The whole body; the HTTP parser enforces its length. */
async function bodyOf(request: IncomingMessage, length: number): Promise<Buffer> {
  request.setTimeout(smallBodyMs, () => request.destroy())
  const body = Buffer.allocUnsafeSlow(length)
  let at = 0
  const pieces: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false })
  for await (const piece of pieces) {
    at += piece.copy(body, at)
    releaseBuffer(piece)
  }
  if (at !== length) throw new BlobFault('CANCELLED', `${at} of ${length} bytes of a small blob arrived`)
  request.setTimeout(0)
  return body
}

/** Resolves when the socket has the bytes: they are valid only until the next are requested. */
function written(response: ServerResponse, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    if (response.destroyed) return reject(new BlobFault('CANCELLED', 'the reader has gone'))
    const gone = () => reject(new BlobFault('CANCELLED', 'the reader has gone'))
    response.once('close', gone)
    response.write(bytes, (error) => {
      response.off('close', gone)
      if (error) reject(new BlobFault('CANCELLED', 'the reader has gone', { cause: error }))
      else resolve()
    })
  })
}

function refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const fault = faultOfStore(error)
  // The connection stays open briefly and further bytes are discarded: closing it with unread bytes
  // would destroy the answer.
  response.writeHead(httpStatusOfFault(fault), { [faultKey]: fault.code })
  response.end(fault.message)
  if (request.complete) return
  request.resume()
  const patience = setTimeout(() => request.destroy(), refusedBodyMs)
  request.once('close', () => clearTimeout(patience))
}

/**
 * `bytes=a-b` as start and exclusive end; without a header all of it; undefined when it does not
 * fit.
 */
function rangeOf(header: string | undefined, size: number): { start: number; end: number } | undefined {
  if (header === undefined) return { start: 0, end: size }
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header) ?? []
  if (first === undefined || last === undefined) return undefined
  const range = { start: Number(first), end: Number(last) + 1 }
  return range.start < range.end && range.end <= size ? range : undefined
}

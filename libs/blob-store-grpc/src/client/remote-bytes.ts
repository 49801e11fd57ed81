/**
 * Reads bytes from a node: counted, checked against their sum, and cancelled when nothing arrives.
 */
import { type Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { BlobFault, type BlobInfo, type BlobName, batchBytesMax, releaseBuffer } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import { batchKey, batchOf, digestOfNames, namesOf } from '../batch.ts'
import { clientRequestHeaders } from '../client-requests.ts'
import type { ClusterSecret } from '../cluster-secret.ts'
import { faultKey, namedFault } from '../faults.ts'
import { crcKey } from '../server/byte-routes.ts'
import { SocketMemory } from '../socket-memory.ts'

export interface ByteLine {
  node: string
  url: string
  agent: Agent
  secret: ClusterSecret
  progressTimeoutMs: number
  /** Counts the stream. @param end cancels it. @returns ends the count. */
  beginStream(end: () => void): () => void
}

/**
 * The last piece is yielded after the sum over all of them was compared, so a complete read is what
 * the node had verified.
 */
export async function* readBytes(
  blob: BlobName,
  { start, end }: { start: number; end: number },
  line: ByteLine & { signal?: AbortSignal | undefined; isClosed(): boolean },
): AsyncGenerator<Uint8Array> {
  const request = requestFor(blob, { start, end }, line)
  const cancel = () => request.destroy(new BlobFault('CANCELLED', 'the reader gave up'))
  const release = line.beginStream(() => request.destroy(new BlobFault('CLOSED', 'the store is closed')))
  line.signal?.addEventListener('abort', cancel, { once: true })
  // Also while the reader is busy with a piece: the socket is paused then, and sends nothing.
  request.setTimeout(line.progressTimeoutMs, () =>
    request.destroy(
      new BlobFault('UNAVAILABLE', `${line.node} sent nothing for ${line.progressTimeoutMs} ms`),
    ),
  )
  const memory = new SocketMemory()
  request.once('socket', (socket) => {
    // After the parser's own listener.
    const note = (chunk: Uint8Array) => memory.read(chunk)
    socket.on('data', note)
    request.once('close', () => socket.off('data', note))
  })
  try {
    const response = await responseTo(request)
    if (response.statusCode !== 200) throw await faultOfAnswer(line.node, response, end)
    let missing = end - start
    let sum = 0
    let held: Uint8Array | undefined
    for await (const bytes of response as AsyncIterable<Uint8Array>) {
      memory.handedOn(bytes)
      missing -= bytes.length
      sum = crc32(bytes, sum)
      if (held !== undefined) {
        yield held
        releaseBuffer(held)
        if (line.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
        if (line.isClosed()) throw new BlobFault('CLOSED', 'the store is closed')
      }
      held = bytes
    }
    // A small answer in one piece has the checksum in its headers, other answers in their trailers.
    const trailers = crcKey in response.headers ? response.headers : response.trailers
    const fault = namedFault(trailers[faultKey], `${line.node} ended the body, ${missing} bytes are missing`)
    if (fault !== undefined) throw fault
    if (missing !== 0)
      throw new BlobFault('UNAVAILABLE', `${line.node} sent ${missing} bytes too few of ${end - start}`)
    if (trailers[crcKey] !== String(sum))
      throw new BlobFault('UNAVAILABLE', `the bytes from ${line.node} changed on their way`)
    if (held !== undefined) {
      yield held
      releaseBuffer(held)
    }
    if (line.signal?.aborted) throw new BlobFault('CANCELLED', 'the reader gave up')
  } catch (error) {
    if (error instanceof BlobFault || error instanceof RangeError) throw error
    throw new BlobFault('UNAVAILABLE', `${line.node}: ${(error as Error).message}`, { cause: error })
  } finally {
    line.signal?.removeEventListener('abort', cancel)
    // A stream read to its end is already destroyed, and its connection is free for the next one.
    if (!request.destroyed) request.destroy()
    release()
  }
}

function requestFor(
  blob: BlobName,
  { start, end }: { start: number; end: number },
  { url, agent, secret }: ByteLine,
): ReturnType<typeof httpRequest> {
  const path = `/blobs/${hex(blob.id)}/${hex(blob.incarnation)}`
  const range = `bytes=${start}-${end - 1}`
  return httpRequest(url + path, {
    agent,
    headers: {
      range,
      authorization: secret.prove({ method: 'GET', path, content: range }),
      ...clientRequestHeaders(),
    },
  })
}

/**
 * A small range in one piece.
 * @returns undefined when the node sends it in several: use `readBytes`.
 */
export function readSmall(
  blob: BlobName,
  range: { start: number; end: number },
  line: ByteLine,
): Promise<Buffer | undefined> {
  const request = requestFor(blob, range, line)
  const release = line.beginStream(() => request.destroy(new BlobFault('CLOSED', 'the store is closed')))
  request.setTimeout(line.progressTimeoutMs, () =>
    request.destroy(
      new BlobFault('UNAVAILABLE', `${line.node} sent nothing for ${line.progressTimeoutMs} ms`),
    ),
  )
  return new Promise<Buffer | undefined>((resolve, reject) => {
    const fail = (error: Error) =>
      reject(
        error instanceof BlobFault
          ? error
          : new BlobFault('UNAVAILABLE', `${line.node}: ${error.message}`, { cause: error }),
      )
    request.on('error', fail)
    request.on('response', (response) => {
      const bytes = Buffer.allocUnsafeSlow(range.end - range.start)
      const { [crcKey]: sum, 'content-length': length } = response.headers
      if (response.statusCode !== 200) {
        faultOfAnswer(line.node, response, range.end).then(reject, fail)
        return
      }
      if (sum === undefined || Number(length) !== bytes.length) {
        request.destroy()
        resolve(undefined)
        return
      }
      let at = 0
      response.on('data', (piece: Buffer) => {
        at += piece.copy(bytes, at)
      })
      response.on('error', fail)
      response.on('end', () => {
        if (at === bytes.length && String(crc32(bytes)) === sum) resolve(bytes)
        else fail(new BlobFault('UNAVAILABLE', `the bytes from ${line.node} changed on their way`))
      })
    })
    request.end()
  }).finally(release)
}

/** Bytes of many small copies, as far as they are in memory. */
export async function readCopies(
  copies: readonly BlobInfo[],
  line: ByteLine,
): Promise<(Uint8Array | undefined)[]> {
  const names = namesOf(copies)
  const content = digestOfNames(names)
  const request = httpRequest(`${line.url}/blobs`, {
    agent: line.agent,
    method: 'POST',
    headers: {
      authorization: line.secret.prove({ method: 'POST', path: '/blobs', content }),
      [batchKey]: content,
      'content-length': names.length,
    },
  })
  const release = line.beginStream(() => request.destroy(new BlobFault('CLOSED', 'the store is closed')))
  request.setTimeout(line.progressTimeoutMs, () =>
    request.destroy(
      new BlobFault('UNAVAILABLE', `${line.node} sent nothing for ${line.progressTimeoutMs} ms`),
    ),
  )
  try {
    const response = await responseTo(request, names)
    if (response.statusCode !== 200) throw await faultOfAnswer(line.node, response)
    const pieces: Buffer[] = []
    let length = 0
    for await (const piece of response as AsyncIterable<Buffer>) {
      length += piece.length
      if (length > batchBytesMax + 8 * copies.length) break
      pieces.push(piece)
    }
    return batchOf(Buffer.concat(pieces), copies)
  } catch (error) {
    if (error instanceof BlobFault) throw error
    throw new BlobFault('UNAVAILABLE', `${line.node}: ${(error as Error).message}`, { cause: error })
  } finally {
    if (!request.destroyed) request.destroy()
    release()
  }
}

export function responseTo(
  request: ReturnType<typeof httpRequest>,
  body?: Uint8Array,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', reject)
    request.end(body)
  })
}

/** More than any JSON answer has. */
const answerBytesMax = 4096

export async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const bytes of response as AsyncIterable<Buffer>) {
    text += bytes.toString('utf8')
    if (text.length > answerBytesMax) throw new BlobFault('UNAVAILABLE', 'the answer has no end')
  }
  return text
}

/** The longest explanation that is read. */
const messageBytesMax = 4096

/** Maps a status to a fault; the connection ends. */
export async function faultOfAnswer(
  node: string,
  response: IncomingMessage,
  end = 0,
): Promise<BlobFault | RangeError> {
  let text = ''
  try {
    for await (const bytes of response as AsyncIterable<Buffer>) {
      text += bytes.toString('utf8')
      if (text.length > messageBytesMax) break
    }
  } catch {
    // The header already named the fault.
  }
  const { statusCode = 0, headers } = response
  if (statusCode === 416)
    return new RangeError(`bytes up to ${end} of a blob with ${headers['content-range']}`)
  const message = `${node}: ${statusCode} ${text}`
  const code = statusCode === 401 ? 'INVALID' : 'UNAVAILABLE'
  return namedFault(headers[faultKey], message) ?? new BlobFault(code, message)
}

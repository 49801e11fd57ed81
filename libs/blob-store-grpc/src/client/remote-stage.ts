/**
 * An upload to a node: one PUT whose body grows as bytes are written, then a commit by its name.
 */

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import {
  BlobFault,
  type BlobInfo,
  type PlacedCommit,
  type PlacedStage,
  releaseBuffer,
  type SealedContent,
} from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import { clientRequestHeaders } from '../client-requests.ts'
import { sentContent } from '../cluster-secret.ts'
import { proofKey } from '../server/byte-routes.ts'
import { type ByteLine, faultOfAnswer, textOf } from './remote-bytes.ts'

export interface RemoteStageDeps extends ByteLine {
  /** From the last byte to the answer, ms. */
  sealTimeoutMs: number
  commit(options: PlacedCommit): Promise<BlobInfo>
  abort(): Promise<void>
  ended(stage: RemoteStage): void
}

/**
 * Bytes that may wait for the socket before `write` waits: about what a fast line takes in a
 * millisecond.
 */
const bufferedBytesMax = 1024 * 1024

export class RemoteStage implements PlacedStage {
  readonly uploadId: Uint8Array
  readonly #deps: RemoteStageDeps
  readonly #requestHeaders = clientRequestHeaders()
  #request: ClientRequest | undefined
  /** The node's answer about the bytes; a refusal may come before their end. */
  #outcome: Promise<SealedContent> | undefined
  #release: () => void = () => {}
  #fault: BlobFault | undefined
  #state: 'open' | 'sealed' | 'ended' = 'open'
  #sealed: Promise<SealedContent> | undefined
  #committed: Promise<BlobInfo> | undefined
  #crc32 = 0
  #room: { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } | undefined
  /** Accepted from the caller; 0 once it has ended. */
  bytesWritten = 0

  constructor(uploadId: Uint8Array, deps: RemoteStageDeps) {
    this.uploadId = uploadId
    this.#deps = deps
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#fault !== undefined) throw this.#fault
    if (this.#state !== 'open') throw new BlobFault('CLOSED', 'the upload has ended')
    const request = this.#connected()
    this.bytesWritten += bytes.length
    this.#crc32 = crc32(bytes, this.#crc32)
    if (bytes.length > 0) this.#send(Buffer.from(bytes), request)
    if (request.writableLength <= bufferedBytesMax) return undefined
    this.#room ??= Promise.withResolvers<void>()
    return this.#room.promise
  }

  seal(): Promise<SealedContent> {
    this.#sealed ??= this.#seal()
    return this.#sealed
  }

  commit(options: PlacedCommit): Promise<BlobInfo> {
    this.#committed ??= this.#commit(options)
    return this.#committed
  }

  async abort(): Promise<void> {
    if (this.#state === 'ended' || this.#committed !== undefined) return
    const fault = new BlobFault('CLOSED', 'the upload was aborted')
    this.#lose(fault)
    await this.#deps.abort().catch(() => {}) // an unreachable node removes it later
  }

  #connected(): ClientRequest {
    if (this.#request !== undefined) return this.#request
    const { node, url, agent, secret, progressTimeoutMs } = this.#deps
    const path = this.#path
    const request = httpRequest(url + path, {
      agent,
      method: 'PUT',
      headers: {
        authorization: secret.prove({ method: 'PUT', path }),
        'transfer-encoding': 'chunked',
        trailer: proofKey,
        ...this.#requestHeaders,
      },
    })
    this.#request = request
    this.#release = this.#deps.beginStream(() =>
      request.destroy(new BlobFault('CLOSED', 'the store is closed')),
    )
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve)
      request.on('error', (error) => reject(faultOfLine(node, error)))
      request.once('close', () => reject(new BlobFault('UNAVAILABLE', `${node} closed the connection`)))
    })
    this.#outcome = response.then((response) => this.#answered(response))
    this.#outcome.catch((error: Error) => this.#lose(faultOfLine(node, error)))
    // Silence counts only while bytes wait: a client may take hours for its upload.
    request.setTimeout(progressTimeoutMs, () => {
      if (request.writableLength > 0)
        this.#lose(new BlobFault('UNAVAILABLE', `${node} accepted nothing for ${progressTimeoutMs} ms`))
    })
    return request
  }

  get #path(): string {
    return `/stages/${hex(this.uploadId)}`
  }

  #send(copy: Buffer, request: ClientRequest): void {
    request.write(copy, () => {
      releaseBuffer(copy)
      this.#taken(request)
    })
  }

  #taken(request: ClientRequest): void {
    if (this.#room === undefined || request.writableLength > bufferedBytesMax / 2) return
    this.#room.resolve()
    this.#room = undefined
  }

  async #seal(): Promise<SealedContent> {
    if (this.#fault !== undefined) throw this.#fault
    if (this.#state !== 'open') throw new BlobFault('CLOSED', 'the upload has ended')
    const request = this.#connected()
    this.#state = 'sealed'
    const { node, secret, sealTimeoutMs } = this.#deps
    const patience = setTimeout(() => {
      request.destroy(new BlobFault('UNAVAILABLE', `${node} did not accept all bytes in ${sealTimeoutMs} ms`))
    }, sealTimeoutMs)
    try {
      const content = sentContent({ size: this.bytesWritten, crc32: this.#crc32 })
      request.addTrailers({ [proofKey]: secret.prove({ method: 'PUT', path: this.#path, content }) })
      request.end()
      return await (this.#outcome as Promise<SealedContent>)
    } catch (error) {
      const fault = faultOfLine(node, error as Error)
      this.#lose(fault)
      void this.#deps.abort().catch(() => {})
      throw this.#fault ?? fault
    } finally {
      clearTimeout(patience)
      this.#release()
    }
  }

  async #answered(response: IncomingMessage): Promise<SealedContent> {
    const { node } = this.#deps
    if (response.statusCode !== 200) throw await faultOfAnswer(node, response)
    const sealed = sealedOf(JSON.parse(await textOf(response)))
    if (this.#state !== 'sealed') throw new BlobFault('UNAVAILABLE', `${node} answered before the end`)
    if (sealed.size !== this.bytesWritten || sealed.crc32 !== this.#crc32)
      throw new BlobFault('CORRUPT', `the bytes changed on their way to ${node}`)
    return sealed
  }

  async #commit(options: PlacedCommit): Promise<BlobInfo> {
    await this.seal()
    try {
      const info = await this.#deps.commit(options)
      this.#end()
      return info
    } catch (error) {
      this.#lose(error as BlobFault)
      throw error
    }
  }

  #lose(fault: BlobFault): void {
    if (this.#state === 'ended') return
    this.#fault ??= fault
    this.#room?.promise.catch(() => {})
    this.#room?.reject(this.#fault)
    this.#room = undefined
    this.#request?.destroy(this.#fault)
    this.#end()
  }

  #end(): void {
    this.#state = 'ended'
    this.bytesWritten = 0
    this.#release()
    this.#deps.ended(this)
  }
}

function faultOfLine(node: string, error: Error): BlobFault {
  return error instanceof BlobFault
    ? error
    : new BlobFault('UNAVAILABLE', `${node}: ${error.message}`, { cause: error })
}

function sealedOf(answer: unknown): SealedContent {
  const { id, size, crc32 } = answer as { id?: unknown; size?: unknown; crc32?: unknown }
  const whole =
    typeof id === 'string' &&
    /^[0-9a-f]{96}$/.test(id) &&
    Number.isSafeInteger(size) &&
    Number.isInteger(crc32)
  if (!whole) throw new BlobFault('UNAVAILABLE', 'the answer to an upload cannot be read')
  return { id: Buffer.from(id, 'hex'), size: size as number, crc32: crc32 as number }
}

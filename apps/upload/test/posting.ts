/** Uploads as a client sends them, to a service in this process. */
import { type EventEmitter, once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { OneProcess, type OneProcessOptions } from '../../../test/support/one-process.ts'

export const boundary = 'xXxBOUNDARYxXx'

export const formType = `multipart/form-data; boundary=${boundary}`

export type Piece = [name: string, value: string | Buffer, fileName?: string, type?: string]

export function form(...pieces: Piece[]): Buffer {
  const parts = pieces.flatMap(([name, value, fileName, type]) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${fileName === undefined ? '' : `; filename="${fileName}"`}\r\n` +
        `${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`,
    ),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

interface Answer {
  code: number
  status: string
  // biome-ignore lint/suspicious/noExplicitAny: the tests inspect answers
  data: any
  headers: IncomingMessage['headers']
}

export async function post(
  process: OneProcess,
  body: Buffer | string | AsyncIterable<Buffer>,
  { path = '/uploadfile', headers = {} }: { path?: string; headers?: OutgoingHttpHeaders } = {},
): Promise<Answer> {
  const outgoing = request({
    port: process.uploadPort,
    method: 'POST',
    path,
    headers: { 'content-type': formType, connection: 'close', ...headers },
  })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  answered.catch(() => undefined)
  if (typeof body === 'string' || Buffer.isBuffer(body)) outgoing.end(body)
  else {
    let done = false
    outgoing.once('response', () => {
      done = true
    })
    outgoing.on('error', () => {})
    for await (const chunk of body) {
      if (done) break
      if (!outgoing.write(chunk)) await eitherOf(outgoing, 'drain', 'response', 'close')
    }
    outgoing.end()
  }
  const [response] = await answered
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const json = JSON.parse(Buffer.concat(chunks).toString())
  return { code: response.statusCode ?? 0, status: json.status, data: json.data, headers: response.headers }
}

/** Resolves with the first of these events; ignores errors. */
export function eitherOf(emitter: EventEmitter, ...names: string[]): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const name of names) emitter.off(name, done)
      resolve()
    }
    for (const name of names) emitter.on(name, done)
  })
}

export async function start(t: Test, options?: OneProcessOptions): Promise<OneProcess> {
  const process = await OneProcess.start(options)
  t.teardown(() => process.close())
  return process
}

/** Nothing is staged and this many blobs exist; waits for cleanups. */
export async function holds(t: Test, process: OneProcess, blobs: number, why: string): Promise<void> {
  for (let turn = 0; turn < 200 && (await process.blobs.usage()).openStages > 0; turn++) await delay(10)
  const usage = await process.blobs.usage()
  t.same([usage.openStages, usage.blobs], [0, blobs], why)
}

/** A form with these fields and then a file that does not end while a reader listens. */
export async function* endless(...fields: Piece[]): AsyncGenerator<Buffer> {
  const whole = form(...fields, ['file', '@@', 'endless'])
  yield whole.subarray(0, whole.indexOf('@@'))
  for (let sent = 0; sent < 500; sent++) yield Buffer.alloc(64 * 1024, 1)
}

export async function raw(
  process: OneProcess,
  ...pieces: (string | Buffer)[]
): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(process.uploadPort, '127.0.0.1')
  socket.on('error', () => {})
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  for (const piece of pieces) socket.write(piece)
  return { socket, text: () => text }
}

export function head(length: number, more = ''): string {
  return `POST /uploadfile HTTP/1.1\r\nHost: x\r\nContent-Type: ${formType}\r\nContent-Length: ${length}\r\n${more}\r\n`
}

/** Resolves when this number of bytes of running uploads have arrived. */
export async function received(process: OneProcess, bytes: number): Promise<void> {
  while ((await process.metric('holdfast_uploads_in_flight_bytes')) < bytes) await delay(5)
}

export const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

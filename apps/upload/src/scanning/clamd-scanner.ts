/**
 * clamd of ClamAV, over its socket: a connection for each scan.
 *
 * The client sends `zINSTREAM\0`, then pieces, each behind its length (4 bytes, big-endian), and a
 * length of 0. clamd answers `stream: OK\0`, `stream: <name> FOUND\0` or `<words> ERROR\0`. It may
 * answer, and close, before it has all of it: `StreamMaxLength` is one reason.
 */
import { connect, type Socket } from 'node:net'
import { inWords, ScanFault, type Scanner, type Verdict, wordsMax } from './scanner.ts'

export type ClamdAddress = { path: string } | { host: string; port: number }

const command = Buffer.from('zINSTREAM\0')
const lengthBytes = 4
/** The name of a file in the answer is always `stream`. */
const answerBytesMax = 4 * wordsMax

export class ClamdScanner implements Scanner {
  readonly name: string
  readonly #address: ClamdAddress

  constructor(address: ClamdAddress) {
    this.#address = address
    this.name = `clamd ${'path' in address ? address.path : `${address.host}:${address.port}`}`
  }

  async scan(content: AsyncIterable<Uint8Array>, { signal }: { signal: AbortSignal }): Promise<Verdict> {
    signal.throwIfAborted()
    const socket = connect(this.#address)
    const stop = () => socket.destroy(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
    const answer = answerOf(socket)
    const sending = send(socket, content)
    try {
      return verdictOf(await answer)
    } catch (error) {
      if (error instanceof ScanFault || !isOfSocket(error)) throw error
      throw new ScanFault(`${this.name}: ${faultInWords(error as NodeJS.ErrnoException)}`, { cause: error })
    } finally {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      await sending
    }
  }
}

/** Never rejects: an error of the content is passed to the caller that waits for the answer. */
async function send(socket: Socket, content: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    await written(socket, command)
    for await (const piece of content) {
      if (piece.length === 0) continue
      const length = Buffer.alloc(lengthBytes)
      length.writeUInt32BE(piece.length)
      socket.write(length)
      await written(socket, piece)
    }
    await written(socket, Buffer.alloc(lengthBytes))
  } catch (error) {
    // After an early answer clamd takes no more. The answer is there, or the socket says why not.
    if (!isOfSocket(error)) socket.destroy(error as Error)
  }
}

/** The piece may be reused when it resolves. */
function written(socket: Socket, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => {
      if (error) reject(error)
      else resolve()
    })
  })
}

function answerOf(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let bytes = 0
    const end = () => resolve(inWords(Buffer.concat(pieces)))
    socket.on('data', (piece) => {
      pieces.push(piece)
      bytes += piece.length
      if (piece.includes(0) || bytes > answerBytesMax) end()
    })
    // The connection may break while content is sent that clamd does not want: the answer counts.
    socket.on('error', (error) => (bytes > 0 ? end() : reject(error)))
    socket.on('close', end)
  })
}

function verdictOf(answer: string): Verdict {
  if (answer === 'stream: OK') return { isClean: true }
  const [, found] = /^stream: (.+) FOUND$/.exec(answer) ?? []
  if (found !== undefined) return { isClean: false, found }
  if (answer === '') throw new ScanFault('clamd closed the connection without an answer')
  throw new ScanFault(
    answer.includes('size limit exceeded')
      ? 'clamd takes no content of this size: its StreamMaxLength is below HOLDFAST_SCAN_MAX_BYTES'
      : `clamd answers: ${answer}`,
  )
}

/** A connection that clamd closes while it is sent content may lose the answer that says why. */
function faultInWords({ code = '', message }: NodeJS.ErrnoException): string {
  return ['EPIPE', 'ECONNRESET'].includes(code)
    ? `closed the connection while content was sent (${code}): StreamMaxLength may be below HOLDFAST_SCAN_MAX_BYTES`
    : message
}

function isOfSocket(error: unknown): boolean {
  const { code, syscall } = error as { code?: string; syscall?: string }
  return (
    ['connect', 'read', 'write'].includes(syscall ?? '') ||
    ['ERR_STREAM_DESTROYED', 'ERR_STREAM_WRITE_AFTER_END', 'EPIPE', 'ECONNRESET'].includes(code ?? '')
  )
}

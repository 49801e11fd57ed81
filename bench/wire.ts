/**
 * One HTTP/1.1 connection driven by hand: requests are written as prepared buffers, answers are counted and thrown away.
 * The load generator shares the machine with what it measures, so it must cost little: no streams, no header objects.
 */
import { connect, type Socket } from 'node:net'

export interface Answer {
  status: number
  /** Bytes of the body. */
  bytes: number
  /** The body itself, when it was asked for. */
  body: Buffer | undefined
  headers: string
}

export class Wire {
  readonly #socket: Socket
  #waiting: { resolve(answer: Answer): void; reject(error: Error): void; keep: boolean } | undefined
  #head: Buffer[] = []
  #headBytes = 0
  #answer: Answer | undefined
  #left = 0
  #chunked = false
  #parts: Buffer[] = []
  #drained: (() => void) | undefined
  #failure: Error | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (bytes) => this.#take(bytes))
    socket.on('drain', () => this.#drained?.())
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection closed')))
  }

  static async open(url: URL): Promise<Wire> {
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', reject)
    })
    return new Wire(socket)
  }

  /** Sends head and body pieces with backpressure; resolves with the whole answer. One request at a time. */
  async request(pieces: Iterable<Uint8Array>, options: { keepBody?: boolean } = {}): Promise<Answer> {
    if (this.#failure) throw this.#failure
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#waiting = { resolve, reject, keep: options.keepBody ?? false }
    })
    answer.catch(() => undefined)
    for (const piece of pieces) {
      if (this.#failure) break
      if (!this.#socket.write(piece))
        await new Promise<void>((resolve) => {
          this.#drained = resolve
        })
    }
    return answer
  }

  close(): void {
    this.#waiting = undefined
    this.#socket.destroy()
  }

  #take(bytes: Buffer): void {
    let rest = bytes
    if (!this.#answer) {
      this.#head.push(rest)
      this.#headBytes += rest.length
      const all = this.#head.length === 1 ? rest : Buffer.concat(this.#head, this.#headBytes)
      const end = all.indexOf('\r\n\r\n')
      if (end < 0) return
      this.#head = []
      this.#headBytes = 0
      const headers = all.toString('latin1', 0, end)
      const length = /\r\ncontent-length: *(\d+)/i.exec(headers)
      this.#chunked = !length && /\r\ntransfer-encoding: *chunked/i.test(headers)
      this.#left = length ? Number(length[1]) : 0
      this.#answer = { status: Number(headers.slice(9, 12)), bytes: 0, body: undefined, headers }
      rest = all.subarray(end + 4)
    }
    this.#answer.bytes += rest.length
    this.#left -= rest.length
    if (this.#waiting?.keep) this.#parts.push(rest)
    if (this.#chunked ? rest.subarray(-5).equals(lastChunk) : this.#left <= 0) this.#finish()
  }

  #finish(): void {
    const answer = this.#answer
    const waiting = this.#waiting
    if (!answer || !waiting) return
    if (waiting.keep) answer.body = Buffer.concat(this.#parts)
    this.#parts = []
    this.#answer = undefined
    this.#waiting = undefined
    waiting.resolve(answer)
  }

  #fail(error: Error): void {
    this.#failure ??= error
    this.#drained?.()
    this.#waiting?.reject(error)
    this.#waiting = undefined
  }
}

const lastChunk = Buffer.from('0\r\n\r\n')

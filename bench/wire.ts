/**
 * One HTTP/1.1 connection driven by hand: requests are written as prepared buffers, answers are
 * counted and discarded. The load generator shares the machine with the service, so it must be
 * cheap: no streams, no header objects.
 */
import { connect, type Socket } from 'node:net'

export interface Answer {
  status: number
  /** Bytes of the body. */
  bytes: number
}

const nothing = Buffer.alloc(0)
const lastChunk = Buffer.from('0\r\n\r\n')

/** All connections read into this: it stays in the processor's cache, and no chunk allocates. */
const received = Buffer.allocUnsafeSlow(256 * 1024)

export class Wire {
  readonly #socket: Socket
  #waiting: { resolve(answer: Answer): void; reject(error: Error): void } | undefined
  /** The bytes of an answer with an incomplete head. */
  #head: Buffer = nothing
  /** The last bytes so far of an answer in chunks. */
  #end: Buffer = nothing
  #answer: Answer | undefined
  #left = 0
  #chunked = false
  #drained: (() => void) | undefined
  #failure: Error | undefined

  private constructor(url: URL) {
    const onread = {
      buffer: received,
      callback: (length: number) => {
        this.#take(received.subarray(0, length))
        return true
      },
    }
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true, onread })
    this.#socket = socket
    socket.on('drain', () => this.#drained?.())
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection closed')))
  }

  static async open(url: URL): Promise<Wire> {
    const wire = new Wire(url)
    await new Promise<void>((resolve, reject) => {
      wire.#socket.once('connect', resolve)
      wire.#socket.once('error', reject)
    })
    return wire
  }

  /**
   * Sends head and body pieces with backpressure; resolves with the whole answer. One request at a
   * time.
   */
  async request(pieces: Iterable<Uint8Array>): Promise<Answer> {
    if (this.#failure) throw this.#failure
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#waiting = { resolve, reject }
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
      const all = this.#head.length === 0 ? rest : Buffer.concat([this.#head, rest])
      const end = all.indexOf('\r\n\r\n')
      if (end < 0) {
        this.#head = Buffer.from(all)
        return
      }
      this.#head = nothing
      this.#end = nothing
      const headers = all.toString('latin1', 0, end)
      const length = /\r\ncontent-length: *(\d+)/i.exec(headers)
      this.#chunked = !length && /\r\ntransfer-encoding: *chunked/i.test(headers)
      this.#left = length ? Number(length[1]) : 0
      this.#answer = { status: Number(headers.slice(9, 12)), bytes: 0 }
      rest = all.subarray(end + 4)
    }
    this.#answer.bytes += rest.length
    this.#left -= rest.length
    if (this.#chunked) this.#end = Buffer.concat([this.#end, rest.subarray(-5)]).subarray(-5)
    if (this.#chunked ? this.#end.equals(lastChunk) : this.#left <= 0) this.#finish()
  }

  #finish(): void {
    const answer = this.#answer
    const waiting = this.#waiting
    if (!answer || !waiting) return
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

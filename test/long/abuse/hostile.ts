/**
 * Building blocks of attack programs: raw sockets that ignore every error, and counts. The
 * generator shares the machine with the service, so nothing here parses more than the first line of
 * an answer.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'
import type { AttackInput, Listener, Target } from './attack.ts'

export interface OpenOptions {
  /** Local address; several addresses look like several clients. */
  from?: string
  /**
   * `count` reads everything and counts status codes, `drop` reads everything, `none` never reads,
   * `byte` reads one byte for each `resume`.
   */
  answers?: 'count' | 'drop' | 'none' | 'byte'
}

export class HostileClient {
  readonly target: Target
  readonly prepared: AttackInput
  readonly signal: AbortSignal
  inputs = 0
  connections = 0
  readonly tally: Record<string, number> = {}
  readonly #open = new Set<Socket>()

  constructor(target: Target, prepared: AttackInput, signal: AbortSignal) {
    this.target = target
    this.prepared = prepared
    this.signal = signal
    signal.addEventListener('abort', () => {
      for (const socket of this.#open) socket.resetAndDestroy()
    })
  }

  get on(): boolean {
    return !this.signal.aborted
  }

  /** Hostile inputs sent: requests, forms, or connections where nothing else is sent. */
  sent(count = 1): void {
    this.inputs += count
  }

  count(name: string, by = 1): void {
    this.tally[name] = (this.tally[name] ?? 0) + by
  }

  /** Resolves at the latest when the attack ends. */
  async pause(ms: number): Promise<void> {
    await after(ms, undefined, { signal: this.signal }).catch(() => {})
  }

  /** Runs several of the same at a time, each repeatedly until the attack ends. */
  async each(count: number, turn: (number: number) => Promise<void>): Promise<void> {
    await Promise.all(
      Array.from({ length: count }, async (_, number) => {
        while (this.on) await turn(number)
      }),
    )
  }

  connect(listener: Listener, { from, answers = 'count' }: OpenOptions = {}): Socket {
    const v6 = from?.includes(':')
    const socket = connect({
      host: v6 ? '::1' : '127.0.0.1',
      port: this.target.ports[listener],
      ...(from === undefined ? {} : { localAddress: from }),
      ...(answers === 'byte' ? { onread: { buffer: new Uint8Array(1), callback: () => false } } : {}),
    })
    this.connections++
    this.#open.add(socket)
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // Failures after the end of the attack say nothing about the service.
      if (this.on) this.count(error.code ?? 'error')
    })
    socket.once('close', () => this.#open.delete(socket))
    if (answers === 'none') socket.pause()
    else if (answers === 'byte') return socket
    else if (answers === 'drop') socket.resume()
    else
      socket.on('data', (chunk: Buffer) => {
        for (const [, code = ''] of chunk.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3})/g)) this.count(code)
      })
    return socket
  }

  /**
   * Writes and waits until the system has accepted it; false when the connection is closed or the
   * attack is over.
   */
  write(socket: Socket, bytes: string | Buffer): Promise<boolean> {
    if (!this.on || socket.destroyed) return Promise.resolve(false)
    return new Promise((resolve) => {
      const done = () => {
        socket.off('close', done)
        resolve(!socket.destroyed)
      }
      socket.once('close', done)
      socket.write(bytes, done)
    })
  }

  /**
   * Reads one answer of a connection that does not read by itself, and counts its status code;
   * false when the connection is closed or the attack is over.
   */
  answered(socket: Socket): Promise<boolean> {
    return new Promise((resolve) => {
      const answer = new AnswerEnd()
      const end = () => {
        socket.off('data', read)
        socket.off('close', end)
        socket.pause()
        if (answer.code !== undefined) this.count(answer.code)
        resolve(this.on && !socket.destroyed)
      }
      const read = (chunk: Buffer) => {
        if (answer.endsWith(chunk)) end()
      }
      if (socket.destroyed) return end()
      socket.on('data', read)
      socket.once('close', end)
      socket.resume()
    })
  }

  /**
   * Reads until this number of answers has begun, of a connection that does not read by itself.
   * False when it is closed or the attack is over.
   */
  allAnswered(socket: Socket, count: number): Promise<boolean> {
    return new Promise((resolve) => {
      let left = count
      let tail = ''
      const end = () => {
        socket.off('data', read)
        socket.off('close', end)
        socket.pause()
        resolve(this.on && !socket.destroyed)
      }
      const read = (chunk: Buffer) => {
        const text = tail + chunk.toString('latin1')
        for (const [, code = ''] of text.matchAll(/HTTP\/1\.1 (\d{3})/g)) {
          this.count(code)
          left--
        }
        // One character less than is counted: it may be in two chunks.
        tail = text.slice(-11)
        if (left <= 0) end()
      }
      if (socket.destroyed) return end()
      socket.on('data', read)
      socket.once('close', end)
      socket.resume()
    })
  }

  /** Waits for the other side to close. */
  closed(socket: Socket, withinMs = 1_000): Promise<void> {
    if (socket.destroyed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        socket.off('close', done)
        socket.destroy()
        resolve()
      }
      const timer = setTimeout(done, withinMs)
      socket.once('close', done)
    })
  }

  /** Sends one text on a new connection, and waits for the end. */
  async once(listener: Listener, bytes: string | Buffer, opening: OpenOptions = {}): Promise<void> {
    const socket = this.connect(listener, opening)
    this.sent()
    await this.write(socket, bytes)
    socket.end()
    await this.closed(socket)
    // A server that refuses at once must not make the generator spin.
    await this.pause(5)
  }

  /**
   * Keeps this many connections open. One that the server closes is opened again after a second.
   * @param opened called with each new connection
   */
  async hold(
    count: number,
    open: (number: number) => Socket,
    opened: (socket: Socket, number: number) => void = () => {},
  ): Promise<void> {
    await this.each(count, async (number) => {
      // Not all at once: the backlog of a listener is a bound too.
      await this.pause(number % 1_000)
      if (!this.on) return
      const socket = open(number)
      this.sent()
      opened(socket, number)
      await this.closed(socket, 600_000)
      await this.pause(1_000)
    })
  }
}

const headEnd = '\r\n\r\n'
const lastChunk = '0\r\n\r\n'

/** Finds where an answer of JSON ends, which has no line breaks. */
class AnswerEnd {
  code: string | undefined
  #head = ''
  /** Undefined: in chunks. */
  #missing: number | undefined
  #last = ''

  /** @returns whether the answer is complete with this chunk */
  endsWith(chunk: Buffer): boolean {
    let bytes = chunk.length
    if (this.code === undefined) {
      this.#head += chunk.toString('latin1')
      const at = this.#head.indexOf(headEnd)
      if (at < 0) return false
      this.code = this.#head.slice(9, 12)
      const length = /content-length: (\d+)/i.exec(this.#head.slice(0, at))?.[1]
      this.#missing = length === undefined ? undefined : Number(length)
      bytes = this.#head.length - at - headEnd.length
    }
    if (this.#missing !== undefined) {
      this.#missing -= bytes
      return this.#missing <= 0
    }
    this.#last = (this.#last + chunk.toString('latin1', chunk.length - lastChunk.length)).slice(
      -lastChunk.length,
    )
    return this.#last === lastChunk
  }
}

/** The n-th hostile address of a group; groups share no /16. */
export function address(group: number, number = 0): string {
  const host = number + 1
  return `127.${100 + group}.${host >> 8}.${host & 255}`
}

export interface Request {
  method?: string
  headers?: readonly string[]
  body?: string | Buffer
  close?: boolean
}

export function request(path: string, { method = 'GET', headers = [], body, close }: Request = {}): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: holdfast.test', ...headers]
  if (close) lines.push('Connection: close')
  if (body !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body)}`)
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`
}

export function json(path: string, body: string, token?: string, method = 'POST'): string {
  const headers = ['Content-Type: application/json']
  if (token !== undefined) headers.push(`Authorization: Bearer ${token}`)
  return request(path, { method, headers, body })
}

export const formBoundary = 'hostile-0123456789'

/** The head of a form upload. @param bytes of the body; undefined: chunked */
export function formHead(path: string, { bytes, token }: { bytes?: number; token?: string } = {}): string {
  return request(path, {
    method: 'POST',
    headers: [
      `Content-Type: multipart/form-data; boundary=${formBoundary}`,
      bytes === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes}`,
      ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ],
  })
}

export const filePartHead = `--${formBoundary}\r\nContent-Disposition: form-data; name="file"; filename="hostile"\r\n\r\n`
export const formTail = `\r\n--${formBoundary}--\r\n`

/**
 * One connection of a listener: whose it is, its requests, and how fast its client sends or takes.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { isReadingPaused } from '../reading/unknown-length.ts'
import type { WaitingConnection } from './accept-waiting.ts'
import { confirmedBytes } from './confirmed-bytes.ts'

/** The pace of a request is not known before. */
const youngMs = 2_000
/** Pace is measured over this long, and up to twice as long. */
const windowMs = 5_000
/**
 * A tenth of a poor mobile connection: a full listener closes a slower request even if its network
 * has no other.
 */
export const slowBytesPerSecond = 4 * 1024
/** From the first measurement on, which includes what the peer's system accepted at once. */
export const stalledMs = 500
/** A reader that takes less in `stalledMs` is below that pace. */
const progressBytes = (slowBytesPerSecond * stalledMs) / 1_000

/** Connections of one network: its own, or those on which proxies ask for it now. */
export interface ConnectionHolder {
  name: string
  open: Set<Connection>
}

export interface Network extends ConnectionHolder {
  /** Those that have never sent a whole request head, the oldest first. */
  silent: Set<Connection>
  /** The peer is a proxy: its connections carry other clients. */
  isProxy: boolean
}

const heldBy = Symbol('connection')
export type HeldSocket = Socket & { [heldBy]?: Connection }

/** Undefined: it was refused. */
export function connectionOf(socket: Socket | null): Connection | undefined {
  return (socket as HeldSocket | null)?.[heldBy]
}

/** Bytes that reached a socket past Node, which does not count them. */
export function notePassed(socket: Socket | null, bytes: number): void {
  const connection = connectionOf(socket)
  if (connection !== undefined) connection.passedBytes += bytes
}

export interface ConnectionOwner {
  /** The answer of its running request has ended, whole or not. */
  answered(connection: Connection): void
}

export class Connection {
  readonly owner: ConnectionOwner
  readonly network: Network
  readonly ahead: ServerResponse[] = []
  aheadBytes = 0
  passedBytes = 0
  running: ServerResponse | undefined
  /** Monotonic time at which it was opened, its running request began, or its last answer ended. */
  sinceMs: number
  /** The network of the client behind a proxy whose request runs. */
  client: ConnectionHolder | undefined
  site: ConnectionHolder | undefined
  /** Node reads its requests. */
  isServed = false
  /** Its first read is being parsed and may be more requests than it may send. */
  isCounting = false
  /** Its first bytes are parsed in this turn of the loop, in the turn of small pieces. */
  isBeingParsed = false
  #waiting: WaitingConnection | undefined
  #socket: HeldSocket | undefined
  /** The connection itself: below TLS, if its requests come in that. */
  #carrier: Socket | undefined
  /** The previous window's: a window that has just begun says nothing. */
  #earlierMs: number
  #earlierBytes = 0
  #windowMs: number
  #windowBytes = 0
  /**
   * How much the reader had received when it last received something, and when; undefined: not
   * measured yet.
   */
  #taken: { bytes: number; atMs: number } | undefined

  constructor(
    owner: ConnectionOwner,
    { waiting, network, nowMs }: { waiting: WaitingConnection | undefined; network: Network; nowMs: number },
  ) {
    this.owner = owner
    this.#waiting = waiting
    this.network = network
    this.sinceMs = nowMs
    this.#earlierMs = nowMs
    this.#windowMs = nowMs
  }

  /** Undefined when it has a socket, or was closed before. */
  get waiting(): WaitingConnection | undefined {
    return this.#waiting
  }

  /** It has one once it is served. */
  get socket(): HeldSocket {
    return this.#socket as HeldSocket
  }

  took(socket: HeldSocket): void {
    this.#waiting = undefined
    this.#socket = socket
    this.#carrier = socket
    socket[heldBy] = this
  }

  /** Its requests come from this socket, which ends with the one that it has. */
  tookSecure(socket: TLSSocket & HeldSocket): void {
    this.#socket = socket
    socket[heldBy] = this
  }

  get isSecure(): boolean {
    return this.#socket !== this.#carrier
  }

  /** Closes it without the bytes that its reader has not received. */
  reset(): void {
    this.#carrier?.resetAndDestroy()
  }

  close(): void {
    this.#socket?.destroy()
    this.#waiting?.refuse('')
    this.#waiting = undefined
  }

  /** The client's network, as far as it is known. */
  get networkName(): string {
    return this.client?.name ?? this.network.name
  }

  /** Earlier requests on a connection say nothing about the pace of this one. */
  begin(response: ServerResponse, nowMs: number): void {
    this.running = response
    this.sinceMs = nowMs
    this.#windowMs = nowMs
    this.#windowBytes = this.#bytes
    this.#earlierMs = nowMs
    this.#earlierBytes = this.#windowBytes
    this.#taken = undefined
  }

  look(nowMs: number): void {
    this.#lookAtReader(nowMs)
    if (nowMs - this.#windowMs < windowMs) return
    this.#earlierMs = this.#windowMs
    this.#earlierBytes = this.#windowBytes
    this.#windowMs = nowMs
    this.#windowBytes = this.#bytes
  }

  /** Recent bytes per millisecond; infinite while unknown. */
  pace(nowMs: number): number {
    if (nowMs - this.sinceMs < youngMs) return Number.POSITIVE_INFINITY
    return (this.#bytes - this.#earlierBytes) / Math.max(1, nowMs - this.#earlierMs)
  }

  #lookAtReader(nowMs: number): void {
    if (this.running?.req.complete !== true || this.waitsForUs) {
      this.#taken = undefined
      return
    }
    const bytes = this.#carrier && confirmedBytes(this.#carrier)
    if (bytes === undefined) return
    if (this.#taken === undefined || bytes - this.#taken.bytes >= progressBytes)
      this.#taken = { bytes, atMs: nowMs }
  }

  /** How long its reader has received nothing although bytes wait for it, as far as it is known. */
  stalledMs(nowMs: number): number {
    return this.#taken === undefined || this.waitsForUs ? 0 : nowMs - this.#taken.atMs
  }

  /**
   * The service is slow, not the client: it has not read what the client sent, or the client has
   * sent everything and can receive more.
   */
  get waitsForUs(): boolean {
    const { running } = this
    if (running === undefined) return false
    if (isReadingPaused(this.socket)) return true
    if (!running.req.complete) return running.req.readableLength > 0
    return this.socket.writableLength === 0 && running.writableLength === 0
  }

  get #bytes(): number {
    if (this.#socket === undefined) return 0
    return this.socket.bytesRead + this.socket.bytesWritten + this.passedBytes
  }
}

/**
 * The connections of one listener: how many there are, whose they are, and one request of each at a
 * time.
 *
 * A connection costs a descriptor and memory even without a request, and anybody can open one. So:
 *
 * - A listener has a maximum, a network (IPv6: a /64) has a smaller one, and a /48 of IPv6 has that
 *   of two networks. At its own maximum a network loses its longest idle connection; when none
 *   idles the new one is refused.
 * - For room on a scarce or full listener others are closed: `room.ts`.
 *
 * Connections of trusted proxies carry many clients: they have no maximum of their own. There the
 * clients' running requests are counted instead, by the networks of the addresses the proxy
 * reports. On a full listener such a network loses its slowest like any other, and on a scarce one
 * it gets no more than its fair share.
 *
 * Requests that a client sends ahead of the answers (pipelining) wait for their turn here,
 * unhandled: their answers are not made before they can be sent. A client that sends more of them
 * ahead than real clients do loses its connection.
 *
 * In each turn of the loop, requests start for a few milliseconds only. Otherwise an upload, which
 * needs twenty turns, would wait for up to a hundred requests in each.
 *
 * Reads that may take the parser long begin one by one, see `SmallPiecesLane`.
 *
 * Where the listener asks for TLS, a handshake comes before the first request, in its network's
 * turn: `handshakes.ts`.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { clientAddress, networkOf, normalAddress, siteOf } from '../rate-limits/addresses.ts'
import type { PiecesLane } from '../reading/small-pieces-lane.ts'
import { isOfUnknownLength, isReadingPaused, pauseReading, readInTurns } from '../reading/unknown-length.ts'
import { LoopTurns } from '../turns/loop-turns.ts'
import { RecentUse } from '../turns/recent-use.ts'
import { acceptedMax, acceptingMs, nextWaiting, type WaitingConnection } from './accept-waiting.ts'
import {
  Connection,
  type ConnectionHolder,
  connectionOf,
  type HeldSocket,
  type Network,
} from './connection.ts'
import { connectionFigures } from './connection-figures.ts'
import { type HandshakeFault, Handshakes, type ListenerTls } from './handshakes.ts'
import { awaitFirstBytes, emitInPieces, hasManyLines, mayBeManyRequests } from './newcomers.ts'
import { type EvictionReason, fairShareMin, Room } from './room.ts'

/**
 * How long a connection may idle, ms. A request that a proxy sends while its connection is closed
 * for idling is lost, and the proxy answers 502: it may not repeat one that changes something.
 */
export interface IdleTimes {
  /** Before the first byte. */
  silentMs: number
  /** From the first byte of a handshake to its end. */
  handshakeMs: number
  /** After an answer. */
  keptMs: number
  /** For connections of trusted proxies, which close what they do not need by themselves. */
  proxyMs: number
}

/** How many connections a listener accepts. */
export interface ConnectionLimits {
  max: number
  /** Also: running requests of one network behind trusted proxies. Infinity: no limit. */
  perNetworkMax: number
}

/** Browsers send nothing ahead, libraries that do send a few dozen. */
export const requestsAheadMax = 64
/** Maximum bytes of all waiting request lines and headers: one read of a socket holds no more. */
const aheadBytesMax = 64 * 1024
/**
 * Milliseconds of the last half second. A client that used less time waits for at most one item of
 * each other network.
 */
const littleMs = 16
/**
 * How long connections end with their answers, after a refusal on a listener that is full of
 * networks with a connection or two each.
 */
const crowdedMs = 60_000
/** When the host closes, it waits this long for request heads that clients have begun to send. */
const headMs = 2_000
/** A /48 of v6 has 65,536 networks. It may have as many connections as this number of networks. */
const siteNetworks = 2

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void
type RefusedStatus = 'error-rateLimit' | 'error-unavailable' | 'error-method'

export interface ConnectionsDeps {
  /** Label of the metrics. */
  host: string
  limits: ConnectionLimits
  /** Is this peer a proxy that reports its clients by X-Forwarded-For? */
  isProxy: (address: string) => boolean
  /** The answer to a connection that gets nothing else. */
  refusalText: (status: RefusedStatus) => string
  handle: RequestHandler
  metrics: Registry
  clock: Clock
  lane: PiecesLane
  idle: IdleTimes
  /** Undefined: requests come without TLS. */
  tls: ListenerTls | undefined
  /** A connection was closed for a reason that an operator can remove. */
  onHandshakeFault: (fault: HandshakeFault, error: Error, address: string | undefined) => void
}

/** The network and the /48 for which a new connection counts. */
interface ConnectionCharge {
  network: Network
  site: ConnectionHolder | undefined
}

/** Lets Node read requests from the socket. */
type Attach = (socket: Socket) => void

export class Connections {
  readonly #deps: ConnectionsDeps
  readonly #clock: Clock
  readonly #networks = new Map<string, Network>()
  /** Requests under way behind proxies, by the client's network. */
  readonly #clients = new Map<string, ConnectionHolder>()
  /** The /48 of clients with v6, of their connections and of requests under way behind proxies. */
  readonly #sites = new Map<string, ConnectionHolder>()
  readonly #figures: ReturnType<typeof connectionFigures>
  /** Connections of all networks except proxies. */
  readonly #silent = new Set<Connection>()
  /** Connections whose sockets are made, or whose first bytes are read. */
  readonly #beginnings: LoopTurns
  /** They do not wait for all connections of a crowd. */
  readonly #requests: LoopTurns
  readonly #room: Room
  readonly #handshakes: Handshakes | undefined
  #open = 0
  /**
   * Until this time connections end with their answers, so that networks take turns. It is set when
   * many networks have few connections each. If they send requests without a pause, no connection
   * idles that could be closed for a new one.
   */
  #crowdedUntilMs = Number.NEGATIVE_INFINITY
  #closing = false
  #cutting: NodeJS.Timeout | undefined

  constructor(deps: ConnectionsDeps) {
    this.#deps = deps
    this.#clock = deps.clock
    this.#beginnings = new LoopTurns(this.#clock, new RecentUse(this.#clock), littleMs)
    this.#requests = new LoopTurns(this.#clock, new RecentUse(this.#clock), littleMs)
    this.#room = new Room({
      max: deps.limits.max,
      clock: this.#clock,
      size: () => this.#open,
      networks: this.#networks,
      clients: this.#clients,
      silent: this.#silent,
      evict: (connection, reason) => this.#evict(connection, reason),
    })
    this.#handshakes =
      deps.tls &&
      new Handshakes({
        tls: deps.tls,
        timeoutMs: deps.idle.handshakeMs,
        onFault: (fault, error, address) => {
          this.#refused('handshake')
          deps.onHandshakeFault(fault, error, address)
        },
      })
    this.#figures = connectionFigures(deps.metrics)
    this.#figures.max.set({ host: deps.host }, deps.limits.max)
    this.#figures.open.set({ host: deps.host }, 0)
  }

  /** Counts the server's connections from now on. Its requests are `PiecewiseRequest`s. */
  watch(server: Server): void {
    // An option of servers in `node:net` that `node:http` cannot pass on.
    Object.assign(server, { pauseOnConnect: true })
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    const attach = (socket: Socket) => {
      for (const listener of listeners) listener.call(server, socket)
    }
    server.on('connection', (socket) => {
      this.#take(socket, attach)
      this.#takeWaiting(socket, attach)
    })
    server.on('close', () => {
      this.#room.stop()
      this.#handshakes?.close()
      clearTimeout(this.#cutting)
    })
  }

  /**
   * Called before the server closes. The server does not track connections that have sent nothing:
   * they are closed here at once. The server waits for connections that have sent a part of a head,
   * but no longer checks how long heads take: these connections are closed here after `headMs`.
   */
  close(): void {
    this.#closing = true
    this.#closeEach((connection) => !connection.isServed)
    this.#cutting = setTimeout(() => this.#closeEach(({ running }) => running === undefined), headMs)
  }

  #closeEach(isOver: (connection: Connection) => boolean): void {
    for (const { open } of this.#networks.values())
      for (const connection of open) if (isOver(connection)) connection.close()
  }

  /** Connections open now. */
  get size(): number {
    return this.#open
  }

  /** Handles the request when those before it on its connection are answered. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const connection = connectionOf(request.socket)
    // Refused, and not closed yet.
    if (connection === undefined) {
      request.socket.destroy()
      return
    }
    const waits = connection.isCounting && !isOfUnknownLength(request)
    if (connection.running !== undefined || waits) this.#sendAhead(connection, response)
    else if (isOfUnknownLength(request)) this.#begin(connection, response)
    else this.#beginInTurn(connection, response)
  }

  /**
   * Refuses a CONNECT. Node no longer reads the connection, and it would not send a running answer
   * further.
   */
  refuseTunnel(socket: Socket): void {
    const connection = connectionOf(socket)
    socket.on('error', () => socket.destroy())
    if (connection === undefined || connection.running !== undefined || connection.ahead.length > 0) {
      socket.destroy()
      return
    }
    socket.resume()
    this.#refuse(socket, 'error-method')
  }

  /**
   * The client sent bytes that are not a request. The refusal is written unless an earlier request
   * is unanswered: a complete earlier request gets its answer, and then the connection ends.
   */
  refuseUnreadable(socket: Socket, refuse: () => void): void {
    const connection = connectionOf(socket)
    const running = connection?.running
    if (connection === undefined || (running === undefined && connection.ahead.length > 0)) {
      socket.destroy()
    } else if (running?.req.complete === true) {
      connection.ahead.length = 0
      pauseReading(socket)
      running.shouldKeepAlive = false
      running.once('finish', () => socket.destroySoon())
    } else if (running?.headersSent === true) socket.destroy()
    else refuse()
  }

  /**
   * Counts a running request behind a proxy for its client, until its answer ends.
   * @returns false when the client's network is at its limit of running requests.
   */
  takeClient(request: FastifyRequest): boolean {
    const connection = connectionOf(request.raw.socket)
    if (connection === undefined || !connection.network.isProxy || connection.client !== undefined)
      return true
    const address = clientAddress(request)
    const name = networkOf(address)
    const client = this.#clients.get(name) ?? { name, open: new Set() }
    const clientMax = this.#clientMax(client)
    const site = this.#siteOf(address)
    if (client.open.size >= clientMax || (site?.open.size ?? 0) >= clientMax * siteNetworks) {
      this.#refused('network')
      return false
    }
    this.#clients.set(name, client)
    client.open.add(connection)
    connection.client = client
    this.#countSite(connection, site)
    return true
  }

  /**
   * Whether the holder has its maximum of connections and none of them idles. If one idles, this
   * call closes it.
   */
  #isAtMax(holder: ConnectionHolder, max: number): boolean {
    return holder.open.size >= max && !this.#room.closeIdle(holder, 'network')
  }

  #siteOf(address: string): ConnectionHolder | undefined {
    const name = siteOf(address)
    return name === undefined ? undefined : (this.#sites.get(name) ?? { name, open: new Set() })
  }

  #countSite(connection: Connection, site: ConnectionHolder | undefined): void {
    if (site === undefined) return
    this.#sites.set(site.name, site)
    site.open.add(connection)
    connection.site = site
  }

  #leaveSite(connection: Connection): void {
    const { site } = connection
    connection.site = undefined
    if (site?.open.delete(connection) && site.open.size === 0) this.#sites.delete(site.name)
  }

  #clientMax(client: ConnectionHolder): number {
    const { max, perNetworkMax } = this.#deps.limits
    if (this.#open <= max / 2) return perNetworkMax
    const clients = this.#clients.size + (client.open.size === 0 ? 1 : 0)
    return Math.min(perNetworkMax, Math.max(fairShareMin, Math.floor(max / clients)))
  }

  #begin(connection: Connection, response: ServerResponse): void {
    this.#runs(connection, response)
    this.#handle(connection, response)
  }

  #runs(connection: Connection, response: ServerResponse): void {
    const nowMs = this.#clock.monotonic()
    connection.begin(response, nowMs)
    this.#speaks(connection)
    response.once('close', noteAnswer)
    // Unless the client has sent more requests: they would be lost.
    if (nowMs < this.#crowdedUntilMs && !connection.network.isProxy)
      response.shouldKeepAlive &&= connection.ahead.length > 0
  }

  #handle(connection: Connection, response: ServerResponse): void {
    if (isOfUnknownLength(response.req)) this.#beginPieces(connection, response)
    else this.#deps.handle(response.req, response)
  }

  /** Its body may come in small pieces. */
  #beginPieces(connection: Connection, response: ServerResponse): void {
    const { handle, lane } = this.#deps
    readInTurns(response, {
      lane,
      network: connection.networkName,
      isBeingParsed: connection.isBeingParsed,
      handle,
      refuse: () => this.#refuseWaiting(connection),
    })
  }

  #refuseWaiting({ socket, running }: Connection): void {
    if (socket.destroyed) return
    this.#refused('pieces')
    if (running?.headersSent === true) socket.destroy()
    else this.#refuse(socket, 'error-rateLimit')
  }

  #sendAhead(connection: Connection, response: ServerResponse): void {
    const { ahead } = connection
    const aheadMax = connection.running === undefined ? requestsAheadMax + 1 : requestsAheadMax
    connection.aheadBytes += headBytes(response.req)
    if (ahead.length < aheadMax && connection.aheadBytes <= aheadBytesMax) {
      if (isOfUnknownLength(response.req)) pauseReading(connection.socket)
      ahead.push(response)
      return
    }
    if (connection.socket.destroyed) return
    this.#refused('pipelining')
    connection.ahead.length = 0
    connection.socket.destroy()
  }

  /** @internal the answer of the running request has ended, whole or not */
  answered(connection: Connection): void {
    connection.running = undefined
    connection.sinceMs = this.#clock.monotonic()
    if (connection.client !== undefined) this.#leaveClient(connection)
    this.#beginNext(connection)
    // Replaces the time-out that Node has just set. Node sets its own again with the next request.
    if (connection.network.isProxy && connection.running === undefined)
      connection.socket.setTimeout(this.#deps.idle.proxyMs)
  }

  #beginNext(connection: Connection): void {
    if (connection.ahead.length === 0) return
    const { socket } = connection
    // The client would not receive the answer.
    if (socket.destroyed || socket.writableEnded) connection.ahead.length = 0
    const next = connection.ahead.shift()
    if (next === undefined) return
    connection.aheadBytes -= headBytes(next.req)
    this.#beginInTurn(connection, next)
  }

  /** Otherwise one turn of the loop would begin all that every connection has sent. */
  #beginInTurn(connection: Connection, response: ServerResponse): void {
    this.#runs(connection, response)
    this.#requests.take(connection.network.name, () => {
      if (connection.running === response && !connection.socket.destroyed) this.#handle(connection, response)
    })
  }

  #leaveClient(connection: Connection): void {
    const client = connection.client as ConnectionHolder
    connection.client = undefined
    this.#leaveSite(connection)
    client.open.delete(connection)
    if (client.open.size === 0) this.#clients.delete(client.name)
  }

  /** Answers a connection, not a request, and closes it. */
  #refuse(socket: Socket, status: RefusedStatus): void {
    socket.end(this.#deps.refusalText(status), () => socket.destroy())
  }

  /** The refusal for a connection that was never read; empty where TLS is required. */
  #unreadText(status: RefusedStatus): string {
    const { tls } = this.#deps
    return tls === undefined || tls.plainToo ? this.#deps.refusalText(status) : ''
  }

  /** Node accepted it. */
  #take(socket: HeldSocket, attach: Attach): void {
    const admitted = this.#admit(socket.remoteAddress)
    if (typeof admitted === 'object') {
      this.#begun(this.#hold(admitted), socket, attach)
      return
    }
    // An error without a listener would end the process.
    socket.on('error', closeBroken)
    if (admitted === undefined) socket.destroy()
    else socket.end(this.#unreadText(admitted), () => socket.destroy())
  }

  /**
   * Accepts the connections that wait behind it. Their sockets are made from the next phase of the
   * loop on, when it is their network's turn. Until then they cost only descriptors; connections
   * that are closed before cost nothing more.
   */
  #takeWaiting(accepted: Socket, attach: Attach): void {
    const sinceMs = this.#clock.monotonic()
    const taken: Connection[] = []
    for (let count = 0; count < acceptedMax; count++) {
      const waiting = nextWaiting(accepted)
      if (waiting === undefined) break
      const admitted = waiting.hasEnded() ? undefined : this.#admit(waiting.address)
      if (typeof admitted === 'object') taken.push(this.#hold(admitted, waiting))
      else waiting.refuse(admitted === undefined ? '' : this.#unreadText(admitted))
      if (this.#clock.monotonic() - sinceMs > acceptingMs) break
    }
    if (taken.length === 0) return
    setImmediate(() => {
      for (const connection of taken)
        this.#beginnings.take(connection.network.name, () => this.#adopt(connection, attach))
    })
  }

  /** @returns undefined: it is closed already, or the host closes */
  #admit(from: string | undefined): ConnectionCharge | RefusedStatus | undefined {
    const { limits, isProxy } = this.#deps
    const address = normalAddress(from)
    if (address === undefined || this.#closing) return undefined
    const proxied = isProxy(address)
    const name = proxied ? `proxy ${address}` : networkOf(address)
    const network = this.#networks.get(name) ?? { name, open: new Set(), silent: new Set(), isProxy: proxied }
    const site = proxied ? undefined : this.#siteOf(address)
    if (
      (!proxied && this.#isAtMax(network, limits.perNetworkMax)) ||
      (site !== undefined && this.#isAtMax(site, limits.perNetworkMax * siteNetworks))
    ) {
      this.#refused('network')
      return 'error-rateLimit'
    }
    if (!this.#room.makeFor(network)) {
      this.#refused('full')
      if (this.#networks.size > limits.max / 2) this.#crowdedUntilMs = this.#clock.monotonic() + crowdedMs
      return 'error-unavailable'
    }
    return { network, site }
  }

  /** The connection counts from now on. @param waiting for a connection without a socket */
  #hold({ network, site }: ConnectionCharge, waiting?: WaitingConnection): Connection {
    this.#networks.set(network.name, network)
    const connection = new Connection(this, { waiting, network, nowMs: this.#clock.monotonic() })
    network.open.add(connection)
    this.#countSite(connection, site)
    if (!network.isProxy) {
      network.silent.add(connection)
      this.#silent.add(connection)
    }
    this.#open++
    this.#figures.open.set({ host: this.#deps.host }, this.#open)
    return connection
  }

  #adopt(connection: Connection, attach: Attach): void {
    const { waiting } = connection
    // Closed meanwhile.
    if (waiting === undefined) return
    if (waiting.hasEnded()) connection.close()
    const socket = connection.waiting?.adopt()
    if (socket === undefined) this.#leave(connection)
    else this.#begun(connection, socket, attach)
  }

  #begun(connection: Connection, socket: HeldSocket, attach: Attach): void {
    connection.took(socket)
    socket.on('error', closeBroken)
    socket.once('close', () => this.#leave(connection))
    if (this.#deps.lane.isKnown(connection.networkName)) this.#awaitTurn(connection, attach)
    else this.#awaitFirstBytes(connection, attach)
  }

  /** Its network sent small pieces lately. */
  #awaitTurn(connection: Connection, attach: Attach): void {
    const { socket } = connection
    const readOn = () => {
      if (!socket.destroyed) this.#awaitFirstBytes(connection, attach)
      return !socket.destroyed
    }
    const refuse = () => {
      this.#refused('pieces')
      socket.destroy()
    }
    this.#deps.lane.enter(connection.networkName, { readOn, refuse })
  }

  #awaitFirstBytes(connection: Connection, attach: Attach): void {
    const { proxyMs, silentMs } = this.#deps.idle
    const handshakes = connection.isSecure ? undefined : this.#handshakes
    // Proxies open connections ahead of requests, too. A handshake they begin at once.
    const timeoutMs = connection.network.isProxy && handshakes === undefined ? proxyMs : silentMs
    awaitFirstBytes(connection.socket, { timeoutMs }, (bytes) => {
      if (handshakes?.isWanted(bytes)) this.#secure(connection, bytes, attach)
      else if (hasManyLines(bytes)) this.#awaitParsing(connection, bytes, attach)
      else this.#beginnings.take(connection.network.name, () => this.#serve(connection, bytes, attach))
    })
  }

  /** Its first bytes begin a handshake, after which it is handled like a new connection. */
  #secure(connection: Connection, first: Buffer, attach: Attach): void {
    const { socket, network } = connection
    this.#beginnings.take(network.name, () => {
      if (socket.destroyed) return
      this.#handshakes?.begin(socket, { first, isProxy: network.isProxy }, (secure) => {
        secure.on('error', closeBroken)
        connection.tookSecure(secure)
        this.#awaitFirstBytes(connection, attach)
      })
    })
  }

  /** Parsing its first bytes may take long. */
  #awaitParsing(connection: Connection, bytes: Buffer, attach: Attach): void {
    const { socket } = connection
    const readOn = () => {
      if (socket.destroyed) return false
      connection.isBeingParsed = true
      setImmediate(() => {
        connection.isBeingParsed = false
      })
      this.#serve(connection, bytes, attach)
      return true
    }
    const refuse = () => this.#refuseWaiting(connection)
    this.#deps.lane.begin(connection.networkName, { readOn, refuse })
  }

  /** Node reads its requests from now on. */
  #serve(connection: Connection, first: Buffer, attach: Attach): void {
    const { socket } = connection
    const isMany = mayBeManyRequests(first)
    const serve = () => {
      if (socket.destroyed) return
      connection.isServed = true
      const bytes = readSince(socket, first)
      attachQuietly(socket, attach)
      if (isMany) {
        this.#readMany(connection, bytes)
        return
      }
      socket.unshift(bytes)
      socket.resume()
    }
    // Many of them do not begin within the turn of the lane; each that begins here asks the lane
    // for a turn of its own.
    if (isMany) process.nextTick(serve)
    else serve()
  }

  /** The first request begins after all are counted, unless there are too many. */
  #readMany(connection: Connection, bytes: Buffer): void {
    connection.isCounting = true
    emitInPieces(connection.socket, bytes)
    connection.isCounting = false
    if (connection.running === undefined) this.#beginNext(connection)
    if (!isReadingPaused(connection.socket)) connection.socket.resume()
  }

  #leave(connection: Connection): void {
    const { network } = connection
    if (!network.open.delete(connection)) return
    this.#speaks(connection)
    this.#open--
    this.#figures.open.set({ host: this.#deps.host }, this.#open)
    if (network.open.size === 0) this.#networks.delete(network.name)
    this.#leaveSite(connection)
    connection.ahead.length = 0
    if (connection.client !== undefined) this.#leaveClient(connection)
  }

  /** It is no longer silent. */
  #speaks(connection: Connection): void {
    connection.network.silent.delete(connection)
    this.#silent.delete(connection)
  }

  #evict(connection: Connection, reason: EvictionReason): void {
    this.#figures.evicted.inc({ host: this.#deps.host, reason })
    connection.close()
    // Its close event comes later; its place is free now.
    this.#leave(connection)
  }

  #refused(reason: 'full' | 'handshake' | 'network' | 'pieces' | 'pipelining'): void {
    this.#figures.refused.inc({ host: this.#deps.host, reason })
  }
}

/** A listener of responses; one function for all of them. */
function noteAnswer(this: ServerResponse): void {
  const connection = connectionOf(this.req.socket)
  if (connection?.running === this) connection.owner.answered(connection)
}

/** A listener of sockets; one function for all of them. */
function closeBroken(this: Socket): void {
  this.destroy()
}

/**
 * What came behind the first bytes of a paused socket is taken from its buffer. Node's parser reads
 * from the system and past that buffer, so what stayed there would come too late. A listener that
 * makes the parser read from the buffer costs 5 % of the CPU of large uploads.
 */
function readSince(socket: Socket, first: Buffer): Buffer {
  const rest = socket.readableLength === 0 ? null : (socket.read() as Buffer | null)
  return rest === null ? first : Buffer.concat([first, rest])
}

/**
 * At a connection's end Node makes an error for each unanswered request, with the same stack: 25 µs
 * each, and one read of 64 KiB holds 1,500 of them. So stacks are disabled while Node's own
 * listener runs, which comes between these two.
 */
function attachQuietly(socket: Socket, attach: Attach): void {
  const { stackTraceLimit } = Error
  socket.prependOnceListener('close', () => {
    Error.stackTraceLimit = 0
  })
  attach(socket)
  socket.once('close', () => {
    Error.stackTraceLimit = stackTraceLimit
  })
}

/** About what a request's head takes while it waits. */
function headBytes({ url, rawHeaders }: IncomingMessage): number {
  let bytes = url?.length ?? 0
  for (const text of rawHeaders) bytes += text.length
  return bytes
}

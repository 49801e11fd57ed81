/**
 * Connections of a listener between nodes. Their number is bounded. Unproven ones are few and
 * short-lived, so that they hold no memory, and are closed when a peer needs the room.
 */
import type { Socket } from 'node:net'

/** In this time a peer must prove itself, ms. */
const strangerMs = 10_000
/** Lets the refusal reach a peer with a wrong secret. */
const refusedMs = 250

/** A connection on which nothing has proven yet that its peer knows the secret. */
interface Stranger {
  socket: Socket
  cut: NodeJS.Timeout
  isRefused: boolean
}

export interface CallersOptions {
  connectionsMax: number
  /** Unproven connections; the oldest is closed for the next. Peers prove themselves at once. */
  strangersMax: number
  /** A connection was closed for one of the two reasons. */
  onRefused: (reason: 'connections' | 'strangers') => void
}

export class Callers {
  readonly #options: CallersOptions
  readonly #open = new Set<Socket>()
  /** By address and port, oldest first. */
  readonly #strangers = new Map<string, Stranger>()

  constructor(options: CallersOptions) {
    this.#options = options
  }

  /** Connections open now. */
  get open(): ReadonlySet<Socket> {
    return this.#open
  }

  /** @returns false when there is no room: the connection is closed */
  add(socket: Socket): boolean {
    const { connectionsMax, strangersMax, onRefused } = this.#options
    if (this.#open.size >= connectionsMax && !this.#cutOldest()) {
      onRefused('connections')
      socket.destroy()
      return false
    }
    const peer = peerOf(socket)
    const stranger = { socket, cut: setTimeout(() => socket.destroy(), strangerMs), isRefused: false }
    this.#open.add(socket)
    this.#strangers.set(peer, stranger)
    socket.once('close', () => {
      this.#open.delete(socket)
      if (this.#strangers.get(peer) === stranger) this.proven(peer)
    })
    if (this.#strangers.size > strangersMax) this.#cutOldest()
    return true
  }

  /** It has proven itself. */
  proven(peer: string): void {
    clearTimeout(this.#strangers.get(peer)?.cut)
    this.#strangers.delete(peer)
  }

  /** Ends the connection, if nothing was ever proven on it. */
  refused(peer: string): void {
    const stranger = this.#strangers.get(peer)
    if (stranger === undefined || stranger.isRefused) return
    clearTimeout(stranger.cut)
    stranger.isRefused = true
    stranger.cut = setTimeout(() => stranger.socket.destroy(), refusedMs)
  }

  /** @returns false when there is no unproven connection */
  #cutOldest(): boolean {
    const [oldest] = this.#strangers
    if (oldest === undefined) return false
    const [peer, { socket }] = oldest
    this.proven(peer)
    this.#open.delete(socket)
    socket.destroy()
    this.#options.onRefused('strangers')
    return true
  }
}

/** As gRPC names the peer of a call. */
export function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress}:${remotePort}`
}

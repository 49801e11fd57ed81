/** Connections of the control port: those on which nothing has been proven are few and short, so that they hold no memory. */
import type { Socket } from 'node:net'

/** Connections on which nothing has been proven; the oldest goes for the next. Peers prove themselves at once. */
const strangersMax = 64
const strangerMs = 10_000
/** For the refusal to reach a peer that has the wrong secret. */
const refusedMs = 250

interface Stranger {
  socket: Socket
  cut: NodeJS.Timeout
  isRefused: boolean
}

export class Callers {
  /** By address and port, oldest first. */
  readonly #strangers = new Map<string, Stranger>()

  add(socket: Socket): void {
    const peer = `${socket.remoteAddress}:${socket.remotePort}`
    const stranger = { socket, cut: setTimeout(() => socket.destroy(), strangerMs), isRefused: false }
    this.#strangers.set(peer, stranger)
    socket.once('close', () => {
      if (this.#strangers.get(peer) === stranger) this.proven(peer)
    })
    const [oldest] = this.#strangers
    if (oldest === undefined || this.#strangers.size <= strangersMax) return
    this.proven(oldest[0])
    oldest[1].socket.destroy()
  }

  /** It is a stranger no more. */
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
}

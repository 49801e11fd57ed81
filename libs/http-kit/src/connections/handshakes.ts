/**
 * TLS between the connections of a listener and their requests, with certificates on both sides or,
 * where callers prove themselves by tokens, on this one.
 *
 * The listener stays a plain one: a connection counts from its first packet, and costs no more than
 * a plain one until its first bytes are here. These go to a TLS server that listens nowhere, which
 * is given the socket. What it decrypts is read as a connection.
 *
 * A handshake costs a millisecond of the CPU and 50 KiB. So the number of those under way is
 * bounded, and so is their time, which a peer that sends single bytes does not extend. When there
 * are too many, the oldest that is not a proxy's is ended: no other peer of a public host has a
 * valid certificate.
 */
import type { Socket } from 'node:net'
import { createServer, type TLSSocket, type Server as TlsServer } from 'node:tls'
import { certificatesOf, isOfHost, type TlsContext } from '@holdfast/trust'

export interface ListenerTls {
  /** The own certificate, and the authority of the peers'. */
  context: TlsContext
  /** A name that a peer's certificate must have. Undefined: peers are asked for none. */
  peerName: string | undefined
  /** Requests without TLS are answered, too: while a cluster changes to TLS. */
  plainToo: boolean
}

export type HandshakeFault = 'certificate' | 'handshake' | 'plain' | 'slow' | 'many'

interface Handshake {
  socket: Socket
  isProxy: boolean
  deadline: NodeJS.Timeout
  onSecure: (socket: TLSSocket) => void
}

export interface HandshakesDeps {
  tls: ListenerTls
  timeoutMs: number
  /** The connection is closed. */
  onFault: (fault: HandshakeFault, error: Error, address: string | undefined) => void
}

/** Under way on one listener. */
const handshakesMax = 256
/** The first byte of a TLS connection; no method of HTTP begins with it. */
const handshakeRecord = 22

export class Handshakes {
  readonly #deps: HandshakesDeps
  readonly #server: TlsServer
  readonly #forget: () => void
  /** By both ends of the connection, the oldest first. */
  readonly #running = new Map<string, Handshake>()

  constructor(deps: HandshakesDeps) {
    this.#deps = deps
    const { context, peerName } = deps.tls
    this.#server = createServer({
      ...certificatesOf(context),
      requestCert: peerName !== undefined,
      // `#secured` refuses peers without a valid certificate: here the reason would be lost.
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
    })
    this.#forget = context.onChange(() => this.#server.setSecureContext(certificatesOf(context)))
    this.#server.on('secureConnection', (socket) => this.#secured(socket))
    this.#server.on('tlsClientError', (error, socket) => this.#failed(error, socket))
  }

  /** @returns whether the connection begins with TLS; false: it is a plain request */
  isWanted(first: Buffer): boolean {
    return first[0] === handshakeRecord || !this.#deps.tls.plainToo
  }

  /** @param socket paused. Its first bytes, if any, were taken from it. */
  begin(
    socket: Socket,
    { first, isProxy }: { first: Buffer; isProxy: boolean },
    onSecure: (socket: TLSSocket) => void,
  ): void {
    if (first[0] !== handshakeRecord) {
      this.#deps.onFault('plain', new Error('it sent no TLS'), socket.remoteAddress)
      socket.destroy()
      return
    }
    // It ended while it waited for its turn, which is no fault.
    if (socket.readableEnded) {
      socket.destroy()
      return
    }
    const ends = endsOf(socket)
    const deadline = setTimeout(() => this.#end(ends, 'slow'), this.#deps.timeoutMs)
    const handshake = { socket, isProxy, deadline, onSecure }
    this.#running.set(ends, handshake)
    socket.once('close', () => {
      if (this.#running.get(ends) === handshake) this.#take(ends)
    })
    if (this.#running.size > handshakesMax) this.#end(this.#oldest(), 'many')
    if (socket.destroyed) return
    socket.unshift(first)
    this.#server.emit('connection', socket)
  }

  /** Running ones end with their connections. */
  close(): void {
    this.#forget()
  }

  #oldest(): string {
    for (const [ends, { isProxy }] of this.#running) if (!isProxy) return ends
    const [first] = this.#running.keys()
    return first as string
  }

  #take(ends: string): Handshake | undefined {
    const handshake = this.#running.get(ends)
    if (handshake === undefined) return undefined
    clearTimeout(handshake.deadline)
    this.#running.delete(ends)
    return handshake
  }

  #end(ends: string, fault: 'slow' | 'many'): void {
    const handshake = this.#take(ends)
    if (handshake === undefined) return
    this.#deps.onFault(fault, new Error(faults[fault]), handshake.socket.remoteAddress)
    handshake.socket.destroy()
  }

  #secured(socket: TLSSocket): void {
    const handshake = this.#take(endsOf(socket))
    const fault = this.#faultOf(socket)
    if (fault !== undefined) this.#deps.onFault('certificate', fault, socket.remoteAddress)
    if (handshake === undefined || fault !== undefined) socket.destroy()
    else handshake.onSecure(socket)
  }

  #faultOf(peer: TLSSocket): Error | undefined {
    const { peerName } = this.#deps.tls
    if (peerName === undefined) return undefined
    if (!peer.authorized) return new Error(`its certificate is refused: ${peer.authorizationError}`)
    return isOfHost(peerName)('', peer.getPeerCertificate())
  }

  #failed(error: Error & { code?: string }, socket: TLSSocket): void {
    // Handshakes that the peer or this host ended are not faults.
    if (error.code !== 'ECONNRESET') this.#deps.onFault('handshake', error, socket.remoteAddress)
    socket.destroy()
  }
}

const faults = {
  slow: 'its handshake took too long',
  many: 'too many handshakes were under way',
} as const

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

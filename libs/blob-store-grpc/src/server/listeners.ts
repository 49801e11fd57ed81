/**
 * The two listeners of a node, plain or with certificates on both sides. A connection counts
 * against the bound, and its time limit runs, from its first packet, before any handshake.
 */
import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createListener, type Server, type Socket } from 'node:net'
import { createServer as createTlsListener, type Server as TlsServer } from 'node:tls'
import { certificatesOf, type TlsContext } from '@holdfast/trust'

const headersTimeoutMs = 10_000
/** Longer than clients keep idle connections, so that they end first. */
const keepAliveMs = 75_000
const handshakeMs = 10_000

interface ListenerOptions {
  tls: TlsContext | undefined
  /** @returns false: the connection was closed */
  isTaken(socket: Socket): boolean
}

export function byteListener({
  tls,
  isTaken,
  answer,
}: ListenerOptions & { answer(request: IncomingMessage, response: ServerResponse): void }): HttpServer {
  const options = {
    requestTimeout: 0, // an upload may take hours
    headersTimeout: headersTimeoutMs,
    keepAliveTimeout: keepAliveMs,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  }
  const server =
    tls === undefined
      ? createHttpServer(options)
      : followTls(createHttpsServer({ ...options, ...handshakeOf(tls) }), tls)
  server.on('connection', (socket: Socket) => void isTaken(socket))
  server.on('request', answer)
  return server
}

/** @param parts.serve receives connections that speak HTTP/2 */
export function callListener({
  tls,
  isTaken,
  serve,
}: ListenerOptions & { serve(socket: Socket): void }): Server {
  if (tls === undefined)
    return createListener({ noDelay: true }, (socket) => {
      if (isTaken(socket)) serve(socket)
    })
  const server = followTls(
    createTlsListener({ noDelay: true, ALPNProtocols: ['h2'], ...handshakeOf(tls) }),
    tls,
  )
  server.on('connection', (socket: Socket) => void isTaken(socket))
  server.on('secureConnection', serve)
  return server
}

function handshakeOf(tls: TlsContext) {
  return {
    ...certificatesOf(tls),
    requestCert: true,
    rejectUnauthorized: true,
    handshakeTimeout: handshakeMs,
  }
}

/** New handshakes use new certificates; connections stay. */
function followTls<S extends TlsServer>(server: S, tls: TlsContext): S {
  server.once(
    'close',
    tls.onChange(() => server.setSecureContext(certificatesOf(tls))),
  )
  // The caller counts as unproven. The library has already closed the socket.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  return server
}

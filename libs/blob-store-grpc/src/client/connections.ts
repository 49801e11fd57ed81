/**
 * How a client reaches a node: plain, or with certificates on both sides. Every handshake uses the
 * certificates that are current at that time.
 */
import { Agent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Duplex } from 'node:stream'
import { connect } from 'node:tls'
import { type ChannelCredentials, credentials, experimental } from '@grpc/grpc-js'
import { hostOf, isOfHost, type TlsContext } from '@holdfast/trust'

/** Sent instead of the host, which may be an address; a node has one certificate for all names. */
const askedName = 'node.holdfast.internal'

/** Byte streams and calls of one client at a node, each; beyond it `UNAVAILABLE`. */
export const inFlightMax = 1024

/** Small writes are sent at once: agents set TCP_NODELAY. */
export function byteAgent({ tls, address }: { tls: TlsContext | undefined; address: string }): Agent {
  const options = {
    keepAlive: true,
    keepAliveMsecs: 15_000,
    maxSockets: inFlightMax,
    maxFreeSockets: 64,
    scheduling: 'lifo' as const,
  }
  return tls === undefined ? new Agent(options) : new NodeAgent(options, { tls, host: hostOf(address) })
}

class NodeAgent extends HttpsAgent {
  readonly #peer: { tls: TlsContext; host: string }

  constructor(options: object, peer: { tls: TlsContext; host: string }) {
    // A resumed session would not be checked against the current certificates.
    super({ ...options, maxCachedSessions: 0 })
    this.#peer = peer
  }

  override createConnection(options: { port?: number | string | null | undefined }): Duplex {
    const { tls, host } = this.#peer
    const socket = connect({
      host,
      port: Number(options.port),
      servername: askedName,
      secureContext: tls.secureContext,
      checkServerIdentity: isOfHost(host),
    })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 15_000)
    return socket
  }
}

export function callCredentials(tls: TlsContext | undefined, address: string): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure()
  const provider = providerOf(tls)
  return experimental.createCertificateProviderChannelCredentials(provider, provider, {
    checkServerIdentity: isOfHost(hostOf(address)),
  })
}

export function callOptions(tls: TlsContext | undefined): Record<string, string> {
  return tls === undefined ? {} : { 'grpc.ssl_target_name_override': askedName }
}

type Provider = Parameters<typeof experimental.createCertificateProviderChannelCredentials>[0]
type CaListener = Parameters<Provider['addCaCertificateListener']>[0]
type OwnListener = Parameters<Provider['addIdentityCertificateListener']>[0]

/** Calls each listener at once with the current certificates, and again after each change. */
function providerOf(tls: TlsContext): Provider {
  const ends = new Map<object, () => void>()
  const follow = (listener: object, apply: () => void) => {
    apply()
    ends.set(listener, tls.onChange(apply))
  }
  const leave = (listener: object) => {
    ends.get(listener)?.()
    ends.delete(listener)
  }
  return {
    addCaCertificateListener: (listener: CaListener) =>
      follow(listener, () => listener({ caCertificate: Buffer.from(tls.pem.ca) })),
    removeCaCertificateListener: leave,
    addIdentityCertificateListener: (listener: OwnListener) =>
      follow(listener, () => {
        const { own } = tls.pem
        listener(own ? { certificate: Buffer.from(own.cert), privateKey: Buffer.from(own.key) } : null)
      }),
    removeIdentityCertificateListener: leave,
  }
}

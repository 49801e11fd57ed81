/**
 * The expiry times of the certificates that others show: proxies to users, servers to their
 * clients. A proxy keeps its files for itself, and a server may show an old certificate after
 * its files were renewed. So certificates are read as clients see them: by a handshake with each
 * address of each host. Several proxies may serve one name, each with files of its own.
 */
import { lookup } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { Duplex, Writable } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'

export interface PublicHost {
  host: string
  port: number
}

export interface WatchedServer extends PublicHost {
  /**
   * `nats`: the server sends a line in clear before TLS begins. `cassandra`: for other nodes its
   * port accepts no certificate of a process, and the node would log one as an error.
   */
  scheme: 'tls' | 'nats' | 'cassandra'
}

/** Shown to a server that asks for one. */
interface OwnCertificate {
  cert: string
  key: string
}

interface ShownCertificatesOptions {
  /** By their labels. */
  servers: ReadonlyMap<string, WatchedServer>
  onFault: (error: unknown, of: { label: string; address?: string }) => void
  /** Asked before each handshake. Without one a server may refuse the process, and log it. */
  own?: () => OwnCertificate | undefined
  /** Its addresses of both families; tests have other ones. */
  addressesOf?: (host: string) => Promise<string[]>
  /** Of a handshake, with all before it. */
  timeoutMs?: number
}

const readEveryMs = 600_000
const handshakeTimeoutMs = 10_000
/** If no server of the most that are configured answers, a round still ends before the next one. */
const serversAtOnce = 64
/** Of one host: handshakes with all of them run at once. */
const addressesMax = 32
/** The line of NATS names the other servers of its cluster: some 30 bytes for each. */
const infoMaxBytes = 65_536

export class ShownCertificates {
  readonly #options: Required<ShownCertificatesOptions>
  /** By label, then by address: Unix ms. */
  readonly #expiresMs = new Map<string, ReadonlyMap<string, number>>()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: ShownCertificatesOptions) {
    this.#options = {
      own: () => undefined,
      addressesOf: addressesInDns,
      timeoutMs: handshakeTimeoutMs,
      ...options,
    }
  }

  /** Reads them now, and every ten minutes. */
  start(): void {
    if (this.#options.servers.size === 0) return
    void this.read()
    this.#timer = setInterval(() => void this.read(), readEveryMs)
    this.#timer.unref()
  }

  /**
   * An address that does not answer keeps what is known: its certificate still expires. So does a
   * host without an answer of the DNS.
   */
  async read(): Promise<void> {
    const waiting = this.#options.servers.entries()
    const readNext = async () => {
      for (const [label, server] of waiting) {
        if (this.#closed) return
        await this.#readServer(label, server)
      }
    }
    await Promise.all(Array.from({ length: serversAtOnce }, readNext))
  }

  async #readServer(label: string, server: WatchedServer): Promise<void> {
    const { addressesOf, onFault, own, timeoutMs } = this.#options
    const known = this.#expiresMs.get(label)
    try {
      const addresses = await addressesOf(server.host)
      if (addresses.length > addressesMax)
        throw new Error(`${addresses.length} addresses; ${addressesMax} are the most`)
      const read = await Promise.all(
        addresses.map(async (address): Promise<[string, number | undefined]> => {
          try {
            return [address, await shownExpiry(server, { address, own: own(), timeoutMs })]
          } catch (error) {
            onFault(error, { label, address })
            return [address, known?.get(address)]
          }
        }),
      )
      this.#expiresMs.set(label, new Map(read.filter((one): one is [string, number] => one[1] !== undefined)))
    } catch (error) {
      onFault(error, { label })
    }
  }

  /** The earliest end of each server, by its label. Unix ms. */
  get expiresMs(): ReadonlyMap<string, number> {
    const known = [...this.#expiresMs].filter(([, ends]) => ends.size > 0)
    return new Map(known.map(([label, ends]) => [label, Math.min(...ends.values())]))
  }

  /** What is being read ends by itself. */
  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }
}

async function addressesInDns(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}

/**
 * Watches the certificates of the configured hosts and servers, as metrics.
 * @param deps.own shown to servers, not to public hosts
 * @param deps.opened ends it
 */
export function openShownCertificates({
  config,
  own,
  log,
  metrics,
  opened,
}: {
  config: { certificateHosts: readonly PublicHost[]; certificateServers: readonly WatchedServer[] }
  own: () => OwnCertificate | undefined
  log: Pick<Logger, 'warn'>
  metrics: Registry
  opened: AsyncDisposableStack
}): void {
  const unread = 'its certificate cannot be read'
  const hosts = new ShownCertificates({
    servers: watchedHosts(config.certificateHosts),
    onFault: (err, { label, ...of }) => log.warn({ err, publicHost: label, ...of }, unread),
  })
  const servers = new ShownCertificates({
    servers: watchedServers(config.certificateServers),
    own,
    onFault: (err, { label, ...of }) => log.warn({ err, server: label, ...of }, unread),
  })
  for (const certificates of [hosts, servers]) {
    opened.defer(() => certificates.close())
    certificates.start()
  }
  shownCertificateMetrics(metrics, { hosts, servers })
}

export function shownCertificateMetrics(
  registry: Registry,
  { hosts, servers }: Record<'hosts' | 'servers', Pick<ShownCertificates, 'expiresMs'>>,
): void {
  new Gauge({
    name: 'holdfast_public_certificate_expires_timestamp_seconds',
    help: 'When the certificate expires that a host of HOLDFAST_CERTIFICATE_HOSTS shows to users: the earliest end of all its addresses.',
    labelNames: ['host'],
    registers: [registry],
    collect() {
      for (const [host, expiresMs] of hosts.expiresMs) this.set({ host }, expiresMs / 1000)
    },
  })
  new Gauge({
    name: 'holdfast_server_certificate_expires_timestamp_seconds',
    help: 'When the certificate expires that a server of HOLDFAST_CERTIFICATE_SERVERS shows to its clients: the earliest end of all its addresses.',
    labelNames: ['server'],
    registers: [registry],
    collect() {
      for (const [server, expiresMs] of servers.expiresMs) this.set({ server }, expiresMs / 1000)
    },
  })
}

/** By their labels. */
export function watchedHosts(hosts: readonly PublicHost[]): ReadonlyMap<string, WatchedServer> {
  const labelOf = ({ host, port }: PublicHost) => (port === 443 ? host : `${host}:${port}`)
  return new Map(hosts.map((host) => [labelOf(host), { scheme: 'tls', ...host }]))
}

/** By their labels, which are the entries as they were written. */
export function watchedServers(servers: readonly WatchedServer[]): ReadonlyMap<string, WatchedServer> {
  const labelOf = ({ scheme, host, port }: WatchedServer) =>
    `${scheme}://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
  return new Map(servers.map((server) => [labelOf(server), server]))
}

/** The expiry of the shown certificate, even if it has expired or its authority is unknown. */
async function shownExpiry(
  { scheme, host, port }: WatchedServer,
  { address, own, timeoutMs }: { address: string; own: OwnCertificate | undefined; timeoutMs: number },
): Promise<number> {
  const link = connect({ host: address, port })
  // One limit for everything, until it is closed: otherwise a server that sends a byte from time to
  // time would keep its socket.
  const late = setTimeout(() => link.destroy(new Error('no handshake in time')), timeoutMs)
  link.once('close', () => clearTimeout(late))
  const servername = isIP(host) === 0 ? host : ''
  try {
    if (scheme === 'nats') await infoLine(link)
    return await certificateEnd(link, { servername, own: scheme === 'cassandra' ? 'unsent' : own })
  } catch (error) {
    link.destroy()
    throw error
  }
}

/** NATS sends it in clear, and waits after it until the client begins TLS. */
function infoLine(link: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let line = ''
    const add = (bytes: Buffer) => {
      line += bytes.toString('latin1')
      if (line.length > infoMaxBytes) reject(new Error(`no line ends within ${infoMaxBytes} bytes`))
      else if (line.endsWith('\n')) {
        link.off('data', add).pause()
        if (line.startsWith('INFO ')) resolve()
        else reject(new Error('the first line is not the INFO of NATS'))
      }
    }
    link.on('data', add)
    link.on('error', reject)
    link.once('close', () => reject(new Error('it was closed before its first line ended')))
  })
}

/**
 * @param options.own the certificate for a server that asks for one; `unsent`: the connection ends
 *   when the server has shown its own, before the client answers
 */
function certificateEnd(
  link: Socket,
  { servername, own }: { servername: string; own: OwnCertificate | 'unsent' | undefined },
): Promise<number> {
  let ends = Number.NaN
  const isRead = () => !Number.isNaN(ends)
  const options = own === 'unsent' ? { socket: untilRead(link, isRead) } : { socket: link, ...own }
  return new Promise((resolve, reject) => {
    const socket = connectTls({ servername, rejectUnauthorized: false, ...options })
    let fault: Error | undefined
    // Keys follow the certificate. It is read with them, because a server that refuses the client
    // may close before the handshake ends: in TLS 1.2 it does.
    socket.on('keylog', () => {
      ends = Date.parse(socket.getPeerCertificate().valid_to)
    })
    socket.once('secureConnect', () => socket.end())
    socket.on('error', (error) => {
      // The first one has the reason.
      fault ??= error
    })
    socket.once('close', () => {
      if (isRead()) resolve(ends)
      else reject(fault ?? link.errored ?? new Error('no certificate was shown'))
    })
  })
}

/** Sends nothing more when the certificate is read: it closes the connection instead. */
function untilRead(link: Socket, isRead: () => boolean): Duplex {
  const writable = new Writable({
    write(bytes, _encoding, done) {
      if (!isRead()) link.write(bytes, done)
      else {
        link.destroy()
        done()
      }
    },
  })
  return Duplex.from({ readable: link, writable })
}

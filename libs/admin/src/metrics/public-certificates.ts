/**
 * The expiry times of the certificates that users see. A proxy has them, renews them and keeps
 * their files for itself, so they are read as users see them: by a handshake with each address of
 * each public host. Several proxies may serve one name, each with files of its own.
 */
import { lookup } from 'node:dns/promises'
import { connect } from 'node:tls'
import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'

export interface PublicHost {
  host: string
  port: number
}

const readEveryMs = 600_000
const handshakeTimeoutMs = 10_000
/** Of one host: handshakes with all of them run at once. */
const addressesMax = 32

export class PublicCertificates {
  readonly #hosts: readonly PublicHost[]
  readonly #addressesOf: (host: string) => Promise<string[]>
  readonly #onFault: (error: unknown, of: { publicHost: string; address?: string }) => void
  /** By label of the host, then by address: Unix ms. */
  readonly #expiresMs = new Map<string, ReadonlyMap<string, number>>()
  #timer: NodeJS.Timeout | undefined

  /** @param options.addressesOf its addresses of both families; tests have other ones */
  constructor({
    hosts,
    onFault,
    addressesOf = addressesInDns,
  }: {
    hosts: readonly PublicHost[]
    onFault: (error: unknown, of: { publicHost: string; address?: string }) => void
    addressesOf?: (host: string) => Promise<string[]>
  }) {
    this.#hosts = hosts
    this.#onFault = onFault
    this.#addressesOf = addressesOf
  }

  /** Reads them now, and every ten minutes. */
  start(): void {
    if (this.#hosts.length === 0) return
    void this.read()
    this.#timer = setInterval(() => void this.read(), readEveryMs)
    this.#timer.unref()
  }

  /**
   * An address that does not answer keeps what is known: its certificate still expires. So does a
   * host without an answer of the DNS.
   */
  async read(): Promise<void> {
    await Promise.all(this.#hosts.map((host) => this.#readHost(host)))
  }

  async #readHost(publicHost: PublicHost): Promise<void> {
    const label = labelOf(publicHost)
    const known = this.#expiresMs.get(label)
    try {
      const addresses = await this.#addressesOf(publicHost.host)
      if (addresses.length > addressesMax)
        throw new Error(`${addresses.length} addresses; ${addressesMax} are the most`)
      const read = await Promise.all(
        addresses.map(async (address): Promise<[string, number | undefined]> => {
          try {
            return [address, await shownExpiry(publicHost, address)]
          } catch (error) {
            this.#onFault(error, { publicHost: label, address })
            return [address, known?.get(address)]
          }
        }),
      )
      this.#expiresMs.set(label, new Map(read.filter((one): one is [string, number] => one[1] !== undefined)))
    } catch (error) {
      this.#onFault(error, { publicHost: label })
    }
  }

  /** The earliest end of each host, by its label. Unix ms. */
  get expiresMs(): ReadonlyMap<string, number> {
    const known = [...this.#expiresMs].filter(([, ends]) => ends.size > 0)
    return new Map(known.map(([label, ends]) => [label, Math.min(...ends.values())]))
  }

  close(): void {
    clearInterval(this.#timer)
  }
}

async function addressesInDns(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}

/** Watches the certificates of the configured hosts, as metrics. @param deps.opened ends it */
export function openPublicCertificates({
  config,
  log,
  metrics,
  opened,
}: {
  config: { certificateHosts: readonly PublicHost[] }
  log: Pick<Logger, 'warn'>
  metrics: Registry
  opened: AsyncDisposableStack
}): void {
  const certificates = new PublicCertificates({
    hosts: config.certificateHosts,
    onFault: (error, of) => log.warn({ err: error, ...of }, 'its certificate cannot be read'),
  })
  opened.defer(() => certificates.close())
  certificates.start()
  publicCertificateMetrics(metrics, certificates)
}

export function publicCertificateMetrics(
  registry: Registry,
  certificates: Pick<PublicCertificates, 'expiresMs'>,
): void {
  new Gauge({
    name: 'holdfast_public_certificate_expires_timestamp_seconds',
    help: 'When the certificate expires that a host of HOLDFAST_CERTIFICATE_HOSTS shows to users: the earliest end of all its addresses.',
    labelNames: ['host'],
    registers: [registry],
    collect() {
      for (const [host, expiresMs] of certificates.expiresMs) this.set({ host }, expiresMs / 1000)
    },
  })
}

function labelOf({ host, port }: PublicHost): string {
  return port === 443 ? host : `${host}:${port}`
}

/** The expiry of the shown certificate, even if it has expired or its authority is unknown. */
function shownExpiry({ host, port }: PublicHost, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, servername: host, rejectUnauthorized: false })
    // One limit for the whole handshake: otherwise a host that sends a byte from time to time would
    // keep its socket.
    const late = setTimeout(() => socket.destroy(new Error('no handshake in time')), handshakeTimeoutMs)
    socket.once('close', () => clearTimeout(late))
    socket.once('error', reject)
    socket.once('secureConnect', () => {
      const ends = Date.parse(socket.getPeerCertificate().valid_to)
      socket.end()
      if (Number.isNaN(ends)) reject(new Error('no certificate was shown'))
      else resolve(ends)
    })
  })
}

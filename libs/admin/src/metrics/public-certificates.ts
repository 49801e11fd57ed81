/**
 * The expiry times of the certificates that users see. A proxy has them, renews them and keeps
 * their files for itself, so they are read as users see them: by a handshake with each public host.
 */
import { connect } from 'node:tls'
import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'

export interface PublicHost {
  host: string
  port: number
}

const readEveryMs = 600_000
const handshakeTimeoutMs = 10_000

export class PublicCertificates {
  readonly #hosts: readonly PublicHost[]
  readonly #expiryOf: (host: PublicHost) => Promise<number>
  readonly #onFault: (error: unknown, host: string) => void
  readonly #expiresMs = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  /** @param options.expiryOf of its certificate, Unix ms; tests have other ones */
  constructor({
    hosts,
    onFault,
    expiryOf = shownExpiry,
  }: {
    hosts: readonly PublicHost[]
    onFault: (error: unknown, host: string) => void
    expiryOf?: (host: PublicHost) => Promise<number>
  }) {
    this.#hosts = hosts
    this.#onFault = onFault
    this.#expiryOf = expiryOf
  }

  /** Reads them now, and every ten minutes. */
  start(): void {
    if (this.#hosts.length === 0) return
    void this.read()
    this.#timer = setInterval(() => void this.read(), readEveryMs)
    this.#timer.unref()
  }

  /** A host that does not answer keeps what is known: its certificate still expires. */
  async read(): Promise<void> {
    await Promise.all(
      this.#hosts.map(async (host) => {
        try {
          this.#expiresMs.set(labelOf(host), await this.#expiryOf(host))
        } catch (error) {
          this.#onFault(error, labelOf(host))
        }
      }),
    )
  }

  get expiresMs(): ReadonlyMap<string, number> {
    return this.#expiresMs
  }

  close(): void {
    clearInterval(this.#timer)
  }
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
    onFault: (error, publicHost) => log.warn({ err: error, publicHost }, 'its certificate cannot be read'),
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
    help: 'When the certificate expires that a host of HOLDFAST_CERTIFICATE_HOSTS shows to users.',
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
function shownExpiry({ host, port }: PublicHost): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, servername: host, rejectUnauthorized: false })
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

/** One nats-server; with a gateway when regions are to find each other. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, type ServerProcess, type StartOptions, startProcess, whenReady } from './server.ts'
import { natsServer } from './tools.ts'

export interface NatsOptions extends StartOptions {
  directory: string
  host?: string
  port: number
  /** Without them it accepts any client. Gateways use them, too. */
  credentials?: { user: string; password: string } | undefined
  /** Paths of PEM files: clients are encrypted, see this certificate and show one of `ca`. */
  tls?: { ca: string; cert: string; key: string }
  /**
   * Joins the regions: own name and port, its address for others if different, and the others'
   * gateways.
   */
  gateway?: {
    name: string
    port: number
    advertise?: string | undefined
    others: { name: string; address: string }[]
  }
}

export async function startNats(options: NatsOptions): Promise<ServerProcess> {
  const host = options.host ?? '127.0.0.1'
  mkdirSync(options.directory, { recursive: true })
  const config = join(options.directory, 'nats.conf')
  const log = join(options.directory, 'nats.log')
  rmSync(config, { force: true })
  writeFileSync(config, configuration(host, options), { mode: 0o600 })
  options.signal?.throwIfAborted()
  const server = startProcess(natsServer(), ['-c', config], { log })
  options.started?.(server)
  await whenReady(
    server,
    () => ask({ host, port: options.port }, undefined, (bytes) => bytes.toString().startsWith('INFO')),
    {
      timeoutMs: 60_000,
      what: 'nats-server',
      log,
    },
  )
  return server
}

function configuration(host: string, { port, credentials, tls, gateway }: NatsOptions): string {
  const authorization =
    credentials === undefined
      ? []
      : [`authorization { user: "${credentials.user}", password: "${credentials.password}" }`]
  const lines = [
    `listen: ${host}:${port}`,
    'max_payload: 1MB',
    'ping_interval: "5s"',
    'ping_max: 2',
    ...authorization,
    ...(tls === undefined
      ? []
      : [`tls { cert_file: "${tls.cert}", key_file: "${tls.key}", ca_file: "${tls.ca}", verify: true }`]),
  ]
  if (gateway) {
    const who =
      credentials && `${encodeURIComponent(credentials.user)}:${encodeURIComponent(credentials.password)}@`
    lines.push(
      'gateway {',
      `  name: ${gateway.name}`,
      `  listen: ${host}:${gateway.port}`,
      ...authorization,
      ...(gateway.advertise === undefined ? [] : [`  advertise: "${gateway.advertise}"`]),
      `  gateways: [${gateway.others.map((other) => `{ name: ${other.name}, url: "nats://${who ?? ''}${other.address}" }`).join(', ')}]`,
      '}',
    )
  }
  return `${lines.join('\n')}\n`
}

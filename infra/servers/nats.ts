/** One nats-server. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ask, type ServerProcess, type StartOptions, startProcess, whenReady } from './server.ts'
import { natsServer } from './tools.ts'

export interface ConfiguredNats extends StartOptions {
  directory: string
  /** Where clients find it. */
  address: { host: string; port: number }
  /** By their paths below the directory; `nats.conf` is one of them. They may contain secrets. */
  files: Readonly<Record<string, string>>
}

export interface NatsOptions extends StartOptions {
  directory: string
  port: number
  /** Without them it accepts any client. */
  credentials?: { user: string; password: string } | undefined
  /** Paths of PEM files: clients are encrypted, see this certificate and show one of `ca`. */
  tls?: { ca: string; cert: string; key: string }
}

/** Alone, without other servers. */
export function startNats(options: NatsOptions): Promise<ServerProcess> {
  const address = { host: '127.0.0.1', port: options.port }
  return startConfiguredNats({ ...options, address, files: { 'nats.conf': configuration(options) } })
}

/** Accepts clients when it resolves. */
export async function startConfiguredNats(options: ConfiguredNats): Promise<ServerProcess> {
  const { directory, address } = options
  const log = join(directory, 'nats.log')
  for (const [path, text] of Object.entries(options.files)) {
    const file = join(directory, path)
    mkdirSync(dirname(file), { recursive: true })
    // A new file has the mode.
    rmSync(file, { force: true })
    writeFileSync(file, text, { mode: 0o600 })
  }
  options.signal?.throwIfAborted()
  const server = startProcess(natsServer(), ['-c', join(directory, 'nats.conf')], { log })
  options.started?.(server)
  const serves = () => ask(address, undefined, (bytes) => bytes.toString().startsWith('INFO'))
  await whenReady(server, serves, { timeoutMs: 60_000, what: 'nats-server', log })
  return server
}

function configuration({ port, credentials, tls }: NatsOptions): string {
  return [
    `listen: 127.0.0.1:${port}`,
    'max_payload: 1MB',
    'ping_interval: "5s"',
    'ping_max: 2',
    ...(credentials === undefined
      ? []
      : [`authorization { user: "${credentials.user}", password: "${credentials.password}" }`]),
    ...(tls === undefined
      ? []
      : [`tls { cert_file: "${tls.cert}", key_file: "${tls.key}", ca_file: "${tls.ca}", verify: true }`]),
    '',
  ].join('\n')
}

/** One nats-server; with a gateway when regions are to find each other. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, type ServerProcess, type StartOptions, startProcess, whenReady } from './server.ts'
import { natsServer } from './tools.ts'

export interface NatsOptions extends StartOptions {
  directory: string
  host?: string
  port: number
  /** Joins the regions: own name and port, where others find it when that is elsewhere, and where the others' gateways are. */
  gateway?: {
    name: string
    port: number
    advertise?: string | undefined
    others: { name: string; url: string }[]
  }
}

export async function startNats(options: NatsOptions): Promise<ServerProcess> {
  const host = options.host ?? '127.0.0.1'
  mkdirSync(options.directory, { recursive: true })
  const config = join(options.directory, 'nats.conf')
  const log = join(options.directory, 'nats.log')
  writeFileSync(config, configuration(host, options))
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

function configuration(host: string, options: NatsOptions): string {
  const gateway = options.gateway
  const lines = [`listen: ${host}:${options.port}`, 'max_payload: 1MB', 'ping_interval: "5s"', 'ping_max: 2']
  if (gateway)
    lines.push(
      'gateway {',
      `  name: ${gateway.name}`,
      `  listen: ${host}:${gateway.port}`,
      ...(gateway.advertise === undefined ? [] : [`  advertise: "${gateway.advertise}"`]),
      `  gateways: [${gateway.others.map((other) => `{ name: ${other.name}, url: "${other.url}" }`).join(', ')}]`,
      '}',
    )
  return `${lines.join('\n')}\n`
}

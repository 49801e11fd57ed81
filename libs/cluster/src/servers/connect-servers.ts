/** The servers that a process of a cluster works on: NATS and Cassandra. */
import type { Bus } from '@holdfast/bus'
import { BusFault } from '@holdfast/bus'
import { type BusFigures, NatsBus } from '@holdfast/bus-nats'
import type { ClusterConfig, ClusterSecrets, Credentials } from '@holdfast/config'
import type { Logger } from 'pino'
import type { RegionOrder } from '../regions/region-order.ts'
import {
  type MetadataConnections,
  type MetadataOptions,
  openMetadata,
  refusedCredentials,
} from './metadata.ts'
import { RateLimitedLog } from './rate-limited-log.ts'
import type { ClusterTrust } from './trust.ts'
import { openWholeKeyspaces, type WholeKeyspaces } from './whole-keyspaces.ts'

export interface ClusterBus extends Bus {
  /** Whether it has a link to the others now. */
  readonly up: boolean
  figures(): BusFigures
  /** Resolves when others know what is served and subscribed to here. */
  flush(): Promise<void>
}

export interface ClusterServers {
  bus: ClusterBus
  openMetadata(options: MetadataOptions): Promise<MetadataConnections>
  /** For a backup or a restore. Its user closes it. */
  openWholeKeyspaces(order: RegionOrder): WholeKeyspaces
  /** Ends the bus. */
  close(): Promise<void>
}

export interface ConnectOptions {
  config: ClusterConfig
  secrets: ClusterSecrets
  log: Logger
  trust: ClusterTrust
}

/** How a process reaches its servers; tests have some in memory. */
export type ServerConnector = (options: ConnectOptions) => Promise<ClusterServers>

/** Waits for NATS. @throws SettingsFault when it refuses the credentials. */
export async function connectServers({
  config,
  secrets,
  log,
  trust,
}: ConnectOptions): Promise<ClusterServers> {
  const unanswered = new RateLimitedLog<{ subject: string; error: unknown }>(({ subject, error }, count) =>
    log.error({ subject, err: error, count }, 'requests were left without an answer'),
  )
  const servers = config.natsServers.map(({ host, port }) => `${host}:${port}`)
  const bus = await NatsBus.connect({
    servers,
    name: config.nodeName,
    credentials: loginOf(() => secrets.nats),
    tls: trust.nats,
    onWaiting: (error) => log.warn({ err: error }, 'NATS cannot be used yet'),
    onLink: (up) => log.warn({ up }, up ? 'NATS is back' : 'the link to NATS broke'),
    onHandlerError: (entry) => unanswered.add(entry),
  }).catch((error) => {
    unanswered.close()
    if (!(error instanceof BusFault && error.code === 'REFUSED')) throw error
    throw refusedCredentials({
      what: 'NATS',
      servers: `NATS at ${servers.join(', ')}`,
      credentials: secrets.nats,
    })
  })
  return {
    bus,
    openMetadata: (options) =>
      openMetadata(config, {
        ...options,
        credentials: loginOf(() => secrets.cassandra),
        tls: trust.cassandra,
      }),
    openWholeKeyspaces: (order) =>
      openWholeKeyspaces(
        { ...config, order },
        { credentials: loginOf(() => secrets.cassandra), tls: trust.cassandra },
      ),
    async close() {
      await bus.close()
      unanswered.close()
    },
  }
}

/** Whether there are credentials does not change while the process runs. */
function loginOf(now: () => Credentials | undefined): (() => Credentials) | undefined {
  const first = now()
  return first && (() => now() ?? first)
}

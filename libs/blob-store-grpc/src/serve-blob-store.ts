/**
 * A store on the network: control by gRPC, bytes by HTTP/1.1 beside it. What is served is this node's own store and nothing behind it: an
 * internal read is never passed on to another node, so reads cannot run in circles.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createListener, type Socket } from 'node:net'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import type { PlacedBlobStore, ReplicationSource, StorageNode } from '@holdfast/blob-store'
import { type Clock, systemClock } from '@holdfast/kernel'
import { ByteRoutes } from './byte-routes.ts'
import { Callers } from './callers.ts'
import { ClusterSecret } from './cluster-secret.ts'
import { controlService } from './control-service.ts'
import { OpenStages } from './open-stages.ts'
import { provenCalls, provenDefinition } from './proven-calls.ts'

/** Without `copyFrom` the node cannot be asked to copy from others. */
export type ServedStore = PlacedBlobStore & ReplicationSource & Partial<Pick<StorageNode, 'copyFrom'>>

export interface ServeBlobStoreOptions {
  /** At least 16 bytes. */
  secret: string | Uint8Array
  /** Default 127.0.0.1. */
  host?: string
  /** 0 (the default) takes a free one. */
  controlPort?: number
  bytesPort?: number
  /** A stage that nobody wrote to for so long is given up. Default 1 h, as the store's own sweep. */
  stageIdleMs?: number
  clock?: Clock
}

export interface BlobStoreServer {
  /** host:port of the gRPC service. */
  readonly control: string
  /** http://host:port, no slash at the end. */
  readonly bytes: string
  /** Stops listening, waits up to `drainMs` (default 5,000) for what runs, cuts the rest and aborts open stages. The store stays open. */
  close(options?: { drainMs?: number }): Promise<void>
}

/** Sockets of peers; past it connections are refused. */
const connectionsMax = 4096
const headersTimeoutMs = 10_000
/** Longer than clients keep idle connections, so that they end first. */
const keepAliveMs = 75_000
/** Each process of the cluster has one for its calls. */
const callersMax = 1024
/** As many as a peer has under way by default (`inFlightMax`). */
const callsMax = 1024
/** What is asked is short: the longest names the placement groups of two nodes, some bytes each. Answers are longer. */
const requestBytesMax = 64 * 1024

/** Serves the store; resolves when both listeners take calls. */
export async function serveBlobStore(
  store: ServedStore,
  options: ServeBlobStoreOptions,
): Promise<BlobStoreServer> {
  const host = options.host ?? '127.0.0.1'
  const clock = options.clock ?? systemClock
  const secret = new ClusterSecret(options.secret, clock)
  const stages = new OpenStages(clock, options.stageIdleMs ?? 3_600_000)
  const routes = new ByteRoutes({ store, stages, secret })

  const bytes = createServer({
    requestTimeout: 0, // an upload may take hours
    headersTimeout: headersTimeoutMs,
    keepAliveTimeout: keepAliveMs,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  })
  bytes.maxConnections = connectionsMax
  bytes.on('request', (request, response) => void routes.answer(request, response))
  bytes.listen(options.bytesPort ?? 0, host)
  await once(bytes, 'listening')

  const callers = new Callers()
  const control = new Server({
    'grpc.max_receive_message_length': requestBytesMax,
    'grpc.max_concurrent_streams': callsMax,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.http2.min_ping_interval_without_data_ms': 5_000,
    interceptors: [
      provenCalls({
        secret,
        onProven: (peer) => callers.proven(peer),
        onRefused: (peer) => callers.refused(peer),
      }),
    ],
  })
  control.addService(provenDefinition, controlService({ store, stages }))
  // Its connections are ours: the library bounds neither how many there are, nor how long one may be silent.
  const injector = control.createConnectionInjector(ServerCredentials.createInsecure())
  const calls = createListener({ noDelay: true }, (socket) => {
    callers.add(socket)
    injector.injectConnection(socket)
  })
  calls.maxConnections = callersMax
  try {
    calls.listen(options.controlPort ?? 0, host)
    await once(calls, 'listening')
  } catch (error) {
    bytes.close()
    throw error
  }

  const sockets = new Set<Socket>()
  bytes.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  let closing: Promise<void> | undefined
  return {
    control: `${bracketed(host)}:${(calls.address() as AddressInfo).port}`,
    bytes: `http://${bracketed(host)}:${(bytes.address() as AddressInfo).port}`,
    close({ drainMs = 5_000 } = {}) {
      closing ??= (async () => {
        const ended = Promise.all([
          new Promise((resolve) => bytes.close(resolve)),
          new Promise((resolve) => calls.close(resolve)),
          new Promise((resolve) => control.tryShutdown(resolve)),
        ])
        bytes.closeIdleConnections()
        const cut = setTimeout(() => {
          for (const socket of sockets) socket.destroy()
          control.forceShutdown()
        }, drainMs)
        await ended
        clearTimeout(cut)
        await stages.close()
      })()
      return closing
    },
  }
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

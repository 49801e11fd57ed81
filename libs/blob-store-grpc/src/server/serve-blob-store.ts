/**
 * A store on the network: control by gRPC, bytes by HTTP/1.1 beside it. It serves only this node's
 * own store: an internal read is never passed on to another node, so reads cannot loop.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import type { Clock, Tracer } from '@holdfast/kernel'
import type { TlsContext } from '@holdfast/trust'
import { inFlightMax } from '../client/connections.ts'
import { type CallLog, CallNotes } from '../client-requests.ts'
import { ClusterSecret, type ClusterSecretSource } from '../cluster-secret.ts'
import { ByteRoutes } from './byte-routes.ts'
import { Callers } from './callers.ts'
import { controlService } from './control-service.ts'
import { byteListener, callListener } from './listeners.ts'
import { type NodeBounds, type NodeFigures, NodeLoad, type RefusalReason } from './node-load.ts'
import { OpenStages } from './open-stages.ts'
import { provenCalls, provenDefinition } from './proven-calls.ts'
import type { ServedStore } from './served-store.ts'

export interface ServeBlobStoreOptions {
  /** At least 16 bytes. */
  secret: ClusterSecretSource
  /** Callers show a certificate of the same authority. Undefined: no encryption. */
  tls: TlsContext | undefined
  host: string
  /** 0 uses a free one. */
  controlPort: number
  bytesPort: number
  /** Running requests of all peers together. */
  bounds: NodeBounds
  clock: Clock
  log: CallLog
  /** Undefined: no request is traced. */
  tracer: Tracer | undefined
}

export interface BlobStoreServer {
  /** host:port of the gRPC service. */
  readonly control: string
  /** http(s)://host:port, no slash at the end. */
  readonly bytes: string
  /** Running and refused requests. */
  figures(): NodeFigures
  /**
   * Stops listening, waits up to `drainMs` for running requests, cuts the rest and
   * aborts open stages. The store stays open.
   */
  close(options: { drainMs: number }): Promise<void>
}

/** Unproven connections of the control port. A process of the cluster has one connection there. */
const controlStrangersMax = 64
/**
 * The share of the byte port's connections that may be unproven: a peer opens many at once there.
 * Proven peers get the rest.
 */
const bytesStrangersShare = 1 / 2
/** A stage without activity for this long is aborted, as in the store itself. */
const stageIdleMs = 3_600_000
/**
 * Requests are short: the longest names the placement groups of two nodes, some bytes each. Answers
 * are longer.
 */
const requestBytesMax = 64 * 1024
/**
 * Memory of one connection, MiB: its calls with requests of the largest size, and answers on their
 * way.
 */
const sessionMemoryMiB = 128

/** Serves the store; resolves when both listeners accept calls. */
export async function serveBlobStore(
  store: ServedStore,
  options: ServeBlobStoreOptions,
): Promise<BlobStoreServer> {
  const { host, clock, log, tracer } = options
  const notes = new CallNotes({ log, clock, tracer })
  const secret = new ClusterSecret(options.secret, clock)
  const stages = new OpenStages(clock, stageIdleMs)
  const load = new NodeLoad(options.bounds)
  const { connections } = load.bounds
  const onRefused = (reason: RefusalReason) => {
    load.refused[reason]++
  }
  const byteCallers = new Callers({
    connectionsMax: connections.bytes,
    strangersMax: Math.ceil(connections.bytes * bytesStrangersShare),
    onRefused,
  })
  const routes = new ByteRoutes({ store, stages, secret, callers: byteCallers, load, notes })

  const { tls } = options
  const bytes = byteListener({
    tls,
    isTaken: (socket) => byteCallers.add(socket),
    answer: (request, response) => void routes.answer(request, response),
  })
  bytes.listen(options.bytesPort, host)
  await once(bytes, 'listening')

  const callers = new Callers({
    connectionsMax: connections.control,
    strangersMax: controlStrangersMax,
    onRefused,
  })
  const control = controlServer({ secret, callers, load, onRefused })
  control.addService(provenDefinition, controlService({ store, stages, notes }))
  // This file manages connections and their encryption, because the library limits neither their
  // number nor their idle time.
  const injector = control.createConnectionInjector(ServerCredentials.createInsecure())
  const calls = callListener({
    tls,
    isTaken: (socket) => callers.add(socket),
    serve: (socket) => injector.injectConnection(socket),
  })
  try {
    calls.listen(options.controlPort, host)
    await once(calls, 'listening')
  } catch (error) {
    bytes.close()
    throw error
  }

  let closing: Promise<void> | undefined
  return {
    control: `${inBrackets(host)}:${(calls.address() as AddressInfo).port}`,
    bytes: `http${tls === undefined ? '' : 's'}://${inBrackets(host)}:${(bytes.address() as AddressInfo).port}`,
    figures: () => ({
      connections: { control: callers.open.size, bytes: byteCallers.open.size },
      calls: load.calls,
      bytes: load.bytes,
      refused: load.refused,
    }),
    close({ drainMs }) {
      closing ??= (async () => {
        const ended = Promise.all([
          new Promise((resolve) => bytes.close(resolve)),
          new Promise((resolve) => calls.close(resolve)),
          new Promise((resolve) => control.tryShutdown(resolve)),
        ])
        bytes.closeIdleConnections()
        const cut = setTimeout(() => {
          for (const socket of byteCallers.open) socket.destroy()
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

/** The gRPC server: it counts calls, and refuses those without a proof of the cluster's secret. */
function controlServer({
  secret,
  callers,
  load,
  onRefused,
}: {
  secret: ClusterSecret
  callers: Callers
  load: NodeLoad
  onRefused: (reason: RefusalReason) => void
}): Server {
  return new Server({
    'grpc.max_receive_message_length': requestBytesMax,
    'grpc.max_concurrent_streams': inFlightMax,
    'grpc-node.max_session_memory': sessionMemoryMiB,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.http2.min_ping_interval_without_data_ms': 5_000,
    interceptors: [
      provenCalls({
        secret,
        onProven: (peer) => callers.proven(peer),
        onRefused: (peer) => {
          onRefused('unproven')
          callers.refused(peer)
        },
        beginCall: () => load.beginCall(),
      }),
    ],
  })
}

function inBrackets(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

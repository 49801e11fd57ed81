/** Builds the upload host from its parts. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AccountClient } from '@holdfast/actor-runtime'
import type { BlobStore } from '@holdfast/blob-store'
import {
  createHttpHost,
  drainOnClose,
  type HostBudgets,
  ItemPresenter,
  type RateLimits,
  Refusal,
} from '@holdfast/http-kit'
import type { Clock, Keyring, RegionCode } from '@holdfast/kernel'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { FormMemory } from './form-scanner.ts'
import { RunningUploads } from './running-uploads.ts'
import { upload } from './upload.ts'
import { UploadMetrics } from './upload-metrics.ts'
import { UploadPermissionCache } from './upload-permission-cache.ts'

export interface UploadDeps {
  accounts: AccountClient
  blobs: BlobStore
  keyring: Keyring
  clock: Clock
  log: Logger
  metrics: Registry
  limits: RateLimits
  /** Default: a new host. */
  budgets?: HostBudgets
  /** Names of the nodes that now hold a placement group's files, nearest first. */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  /**
   * Where an upload goes and where its guest account is created, by the requested host and the
   * client's country; default: `blobs` and the settings' region.
   */
  placeOf?: (request: FastifyRequest) => { region: RegionCode; blobs: BlobStore }
  settings: UploadSettings
}

export interface UploadSettings {
  trustProxy: string[] | number | false
  /** Used in links; no slash at the end. */
  downloadUrl: string
  webUrl: string
  /** Where guest accounts are created. */
  region: RegionCode
  /** All regions, in one order everywhere; default: only `region`. */
  regions?: readonly RegionCode[]
  /** Key from which new tokens are derived. */
  tokenKeyId: number
  /**
   * Concurrent uploads of one address (IPv6: /64); beyond it `error-rateLimit`. Default 256;
   * Infinity when rate limits are off: then networks are not distinguished.
   */
  uploadsPerNetworkMax?: number
  /**
   * Concurrent uploads in all. Default 2,048: each holds a socket, some 50 KiB and up to 16 KiB of
   * a file.
   */
  uploadsMax?: number
  /**
   * Concurrent uploads that hold a stage of the store. Default 896: an eighth of the store's 1,024
   * is left to repair and replication.
   */
  stagesMax?: number
  /** How long `close` lets running uploads continue before it cuts them, ms. Default 30,000. */
  drainMs?: number
}

/** The parts that the handler uses. */
export interface UploadContext extends UploadDeps {
  present: ItemPresenter
  running: RunningUploads
  uploadMetrics: UploadMetrics
  permissions: UploadPermissionCache
  forms: FormMemory
  /** 32 bytes: derives a guest account from a client's key. */
  idempotencySecret: Uint8Array
}

const uploadsPerNetworkMaxDefault = 256
const uploadsMaxDefault = 2_048
const stagesMaxDefault = 896
const drainMsDefault = 30_000

/**
 * The upload host; the caller listens. `close` lets running uploads end within `drainMs`. The ports
 * stay open: they belong to the caller.
 */
export function createUpload(deps: UploadDeps): FastifyInstance {
  const { settings, keyring } = deps
  const app = createHttpHost({
    name: 'upload',
    log: deps.log,
    metrics: deps.metrics,
    trustProxy: settings.trustProxy,
    cors: true,
    limits: deps.limits,
    ...(deps.budgets === undefined ? {} : { connections: deps.budgets.connections, lane: deps.budgets.lane }),
  })
  const uploadMetrics: UploadMetrics = new UploadMetrics(deps.metrics, () => running.figures)
  const running = new RunningUploads({
    perNetworkMax: settings.uploadsPerNetworkMax ?? uploadsPerNetworkMaxDefault,
    uploadsMax: settings.uploadsMax ?? uploadsMaxDefault,
    stagesMax: settings.stagesMax ?? stagesMaxDefault,
    now: () => deps.clock.monotonic(),
    metrics: uploadMetrics,
  })
  const parts: UploadContext = {
    ...deps,
    uploadMetrics,
    running,
    present: new ItemPresenter({
      downloadUrl: settings.downloadUrl,
      serversOf: deps.serversOf,
      capabilityKey: keyring.derive('capability'),
    }),
    permissions: new UploadPermissionCache(deps.clock),
    forms: new FormMemory(),
    idempotencySecret: keyring.derive('idempotency'),
  }

  // The handler reads the bytes as they come.
  app.addContentTypeParser(/^multipart\/form-data/i, (_request, _body, done) => done(null, undefined))
  // A client that waits for 100 Continue gets it from the handler, or a refusal.
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    app.server.emit('request', request, response),
  )
  for (const url of ['/uploadfile', '/contents/uploadfile']) {
    app.route({
      method: 'POST',
      url,
      config: { endpoint: 'upload' },
      handler: (request, reply) => {
        if (request.body !== undefined) throw new Refusal('error-body')
        return upload(parts, request, reply)
      },
    })
  }
  drainOnClose(app, { drainMs: settings.drainMs ?? drainMsDefault })
  return app
}

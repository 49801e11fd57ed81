import type { AccountClient } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import type { HostBudgets, ItemPresenter, RateLimits } from '@holdfast/http-kit'
import type { Clock, Keyring, RegionCode } from '@holdfast/kernel'
import type { Blocked, NotesTransfers } from '@holdfast/moderation'
import type { FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { FormMemory } from './form-scanner.ts'
import type { RunningUploads } from './running-uploads.ts'
import type { UploadMetrics } from './upload-metrics.ts'
import type { UploadPermissionCache } from './upload-permission-cache.ts'

export interface UploadDeps {
  accounts: AccountClient
  blobs: BlobStore
  /** What the operator blocks. */
  blocked: Blocked
  /** What the operator keeps about uploads. */
  transfers: NotesTransfers
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
  /** Uploads without a token make a guest account; default true. */
  guestUploads?: boolean
  /** Bytes of the largest file; default: no limit. */
  fileBytesMax?: number
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

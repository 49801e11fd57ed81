import type { AccountClient } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import type { HostBudgets, ItemPresenter, RateLimits, TellsReadiness } from '@holdfast/http-kit'
import type { Clock, Keyring, RegionCode } from '@holdfast/kernel'
import type { BlockChecks, NotesTransfers } from '@holdfast/moderation'
import type { FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { FormMemory } from './form-scanner.ts'
import type { RunningUploads } from './running-uploads.ts'
import type { JudgesContent } from './scanning/content-scans.ts'
import type { UploadSettings } from './settings.ts'
import type { UploadMetrics } from './upload-metrics.ts'
import type { UploadPermissionCache } from './upload-permission-cache.ts'

export interface UploadDeps {
  accounts: AccountClient
  blobs: BlobStore
  /** The operator's blocks. */
  blocked: BlockChecks
  /** Asked about new content before anybody can name it. */
  scans: JudgesContent
  /** The operator's record of uploads. */
  transfers: NotesTransfers
  keyring: Keyring
  clock: Clock
  readiness: TellsReadiness
  log: Logger
  metrics: Registry
  rateLimits: RateLimits
  /** Undefined: the host makes its own. */
  budgets: HostBudgets | undefined
  /** Names of the nodes that now hold a placement group's files, nearest first. */
  serversOf: (placementGroup: number, createdMs: number) => readonly string[]
  /**
   * Where an upload goes and where its guest account is created, by the requested host and the
   * client's country; undefined: `blobs` and the settings' region.
   */
  placeOf: ((request: FastifyRequest) => { region: RegionCode; blobs: BlobStore }) | undefined
  settings: UploadSettings
}

/** What the handler of uploads uses. */
export interface UploadContext extends UploadDeps {
  present: ItemPresenter
  running: RunningUploads
  uploadMetrics: UploadMetrics
  permissions: UploadPermissionCache
  forms: FormMemory
  /** 32 bytes: derives a guest account from a client's key. */
  idempotencySecret: Uint8Array
}

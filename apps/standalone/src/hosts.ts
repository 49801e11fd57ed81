/** The HTTP hosts of this process. */
import { type AccountClient, type AccountVersions, ShareCodeRoutes } from '@holdfast/accounts'
import type { PasswordWork } from '@holdfast/actor-runtime'
import { createApi } from '@holdfast/api'
import type { BlobStore } from '@holdfast/blob-store'
import type { Config } from '@holdfast/config'
import { createDownloads, downloadSettings, webDownloads } from '@holdfast/downloads'
import {
  drainOnClose,
  type HostBudgets,
  ItemPresenter,
  type RateLimits,
  type TellsReadiness,
} from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import { type Clock, type Keyring, tokenKeyId } from '@holdfast/kernel'
import type { BlockChecks, NotesTransfers, Reports } from '@holdfast/moderation'
import { createUpload, type JudgesContent, uploadSettings } from '@holdfast/upload'
import { webPages } from '@holdfast/web'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { ListenAddresses } from './addresses.ts'

export interface HostDeps {
  config: Config
  urls: ListenAddresses['urls']
  accounts: AccountClient
  versions: AccountVersions
  passwordWork: PasswordWork
  blobs: BlobStore
  blocked: BlockChecks
  scans: JudgesContent
  transfers: NotesTransfers
  reports: Reports
  lookups: LookupStore
  keyring: Keyring
  rateLimits: RateLimits
  budgets: HostBudgets
  readiness: TellsReadiness
  clock: Clock
  log: Logger
  metrics: Registry
}

/** The public hosts; not listening yet. */
export function createPublicHosts(deps: HostDeps): Record<'api' | 'upload' | 'download', FastifyInstance> {
  const { config, urls } = deps
  const serversOf = () => [config.serverName]
  const { region, drainMs } = config
  const downloads = downloadSettings(config, { webUrl: urls.web })
  const api = createApi({
    ...deps,
    serversOf,
    directUrlOf: undefined,
    uploadUrlOf: undefined,
    settings: { ...config, urls, regions: [region], founders: [region], tokenKeyId },
  })
  const presenter = new ItemPresenter({
    downloadUrl: urls.download,
    serversOf,
    directUrlOf: undefined,
    capabilityKey: deps.keyring.derive('capability'),
  })
  const codes = new ShareCodeRoutes(deps)
  const { answers } = deps.budgets
  api.register(webPages({ ...deps, answers, ids: deps.keyring.ids, presenter, codes, rules: config }))
  api.register(webDownloads({ ...deps, settings: downloads }))
  drainOnClose(api, { drainMs })
  const upload = createUpload({
    ...deps,
    serversOf,
    placeOf: undefined,
    settings: uploadSettings({ ...config, tokenKeyId }, { urls, founders: [region] }),
  })
  return { api, upload, download: createDownloads({ ...deps, settings: downloads, readsHere: true }) }
}

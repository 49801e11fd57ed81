/** Builds the download host out of its parts. */
import { createSecretKey } from 'node:crypto'
import type { AccountClient, AccountVersions } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import {
  AnswerBudget,
  createHttpHost,
  drainOnClose,
  type HostBudgets,
  type RateLimits,
} from '@holdfast/http-kit'
import { type Clock, type Keyring, RecentMap } from '@holdfast/kernel'
import type { Blocked, NotesTransfers } from '@holdfast/moderation'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { Archives } from './archives.ts'
import type { DownloadContext } from './context.ts'
import { type DirectLinkParams, directLink } from './direct-link.ts'
import { download } from './download.ts'
import { DownloadReports } from './download-reports.ts'
import { downloadWeb } from './download-web.ts'
import { RecentAnswers } from './recent-answers.ts'
import { trafficCounter } from './traffic-counter.ts'

export interface DownloadsDeps {
  accounts: AccountClient
  /** The accounts in this process; undefined: it has none. */
  versions: AccountVersions | undefined
  blobs: BlobStore
  /** What the operator blocks. */
  blocked: Blocked
  /** What the operator keeps about downloads. */
  transfers: NotesTransfers
  keyring: Keyring
  clock: Clock
  log: Logger
  metrics: Registry
  limits: RateLimits
  /** Undefined: the host makes its own. */
  budgets: HostBudgets | undefined
  trustProxy: string[] | number | false
  /** Origin of the pages, without a slash at the end. */
  webUrl: string
  /** How long `close` lets running downloads continue before it cuts them, ms. */
  drainMs: number
}

/** Some 500 bytes each; one is valid for a folder and the reader that listed it. */
const grantsMax = 4_096

/**
 * The host of downloads, direct links and archives; the caller listens.
 *
 * `close` stops listening, lets running requests end within `drainMs`, cuts the rest, and reports
 * the remaining counts. The ports stay open: they belong to the caller.
 */
export function createDownloads(deps: DownloadsDeps): FastifyInstance {
  const { accounts, blobs, blocked, keyring, clock, log, limits } = deps
  const app = createHttpHost({
    name: 'download',
    log,
    metrics: deps.metrics,
    trustProxy: deps.trustProxy,
    cors: true,
    limits,
    isBanned: (address) => blocked.blocksAddress(address),
    ...(deps.budgets === undefined ? {} : { connections: deps.budgets.connections, lane: deps.budgets.lane }),
  })
  const reports = new DownloadReports({ accounts, clock, log })
  const bytesSent = trafficCounter(deps.metrics)
  const parts: DownloadContext = {
    accounts,
    versions: deps.versions,
    blobs,
    blocked,
    transfers: deps.transfers,
    keyring,
    capabilityKey: createSecretKey(keyring.derive('capability')),
    grants: new RecentMap({ max: grantsMax }),
    clock,
    limits,
    answers: deps.budgets?.answers ?? new AnswerBudget({ clock }),
    recent: new RecentAnswers(clock),
    opened: new WeakMap(),
    reports,
    archives: new Archives({ blobs, blocked, clock }),
    webUrl: deps.webUrl,
    sent(accountId, traffic, bytes) {
      bytesSent.inc({ traffic }, bytes)
      reports.countTraffic(accountId, traffic, bytes)
    },
  }

  const method = ['GET', 'HEAD']
  for (const url of ['/download/:contentId', '/download/:contentId/*']) {
    app.route<{ Params: { contentId: string } }>({
      method,
      url,
      config: { endpoint: 'download' },
      handler: (request, reply) => download(parts, request, reply),
    })
  }
  for (const url of ['/download/web/:contentId', '/download/web/:contentId/*']) {
    app.route<{ Params: { contentId: string } }>({
      method,
      url,
      config: { endpoint: 'downloadWeb' },
      handler: (request, reply) => downloadWeb(parts, request, reply),
    })
  }
  for (const url of ['/direct/:contentId/:linkId', '/direct/:contentId/:linkId/*']) {
    app.route<{ Params: DirectLinkParams }>({
      method,
      url,
      config: { endpoint: 'directLink' },
      handler: (request, reply) => directLink(parts, request, reply),
    })
  }
  drainOnClose(app, { drainMs: deps.drainMs })
  app.addHook('onClose', () => reports.close())
  return app
}

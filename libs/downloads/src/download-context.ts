/** What handlers of downloads share, made once for each host that has them. */
import { createSecretKey } from 'node:crypto'
import type { AccountClient, AccountVersions } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import { AnswerBudget, type HostBudgets, type RateLimits } from '@holdfast/http-kit'
import { type Clock, type Keyring, RecentMap } from '@holdfast/kernel'
import type { BlockChecks, NotesTransfers } from '@holdfast/moderation'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { Archives } from './archives/archives.ts'
import type { DownloadContext } from './context.ts'
import { DownloadReports } from './download-reports.ts'
import { RecentAnswers } from './links/recent-answers.ts'
import type { DownloadSettings } from './settings.ts'
import { trafficCounter } from './traffic-counter.ts'

export interface DownloadContextDeps {
  accounts: AccountClient
  /** The accounts in this process; undefined: it has none. */
  versions: AccountVersions | undefined
  blobs: BlobStore
  /** The operator's blocks. */
  blocked: BlockChecks
  /** The operator's record of downloads. */
  transfers: NotesTransfers
  keyring: Keyring
  clock: Clock
  log: Logger
  metrics: Registry
  rateLimits: RateLimits
  /** Undefined: the host makes its own. */
  budgets: HostBudgets | undefined
  settings: DownloadSettings
}

/** Some 500 bytes each; one is valid for a folder and the reader that listed it. */
const grantsMax = 4_096

/**
 * Its reports are closed by the caller.
 *
 * @param inPlace harmless types may be shown in the browser; else all are sent as files
 */
export function downloadContext(
  deps: DownloadContextDeps,
  { inPlace }: { inPlace: boolean },
): DownloadContext {
  const { accounts, blobs, blocked, transfers, keyring, clock, rateLimits } = deps
  const reports = new DownloadReports({ accounts, clock, log: deps.log })
  const answers = deps.budgets?.answers ?? new AnswerBudget({ metrics: undefined, clock })
  const bytesSent = trafficCounter(deps.metrics)
  return {
    accounts,
    versions: deps.versions,
    blobs,
    blocked,
    transfers,
    keyring,
    capabilityKey: createSecretKey(keyring.derive('capability')),
    grants: new RecentMap({ max: grantsMax }),
    clock,
    rateLimits,
    answers,
    recent: new RecentAnswers(clock),
    opened: new WeakMap(),
    reports,
    archives: new Archives({ blobs, blocked, clock, slices: answers.turns }),
    webUrl: deps.settings.webUrl,
    inPlace,
    sent(accountId, traffic, bytes) {
      bytesSent.inc({ traffic }, bytes)
      reports.countTraffic(accountId, traffic, bytes)
    },
  }
}

import type { CapabilityKey } from '@holdfast/access'
import type { AccountClient, AccountVersions, Asker } from '@holdfast/accounts'
import type { BlobStore } from '@holdfast/blob-store'
import type { AnswerBudget, RateLimits } from '@holdfast/http-kit'
import type { Clock, Keyring, RecentMap } from '@holdfast/kernel'
import type { BlockChecks, NotesTransfers } from '@holdfast/moderation'
import type { FileView } from '@holdfast/wire'
import type { Archives } from './archives/archives.ts'
import type { Representation } from './bytes/representation.ts'
import type { DownloadReports, Traffic } from './download-reports.ts'
import type { RecentAnswers } from './links/recent-answers.ts'

/** What handlers of downloads use. */
export interface DownloadContext {
  accounts: AccountClient
  versions: AccountVersions | undefined
  blobs: BlobStore
  /** The operator's blocks. */
  blocked: BlockChecks
  /** The operator's record of downloads. */
  transfers: NotesTransfers
  keyring: Keyring
  capabilityKey: CapabilityKey
  /** Recently verified capabilities, by their text. */
  grants: RecentMap<string, VerifiedGrant>
  clock: Clock
  rateLimits: RateLimits
  answers: AnswerBudget
  recent: RecentAnswers
  /** Results of the accounts' answers. */
  opened: WeakMap<FileView, Representation>
  reports: DownloadReports
  archives: Archives
  webUrl: string
  /** Harmless types may be shown in the browser. */
  inPlace: boolean
  sent(accountId: string, traffic: Traffic, bytes: number): void
}

/** The rights of a verified capability. */
export interface VerifiedGrant {
  /** Unix seconds. */
  ends: number
  who: Asker
  isOwners: boolean
  /** Its part of the key in the cache of answers. */
  question: string
}

import type { RateLimits } from '@holdfast/http-kit'
import type { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { NewAccountDeps } from '../new-account.ts'
import type { PageSessions } from '../page-session.ts'

/** What the moderation page is made of. */
export interface PageParts {
  lists: BlockLists
  reports: Reports
  transfers: TransferLog
  accounts: NewAccountDeps
  sessions: PageSessions
  rateLimits: RateLimits
}

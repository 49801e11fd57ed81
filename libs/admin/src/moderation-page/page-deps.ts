import type { RateLimits } from '@holdfast/http-kit'
import type { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { AllAccounts } from '../all-accounts.ts'
import type { NewAccountDeps } from '../new-account.ts'
import type { PageSessions } from '../page-session.ts'

/** What the moderation page reads and acts on. */
export interface ModerationPageDeps {
  lists: BlockLists
  reports: Reports
  transfers: TransferLog
  accounts: NewAccountDeps
  allAccounts: AllAccounts
  sessions: PageSessions
  rateLimits: RateLimits
}

import type { RateLimits } from '@holdfast/http-kit'
import type { BlockLists, Reports, TransferLog } from '@holdfast/moderation'
import type { PageSessions } from '../access/page-session.ts'
import type { AllAccounts } from '../accounts/all-accounts.ts'
import type { NewAccountDeps } from '../accounts/new-account.ts'

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

export {
  type AccountResult,
  type AskDeps,
  type Asker,
  asBearer,
  ask,
  asOperator,
  asSystem,
  asVisitor,
  claimOf,
  type Question,
  type TokenClaim,
  type ViewOf,
  viewOf,
} from './ask.ts'
export { BlockedAccounts } from './blocked-accounts.ts'
export type { AccountClient, AccountVersions } from './contract.ts'
export { AccountsUnavailable } from './errors.ts'
export { cutRequest, RequestJoiner } from './request-parts.ts'
export {
  type LocalHost,
  RoutedAccountClient,
  type RoutedAccountClientOptions,
} from './routed-account-client.ts'
export { emailKey, routeKey, routeOfCode, ShareCodeRoutes } from './share-code-routes.ts'
export {
  clearSubjectOf,
  lagSubjectOf,
  livingSubjectOf,
  partSubjectOf,
  quarantineSubjectOf,
  releaseSubjectOf,
  repairSubjectOf,
  replicaSubjectOf,
  subjectOf,
} from './subjects.ts'
export { type CopyUses, usesOfCopy } from './uses-of-copy.ts'

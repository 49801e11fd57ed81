export { RefusalError } from '@holdfast/kernel'
export {
  AnswerBudget,
  type AnswerBudgetOptions,
  type AnswerBudgetTuning,
  type AnswerShare,
} from './answers/answer-budget.ts'
export { baseStyle } from './answers/base-style.ts'
export { takeOver } from './answers/headers.ts'
export { Html, html } from './answers/html.ts'
export {
  httpCodeOf,
  type KnownStatus,
  refusalOf,
  statuses,
  unavailableRetrySeconds,
} from './answers/refusals.ts'
export { type DocumentedResponse, type OperationAnswers, responsesOf } from './answers/responses.ts'
export { timeElement } from './answers/time-element.ts'
export { okWritten, sendWritten, shareOf, WrittenAnswer, writeMembers } from './answers/written-answer.ts'
export { notePassed } from './connections/connection.ts'
export type { ConnectionLimits, IdleTimes } from './connections/connections.ts'
export type { ListenerTls } from './connections/handshakes.ts'
export type {
  CreateHttpHost,
  Guess,
  GuessKind,
  HostBudgets,
  HttpHostOptions,
  RateLimitShown,
  RateLimits,
  TellsReadiness,
} from './contract.ts'
export { drainOnClose } from './drain.ts'
export { healthPath, healthRoute } from './health.ts'
export { createHttpHost, defaultIdle, logFailure, ok, ownParts, sharedParts } from './host.ts'
export { type ItemShape, itemDocument, ownerTextBytes } from './items/item-members.ts'
export type { JsonWriter } from './items/json-writer.ts'
export { presentLimits, presentStatistics } from './items/present-account.ts'
export {
  ItemPresenter,
  type PresentSettings,
  type PresentView,
  presentPage,
} from './items/present-item.ts'
export { createLog, standardError } from './log.ts'
export {
  clientAddress,
  networkOf,
  normalAddress,
  outerNetworkOf,
  siteOf,
  type TrustProxy,
} from './rate-limits/addresses.ts'
export { banMetrics } from './rate-limits/ban-metrics.ts'
export type { Ban } from './rate-limits/bans.ts'
export type { ReportedCounts } from './rate-limits/counter-table.ts'
export { guessing, RequestGuesses } from './rate-limits/guesses.ts'
export {
  type Budget,
  type CountingRateLimits,
  createRateLimits,
  defaultPolicies,
  type RateLimitPolicies,
} from './rate-limits/rate-limits.ts'
export { PiecewiseRequest, smallPieceBytes, takePieces } from './reading/piecewise-request.ts'
export { type PiecesLane, SmallPiecesLane, type Turn } from './reading/small-pieces-lane.ts'
export { answerUnread } from './reading/unread-answer.ts'
export { type Fields, RepeatedParameter } from './requests/bodies.ts'
export {
  cleanUploadName,
  isOfDomains,
  mailboxOf,
  parseDescription,
  parseEmail,
  parseExpiry,
  parseFolderPassword,
  parseIds,
  parseModTime,
  parseName,
  parseTags,
  parseUuid,
  passwordLengthMax,
  passwordLengthMin,
} from './requests/content-rules.ts'
export { idempotencyKeyOf } from './requests/idempotency-key.ts'
export { decimalForm, type IntegerRange, integerForms, integerOf } from './requests/integers.ts'
export { booleanOf, parametersOf, schemaForDocument, withParser } from './requests/parameters.ts'
export { accountCookieOf, bearerOf, oneToken, tokenOf } from './requests/token-transport.ts'

export { RefusalError } from '@holdfast/kernel'
export { clientAddress, networkOf, type TrustProxy } from './addresses.ts'
export { AnswerBudget, type AnswerBudgetOptions, type AnswerShare } from './answer-budget.ts'
export { banMetrics } from './ban-metrics.ts'
export type { Ban } from './bans.ts'
export { type Fields, Repeated } from './bodies.ts'
export { notePassed } from './connection.ts'
export type { ConnectionLimits, IdleTimes } from './connections.ts'
export {
  cleanUploadName,
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
} from './content-rules.ts'
export type {
  CreateHttpHost,
  Guess,
  GuessKind,
  HostBudgets,
  HttpHostOptions,
  RateLimitShown,
  RateLimits,
} from './contract.ts'
export type { ToldCounts } from './counter-table.ts'
export { drainOnClose } from './drain.ts'
export { guessing, RequestGuesses } from './guesses.ts'
export { createHttpHost, defaultIdle, logFailure, ok, takeOver } from './host.ts'
export { Html, html } from './html.ts'
export { type ItemShape, itemDocument } from './item-members.ts'
export { createLog, standardError } from './log.ts'
export { booleanOf, documented, integerOf, parametersOf, refined } from './parameters.ts'
export { PiecewiseRequest, smallPieceBytes, takePieces } from './piecewise-request.ts'
export {
  ItemPresenter,
  type PresentSettings,
  type PresentView,
  presentPage,
} from './present-item.ts'
export {
  type Budget,
  type CountingRateLimits,
  createRateLimits,
  defaultPolicies,
  type RateLimitPolicies,
} from './rate-limits.ts'
export {
  httpCodeOf,
  type KnownStatus,
  refusalOf,
  statuses,
  unavailableRetrySeconds,
} from './refusals.ts'
export { type DocumentedResponse, type OperationAnswers, responsesOf } from './responses.ts'
export { type PiecesLane, SmallPiecesLane, type Turn } from './small-pieces-lane.ts'
export { accountCookieOf, bearerOf, oneToken, tokenOf } from './token-transport.ts'
export { answerUnread } from './unread-answer.ts'
export { okWritten, sendWritten, WrittenAnswer, writeMembers } from './written-answer.ts'

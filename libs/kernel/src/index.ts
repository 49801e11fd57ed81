export { Ballast, ballastPath, releaseBallast } from './ballast.ts'
export { clientRequest, forClientRequest, isClientRequest } from './client-request.ts'
export { type Clock, systemClock } from './clock.ts'
export {
  codePoints,
  descriptionCodePointsMax,
  idsPerListMax,
  isDescription,
  isName,
  isTag,
  isTime,
  nameCodePointsMax,
  sentTagsCodePointsMax,
  tagCodePointsMax,
  tagsMax,
  timeMax,
  timeMin,
} from './content-rules.ts'
export { makeDirectories } from './directories.ts'
export { equalBytes } from './equal-bytes.ts'
export { CodedFault, Fault, type FaultCategory } from './errors.ts'
export { isFramed } from './framing.ts'
export { GrowingBytes } from './growing-bytes.ts'
export { hex } from './hex.ts'
export {
  type AccountId,
  bytesOfUuid,
  type ContentId,
  IdCodec,
  isUuid,
  type RegionCode,
  regionCodes,
  uuidOfBytes,
} from './ids.ts'
export { Keyring } from './keyring.ts'
export { MailProofs } from './mail-proofs.ts'
export type { PartFailure } from './part-failure.ts'
export { type Randomness, systemRandomness } from './randomness.ts'
export { RecentMap } from './recent-map.ts'
export { busyRetrySeconds, RefusalError } from './refusal-error.ts'
export {
  asksTheSame,
  isRequestId,
  mintRequestId,
  nameOfRequest,
  requestIdOfKey,
  requestTime,
} from './request-ids.ts'
export { RoundRobin } from './round-robin.ts'
export { sha256 } from './sha256.ts'
export { codesPerBlock, isReservedWord, isShareCode, ShareCodes } from './share-codes.ts'
export { isShortage } from './shortage.ts'
export type { Subscription } from './subscription.ts'
export { backgroundTimers, backoffMs, pause, systemTimers, type Timers } from './timers.ts'
export { parseToken, TokenCodec } from './tokens.ts'
export {
  forTrace,
  inSpan,
  type Span,
  type SpanAttributes,
  type Tracer,
  traceparent,
  traceparentOf,
} from './tracing.ts'
export { writableBytes } from './writable-bytes.ts'

export { alignedBytes } from './bytes/aligned-bytes.ts'
export { equalBytes } from './bytes/equal-bytes.ts'
export { isFramed } from './bytes/framing.ts'
export { GrowingBytes } from './bytes/growing-bytes.ts'
export { hex } from './bytes/hex.ts'
export { sha256 } from './bytes/sha256.ts'
export { asBuffer, latin1 } from './bytes/views.ts'
export { writableBytes } from './bytes/writable-bytes.ts'
export {
  archiveContentsMax,
  codePoints,
  controlCharacters,
  descriptionCodePointsMax,
  idsPerListMax,
  isDescription,
  isName,
  isPasswordDigest,
  isTag,
  isTime,
  mediaType,
  nameCodePointsMax,
  pageSizeMax,
  passwordDigest,
  sentTagsCodePointsMax,
  tagCharacters,
  tagCodePointsMax,
  tagsMax,
  timeMax,
  timeMin,
} from './content-rules.ts'
export { Ballast, ballastPath, releaseBallast } from './disk/ballast.ts'
export { absent, makeDirectories, syncDirectory } from './disk/directories.ts'
export { editsBetween } from './edits-between.ts'
export { CodedFault, Fault, type FaultCategory } from './faults/errors.ts'
export type { PartFailure } from './faults/part-failure.ts'
export { busyRetrySeconds, RefusalError } from './faults/refusal-error.ts'
export { isShortage } from './faults/shortage.ts'
export { isUnreadable } from './faults/unreadable.ts'
export {
  type AccountId,
  blobIdBytes,
  bytesOfUuid,
  type ContentId,
  IdCodec,
  incarnationBytes,
  isUuid,
  type RegionCode,
  regionCodes,
  uuidOfBytes,
  uuidPattern,
} from './ids/ids.ts'
export {
  asksTheSame,
  isRequestId,
  mintRequestId,
  nameOfRequest,
  requestIdOfKey,
  requestTime,
} from './ids/request-ids.ts'
export { codesPerBlock, isReservedWord, isShareCode, ShareCodes } from './ids/share-codes.ts'
export { type Randomness, systemRandomness } from './randomness.ts'
export { RecentMap } from './recent-map.ts'
export { clientRequest, forClientRequest, isClientRequest } from './requests/client-request.ts'
export {
  forTrace,
  inSpan,
  type Span,
  type SpanAttributes,
  type Tracer,
  traceparent,
  traceparentOf,
} from './requests/tracing.ts'
export { RoundRobin } from './round-robin.ts'
export { Keyring } from './secrets/keyring.ts'
export { MailProofs } from './secrets/mail-proofs.ts'
export { parseToken, TokenCodec, tokenKeyId } from './secrets/tokens.ts'
export { silentLog } from './silent-log.ts'
export type { Subscription } from './subscription.ts'
export { isTier, type Tier, tiers } from './tiers.ts'
export { type Clock, systemClock } from './time/clock.ts'
export { dayMs, hourMs } from './time/durations.ts'
export { TurnShare } from './time/loop-turn.ts'
export { backgroundTimers, backoffMs, pause, systemTimers, type Timers } from './time/timers.ts'

/**
 * Which caller may send what, and the order of the answers: token, a repeated request's kept
 * result, tier, and then the operation with its parameters, existence, ownership and rules.
 */
import { type AccountId, asksTheSame } from '@holdfast/kernel'
import {
  type AccountOperation,
  type AccountReply,
  type AccountRequest,
  type KeptOutcome,
  AccountReply as Reply,
} from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import type { DecideContext, Outcome, TreeSettings } from '../contract.ts'
import type { PreparedIds } from '../copy.ts'
import { commandNumber, idsOfRecipe, isKept } from '../operations.ts'
import {
  authenticate,
  confirmEmail,
  createAccount,
  getAccount,
  ofAccount,
  resetToken,
  sendSignIn,
  setAccount,
} from './account.ts'
import { openArchive, openDirectLink } from './archives.ts'
import { addLegacyFolder, createFolder, updateContent } from './contents.ts'
import { copyContents, decideCopies } from './copies.ts'
import { deleteDirectLink, linkView, putDirectLink } from './direct-links.ts'
import { readHeld, undoSweeps } from './held.ts'
import { deleteContents, emptyBin, itemsOf, moveContents, restoreContents } from './lists.ts'
import {
  findCode,
  findContents,
  openFile,
  readBin,
  readContent,
  searchContents,
  takeManifest,
} from './reads.ts'
import { reportDownloads } from './reports.ts'
import { answer, RequestContext, type Result, refuse, type Viewer } from './request-context.ts'
import { tick } from './tick.ts'
import { addFile, checkUpload } from './uploads.ts'
import { usesOf } from './uses.ts'

export function decide(
  account: Account,
  request: AccountRequest,
  parts: { settings: TreeSettings; context: DecideContext; prepared: (ids: PreparedIds) => void },
): Outcome {
  const { operation } = request
  if (operation === undefined) return refuse('error-internal')
  const before = earlierRun(account, request, { operation, nowMs: parts.context.nowMs })
  const viewer = viewerOf(account, request, { settings: parts.settings, repeated: before !== undefined })
  if (viewer === undefined) return refuse('error-token')
  if (operation.$case === 'reconcile')
    return viewer.kind === 'system' ? usesOf(account, operation.value) : refuse('error-notOwner')
  const context = new RequestContext({ ...parts, account, request, operation: operation.$case, viewer })
  if (account.record === undefined && !createsAccount(operation)) return refuse('error-notFound')
  if (account.record?.endTime !== undefined && viewer.kind !== 'operator' && viewer.kind !== 'system')
    return refuse('error-blocked')
  if (before !== undefined) return answerAgain(context, before)
  const hindrance = hindranceOf(context)
  if (hindrance !== undefined) return refuse(hindrance)
  if (createsAccount(operation) && account.record !== undefined) return refuse('error-unavailable')
  if (lacksTier(context)) return refuse('error-notPremium')
  return decideOperation(context, operation, parts.prepared)
}

function createsAccount(operation: AccountOperation): boolean {
  if (operation.$case === 'addFile') return operation.value.createAccount !== undefined
  return operation.$case === 'createAccount'
}

/** Undefined: the token is not this account's, or there is no such account. */
function viewerOf(
  account: Account,
  request: AccountRequest,
  { settings, repeated }: { settings: TreeSettings; repeated: boolean },
): Viewer | undefined {
  const who = request.caller?.who
  switch (who?.$case) {
    case 'bearer':
      return tokenHolds(account, who.value.token, { settings, request, repeated })
        ? { isOwner: true, kind: 'bearer', grant: undefined }
        : undefined
    case 'operator':
    case 'system':
      return { isOwner: true, kind: who.$case, grant: undefined }
    case 'grant':
      return { isOwner: false, kind: 'grant', grant: who.value }
    case 'visitor':
    case undefined:
      return { isOwner: false, kind: 'visitor', grant: undefined }
  }
}

/** A repeated reset, or confirmation, comes with the token that its first run has ended. */
function tokenHolds(
  account: Account,
  token: Uint8Array,
  { settings, request, repeated }: { settings: TreeSettings; request: AccountRequest; repeated: boolean },
): boolean {
  const { record } = account
  if (record === undefined) return false
  const id = account.id as AccountId
  const { tokenKeyId, tokenCounter, previousTokenKeyId } = record
  if (settings.tokens.verify(token, id, { keyId: tokenKeyId, counter: tokenCounter })) return true
  const { $case } = request.operation ?? {}
  const resets = repeated && ($case === 'resetToken' || $case === 'confirmEmail') && tokenCounter > 0
  return resets && settings.tokens.verify(token, id, { keyId: previousTokenKeyId, counter: tokenCounter - 1 })
}

/** What is known of an earlier run of the request: its result, or only that it ran. */
interface EarlierRun {
  operation: number
  asks(requestId: Uint8Array): boolean
  outcome: KeptOutcome | undefined
}

function earlierRun(
  account: Account,
  { requestId }: AccountRequest,
  { operation, nowMs }: { operation: AccountOperation; nowMs: number },
): EarlierRun | undefined {
  if (!isKept({ requestId, operation: commandNumber(operation.$case) })) return undefined
  const outcome = account.outcomes.find(requestId)
  if (outcome === undefined) {
    const digest = account.outcomes.digestOf(requestId, nowMs)
    return digest && { ...digest, outcome: undefined }
  }
  return { operation: outcome.operation, asks: (id) => asksTheSame(outcome.requestId, id), outcome }
}

/** The status when a request that seems to be new must not be executed. */
function hindranceOf({ account, request, operation, inputs }: RequestContext): string | undefined {
  const { requestId } = request
  if (!isKept({ requestId, operation: commandNumber(operation) })) return undefined
  const why = account.outcomes.refuses(requestId, inputs.nowMs)
  if (why === undefined) return undefined
  return why === 'full' ? 'error-rateLimit' : 'error-unavailable'
}

/** Only bearers have a tier; the operator's switch opens reading to all. */
function lacksTier(context: RequestContext): boolean {
  const { request, viewer, settings, operation } = context
  if (request.tierNeeded !== 'premium' || viewer.kind !== 'bearer') return false
  if (settings.openListing && (operation === 'readContent' || operation === 'searchContents')) return false
  return !context.isPremium
}

function decideOperation(
  context: RequestContext,
  operation: Exclude<AccountOperation, { $case: 'reconcile' }>,
  prepared: (ids: PreparedIds) => void,
): Outcome {
  switch (operation.$case) {
    case 'authenticate':
      return authenticate(context)
    case 'getAccount':
      return getAccount(context)
    case 'readContent':
      return readContent(context, operation.value)
    case 'searchContents':
      return searchContents(context, operation.value)
    case 'checkUpload':
      return checkUpload(context, operation.value)
    case 'openFile':
      return openFile(context, operation.value)
    case 'openDirectLink':
      return openDirectLink(context, operation.value)
    case 'openArchive':
      return openArchive(context, operation.value)
    case 'takeManifest':
      return takeManifest(context, operation.value)
    case 'readBin':
      return readBin(context)
    case 'findCode':
      return findCode(context, operation.value)
    case 'findContents':
      return findContents(context, operation.value)
    case 'createAccount':
      return createAccount(context, operation.value)
    case 'addFile':
      return addFile(context, operation.value)
    case 'createFolder':
      return createFolder(context, operation.value)
    case 'updateContent':
      return updateContent(context, operation.value)
    case 'deleteContents':
      return deleteContents(context, operation.value)
    case 'copyContents':
      return copyContents(context, operation.value, prepared)
    case 'moveContents':
      return moveContents(context, operation.value)
    case 'putDirectLink':
      return putDirectLink(context, operation.value)
    case 'deleteDirectLink':
      return deleteDirectLink(context, operation.value)
    case 'resetToken':
      return resetToken(context, operation.value)
    case 'confirmEmail':
      return confirmEmail(context, operation.value)
    case 'setAccount':
      return setAccount(context, operation.value)
    case 'addLegacyFolder':
      return addLegacyFolder(context, operation.value)
    case 'restoreContents':
      return restoreContents(context, operation.value)
    case 'emptyBin':
      return emptyBin(context)
    case 'reportDownloads':
      return reportDownloads(context, operation.value)
    case 'tick':
      return tick(context)
    case 'sendSignIn':
      return sendSignIn(context)
    case 'readHeld':
      return readHeld(context)
    case 'undoSweeps':
      return undoSweeps(context, operation.value)
  }
}

/**
 * The first answer: its bytes, or made again from its ids. A key is valid for one request.
 */
function answerAgain(context: RequestContext, before: EarlierRun): Outcome {
  const isSame = before.asks(context.request.requestId)
  if (!isSame || before.operation !== commandNumber(context.operation)) return refuse('error-idempotencyKey')
  if (!context.viewer.isOwner && !createsAccount(context.request.operation as AccountOperation))
    return refuse('error-notOwner')
  const { outcome } = before
  if (outcome === undefined) return refuse('error-alreadyDone')
  if (outcome.reply.length > 0) return { kind: 'reply', reply: replyOf(outcome.reply) }
  return answer(madeAgain(context, idsOfRecipe(outcome.ids)))
}

function replyOf(bytes: Buffer): AccountReply {
  return Reply.decode(bytes)
}

function madeAgain(context: RequestContext, ids: string[]): Result {
  const { operation, tree } = context
  if (operation === 'copyContents') return decideCopies(context, ids)
  if (operation === 'moveContents' || operation === 'restoreContents' || operation === 'undoSweeps')
    return itemsOf(context, ids)
  if (operation === 'setAccount') return ofAccount(context.accountView())
  if (operation === 'putDirectLink') {
    const [contentId = '', linkId] = ids
    const row = tree.find(contentId)
    const link = tree.sparse.directLinks.get(row)?.find((other) => other.id === linkId)
    return link === undefined ? refusal('error-notFound') : linkView(context, row, link)
  }
  // All others show one content: the last one that the events name.
  const row = tree.find(ids.at(-1) ?? '')
  return row < 0 ? refusal('error-notFound') : context.contentView(context.owners().item(row))
}

function refusal(status: string): Result {
  return { $case: 'refusal', value: { status } }
}

/**
 * `GET /download/<content id>/<name>`: a file for callers that may read it now.
 *
 * Access is checked for each download: by the capability of a listing's link, by the owner's token,
 * or as a visitor. The first that opens the file counts; when all fail, the last one's reason is
 * returned. The name in the path has no effect.
 */
import { verifyCapability } from '@holdfast/access'
import { type Asker, asBearer, ask, asVisitor, viewOf } from '@holdfast/accounts'
import {
  accountCookieOf,
  clientAddress,
  guessing,
  RefusalError,
  type RequestGuesses,
  tokenOf,
} from '@holdfast/http-kit'
import { type AccountId, forClientRequest, hex, parseToken } from '@holdfast/kernel'
import type { FileView, Item } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { openedFile } from '../bytes/opened-file.ts'
import { serveRepresentation } from '../bytes/representation.ts'
import type { DownloadContext, VerifiedGrant } from '../context.ts'

export async function download(
  context: DownloadContext,
  request: FastifyRequest<{ Params: { contentId: string } }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const contentId = request.params.contentId.toLowerCase()
  const accountId = context.keyring.ids.accountOf(contentId)
  if (accountId === undefined) throw new RefusalError('error-notFound')
  // Answers of accounts are kept here for a while.
  if (context.blocked.blocksAccount(accountId)) throw new RefusalError('error-blocked')
  const content = { accountId, contentId }
  const known = openedBefore(context, request, content)
  if (known !== undefined) return sendFile(context, request, reply, content, known)
  const view = await forClientRequest(request.id, () =>
    guessing(context.rateLimits, request, (guesses) => open(context, { request, guesses }, content)),
  )
  return sendFile(context, request, reply, content, view)
}

/** A file and its account. */
export interface Content {
  accountId: AccountId
  contentId: string
}

/** A request and its guesses. */
export interface GuessedRequest {
  request: FastifyRequest
  guesses: RequestGuesses
}

/** Sends what the account opened, and counts it. */
export function sendFile(
  context: DownloadContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { accountId }: Content,
  view: FileView,
): Promise<FastifyReply> {
  const { item } = view
  if (item === undefined) throw new RefusalError('error-notFound')
  // A cached answer is prepared once.
  let file = context.opened.get(view)
  if (file === undefined) {
    file = openedFile(context, item)
    context.opened.set(view, file)
  }
  return serveRepresentation(request, reply, file, {
    answers: context.answers,
    begun: () => noteDownload(context, request, { accountId, item }),
    sent: (bytes) => context.sent(accountId, 'web', bytes),
  })
}

/** Notes a download: a file is sent from its first byte on. */
export function noteDownload(
  { reports, transfers }: DownloadContext,
  request: FastifyRequest,
  { accountId, item }: { accountId: AccountId; item: Item },
): void {
  const { id, name, size, blob } = item
  reports.countDownload(accountId, id)
  const address = clientAddress(request)
  transfers.note({ kind: 'download', address, account: accountId, content: id, name, size, blob: blob?.id })
}

/** Opens the file with the request's password, for one caller after the other. */
export async function opener(
  context: DownloadContext,
  { request, guesses }: GuessedRequest,
  content: Content,
): Promise<{ password: string | undefined; openAs: (who: Asker) => Promise<FileView> }> {
  const password = passwordOf(request)
  if (password !== undefined) await guesses.begin('password')
  const openAs = async (who: Asker) => {
    const result = await ask(context, {
      accountId: content.accountId,
      who,
      operation: { $case: 'openFile', value: { contentId: content.contentId, password } },
      clientNetwork: context.rateLimits.networkKey(request),
    })
    return viewOf(result, 'file')
  }
  return { password, openAs }
}

/** The recent answer for the link's capability. It needs no account and counts as no guess. */
function openedBefore(
  context: DownloadContext,
  request: FastifyRequest,
  { accountId, contentId }: Content,
): FileView | undefined {
  if (passwordOf(request) !== undefined) return undefined
  const grant = grantOf(context, request)
  if (grant === undefined) return undefined
  const version = grant.isOwners ? context.versions?.versionOf(accountId) : undefined
  return context.recent.arrived(questionOf(contentId, grant, undefined), version)
}

async function open(
  context: DownloadContext,
  { request, guesses }: GuessedRequest,
  content: Content,
): Promise<FileView> {
  const { password, openAs } = await opener(context, { request, guesses }, content)
  const { contentId, accountId } = content
  const grant = grantOf(context, request)
  if (grant !== undefined) {
    const question = questionOf(contentId, grant, password)
    const granted = await unlessRefused(
      grant.isOwners
        ? context.recent.ofOwner(question, context.versions?.versionOf(accountId), () => openAs(grant.who))
        : context.recent.ofVisitor(question, () => openAs(grant.who)),
    )
    if (!(granted instanceof RefusalError)) return granted
  }
  const token = tokenOf(request)
  if (token !== undefined) {
    const owner = ownerOf(token, content.accountId)
    if (owner === 'no token') return refuseToken(guesses)
    if (owner !== undefined) await guesses.begin('token')
    const opened = owner === undefined ? undefined : await unlessRefused(openAs(owner))
    if (opened instanceof RefusalError) {
      if (opened.status === 'error-token') return refuseToken(guesses)
      throw opened
    }
    if (opened !== undefined) return opened
  } else {
    // A browser sends its cookie whether or not it is still valid: otherwise the visitor's answer
    // counts.
    const owner = ownerOf(accountCookieOf(request) ?? '', content.accountId)
    const opened =
      owner === undefined || owner === 'no token' ? undefined : await unlessRefused(openAs(owner))
    if (opened !== undefined && !(opened instanceof RefusalError)) return opened
  }
  const visited = await unlessRefused(
    context.recent.ofVisitor(questionOf(contentId, undefined, password), () => openAs(asVisitor())),
  )
  if (!(visited instanceof RefusalError)) return visited
  if (visited.status === 'error-passwordWrong') await guesses.wrong('password')
  throw visited
}

/** The key of its answer among the recent ones. */
function questionOf(
  contentId: string,
  grant: VerifiedGrant | undefined,
  password: string | undefined,
): string {
  return `${contentId} ${grant?.question ?? ''} ${password ?? ''}`
}

async function refuseToken(guesses: RequestGuesses): Promise<never> {
  await guesses.wrong('token')
  throw new RefusalError('error-token')
}

export async function unlessRefused<T>(answer: Promise<T>): Promise<T | RefusalError> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof RefusalError) return error
    throw error
  }
}

/** The verified capability of the link, if it has a valid one. */
function grantOf(context: DownloadContext, request: FastifyRequest): VerifiedGrant | undefined {
  const { c } = request.query as Record<string, unknown>
  if (typeof c !== 'string') return undefined
  const now = Math.floor(context.clock.now() / 1000)
  const known = context.grants.get(c)
  if (known !== undefined && now < known.ends) return known
  const capability = verifyCapability(context.capabilityKey, c, now)
  if (capability === undefined) return undefined
  const { ends, folderId, ownerTokenCounter } = capability
  const passwordVersion = Buffer.from(capability.passwordVersion)
  const grant: VerifiedGrant = {
    ends,
    who: { $case: 'grant', value: { folderId, ownerTokenCounter, passwordVersion } },
    isOwners: ownerTokenCounter !== undefined,
    question: `${folderId} ${hex(passwordVersion)} ${ownerTokenCounter ?? ''}`,
  }
  context.grants.set(c, grant)
  return grant
}

/**
 * The bearer, when the token belongs to this account; undefined when it belongs to another, which
 * permits nothing here.
 */
function ownerOf(token: string, accountId: string): Asker | undefined | 'no token' {
  const parsed = parseToken(token)
  if (parsed === undefined) return 'no token'
  return parsed.account === accountId ? asBearer(parsed) : undefined
}

/** @throws RefusalError error-password when it was sent twice, or is longer than any password. */
function passwordOf(request: FastifyRequest): string | undefined {
  const { password } = request.query as Record<string, unknown>
  if (password === undefined || password === '') return undefined
  if (typeof password !== 'string' || password.length > 256) throw new RefusalError('error-password')
  return password
}

/**
 * `GET /download/web/<content id>/<name>`: download links as clients and older pages make them, on
 * the download host and on that of the API and the pages.
 *
 * An account that may read the file gets its bytes, by bearer or by the cookie `accountToken`.
 * Every other caller is redirected to the page of the content, which shows the reason. The name in
 * the path has no effect.
 */

import { asBearer, ask, asVisitor, claimOf, viewOf } from '@holdfast/accounts'
import { accountCookieOf, guessing, RefusalError, tokenOf } from '@holdfast/http-kit'
import { isShareCode } from '@holdfast/kernel'
import { blank, type FileView, ReadContent } from '@holdfast/wire'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { DownloadContext } from '../context.ts'
import { type DownloadContextDeps, downloadContext } from '../download-context.ts'
import { type Content, type GuessedRequest, opener, sendFile, unlessRefused } from './download.ts'

/**
 * For the host of the API and the pages. Its origin holds the token of the account page, so no
 * uploaded content is shown in place there: all of it is sent as attachments.
 */
export function webDownloads(deps: DownloadContextDeps): FastifyPluginAsync {
  return async (app) => {
    const context = downloadContext(deps, { inPlace: false })
    downloadWebRoutes(app, context)
    app.addHook('onClose', () => context.reports.close())
  }
}

export function downloadWebRoutes(app: FastifyInstance, context: DownloadContext): void {
  for (const url of ['/download/web/:contentId', '/download/web/:contentId/*']) {
    app.route<{ Params: { contentId: string } }>({
      method: ['GET', 'HEAD'],
      url,
      config: { endpoint: 'downloadWeb' },
      // No operation of the OpenAPI document.
      schema: { hide: true } as object,
      handler: (request, reply) => downloadWeb(context, request, reply),
    })
  }
}

async function downloadWeb(
  context: DownloadContext,
  request: FastifyRequest<{ Params: { contentId: string } }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const name = request.params.contentId
  const toPage = (page: string) => reply.redirect(`${context.webUrl}/d/${page}`, 302)
  if (isShareCode(name)) return toPage(name)
  const contentId = name.toLowerCase()
  const accountId = context.keyring.ids.accountOf(contentId)
  if (accountId === undefined) throw new RefusalError('error-notFound')
  const content = { accountId, contentId }
  const opened = await guessing(context.rateLimits, request, (guesses) =>
    openSignedIn(context, { request, guesses }, content),
  )
  if (opened !== undefined) return sendFile(context, request, reply, content, opened)
  return toPage(await pageOf(context, request, content))
}

/** Undefined when the request has no account, or one that may not read the file. */
async function openSignedIn(
  context: DownloadContext,
  { request, guesses }: GuessedRequest,
  content: Content,
): Promise<FileView | undefined> {
  const sent = tokenOf(request)
  if (sent !== undefined) await guesses.begin('token')
  const claim = claimOf(sent ?? accountCookieOf(request), context.keyring.ids)
  // A browser sends its cookie whether or not it is still valid: that is no guess.
  const refuseToken = async () => {
    if (sent !== undefined) await guesses.wrong('token')
    return undefined
  }
  if (claim === undefined) return await refuseToken()
  const { accountId } = claim
  const bearer = asBearer(claim)
  const isOwner = accountId === content.accountId
  if (!isOwner) {
    const operation = { $case: 'authenticate', value: {} } as const
    const heard = await unlessRefused(ask(context, { accountId, who: bearer, operation }))
    if (heard instanceof RefusalError) return await refuseToken()
  }
  const { openAs } = await opener(context, { request, guesses }, content)
  const opened = await unlessRefused(openAs(isOwner ? bearer : asVisitor(accountId)))
  if (!(opened instanceof RefusalError)) return opened
  if (opened.status === 'error-token') return await refuseToken()
  if (opened.status === 'error-passwordWrong') await guesses.wrong('password')
  return undefined
}

/** The share code when a visitor may see it, else the id. @throws RefusalError error-notFound */
async function pageOf(
  context: DownloadContext,
  request: FastifyRequest,
  { accountId, contentId }: Content,
): Promise<string> {
  const value = { ...blank(ReadContent), contentId, page: 1, pageSize: 1, maxDepth: 1 }
  const question = {
    accountId,
    who: asVisitor(),
    operation: { $case: 'readContent', value },
    clientNetwork: context.rateLimits.networkKey(request),
  } as const
  const read = await unlessRefused(ask(context, question))
  if (!(read instanceof RefusalError)) return viewOf(read, 'content').item?.code ?? contentId
  if (read.status === 'error-notFound') throw read
  return contentId
}

/**
 * `GET /direct/<content id>/<link id>/<name>`: a file, or a folder as a ZIP archive, for clients
 * that the link's restrictions admit.
 *
 * The account is asked for every request, and no answer is cached: a changed link applies to every
 * request that starts after the answer.
 */

import { ask, asVisitor } from '@holdfast/accounts'
import { clientAddress, guessing, httpCodeOf, RefusalError } from '@holdfast/http-kit'
import { type AccountId, isUuid } from '@holdfast/kernel'
import type { ArchiveView, FileView, Item, OpenDirectLink } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { openedFile } from '../bytes/opened-file.ts'
import { serveRepresentation } from '../bytes/representation.ts'
import type { DownloadContext } from '../context.ts'
import { noteDownload } from './download.ts'
import { sendArchive } from './send-archive.ts'

export interface DirectLinkParams {
  contentId: string
  linkId: string
}

export async function directLink(
  context: DownloadContext,
  request: FastifyRequest<{ Params: DirectLinkParams }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const contentId = request.params.contentId.toLowerCase()
  const linkId = request.params.linkId.toLowerCase()
  const accountId = context.keyring.ids.accountOf(contentId)
  if (accountId === undefined || !isUuid(linkId)) throw new RefusalError('error-notFound')
  const link = { accountId, contentId, linkId }
  const opened = await open(context, request, reply, link)
  if (opened.$case === 'file') {
    const item = itemOf(opened.value)
    const begun = () => noteDownload(context, request, { accountId, item })
    const sent = (bytes: number) => context.sent(accountId, 'direct', bytes)
    const { answers } = context
    return serveRepresentation(request, reply, openedFile(context, item), { answers, begun, sent })
  }
  return sendArchive(context, request, reply, {
    accountId,
    contentIds: [contentId],
    link: `${contentId}/${linkId}`,
    traffic: 'direct',
    folder: contentId,
    version: opened.value.version,
    take: async () => archiveOf(await openLink(context, request, link, { versionOnly: false })),
  })
}

interface Link {
  accountId: AccountId
  contentId: string
  linkId: string
}

type LinkTarget = { $case: 'file'; value: FileView } | { $case: 'archive'; value: ArchiveView }

async function open(
  context: DownloadContext,
  request: FastifyRequest,
  reply: FastifyReply,
  link: Link,
): Promise<LinkTarget> {
  return await guessing(context.rateLimits, request, async (guesses) => {
    const guessed = basicCredentials(request.headers.authorization) !== undefined
    if (guessed) await guesses.begin('password')
    try {
      return await openLink(context, request, link, { versionOnly: true })
    } catch (error) {
      if (!(error instanceof RefusalError) || httpCodeOf(error.status) !== 401) throw error
      if (guessed) await guesses.wrong('password')
      reply.header('www-authenticate', 'Basic realm="direct link", charset="UTF-8"')
      throw error
    }
  })
}

/** @throws RefusalError with the account's status. */
async function openLink(
  context: DownloadContext,
  request: FastifyRequest,
  { accountId, contentId, linkId }: Link,
  { versionOnly }: { versionOnly: boolean },
): Promise<LinkTarget> {
  const operation = {
    contentId,
    linkId,
    sourceIp: clientAddress(request),
    domain: embeddingDomain(request),
    ...basicCredentials(request.headers.authorization),
    versionOnly,
  }
  const result = await ask(context, {
    accountId,
    who: asVisitor(),
    operation: { $case: 'openDirectLink', value: operation },
    clientNetwork: context.rateLimits.networkKey(request),
  })
  if (result.$case !== 'file' && result.$case !== 'archive')
    throw new Error(`openDirectLink was answered with ${result.$case}`)
  return result
}

function itemOf({ item }: FileView): Item {
  if (item === undefined) throw new RefusalError('error-notFound')
  return item
}

function archiveOf(opened: LinkTarget): ArchiveView {
  if (opened.$case !== 'archive') throw new RefusalError('error-notFound')
  return opened.value
}

const noCredentials = { user: undefined, password: undefined }

function basicCredentials(header: string | undefined): Pick<OpenDirectLink, 'user' | 'password'> {
  const [, encoded] = /^basic[ \t]+([A-Za-z0-9+/=_-]+)[ \t]*$/i.exec(header ?? '') ?? []
  if (encoded === undefined) return noCredentials
  const text = Buffer.from(encoded, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? noCredentials : { user: text.slice(0, colon), password: text.slice(colon + 1) }
}

/** The host of Origin, else of Referer; empty without either. */
function embeddingDomain({ headers }: FastifyRequest): string {
  return hostOf(headers.origin) || hostOf(headers.referer)
}

function hostOf(url: string | undefined): string {
  if (url === undefined || !URL.canParse(url)) return ''
  return new URL(url).hostname.toLowerCase().replace(/\.$/, '')
}

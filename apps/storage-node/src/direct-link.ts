/**
 * `GET /direct/<content id>/<link id>/<name>`: a file, or a folder as a ZIP archive, for whoever the link's restrictions let pass.
 *
 * The account is asked for every request and nothing is remembered: a changed link holds for every request that starts after the answer.
 */
import { clientAddress, httpCodeOf, Refusal } from '@holdfast/http-kit'
import { type AccountId, isUuid } from '@holdfast/kernel'
import type { Item, Manifest } from '@holdfast/wire'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { DownloadParts } from './app.ts'
import { askAccount } from './ask-account.ts'
import { openedFile } from './opened-file.ts'
import { serve } from './representation.ts'

export interface DirectLinkParams {
  contentId: string
  linkId: string
}

export async function directLink(
  parts: DownloadParts,
  request: FastifyRequest<{ Params: DirectLinkParams }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const contentId = request.params.contentId.toLowerCase()
  const linkId = request.params.linkId.toLowerCase()
  const accountId = parts.keyring.ids.accountOf(contentId)
  if (accountId === undefined || !isUuid(linkId)) throw new Refusal('error-notFound')
  const opened = await open(parts, request, reply, { accountId, contentId, linkId })
  const sent = (bytes: number) => parts.sent(accountId, 'direct', bytes)
  if ('item' in opened) {
    const begun = () => parts.reports.countDownload(accountId, contentId)
    return serve(request, reply, openedFile(parts.blobs, opened.item), { begun, sent })
  }
  const archive = await parts.archives.open(opened.manifest, {
    link: `${contentId}/${linkId}`,
    viewer: clientAddress(request),
    range: request.headers.range,
    ifRange: request.headers['if-range'],
  })
  return serve(request, reply, archive, { begun: () => archive.begun(), sent })
}

async function open(
  parts: DownloadParts,
  request: FastifyRequest,
  reply: FastifyReply,
  link: { accountId: AccountId; contentId: string; linkId: string },
): Promise<{ item: Item } | { manifest: Manifest }> {
  const credentials = basicCredentials(request.headers.authorization)
  if (credentials !== undefined) await parts.limits.checkGuess(request, 'password')
  const operation = {
    contentId: link.contentId,
    linkId: link.linkId,
    sourceIp: clientAddress(request),
    domain: embeddingDomain(request),
    ...credentials,
  }
  try {
    const opened = await askAccount(
      parts,
      {
        accountId: link.accountId,
        who: { $case: 'visitor', value: { accountId: '' } },
        operation: { $case: 'openDirectLink', value: operation },
      },
      ['file', 'archive'],
    )
    if (opened.$case === 'file' && opened.value.item !== undefined) return { item: opened.value.item }
    if (opened.$case === 'archive' && opened.value.manifest !== undefined)
      return { manifest: opened.value.manifest }
  } catch (error) {
    if (!(error instanceof Refusal) || httpCodeOf(error.status) !== 401) throw error
    if (credentials !== undefined) await parts.limits.takeGuess(request, 'password')
    reply.header('www-authenticate', 'Basic realm="direct link", charset="UTF-8"')
    throw error
  }
  throw new Refusal('error-notFound')
}

function basicCredentials(header: string | undefined): { user: string; password: string } | undefined {
  const [, encoded] = /^basic[ \t]+([A-Za-z0-9+/=_-]+)[ \t]*$/i.exec(header ?? '') ?? []
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) }
}

/** The host of Origin, else of Referer; empty when neither says one. */
function embeddingDomain({ headers }: FastifyRequest): string {
  return hostOf(headers.origin) || hostOf(headers.referer)
}

function hostOf(url: string | undefined): string {
  if (url === undefined || !URL.canParse(url)) return ''
  return new URL(url).hostname.toLowerCase().replace(/\.$/, '')
}

/** Sends the archive that an account opened, and notes it. */
import { clientAddress, networkOf } from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FolderNow } from '../archives/folder-layouts.ts'
import { serveRepresentation } from '../bytes/representation.ts'
import type { DownloadContext } from '../context.ts'
import type { Traffic } from '../download-reports.ts'

/** In the record of downloads. */
const archiveName = 'ZIP archive'

export interface OpenedArchive extends Omit<FolderNow, 'network'> {
  accountId: AccountId
  /** What is used by the download: a folder with everything in it. */
  contentIds: readonly [string, ...string[]]
  /** Names the link: an interrupted download continues by the same one. */
  link: string
  traffic: Traffic
}

/** @throws what `Archives.open` and `serveRepresentation` throw. */
export async function sendArchive(
  context: DownloadContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { accountId, contentIds, link, traffic, ...folder }: OpenedArchive,
): Promise<FastifyReply> {
  const viewer = clientAddress(request)
  const network = networkOf(viewer)
  const { range, 'if-range': ifRange } = request.headers
  const now = { ...folder, network }
  const archive = await context.archives.open(now, { link, viewer, network, range, ifRange })
  return serveRepresentation(request, reply, archive, {
    answers: context.answers,
    begun: () => {
      for (const contentId of contentIds) context.reports.noteArchive(accountId, contentId)
      archive.begun()
      context.transfers.note({
        kind: 'download',
        address: viewer,
        account: accountId,
        content: contentIds[0],
        name: archiveName,
        size: archive.size,
        blob: undefined,
      })
    },
    sent: (bytes) => context.sent(accountId, traffic, bytes),
  })
}

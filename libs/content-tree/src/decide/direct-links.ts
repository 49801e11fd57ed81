/** Making, replacing and removing direct links. */
import { isTime } from '@holdfast/kernel'
import { type DeleteDirectLink, DirectLink, type PutDirectLink } from '@holdfast/wire'
import { directLinkBytesMax, directLinksPerContentMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { savedLinkBytes } from '../tree/saved-bytes.ts'
import { done, isRefusal, type RequestContext, type Result, refuse } from './request-context.ts'

/** Replaces the whole link: restrictions that the command omits are removed. */
export function putDirectLink(context: RequestContext, { contentId, linkId, link }: PutDirectLink): Outcome {
  const { viewer, settings, tree } = context
  if (settings.directLinksPremium && viewer.kind === 'bearer' && !context.isPremium)
    return refuse('error-notPremium')
  if (link === undefined || (link.expireTime !== 0 && !isTime(link.expireTime)))
    return refuse('error-expireTime')
  const row = context.own(contentId)
  if (isRefusal(row)) return refuse(row.status)
  const links = tree.sparse.directLinks.get(row) ?? []
  const before = links.find((other) => other.id === linkId?.toLowerCase())
  if (linkId !== undefined && before === undefined) return refuse('error-notFound')
  const tooMany = before === undefined && links.length >= directLinksPerContentMax
  if (tooMany || DirectLink.encode(link).finish().length > directLinkBytesMax) return refuse('error-limits')
  const record: DirectLink = {
    ...link,
    id: before?.id ?? context.inputs.newId(),
    createTime: before?.createTime ?? context.now,
  }
  const growth = savedLinkBytes(record) - (before === undefined ? 0 : savedLinkBytes(before))
  if (!context.growthFits(growth) || (growth > 0 && growth > context.directLinkBytesLeft))
    return refuse('error-limits')
  const value = { contentId: tree.idOf(row), link: record }
  return context.changed([{ $case: 'directLinkPut', value }], linkView(context, row, record))
}

export function deleteDirectLink(context: RequestContext, { contentId, linkId }: DeleteDirectLink): Outcome {
  const row = context.own(contentId)
  if (isRefusal(row)) return refuse(row.status)
  const { tree } = context
  const link = tree.sparse.directLinks.get(row)?.find((other) => other.id === linkId.toLowerCase())
  if (link === undefined) return refuse('error-notFound')
  const value = { contentId: tree.idOf(row), linkId: link.id }
  return context.changed([{ $case: 'directLinkDeleted', value }], done)
}

export function linkView({ tree }: RequestContext, row: number, link: DirectLink): Result {
  return {
    $case: 'directLink',
    value: {
      link,
      contentId: tree.idOf(row),
      isFolder: tree.isFolder(row),
      name: tree.contents.names[row] as string,
    },
  }
}

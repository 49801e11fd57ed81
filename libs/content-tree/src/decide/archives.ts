/**
 * Folders as ZIP archives: what the archive of a direct link holds, and one by the rule for
 * visitors.
 */
import { directLinkAccess, isOver } from '@holdfast/access'
import { archiveContentsMax } from '@holdfast/kernel'
import { ArchiveView, blank, type OpenArchive, type OpenDirectLink, type Refusal } from '@holdfast/wire'
import { archivePasswordsMax, rowsPerSlice } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { type Choice, manifestOf, manifestPages, readableOnly } from '../reading/manifest.ts'
import type { ReaderView } from '../reading/reader-view.ts'
import { none } from '../tree/columns.ts'
import type { Tree } from '../tree/tree.ts'
import { answer, inSlices, isRefusal, type RequestContext, refusal, refuse } from './request-context.ts'

/** What an archive is made of, at this version. */
interface ArchiveRows {
  /** Its top folder. */
  top: number
  /** Contents of the top folder; undefined: all of them. */
  chosen: readonly number[] | undefined
  version: Buffer
}

/**
 * A separate access path: only deletion, the bin and an expiry above close it, and its own
 * restrictions.
 */
export function openDirectLink(context: RequestContext, query: OpenDirectLink): Outcome {
  const { tree } = context
  const row = tree.find(query.contentId)
  const link = tree.sparse.directLinks.get(row)?.find((other) => other.id === query.linkId)
  if (row < 0 || link === undefined || tree.inBin(row) || context.isExpired(row))
    return refuse('error-notFound')
  const access = directLinkAccess(link, {
    now: context.now,
    sourceIp: query.sourceIp,
    domain: query.domain,
    user: query.user,
    password: query.password,
  })
  if (access !== 'open') return refuse(`error-${access}`)
  if (!tree.isFolder(row))
    return answer({
      $case: 'file',
      value: { item: context.owners().item(row), isOwner: false, ends: undefined },
    })
  const version = context.account.versionOf(row, context.inputs.seed)
  if (!query.versionOnly)
    return inSlices(archive(context, context.owners(), { top: row, chosen: undefined, version }))
  return answer({ $case: 'archive', value: { ...blank(ArchiveView), version } })
}

/**
 * For callers of every kind, the owner too: named contents must be open to a visitor, as for
 * reading them.
 */
export function openArchive(context: RequestContext, query: OpenArchive): Outcome {
  const { tree, account, inputs } = context
  const named = namedRows(tree, query.contentIds)
  if (isRefusal(named)) return refuse(named.status)
  const view = context.viewFor(query.password, false)
  for (const salt of query.passwordVersions) view.tries.accept(salt)
  for (const row of named) {
    const closed = context.closed(view, row)
    if (closed !== undefined) return closed
  }
  const [first = none] = named
  const isWhole = named.length === 1 && tree.isFolder(first)
  const top = isWhole ? first : tree.parentOf(first)
  if (!isWhole && (top === none || named.some((row) => tree.parentOf(row) !== top)))
    return refuse('error-contentsId')
  const closed = context.closed(view, top)
  if (closed !== undefined) return closed
  const version = account.versionOf(top, inputs.seed)
  const rows = { top, chosen: isWhole ? undefined : named, version }
  return inSlices(query.versionOnly ? openedBelow(context, view, rows) : archive(context, view, rows))
}

function namedRows(tree: Tree, contentIds: readonly string[]): number[] | Refusal {
  if (contentIds.length === 0 || contentIds.length > archiveContentsMax) return refusal('error-contentsId')
  const rows = new Set<number>()
  for (const id of contentIds) {
    const row = tree.find(id)
    if (row < 0) return refusal('error-notFound')
    rows.add(row)
  }
  return [...rows]
}

/** Tries a password on all folders of the archive. */
function* openedBelow(
  context: RequestContext,
  view: ReaderView,
  { top, chosen, version }: ArchiveRows,
): Generator<void, Outcome> {
  const { tree } = context
  const readable = readableOnly(view, true)
  // Without a password nothing is to be tried.
  const open = view.tries.hasPassword ? (chosen?.filter((row) => tree.isFolder(row)) ?? [top]) : []
  let looked = 0
  for (let at = open.pop(); at !== undefined; at = open.pop())
    for (const folder of tree.folderRows(at)) {
      if (++looked % rowsPerSlice === 0) yield
      if (readable(folder) === 'take') open.push(folder)
    }
  return context.read(view, () => ({
    $case: 'archive',
    value: {
      ...blank(ArchiveView),
      version,
      name: tree.contents.names[top] as string,
      passwordVersions: view.tries.satisfied().slice(0, archivePasswordsMax),
      locked: view.tries.isWrong,
    },
  }))
}

function* archive(
  context: RequestContext,
  view: ReaderView,
  { top, chosen, version }: ArchiveRows,
): Generator<void, Outcome> {
  const { tree, now } = context
  const readable = readableOnly(view, true)
  let ends = view.isOwner ? undefined : tree.endsOf(top)
  const choose = (folder: number): Choice => {
    const over = tree.expiryOf(folder)
    if (over !== undefined && !isOver(over, now)) ends = Math.min(over, ends ?? over)
    return readable(folder)
  }
  const manifest = yield* manifestOf(tree, top, choose, chosen)
  if ('refuse' in manifest) return refuse(manifest.refuse)
  const pages = yield* manifestPages(manifest)
  return context.read(view, () => ({
    $case: 'archive',
    value: { ...blank(ArchiveView), version, ends, pages, entries: manifest.entries.length },
  }))
}

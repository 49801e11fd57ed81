/** Queries: they change nothing and keep no result. */

import { directLinkAccess } from '@holdfast/access'
import { idsPerListMax } from '@holdfast/kernel'
import {
  type CheckUpload,
  type FileView,
  type FindCode,
  type FindContents,
  type Item,
  type Manifest,
  type OpenDirectLink,
  type OpenFile,
  type ReadContent,
  type SearchContents,
  SortField,
  type TakeManifest,
} from '@holdfast/wire'
import { binBytesMax, itemsPerAnswerMax, itemsPerSlice, pageSizeMax, searchPageSizeMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { answerBytes } from '../reading/answer-bytes.ts'
import { listing } from '../reading/listing.ts'
import { manifestOf, pagesOf, readableOnly } from '../reading/manifest.ts'
import type { ReaderView } from '../reading/reader-view.ts'
import { search, searchAll } from '../reading/search.ts'
import { sortFields } from '../tree/listing-order.ts'
import { savedRowBytes } from '../tree/saved-bytes.ts'
import { answer, done, inSlices, isRefusal, type RequestContext, refuse } from './request-context.ts'

export function readContent(deciding: RequestContext, query: ReadContent): Outcome {
  const row = deciding.tree.find(query.contentId)
  if (row < 0) return refuse('error-notFound')
  const reading = deciding.reading(query.password)
  const closed = deciding.closed(reading, row)
  if (closed !== undefined) return closed
  if (!deciding.tree.isFolder(row)) return answer(deciding.contentView(reading.item(row)))
  const sortField = sortFields.includes(query.sortField) ? query.sortField : SortField.CREATE_TIME
  const bounded = { ...pageBounds(query, pageSizeMax), sortField }
  return inSlices(readFolder(deciding, { reading, row, query: bounded }))
}

function* readFolder(
  deciding: RequestContext,
  { reading, row, query }: { reading: ReaderView; row: number; query: ReadContent },
): Generator<void, Outcome> {
  const { item, ...page } = yield* listing(reading, row, query)
  return deciding.read(reading, () => deciding.contentView(item, page))
}

export function searchContents(deciding: RequestContext, query: SearchContents): Outcome {
  if (query.searchedString === '') return refuse('error-searchedString')
  const row = deciding.tree.find(query.contentId)
  if (row < 0) return refuse('error-notFound')
  const reading = deciding.reading(query.password)
  const closed = deciding.closed(reading, row)
  if (closed !== undefined) return closed
  if (!deciding.tree.isFolder(row)) return refuse('error-contentId')
  return inSlices(searchFolder(deciding, { reading, row, query: pageBounds(query, searchPageSizeMax) }))
}

function* searchFolder(
  deciding: RequestContext,
  { reading, row, query }: { reading: ReaderView; row: number; query: SearchContents },
): Generator<void, Outcome> {
  const view = yield* search(reading, row, query)
  return deciding.read(reading, () => ({ $case: 'search', value: view }))
}

const copyBytes = { id: 48, incarnation: 16 } as const

/** Everything that the operator may look for, wherever it lies. */
export function findContents(deciding: RequestContext, query: FindContents): Outcome {
  if (deciding.viewer.kind !== 'operator') return refuse('error-notOwner')
  const { by } = query
  if (by === undefined || (by.$case === 'text' && by.value === '')) return refuse('error-searchedString')
  if (by.$case === 'copy') {
    const { id, incarnation } = by.value
    if (id.length !== copyBytes.id || incarnation.length !== copyBytes.incarnation)
      return refuse('error-hash')
  }
  return inSlices(findAll(deciding, by, pageBounds(query, searchPageSizeMax)))
}

function* findAll(
  deciding: RequestContext,
  by: NonNullable<FindContents['by']>,
  page: { page: number; pageSize: number },
): Generator<void, Outcome> {
  const value = yield* searchAll(deciding.owners(), by, page)
  return answer({ $case: 'search', value })
}

function pageBounds<Query extends { page: number; pageSize: number }>(query: Query, max: number): Query {
  const pageSize = query.pageSize === 0 ? max : Math.min(query.pageSize, max)
  return { ...query, page: Math.max(1, query.page), pageSize }
}

/** A code gives no access, so any caller may ask which content has it. */
export function findCode(deciding: RequestContext, { code }: FindCode): Outcome {
  const contentId = deciding.tree.idOfCode(code)
  return contentId === undefined ? refuse('error-notFound') : answer({ $case: 'code', value: { contentId } })
}

/** Only a hint: the same checks run again when the file arrives, and those decide. */
export function checkUpload(deciding: RequestContext, query: CheckUpload): Outcome {
  if (query.folderId === undefined) {
    if (!deciding.viewer.isOwner) return refuse('error-notOwner')
  } else {
    const folder = deciding.destination(query.folderId, 'folderId')
    if (isRefusal(folder)) return refuse(folder.status)
  }
  if (!deciding.mayUpload) return refuse('error-forbidden')
  const contents = query.folderId === undefined ? 2 : 1
  return deciding.fits({ contents, bytes: 0, metadata: contents * savedRowBytes.content })
    ? answer(done)
    : refuse('error-limits')
}

export function openFile(deciding: RequestContext, query: OpenFile): Outcome {
  const { tree } = deciding
  const row = tree.find(query.contentId)
  if (row < 0 || tree.isFolder(row)) return refuse('error-notFound')
  const granted = grantedTo(deciding, row)
  if (granted !== undefined) return answer({ $case: 'file', value: granted })
  const reading = deciding.reading(query.password)
  const closed = deciding.closed(reading, row)
  if (closed !== undefined) return closed
  return answer({ $case: 'file', value: fileView(reading, row) })
}

function fileView(reading: ReaderView, row: number): FileView {
  const { tree, isOwner } = reading
  const ends = isOwner ? undefined : tree.endsOf(tree.parentOf(row))
  return { item: reading.item(row), isOwner, ends }
}

/**
 * What a link's capability opens: files that are still in its folder, to the owner until the token
 * changes, to a visitor while the folder still opens under the password given then. Without a valid
 * one the caller is an ordinary visitor.
 */
function grantedTo(deciding: RequestContext, row: number): FileView | undefined {
  const { tree, viewer, account } = deciding
  const { grant } = viewer
  if (grant === undefined || tree.idOf(tree.parentOf(row)) !== grant.folderId) return undefined
  if (grant.ownerTokenCounter !== undefined) {
    if (grant.ownerTokenCounter !== account.known.tokenCounter) return undefined
    return fileView(deciding.owners(), row)
  }
  const password = tree.passwordOf(tree.parentOf(row))
  if (password === undefined || !password.salt.equals(grant.passwordVersion)) return undefined
  const reading = deciding.reading(undefined, false)
  reading.tries.accept(password)
  return reading.accessToContent(row) === 'open' ? fileView(reading, row) : undefined
}

/**
 * A separate access path: only deletion, the bin and an expiry above close it, and its own
 * restrictions.
 */
export function openDirectLink(deciding: RequestContext, query: OpenDirectLink): Outcome {
  const { tree } = deciding
  const row = tree.find(query.contentId)
  const link = tree.sparse.directLinks.get(row)?.find((other) => other.id === query.linkId)
  if (row < 0 || link === undefined || tree.inBin(row) || deciding.isExpired(row))
    return refuse('error-notFound')
  const access = directLinkAccess(link, {
    now: deciding.now,
    sourceIp: query.sourceIp,
    domain: query.domain,
    user: query.user,
    password: query.password,
  })
  if (access !== 'open') return refuse(`error-${access}`)
  if (!tree.isFolder(row))
    return answer({
      $case: 'file',
      value: { item: deciding.owners().item(row), isOwner: false, ends: undefined },
    })
  const version = deciding.account.versionOf(row, deciding.context.seed)
  if (!query.versionOnly) return inSlices(archive(deciding, row, version))
  return answer({ $case: 'archive', value: { version, ends: undefined, pages: [], entries: 0 } })
}

function* archive(deciding: RequestContext, row: number, version: Buffer): Generator<void, Outcome> {
  const { tree, now } = deciding
  const readable = readableOnly(deciding.owners(), true)
  let ends: number | undefined
  const manifest = yield* manifestOf(tree, row, (folder) => {
    const over = tree.expiryOf(folder)
    if (over !== undefined && over > now) ends = Math.min(over, ends ?? over)
    return readable(folder)
  })
  if ('refuse' in manifest) return refuse(manifest.refuse)
  const pages = yield* pagesOf(manifest)
  return answer({ $case: 'archive', value: { version, ends, pages, entries: manifest.entries.length } })
}

export function takeManifest(deciding: RequestContext, query: TakeManifest): Outcome {
  const { tree } = deciding
  if (query.contentIds.length === 0 || query.contentIds.length > idsPerListMax)
    return refuse('error-contentsId')
  const reading = deciding.reading(query.password)
  const rows: number[] = []
  for (const id of query.contentIds) {
    const row = tree.find(id)
    if (row < 0 || tree.inBin(row)) return refuse('error-notFound')
    rows.push(row)
  }
  for (const row of rows) {
    const closed = deciding.closed(reading, row)
    if (closed !== undefined) return closed
  }
  if (rows.includes(tree.root)) return refuse('error-rootFolder')
  return inSlices(manifests(deciding, { reading, rows, query }))
}

function* manifests(
  deciding: RequestContext,
  { reading, rows, query }: { reading: ReaderView; rows: number[]; query: TakeManifest },
): Generator<void, Outcome> {
  const choose = readableOnly(reading, query.skipUnreadable)
  const taken: Manifest[] = []
  for (const row of rows) {
    const manifest = yield* manifestOf(deciding.tree, row, choose)
    if ('refuse' in manifest) {
      if (reading.tries.open.length > 0) break
      return refuse(manifest.refuse)
    }
    taken.push(manifest)
  }
  return deciding.read(reading, () => ({ $case: 'manifest', value: { manifests: taken } }))
}

/** Newest first, as many as an answer holds. */
export function readBin(deciding: RequestContext): Outcome {
  return deciding.viewer.isOwner ? inSlices(listBin(deciding)) : refuse('error-notOwner')
}

function* listBin(deciding: RequestContext): Generator<void, Outcome> {
  const { tree } = deciding
  const rows = [...tree.children(tree.bin)]
  const timeOf = (row: number) => tree.sparse.recycled.get(row)?.time ?? 0
  rows.sort((a, b) => timeOf(b) - timeOf(a))
  const reading = deciding.owners()
  const items: Item[] = []
  let bytes = 0
  for (const row of rows) {
    bytes += answerBytes(reading, row)
    if (items.length === itemsPerAnswerMax || bytes > binBytesMax) break
    items.push(reading.item(row))
    if (items.length % itemsPerSlice === 0) yield
  }
  return answer({ $case: 'items', value: { items } })
}

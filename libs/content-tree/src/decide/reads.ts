/** Queries: they change nothing and keep no result. */

import { blobIdBytes, idsPerListMax, incarnationBytes, pageSizeMax } from '@holdfast/kernel'
import {
  type FileView,
  type FindCode,
  type FindContents,
  type Item,
  type Manifest,
  type OpenFile,
  type ReadContent,
  type SearchContents,
  SortField,
  type TakeManifest,
} from '@holdfast/wire'
import { binBytesMax, itemsPerAnswerMax, itemsPerSlice, searchPageSizeMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { listedBytes } from '../reading/listed-bytes.ts'
import { listing } from '../reading/listing.ts'
import { manifestOf, readableOnly } from '../reading/manifest.ts'
import type { ReaderView } from '../reading/reader-view.ts'
import { search, searchAll } from '../reading/search.ts'
import { sortFields } from '../tree/listing-order.ts'
import { answer, inSlices, type RequestContext, refuse } from './request-context.ts'

export function readContent(context: RequestContext, query: ReadContent): Outcome {
  const row = context.tree.find(query.contentId)
  if (row < 0) return refuse('error-notFound')
  const view = context.viewFor(query.password)
  const closed = context.closed(view, row)
  if (closed !== undefined) return closed
  if (!context.tree.isFolder(row)) return answer(context.contentView(view.item(row)))
  const sortField = sortFields.includes(query.sortField) ? query.sortField : SortField.CREATE_TIME
  const bounded = { ...pageBounds(query, pageSizeMax), sortField }
  return inSlices(readFolder(context, { view, row, query: bounded }))
}

function* readFolder(
  context: RequestContext,
  { view, row, query }: { view: ReaderView; row: number; query: ReadContent },
): Generator<void, Outcome> {
  const { item, ...page } = yield* listing(view, row, query)
  return context.read(view, () => context.contentView(item, page))
}

export function searchContents(context: RequestContext, query: SearchContents): Outcome {
  if (query.searchedString === '') return refuse('error-searchedString')
  const row = context.tree.find(query.contentId)
  if (row < 0) return refuse('error-notFound')
  const view = context.viewFor(query.password)
  const closed = context.closed(view, row)
  if (closed !== undefined) return closed
  if (!context.tree.isFolder(row)) return refuse('error-contentId')
  return inSlices(searchFolder(context, { view, row, query: pageBounds(query, searchPageSizeMax) }))
}

function* searchFolder(
  context: RequestContext,
  { view, row, query }: { view: ReaderView; row: number; query: SearchContents },
): Generator<void, Outcome> {
  const found = yield* search(view, row, query)
  return context.read(view, () => ({ $case: 'search', value: found }))
}

const copyBytes = { id: blobIdBytes, incarnation: incarnationBytes } as const

/** Everything that the operator may look for, wherever it lies. */
export function findContents(context: RequestContext, query: FindContents): Outcome {
  if (context.viewer.kind !== 'operator') return refuse('error-notOwner')
  const { by } = query
  if (by === undefined || (by.$case === 'text' && by.value === '')) return refuse('error-searchedString')
  if (by.$case === 'copy') {
    const { id, incarnation } = by.value
    if (id.length !== copyBytes.id || incarnation.length !== copyBytes.incarnation)
      return refuse('error-hash')
  }
  return inSlices(findAll(context, by, pageBounds(query, searchPageSizeMax)))
}

function* findAll(
  context: RequestContext,
  by: NonNullable<FindContents['by']>,
  page: { page: number; pageSize: number },
): Generator<void, Outcome> {
  const value = yield* searchAll(context.owners(), by, page)
  return answer({ $case: 'search', value })
}

function pageBounds<Query extends { page: number; pageSize: number }>(query: Query, max: number): Query {
  const pageSize = query.pageSize === 0 ? max : Math.min(query.pageSize, max)
  return { ...query, page: Math.max(1, query.page), pageSize }
}

/** A code gives no access, so any caller may ask which content has it. */
export function findCode(context: RequestContext, { code }: FindCode): Outcome {
  const contentId = context.tree.idOfCode(code)
  return contentId === undefined ? refuse('error-notFound') : answer({ $case: 'code', value: { contentId } })
}

export function openFile(context: RequestContext, query: OpenFile): Outcome {
  const { tree } = context
  const row = tree.find(query.contentId)
  if (row < 0 || tree.isFolder(row)) return refuse('error-notFound')
  const granted = grantedTo(context, row)
  if (granted !== undefined) return answer({ $case: 'file', value: granted })
  const view = context.viewFor(query.password)
  const closed = context.closed(view, row)
  if (closed !== undefined) return closed
  return answer({ $case: 'file', value: fileView(view, row) })
}

function fileView(view: ReaderView, row: number): FileView {
  const { tree, isOwner } = view
  const ends = isOwner ? undefined : tree.endsOf(tree.parentOf(row))
  return { item: view.item(row), isOwner, ends }
}

/**
 * What a link's capability opens: files that are still in its folder, to the owner until the token
 * changes, to a visitor while the folder still opens under the password given then. Without a valid
 * one the caller is an ordinary visitor.
 */
function grantedTo(context: RequestContext, row: number): FileView | undefined {
  const { tree, viewer, account } = context
  const { grant } = viewer
  if (grant === undefined || tree.idOf(tree.parentOf(row)) !== grant.folderId) return undefined
  if (grant.ownerTokenCounter !== undefined) {
    if (grant.ownerTokenCounter !== account.known.tokenCounter) return undefined
    return fileView(context.owners(), row)
  }
  const password = tree.passwordOf(tree.parentOf(row))
  if (password === undefined || !password.salt.equals(grant.passwordVersion)) return undefined
  const view = context.viewFor(undefined, false)
  view.tries.accept(password.salt)
  return view.accessToContent(row) === 'open' ? fileView(view, row) : undefined
}

export function takeManifest(context: RequestContext, query: TakeManifest): Outcome {
  const { tree } = context
  if (query.contentIds.length === 0 || query.contentIds.length > idsPerListMax)
    return refuse('error-contentsId')
  const view = context.viewFor(query.password)
  const rows: number[] = []
  for (const id of query.contentIds) {
    const row = tree.find(id)
    if (row < 0 || tree.inBin(row)) return refuse('error-notFound')
    rows.push(row)
  }
  for (const row of rows) {
    const closed = context.closed(view, row)
    if (closed !== undefined) return closed
  }
  if (rows.includes(tree.root)) return refuse('error-rootFolder')
  return inSlices(manifests(context, { view, rows, query }))
}

function* manifests(
  context: RequestContext,
  { view, rows, query }: { view: ReaderView; rows: number[]; query: TakeManifest },
): Generator<void, Outcome> {
  const choose = readableOnly(view, query.skipUnreadable)
  const taken: Manifest[] = []
  for (const row of rows) {
    const manifest = yield* manifestOf(context.tree, row, choose)
    if ('refuse' in manifest) {
      if (view.tries.open.length > 0) break
      return refuse(manifest.refuse)
    }
    taken.push(manifest)
  }
  return context.read(view, () => ({ $case: 'manifest', value: { manifests: taken } }))
}

/** Newest first, as many as an answer holds. */
export function readBin(context: RequestContext): Outcome {
  return context.viewer.isOwner ? inSlices(listBin(context)) : refuse('error-notOwner')
}

function* listBin(context: RequestContext): Generator<void, Outcome> {
  const { tree } = context
  const rows = [...tree.children(tree.bin)]
  const timeOf = (row: number) => tree.sparse.recycled.get(row)?.time ?? 0
  rows.sort((a, b) => timeOf(b) - timeOf(a))
  const view = context.owners()
  const items: Item[] = []
  let bytes = 0
  for (const row of rows) {
    bytes += listedBytes(view, row)
    if (items.length === itemsPerAnswerMax || bytes > binBytesMax) break
    items.push(view.item(row))
    if (items.length % itemsPerSlice === 0) yield
  }
  return answer({ $case: 'items', value: { items } })
}

/** Parameters and answer of a listing, shared by the API's endpoint and the pages' path. */

import { viewOf } from '@holdfast/accounts'
import { type JsonWriter, okWritten, presentPage, withParser } from '@holdfast/http-kit'
import { pageSizeMax } from '@holdfast/kernel'
import { type Item, type ReadContent, SortField } from '@holdfast/wire'
import { type Static, Type } from '@sinclair/typebox'
import type { Call } from '../calls/call.ts'
import { readerPassword } from '../documents/schemas.ts'
import { answerBytes, itemBytes } from './answer-bytes.ts'
import { holding } from './views.ts'

/**
 * The last page that an account accepts; far behind the end of any folder, so that all later ones
 * are empty too.
 */
export const pageMax = 0xffffffff

const sortFields = {
  createTime: SortField.CREATE_TIME,
  name: SortField.NAME,
  size: SortField.SIZE,
  downloads: SortField.DOWNLOADS,
  mimetype: SortField.MIMETYPE,
}

export const listingQuery = Type.Object({
  password: readerPassword,
  page: Type.Integer({ minimum: 1, default: 1, description: 'From 1; past the end is empty' }),
  pageSize: Type.Integer({
    minimum: 1,
    default: pageSizeMax,
    description: `Items a page; more than ${pageSizeMax} is cut`,
  }),
  sortField: Type.Unsafe<keyof typeof sortFields>(
    Type.String({ pattern: `^(${Object.keys(sortFields).join('|')})$`, default: 'createTime' }),
  ),
  sortDirection: withParser(
    Type.Integer({ default: -1, description: '1 ascending, -1 descending' }),
    (direction: number) => (direction === 1 || direction === -1 ? direction : undefined),
    { enum: [1, -1] },
  ),
  contentFilter: Type.String({
    default: '',
    maxLength: 1_024,
    description: 'Part of a name or tag, without case; empty: none',
  }),
  contentname: Type.Optional(Type.String({ maxLength: 1_024, description: 'The exact name' })),
  maxdepth: Type.Integer({ minimum: 1, maximum: 16, default: 1, description: 'Depth of nested children' }),
})

/** Why a reader has no access. */
export const refusalsOfReading = [
  'error-notFound',
  'error-notOwner',
  'error-passwordRequired',
  'error-passwordWrong',
] as const

export async function readListing(call: Call, name: string, query: Static<typeof listingQuery>) {
  const contentId = await call.contentNamed(name)
  const request: ReadContent = {
    contentId,
    password: query.password || undefined,
    page: Math.min(query.page, pageMax),
    pageSize: Math.min(query.pageSize, pageSizeMax),
    sortField: sortFields[query.sortField],
    ascending: query.sortDirection === 1,
    contentFilter: query.contentFilter,
    contentName: query.contentname || undefined,
    maxDepth: query.maxdepth,
    columns: true,
  }
  const held = request.maxDepth > 1 ? await call.takeView() : undefined
  const view = viewOf(await call.askOf(contentId, { $case: 'readContent', value: request }), 'content')
  const { item } = view
  if (item === undefined) throw new Error('the account answered without an item')
  // The folder above also lists content that the password does not open.
  if (request.password !== undefined && isLocked(item) && !isOpened(item))
    await call.guesses.wrong('password')
  const { nowSeconds } = call
  // Clients page through a file as through a folder with one page of one item.
  const page = view.page
    ? { ...view.page, page: query.page }
    : { page: 1, pageSize: request.pageSize, totalCount: 1 }
  const presented = { nowSeconds, tokenCounter: view.tokenCounter }
  const itemsBytes = answerBytes([item])
  const filesBytes = view.files === undefined ? 0 : (view.files.ids.length / 16) * itemBytes
  const write = (json: JsonWriter) => call.context.present.write(json, { ...view, item }, presented)
  return okWritten(
    {
      bytes: itemsBytes + filesBytes,
      write: (json) => (held === undefined ? write(json) : holding(held, itemsBytes, write(json))),
    },
    presentPage(page),
  )
}

/** The password did not open some content here. */
function isLocked(item: Item): boolean {
  return item.isFolder && ((item.password && !item.canAccess) || item.children.some(isLocked))
}

/** The password opened something: it is no guess for the rest. */
function isOpened(item: Item): boolean {
  return item.isFolder && ((item.password && item.canAccess) || item.children.some(isOpened))
}

/** Reads for the pages: one content, as a visitor who may have a password. */
import { type AskDeps, ask, asVisitor, type ShareCodeRoutes, viewOf } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import { type IdCodec, isShareCode } from '@holdfast/kernel'
import type { ArchiveView, ContentView, Item, ReadContent } from '@holdfast/wire'
import { type ListingQuery, listingPageSize, sortFieldOf } from './listing-query.ts'

export interface WebReaderDeps extends AskDeps {
  codes: Pick<ShareCodeRoutes, 'contentOf'>
  ids: IdCodec
}

/** @throws RefusalError error-notFound for what is neither id nor code, or has no content */
export async function contentNamed(
  deps: WebReaderDeps,
  name: string,
  { clientNetwork }: { clientNetwork: string | undefined },
): Promise<string> {
  const id = isShareCode(name) ? await deps.codes.contentOf(name, { clientNetwork }) : name.toLowerCase()
  if (id === undefined || deps.ids.accountOf(id) === undefined) throw new RefusalError('error-notFound')
  return id
}

/**
 * A file, or a page of a folder with its direct children.
 *
 * @param password SHA-256 hex, as readers of the API send it.
 * @throws RefusalError with the account's own status.
 */
export async function readAsVisitor(
  deps: WebReaderDeps,
  {
    contentId,
    password,
    query,
    clientNetwork,
  }: {
    contentId: string
    password: string | undefined
    query: ListingQuery
    clientNetwork: string | undefined
  },
): Promise<ContentView & { item: Item }> {
  const accountId = deps.ids.accountOf(contentId)
  if (accountId === undefined) throw new RefusalError('error-notFound')
  const result = await ask(deps, {
    accountId,
    who: asVisitor(),
    operation: { $case: 'readContent', value: requestOf(contentId, password, query) },
    clientNetwork,
  })
  const view = viewOf(result, 'content')
  if (view.item === undefined) throw new Error(`account ${accountId} answered readContent without an item`)
  return { ...view, item: view.item }
}

/**
 * Whether a visitor may have a folder, or a file, as an archive.
 *
 * @param password as for `readAsVisitor`.
 * @throws RefusalError with the account's own status.
 */
export async function openVisitorArchive(
  deps: WebReaderDeps,
  {
    contentId,
    password,
    clientNetwork,
  }: { contentId: string; password: string | undefined; clientNetwork: string | undefined },
): Promise<ArchiveView> {
  const accountId = deps.ids.accountOf(contentId)
  if (accountId === undefined) throw new RefusalError('error-notFound')
  const value = { contentIds: [contentId], password, passwordVersions: [], versionOnly: true }
  const result = await ask(deps, {
    accountId,
    who: asVisitor(),
    operation: { $case: 'openArchive', value },
    clientNetwork,
  })
  return viewOf(result, 'archive')
}

function requestOf(contentId: string, password: string | undefined, query: ListingQuery): ReadContent {
  return {
    contentId,
    password,
    page: query.page,
    pageSize: listingPageSize,
    sortField: sortFieldOf(query.sort),
    ascending: query.ascending,
    contentFilter: '',
    contentName: undefined,
    columns: undefined,
    maxDepth: 1,
  }
}

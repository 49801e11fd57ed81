/** What the pages read: one content, as a visitor who may have a password. */
import type { AccountClient, ShareCodeRoutes } from '@holdfast/actor-runtime'
import { Refusal } from '@holdfast/http-kit'
import { type Clock, type IdCodec, isShareCode, mintRequestId } from '@holdfast/kernel'
import type { AccountRequest, ContentView, Item } from '@holdfast/wire'
import { type ListingQuery, listingPageSize, sortFieldOf } from './listing-query.ts'

export interface ReaderDeps {
  accounts: AccountClient
  codes: Pick<ShareCodeRoutes, 'contentOf'>
  ids: IdCodec
  clock: Clock
}

/** @throws Refusal error-notFound for what is neither id nor code, or has no content */
export async function contentNamed(
  parts: ReaderDeps,
  name: string,
  { clientNetwork }: { clientNetwork: string | undefined },
): Promise<string> {
  const id = isShareCode(name) ? await parts.codes.contentOf(name, { clientNetwork }) : name.toLowerCase()
  if (id === undefined || parts.ids.accountOf(id) === undefined) throw new Refusal('error-notFound')
  return id
}

/**
 * A file, or a page of a folder with its direct children.
 *
 * @param password SHA-256 hex, as readers of the API send it.
 * @throws Refusal with the account's own status.
 */
export async function readAsVisitor(
  parts: ReaderDeps,
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
  const accountId = parts.ids.accountOf(contentId)
  if (accountId === undefined) throw new Refusal('error-notFound')
  const reply = await parts.accounts.call(
    {
      accountId,
      requestId: mintRequestId(parts.clock.now()),
      caller: { who: { $case: 'visitor', value: { accountId: '' } } },
      tierNeeded: '',
      clientNetwork,
      operation: { $case: 'readContent', value: requestOf(contentId, password, query) },
    },
    {},
  )
  const result = reply.result
  if (result?.$case === 'refusal') throw new Refusal(result.value.status)
  if (result?.$case !== 'content' || result.value.item === undefined)
    throw new Error(`account ${accountId} answered ${result?.$case} to readContent`)
  return { ...result.value, item: result.value.item }
}

type ReadContent = Extract<NonNullable<AccountRequest['operation']>, { $case: 'readContent' }>['value']

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

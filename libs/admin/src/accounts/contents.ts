/**
 * Contents for the operator: found by id, share code, any link, or by name within an account; and
 * their details.
 */
import { routeOfCode } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import { referencesOf } from '@holdfast/journal'
import { hex, isShareCode } from '@holdfast/kernel'
import type { BlockLists } from '@holdfast/moderation'
import { blank, type Item, ReadContent, SearchContents } from '@holdfast/wire'
import type { FastifyInstance } from 'fastify'
import { accountNamed, askAsOperator } from '../calls.ts'
import type { NewAccountDeps } from './new-account.ts'

/** Children of a folder, and hits of a search, in one answer. */
const itemsMax = 100
/** Accounts that use the same copy of a file. */
const usersMax = 100
const pageMax = 100_000

export type ContentDeps = NewAccountDeps & { lists: BlockLists }

export function contentRoutes(host: FastifyInstance, deps: ContentDeps): void {
  host.get<{ Querystring: { name?: string } }>('/admin/contents', async ({ query }) => {
    return { status: 'ok', data: await look(deps, await placeOf(deps, query.name)) }
  })

  host.get<{ Params: { name: string }; Querystring: { text?: string; page?: string } }>(
    '/admin/accounts/:name/contents',
    async ({ params, query }) => {
      const accountId = await accountNamed(deps, params.name)
      const account = await askAsOperator(deps, accountId, { $case: 'getAccount', value: {} })
      if (account.$case !== 'account') throw new Error(`${accountId} answered ${account.$case} to getAccount`)
      const value = {
        ...blank(SearchContents),
        contentId: account.value.rootFolder,
        searchedString: query.text ?? '',
        page: pageOf(query.page),
        pageSize: itemsMax,
      }
      const found = await askAsOperator(deps, accountId, { $case: 'searchContents', value })
      if (found.$case !== 'search') throw new Error(`${accountId} answered ${found.$case} to searchContents`)
      const hits = found.value.hits.map(({ id, isFolder, name, size, createTime }) => {
        return { id, type: isFolder ? 'folder' : 'file', name, createTime, size }
      })
      return { status: 'ok', data: { hits } }
    },
  )
}

export interface OwnedContent {
  accountId: NonNullable<ReturnType<NewAccountDeps['ids']['accountOf']>>
  contentId: string
}

/** @throws RefusalError error-content */
export async function placeOf(deps: ContentDeps, name: unknown): Promise<OwnedContent> {
  if (typeof name !== 'string' || name.length > 4_096) throw new RefusalError('error-name')
  const named = nameIn(name.trim())
  const contentId = isShareCode(named) ? await contentOfCode(deps, named) : named.toLowerCase()
  const accountId = contentId === undefined ? undefined : deps.ids.accountOf(contentId)
  if (contentId === undefined || accountId === undefined) throw new RefusalError('error-content')
  return { accountId, contentId }
}

/** The id or the code in the address of a page, a download or a direct link. */
export function nameIn(text: string): string {
  const path = URL.parse(text)?.pathname ?? ''
  return /^\/(?:d|download\/web|download|direct)\/([^/]+)/i.exec(path)?.[1] ?? text
}

async function contentOfCode(deps: ContentDeps, code: string): Promise<string | undefined> {
  const key = routeOfCode(deps.keyring, code)
  const route = key === undefined ? undefined : await deps.lookups.get(key)
  const accountId = route && deps.ids.parseAccount(Buffer.from(route).toString())
  if (accountId === undefined) return undefined
  const found = await askAsOperator(deps, accountId, { $case: 'findCode', value: { code } })
  return found.$case === 'code' ? found.value.contentId : undefined
}

/** @throws RefusalError error-content */
export async function read(
  deps: ContentDeps,
  { accountId, contentId }: OwnedContent,
  { page = 1, pageSize = itemsMax }: { page?: number; pageSize?: number } = {},
): Promise<{ item: Item }> {
  const value = { ...blank(ReadContent), contentId, page, pageSize, maxDepth: 1 }
  const asked = askAsOperator(deps, accountId, { $case: 'readContent', value })
  const read = await asked.catch((error: unknown) => {
    throw error instanceof RefusalError && error.status === 'error-notFound'
      ? new RefusalError('error-content')
      : error
  })
  const item = read.$case === 'content' ? read.value.item : undefined
  if (item === undefined) throw new Error(`account ${accountId} answered ${read.$case} to readContent`)
  return { item }
}

export async function look(deps: ContentDeps, place: OwnedContent) {
  const { item } = await read(deps, place)
  const { lists, lookups } = deps
  const seen = {
    ...brief(item),
    account: place.accountId,
    accountBlockedBy: lists.actOf('account', place.accountId) ?? null,
    parentFolder: item.parentFolder ?? null,
    downloads: item.downloads,
    directLinks: item.directLinks.map(({ id }) => id),
  }
  if (item.isFolder)
    return {
      ...seen,
      public: item.isPublic,
      childrenCount: item.childrenCount,
      children: item.children.map(brief),
    }
  const usedBy: string[] = []
  if (item.blob !== undefined)
    for await (const { key } of lookups.scan(referencesOf(item.blob), { limit: usersMax }))
      usedBy.push(key.slice(key.lastIndexOf('/') + 1))
  const { md5, blake3 } = hashesOf(item)
  const by = lists.actOf('content', md5 ?? '') ?? lists.actOf('content', blake3 ?? '')
  return { ...seen, blockedBy: by ?? null, usedBy }
}

function brief(item: Item) {
  const { id, name, code, createTime, recycledTime } = item
  const about = { id, type: item.isFolder ? 'folder' : 'file', name, code: code ?? null, createTime }
  const recycled = recycledTime === undefined ? {} : { recycledTime }
  if (item.isFolder) return { ...about, ...recycled }
  return { ...about, size: item.size, mimetype: item.mimetype, ...hashesOf(item), ...recycled }
}

export function hashesOf({ blob }: Item): { md5?: string; blake3?: string } {
  if (blob === undefined) return {}
  return { md5: hex(blob.id.subarray(0, 16)), blake3: hex(blob.id.subarray(16)) }
}

function pageOf(text: string | undefined): number {
  if (text === undefined) return 1
  if (!/^[1-9]\d{0,5}$/.test(text) || Number(text) > pageMax) throw new RefusalError('error-page')
  return Number(text)
}

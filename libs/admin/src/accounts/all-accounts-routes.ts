/** The operator's calls that look into all accounts, or delete: a piece a call. */
import { RefusalError } from '@holdfast/http-kit'
import { listedName } from '@holdfast/moderation'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { accountNamed } from '../calls.ts'
import { askedBy, unlessFault } from '../moderation/moderation.ts'
import { objectOf } from './account-change.ts'
import type { AllAccounts, ContentQuery } from './all-accounts.ts'
import { type ContentDeps, placeOf } from './contents.ts'
import { type Deletion, deleteAccount, deleteContent, undo } from './deletions.ts'

interface SearchRequest {
  Body: unknown
  Querystring: { hash?: string; text?: string; after?: string }
}

const textCharactersMax = 255

export function allAccountsRoutes(host: FastifyInstance, deps: ContentDeps, allAccounts: AllAccounts): void {
  host.get<SearchRequest>('/admin/contents/find', async ({ query }) => {
    return { status: 'ok', data: await allAccounts.find(contentQueryOf(query), query.after) }
  })

  host.post<SearchRequest>('/admin/contents/delete', async (request) => {
    const { name, ...rest } = objectOf(request.body, 'body')
    const deletion = deletionOf(request, rest)
    return { status: 'ok', data: { act: await deleteContent(deps, await placeOf(deps, name), deletion) } }
  })

  host.post<SearchRequest>('/admin/contents/delete-hash', async (request) => {
    const { hash, block = false, after, ...rest } = objectOf(request.body, 'body')
    if (typeof block !== 'boolean') throw new RefusalError('error-block')
    const deletion = deletionOf(request, rest)
    const name = hashOf(hash)
    const from = textOf(after, 'after')
    const asked = { by: deletion.by, reason: deletion.reason }
    const blocked =
      block && from === undefined ? await unlessFault(deps.lists.block('content', [name], asked)) : undefined
    const { hits, ...piece } = await allAccounts.deleteHash(name, deletion, from)
    return { status: 'ok', data: { ...piece, blocked: blocked?.act ?? null, deleted: hits.length } }
  })

  host.post<SearchRequest & { Params: { name: string } }>('/admin/accounts/:name/delete', async (request) => {
    const deletion = deletionOf(request, objectOf(request.body, 'body'))
    return {
      status: 'ok',
      data: await deleteAccount(deps, await accountNamed(deps, request.params.name), deletion),
    }
  })

  host.post<SearchRequest & { Params: { id: string } }>('/admin/acts/:id/undo', async (request) => {
    const { after, ...rest } = objectOf(request.body, 'body')
    const asked = askedBy(request, rest)
    return { status: 'ok', data: await undo(deps, request.params.id, asked, textOf(after, 'after')) }
  })
}

function deletionOf(request: FastifyRequest, { final = false, ...rest }: Record<string, unknown>): Deletion {
  if (typeof final !== 'boolean') throw new RefusalError('error-final')
  return { ...askedBy(request, rest), final }
}

/** @throws RefusalError naming the parameter. */
function contentQueryOf({ hash, text = '' }: { hash?: string; text?: string }): ContentQuery {
  if (hash !== undefined) return { hash: hashOf(hash) }
  if (text === '' || text.length > textCharactersMax) throw new RefusalError('error-searchedString')
  return { text }
}

function hashOf(hash: unknown): string {
  const name = typeof hash === 'string' ? listedName('content', hash) : undefined
  if (name === undefined) throw new RefusalError('error-hash')
  return name
}

function textOf(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string' || value === '') throw new RefusalError(`error-${name}`)
  return value
}

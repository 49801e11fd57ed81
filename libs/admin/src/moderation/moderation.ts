/** The operator's lists of what is blocked, and the log of operators' acts. */
import { RefusalError } from '@holdfast/http-kit'
import {
  type BlockList,
  type BlockLists,
  blockLists,
  isWide,
  listedName,
  ModerationFault,
} from '@holdfast/moderation'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { objectOf } from '../accounts/account-change.ts'
import { accountNamed, type OperatorDeps } from '../calls.ts'

interface OfList {
  Params: { list: string }
  Querystring: { after?: string; limit?: string }
  Body: unknown
}

/** Names that one act blocks; larger lists are several acts. */
export const namesPerActMax = 3_000
const pageMax = 3_000
const actsPageMax = 200
export const reasonCharactersMax = 500

/** @param accounts undefined: accounts are named by id alone. */
export function moderationRoutes(
  host: FastifyInstance,
  { lists, accounts }: { lists: BlockLists; accounts: OperatorDeps | undefined },
): void {
  host.get<OfList>('/admin/blocked/:list', async ({ params, query }) => {
    const list = listOf(params.list)
    const limit = limitOf(query.limit, pageMax)
    const names = lists.names(list, { after: query.after ?? '', limit })
    const next = names.length === limit ? names.at(-1) : undefined
    const reported = names.map((name) => ({ name, act: lists.actOf(list, name) }))
    return { status: 'ok', data: { total: lists.count(list), names: reported, next: next ?? null } }
  })

  for (const act of ['block', 'unblock'] as const)
    host.post<OfList>(`/admin/blocked/:list/${act}`, async (request) => {
      const list = listOf(request.params.list)
      const { names, wide = false, ...rest } = objectOf(request.body, 'body')
      const asked = askedBy(request, rest)
      const known = await namesOf(list, names, accounts)
      if (act === 'block' && list === 'network' && wide !== true) assertNotWide(known)
      const done = await unlessFault(lists[act](list, known, asked))
      return { status: 'ok', data: done }
    })

  host.get<{ Querystring: { after?: string; limit?: string } }>('/admin/acts', async ({ query }) => {
    const { after, limit } = query
    const page = await lists.acts.page({ after: after ?? '', limit: limitOf(limit, actsPageMax) })
    return { status: 'ok', data: { acts: page.acts, next: page.next ?? null } }
  })

  // Where there are accounts, an undo also restores deleted content (`all-accounts-routes.ts`).
  if (accounts !== undefined) return
  host.post<{ Params: { id: string }; Body: unknown }>('/admin/acts/:id/undo', async (request) => {
    const asked = askedBy(request, objectOf(request.body, 'body'))
    const act = await unlessFault(lists.acts.get(request.params.id))
    if (act.kind === 'delete') throw new RefusalError('error-unavailable')
    return { status: 'ok', data: await unlessFault(lists.undo(request.params.id, asked)) }
  })
}

/** A typing error must not block everybody. @throws RefusalError error-wide */
export function assertNotWide(networks: readonly string[]): void {
  if (networks.some(isWide)) throw new RefusalError('error-wide')
}

/** A refusal of the lists, of the log or of the queue as one of the host. */
export async function unlessFault<T>(done: Promise<T>): Promise<T> {
  try {
    return await done
  } catch (error) {
    if (!(error instanceof ModerationFault)) throw error
    const statuses = {
      FULL: 'error-limits',
      NOT_FOUND: 'error-act',
      TOO_LATE: 'error-tooLate',
      FINAL: 'error-final',
    }
    throw new RefusalError(statuses[error.code])
  }
}

/** The caller in the log: the given name, and the address of the call. */
export function askedBy(request: FastifyRequest, { reason, ...others }: Record<string, unknown>) {
  const [other] = Object.keys(others)
  if (other !== undefined) throw new RefusalError('error-body')
  if (reason !== undefined && (typeof reason !== 'string' || reason.length > reasonCharactersMax))
    throw new RefusalError('error-reason')
  const name = String(request.headers['x-operator'] ?? '').replace(/[^\w.@-]/g, '')
  const by = `${name.slice(0, 64) || 'operator'} from ${request.raw.socket.remoteAddress ?? 'nowhere'}`
  return { by, reason: reason ?? '' }
}

function listOf(text: string): BlockList {
  const list = blockLists.find((name) => name === text)
  if (list === undefined) throw new RefusalError('error-notFound')
  return list
}

async function namesOf(
  list: BlockList,
  names: unknown,
  accounts: OperatorDeps | undefined,
): Promise<string[]> {
  if (!Array.isArray(names) || names.length === 0 || names.length > namesPerActMax)
    throw new RefusalError('error-names')
  const known: string[] = []
  for (const name of names) {
    const one = typeof name === 'string' ? await nameIn(list, name, accounts) : undefined
    if (one === undefined) throw new RefusalError('error-names')
    known.push(one)
  }
  return known
}

/** @throws RefusalError error-notFound for an account that does not exist. */
async function nameIn(list: BlockList, text: string, accounts: OperatorDeps | undefined) {
  if (list !== 'account' || accounts === undefined) return listedName(list, text)
  return accountNamed(accounts, text)
}

function limitOf(text: string | undefined, max: number): number {
  if (text === undefined) return max
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new RefusalError('error-limit')
  return Math.min(Number(text), max)
}

/** The queue of visitors' reports, and the effects of an accepted report. */
import { RefusalError } from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import {
  type Act,
  type ActsPage,
  type Attribution,
  type BlockLists,
  type Report,
  type Reports,
  reportStates,
} from '@holdfast/moderation'
import type { FastifyInstance } from 'fastify'
import { objectOf } from '../accounts/account-change.ts'
import { read } from '../accounts/contents.ts'
import { deleteContent } from '../accounts/deletions.ts'
import type { NewAccountDeps } from '../accounts/new-account.ts'
import { childrenPerRead, hashesWithin } from './hashes-within.ts'
import { askedBy, namesPerActMax, unlessFault } from './moderation.ts'

export interface ReportDeps {
  lists: BlockLists
  reports: Reports
  /** Undefined: reports can be closed here, but nothing can be taken down. */
  accounts: NewAccountDeps | undefined
}

/** Further effects of an accepted report. */
export interface Takedown {
  /** Blocks the bytes of the file, or of all files in the folder, at any depth. */
  block: boolean
  delete: boolean
  /** Suspends the account. */
  suspend: boolean
}

interface OfReport {
  Params: { id: string }
  Body: unknown
}

export function reportRoutes(host: FastifyInstance, deps: ReportDeps): void {
  const { reports } = deps

  host.get<{ Querystring: { state?: string; after?: string } }>('/admin/reports', async ({ query }) => {
    const state = reportStates.find((name) => name === (query.state ?? 'new'))
    if (state === undefined) throw new RefusalError('error-state')
    const page = await reports.page(state, { after: query.after ?? '' })
    return { status: 'ok', data: { reports: page.reports, next: page.next ?? null } }
  })

  host.get<OfReport>('/admin/reports/:id', async ({ params }) => {
    return { status: 'ok', data: { report: await known(reports, params.id) } }
  })

  host.post<OfReport>('/admin/reports/:id/accept', async (request) => {
    const { block = false, delete: remove = false, suspend = false, ...rest } = objectOf(request.body, 'body')
    const takedown = { block, delete: remove, suspend }
    for (const [name, value] of Object.entries(takedown))
      if (typeof value !== 'boolean') throw new RefusalError(`error-${name}`)
    const asked = askedBy(request, rest)
    return { status: 'ok', data: await accept(deps, request.params.id, takedown as Takedown, asked) }
  })

  host.post<OfReport>('/admin/reports/:id/reject', async (request) => {
    const asked = askedBy(request, objectOf(request.body, 'body'))
    await known(reports, request.params.id)
    const report = await reports.decide(request.params.id, 'rejected', asked)
    return { status: 'ok', data: { report, acts: [], standing: await standing(deps.lists, report) } }
  })
}

async function known(reports: Reports, id: string): Promise<Report> {
  return reports.get(id).catch(() => {
    throw new RefusalError('error-report')
  })
}

/** Acts of an earlier accept that still hold: a rejection does not undo them. */
async function standing(lists: BlockLists, { takedown = [] }: Report): Promise<Act[]> {
  const acts = await Promise.all(takedown.map((id) => unlessFault(lists.acts.get(id))))
  const undone = acts.some(({ kind }) => kind === 'delete') ? await undoneSince(lists, acts) : new Set()
  return acts.filter(({ id, kind }) => (kind === 'delete' ? !undone.has(id) : lists.holds(id)))
}

/** The acts that were undone after the oldest of these. Ids of newer acts come first. */
async function undoneSince(lists: BlockLists, acts: readonly Act[]): Promise<Set<string>> {
  const oldest =
    acts
      .map(({ id }) => id)
      .sort()
      .at(-1) ?? ''
  const undone = new Set<string>()
  for (let after: string | undefined = ''; after !== undefined && after < oldest; ) {
    const page: ActsPage = await lists.acts.page({ after })
    for (const { undoes } of page.acts) if (undoes !== undefined) undone.add(undoes)
    after = page.next
  }
  return undone
}

/** The takedown comes first: a report whose takedown failed stays in the queue. */
export async function accept(
  deps: ReportDeps,
  id: string,
  takedown: Takedown,
  given: Attribution,
): Promise<{ report: Report; acts: Act[] }> {
  const report = await known(deps.reports, id)
  const asked = { by: given.by, reason: given.reason || `report ${id}` }
  const acts: Act[] = []
  const ids = () => acts.map((act) => act.id)
  try {
    for await (const act of takenDown(deps, report, { takedown, asked })) acts.push(act)
  } catch (error) {
    if (acts.length > 0) await deps.reports.took(id, ids())
    throw error
  }
  return { report: await deps.reports.decide(id, 'accepted', asked, ids()), acts }
}

/** Takes it down, act by act. */
async function* takenDown(
  { lists, accounts }: ReportDeps,
  report: Report,
  { takedown, asked }: { takedown: Takedown; asked: Attribution },
): AsyncGenerator<Act> {
  if (accounts === undefined && (takedown.block || takedown.delete))
    throw new RefusalError('error-noAccounts')
  if (accounts !== undefined) {
    const place = { accountId: report.account as AccountId, contentId: report.content }
    const all = { ...accounts, lists }
    if (takedown.block) {
      const names = await hashesWithin(report.content, async (contentId, page) => {
        const { item } = await read(all, { ...place, contentId }, { page, pageSize: childrenPerRead })
        return item
      })
      for (let at = 0; at < names.length; at += namesPerActMax) {
        const some = names.slice(at, at + namesPerActMax)
        yield (await unlessFault(lists.block('content', some, asked))).act
      }
    }
    if (takedown.delete) yield await deleteContent(all, place, { ...asked, final: false })
  }
  if (takedown.suspend) yield (await unlessFault(lists.block('account', [report.account], asked))).act
}

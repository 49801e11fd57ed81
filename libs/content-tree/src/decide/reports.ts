/** Downloads and traffic, as the processes that serve bytes count them. */
import { hex } from '@holdfast/kernel'
import type { ReportDownloads } from '@holdfast/wire'
import { usedFreshSeconds } from '../bounds.ts'
import type { Outcome } from '../contract.ts'
import { answer, done, type RequestContext, refuse } from './request-context.ts'

/** A report counts once: a sequence at or below the source's last one was already counted. */
export function reportDownloads(context: RequestContext, report: ReportDownloads): Outcome {
  const { viewer, account } = context
  if (viewer.kind !== 'system' && viewer.kind !== 'operator') return refuse('error-notOwner')
  if (!account.isNewReport(hex(report.source), report.sequence)) return answer(done)
  const value = { report }
  return context.changed([{ $case: 'downloadsReported', value }], done, {
    mayWait: !isNews(context, report),
  })
}

/** A crash would lose the only use of a file in a long time: its deletion would come too early. */
function isNews({ account, tree, now }: RequestContext, { counts }: ReportDownloads): boolean {
  const { idleFrom } = account.known
  if (idleFrom === undefined) return false
  const { used, created } = tree.contents
  return counts.some(({ contentId }) => {
    const row = tree.find(contentId)
    if (row < 0) return false
    return now - Math.max(idleFrom, used[row] as number, created[row] as number) > usedFreshSeconds
  })
}

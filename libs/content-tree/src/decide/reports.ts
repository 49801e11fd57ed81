/** Downloads and traffic, as the processes that serve bytes count them. */
import type { ReportDownloads } from '@holdfast/wire'
import type { Outcome } from '../contract.ts'
import { answer, type Deciding, done, refuse } from './deciding.ts'

/** A report counts once: a sequence at or below the source's last one was already counted. */
export function reportDownloads(deciding: Deciding, report: ReportDownloads): Outcome {
  const { viewer, account } = deciding
  if (viewer.kind !== 'system' && viewer.kind !== 'operator') return refuse('error-notOwner')
  if (!account.isNewReport(report.source.toString('hex'), report.sequence)) return answer(done)
  return deciding.changed([{ $case: 'downloadsReported', value: { report } }], done, { mayWait: true })
}

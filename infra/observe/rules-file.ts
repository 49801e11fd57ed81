/** The file that Prometheus reads: recording rules, then alerts. */
import { stringify } from 'yaml'
import { alertRules } from './alerts.ts'
import { recordingRules } from './records.ts'
import { productionTimes, type Times } from './times.ts'

/** Where each alert has its entry. */
export const runbookChapter = 'When something is wrong'

export function rulesFile(times: Times = productionTimes): string {
  const alerts = alertRules(times).map(({ alert, expr, for: pending, severity, summary }) => ({
    alert,
    expr,
    for: pending,
    labels: { severity },
    annotations: { summary, runbook: `infra/OPERATING.md, ${runbookChapter}, ${alert}` },
  }))
  const groups = [
    { name: 'holdfast-records', rules: recordingRules(times) },
    { name: 'holdfast', rules: alerts },
  ]
  return stringify({ groups }, { lineWidth: 0, aliasDuplicateObjects: false })
}

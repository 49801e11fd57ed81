/** The operator's records that each process which serves users writes, and their metrics. */
import { outerNetworkOf, siteOf } from '@holdfast/http-kit'
import type { LookupStore } from '@holdfast/journal'
import { backgroundTimers, type Clock } from '@holdfast/kernel'
import { type BlockLists, Reports, TransferLog, type TransferLogOptions } from '@holdfast/moderation'
import type { Registry } from 'prom-client'
import { moderationMetrics, reportMetrics, transferMetrics } from '../metrics/moderation-metrics.ts'

export interface RecordsDeps {
  lookups: LookupStore
  blocked: BlockLists
  transferLog: Pick<TransferLogOptions, 'days' | 'rowsPerHourMax'>
  clock: Clock
  isClockOff: () => boolean
  warn: (message: string) => (error: unknown) => void
  metrics: Registry
}

/** What visitors report, and who uploaded and downloaded what. The caller closes the latter. */
export function openRecords({
  lookups,
  blocked,
  transferLog,
  clock,
  isClockOff,
  warn,
  metrics,
}: RecordsDeps): {
  reports: Reports
  transfers: TransferLog
} {
  moderationMetrics(metrics, blocked)
  const reports = new Reports({ lookups, clock, acts: blocked.acts, networkOf: outerNetworkOf })
  reportMetrics(metrics, reports)
  const transfers = new TransferLog({
    lookups,
    clock,
    timers: backgroundTimers,
    ...transferLog,
    networkOf: (address) => siteOf(address) ?? address,
    isClockOff,
    onFault: warn('the record of transfers is behind'),
  })
  transferMetrics(metrics, transfers)
  return { reports, transfers }
}

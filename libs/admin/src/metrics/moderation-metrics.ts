import {
  type BlockLists,
  blockLists,
  type Reports,
  reportOutcomes,
  type TransferLog,
  transferKinds,
} from '@holdfast/moderation'
import { Counter, Gauge, type Registry } from 'prom-client'

/** How much operators block, read at each scrape. */
export function moderationMetrics(registry: Registry, lists: Pick<BlockLists, 'count'>): void {
  new Gauge({
    name: 'holdfast_blocked_names',
    help: 'Names that operators block, by list.',
    labelNames: ['list'],
    registers: [registry],
    collect() {
      for (const list of blockLists) this.set({ list }, lists.count(list))
    },
  })
}

/** Reports that this process was sent. */
export function reportMetrics(registry: Registry, reports: Pick<Reports, 'counts'>): void {
  new Counter({
    name: 'holdfast_reports_total',
    help: 'Reports of visitors: added, repeated (their content, account or network has its share of the queue), or not taken because the queue is full.',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      this.reset()
      for (const outcome of reportOutcomes) this.inc({ outcome }, reports.counts[outcome])
    },
  })
}

/** Rows of this process in the record of transfers. */
export function transferMetrics(registry: Registry, log: Pick<TransferLog, 'counts'>): void {
  const counter = (name: string, help: string, figure: 'written' | 'lost') =>
    new Counter({
      name,
      help,
      labelNames: ['kind'],
      registers: [registry],
      collect() {
        this.reset()
        for (const kind of transferKinds) this.inc({ kind }, log.counts(kind)[figure])
      },
    })
  counter(
    'holdfast_transfers_recorded_total',
    'Uploads and downloads in the record of the operator.',
    'written',
  )
  counter(
    'holdfast_transfers_unrecorded_total',
    'Uploads and downloads that are missing in the record: the bound per hour was reached, or the store accepted no rows.',
    'lost',
  )
}

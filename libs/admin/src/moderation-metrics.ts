import { type BlockLists, blockLists } from '@holdfast/moderation'
import { Gauge, type Registry } from 'prom-client'

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

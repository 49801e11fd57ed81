/** The pages of the repository that a program writes. */
import { metricsPage } from './metrics.ts'
import type { RunningService } from './service.ts'
import { settingsPage } from './settings.ts'
import { statusesPage } from './statuses.ts'

export interface GeneratedDocument {
  /** In the repository. */
  path: string
  text: (service: RunningService) => string
}

export const documents: readonly GeneratedDocument[] = [
  { path: 'infra/SETTINGS.md', text: settingsPage },
  { path: 'infra/METRICS.md', text: metricsPage },
  { path: 'apps/api/STATUSES.md', text: statusesPage },
]

/** The pages of the repository that a program writes. */
import { dashboards } from '../observe/dashboards.ts'
import { grafanaDashboard } from '../observe/grafana.ts'
import { rulesFile } from '../observe/rules-file.ts'
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
  { path: 'infra/observe/holdfast.rules.yml', text: () => rulesFile() },
  ...dashboards.map((dashboard) => ({
    path: `infra/observe/dashboards/${dashboard.id}.json`,
    text: () => grafanaDashboard(dashboard),
  })),
  { path: 'infra/SETTINGS.md', text: settingsPage },
  { path: 'infra/METRICS.md', text: metricsPage },
  { path: 'apps/api/STATUSES.md', text: statusesPage },
]

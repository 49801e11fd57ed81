/** The pages of the repository: those that a program writes, and all others, wrapped. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { dashboards } from '../observe/dashboards.ts'
import { grafanaDashboard } from '../observe/grafana.ts'
import { rulesFile } from '../observe/rules-file.ts'
import { metricsPage } from './metrics.ts'
import type { RunningService } from './service.ts'
import { settingsPage } from './settings.ts'
import { statusesPage } from './statuses.ts'
import { wrapPage } from './wrapped.ts'

const root = join(import.meta.dirname, '../..')

export interface GeneratedDocument {
  /** In the repository. */
  path: string
  text: (service: RunningService) => string
}

const written: readonly GeneratedDocument[] = [
  { path: 'infra/observe/holdfast.rules.yml', text: () => rulesFile() },
  ...dashboards.map((dashboard) => ({
    path: `infra/observe/dashboards/${dashboard.id}.json`,
    text: () => grafanaDashboard(dashboard),
  })),
  { path: 'infra/SETTINGS.md', text: () => wrapPage(settingsPage()) },
  { path: 'infra/METRICS.md', text: (service) => wrapPage(metricsPage(service)) },
  { path: 'apps/api/STATUSES.md', text: (service) => wrapPage(statusesPage(service)) },
]

const byHand = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter(
    (path) => path !== '' && existsSync(join(root, path)) && !written.some((page) => page.path === path),
  )
  .map((path) => ({ path, text: () => wrapPage(readFileSync(join(root, path), 'utf8')) }))

export const documents: readonly GeneratedDocument[] = [...written, ...byHand]

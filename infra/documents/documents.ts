/** The pages of the repository that a program writes. */
import { settingsPage } from './settings.ts'

export interface GeneratedDocument {
  /** In the repository. */
  path: string
  text: () => string | Promise<string>
}

export const documents: readonly GeneratedDocument[] = [{ path: 'infra/SETTINGS.md', text: settingsPage }]

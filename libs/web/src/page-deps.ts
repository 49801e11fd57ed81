import type { AnswerBudget, ItemPresenter, RateLimits } from '@holdfast/http-kit'
import type { Reports } from '@holdfast/moderation'
import type { WebReaderDeps } from './reader.ts'
import type { UploadRules } from './start-page.ts'

export interface PageDeps extends WebReaderDeps {
  rateLimits: RateLimits
  /** Where reports of visitors go. */
  reports: Pick<Reports, 'add'>
  presenter: ItemPresenter
  /** Shared by all answers of the process. */
  answers: AnswerBudget
  /** Used in links; no slash at the end. */
  urls: { upload: string; web: string }
  /** The bounds of uploads on the start page. */
  rules: UploadRules
}

/** A request for content by its name in the path. */
export interface NamedContent {
  Params: { name: string }
  Querystring: Record<string, unknown>
  Body: Record<string, unknown> | undefined
}

/** The options of each route that shows a page. */
export const pageRoute = { config: { endpoint: 'page' }, schema: { hide: true } as object }

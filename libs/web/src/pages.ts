/**
 * The interim pages, as a plugin of the API host: everything is rendered here, and works without a
 * script where possible.
 */
import { httpCodeOf, refusalOf } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { archiveRoutes } from './archive-routes.ts'
import { assetRoutes } from './assets.ts'
import { contentPageRoutes } from './content-routes.ts'
import { type PageDeps, pageRoute } from './page-deps.ts'
import { problemPage } from './problem-page.ts'
import { profilePage } from './profile-page.ts'
import { reportPageRoutes } from './report-routes.ts'
import { sendPage } from './shell.ts'
import { startPage } from './start-page.ts'
import { webAccountRoute } from './web-account.ts'
import { websiteConfig } from './website-config.ts'

/** Register it once: `host.register(webPages(deps))`. */
export function webPages(deps: PageDeps): (app: FastifyInstance) => Promise<void> {
  const origins = { upload: deps.urls.upload }

  return async (app) => {
    assetRoutes(app)
    websiteConfig(app)
    webAccountRoute(app, deps)
    app.register(htmlPages)
  }

  async function htmlPages(app: FastifyInstance) {
    app.setErrorHandler((error, request, answer) => {
      const refusal = refusalOf(error)
      const code = httpCodeOf(refusal.status)
      request.refusedAs = refusal.status
      if (code >= 500) request.log.error({ err: error, requestId: request.id }, 'page failed')
      if (refusal.retryAfter !== undefined) answer.header('retry-after', String(refusal.retryAfter))
      return sendPage(answer, problemPage(refusal.status), { code, origins })
    })

    app.get('/', pageRoute, async (_request, answer) =>
      sendPage(answer, startPage({ uploadUrl: deps.urls.upload, rules: deps.rules }), { origins }),
    )
    app.get('/profile', pageRoute, async (_request, answer) => sendPage(answer, profilePage(), { origins }))
    contentPageRoutes(app, deps)
    archiveRoutes(app, deps)
    reportPageRoutes(app, deps)
  }
}

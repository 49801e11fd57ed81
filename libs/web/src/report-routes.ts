/** `/report/<code or UUID>`: the form for reports of visitors, and its handler. */
import { guessing, refusalOf } from '@holdfast/http-kit'
import { ModerationFault } from '@holdfast/moderation'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type NamedContent, type PageDeps, pageRoute } from './page-deps.ts'
import { contentNamed } from './reader.ts'
import { notAddedPage, reportedPage, reportOf, reportPage } from './report-page.ts'
import { sendPage } from './shell.ts'

export function reportPageRoutes(app: FastifyInstance, deps: PageDeps): void {
  const origins = { upload: deps.urls.upload }
  app.get<NamedContent>('/report/:name', pageRoute, async (request, answer) => {
    await reported(request)
    return sendPage(answer, reportPage({ name: request.params.name }), { origins })
  })
  app.post<NamedContent>('/report/:name', { ...pageRoute, config: { endpoint: 'report' } }, takeReport)

  /** Found only by its name: a person who reports a locked folder need not have its password. */
  async function reported(request: FastifyRequest<NamedContent>) {
    return guessing(deps.rateLimits, request, async (guesses) => {
      await guesses.begin('code')
      try {
        const clientNetwork = deps.rateLimits.networkKey(request)
        const content = await contentNamed(deps, request.params.name, { clientNetwork })
        return { content, account: deps.ids.accountOf(content) ?? '' }
      } catch (error) {
        if (refusalOf(error).status === 'error-notFound') await guesses.wrong('code')
        throw error
      }
    })
  }

  async function takeReport(request: FastifyRequest<NamedContent>, answer: FastifyReply) {
    const report = reportOf(request, await reported(request))
    try {
      await deps.reports.add(report)
    } catch (error) {
      if (!(error instanceof ModerationFault)) throw error
      request.refusedAs = 'error-rateLimit'
      void answer.header('retry-after', '86400')
      return sendPage(answer, notAddedPage(), { code: 429, origins })
    }
    return sendPage(answer, reportedPage(), { code: 201, origins })
  }
}

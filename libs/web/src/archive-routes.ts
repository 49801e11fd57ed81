/** `/d/<code or UUID>/archive`: the button of a folder's page leads here, and on to its archive. */
import { guessing, type RequestGuesses, refusalOf } from '@holdfast/http-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type NamedContent, type PageDeps, pageRoute } from './page-deps.ts'
import { passwordOf } from './password-cookie.ts'
import { openVisitorArchive } from './reader.ts'
import { visit } from './visit.ts'

export function archiveRoutes(app: FastifyInstance, deps: PageDeps): void {
  // The budget of `POST /web/contents/archive`.
  const route = { ...pageRoute, config: { endpoint: 'webArchive' } }
  app.get<NamedContent>('/d/:name/archive', route, (request, answer) =>
    guessing(deps.rateLimits, request, (guesses) => sendToArchive(request, answer, guesses)),
  )

  async function sendToArchive(
    request: FastifyRequest<NamedContent>,
    answer: FastifyReply,
    guesses: RequestGuesses,
  ) {
    try {
      const asked = { request, guesses, password: passwordOf(request) }
      const { contentIds, view } = await visit(deps, asked, async (question) => {
        const view = await openVisitorArchive(deps, question)
        return { contentIds: [question.contentId], view }
      })
      if (view.locked && view.passwordVersions.length === 0) await guesses.wrong('password')
      const nowSeconds = Math.floor(deps.clock.now() / 1000)
      return answer.redirect(deps.presenter.archiveLink(contentIds, view, nowSeconds), 303)
    } catch (error) {
      const { status } = refusalOf(error)
      if (status === 'error-passwordWrong') await guesses.wrong('password')
      else if (status !== 'error-passwordRequired') throw error
      // The page of the folder asks for it.
      return answer.redirect(`/d/${encodeURIComponent(request.params.name)}`, 303)
    }
  }
}

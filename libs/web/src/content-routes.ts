/** `/d/<code or UUID>`: what visitors see of a folder or file, and the password of a locked one. */
import {
  guessing,
  httpCodeOf,
  RefusalError,
  type RequestGuesses,
  refusalOf,
  shareOf,
} from '@holdfast/http-kit'
import { passwordDigest } from '@holdfast/kernel'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { contentPage } from './listing-page.ts'
import { listingQueryOf } from './listing-query.ts'
import { type NamedContent, type PageDeps, pageRoute } from './page-deps.ts'
import { passwordCookie, passwordOf } from './password-cookie.ts'
import { passwordPage } from './problem-page.ts'
import { readAsVisitor } from './reader.ts'
import { sendPage } from './shell.ts'
import { visit } from './visit.ts'

export function contentPageRoutes(app: FastifyInstance, deps: PageDeps): void {
  const origins = { upload: deps.urls.upload }
  const secure = deps.urls.web.startsWith('https:')
  app.get<NamedContent>('/d/:name', pageRoute, (request, answer) =>
    guessing(deps.rateLimits, request, (guesses) => showContent(request, answer, guesses)),
  )
  app.post<NamedContent>('/d/:name', pageRoute, (request, answer) =>
    guessing(deps.rateLimits, request, (guesses) => takePassword(request, answer, guesses)),
  )

  async function showContent(
    request: FastifyRequest<NamedContent>,
    answer: FastifyReply,
    guesses: RequestGuesses,
  ) {
    const { name } = request.params
    const password = passwordOf(request)
    const query = listingQueryOf(request.query)
    try {
      const view = await read(request, guesses, password)
      const nowSeconds = Math.floor(deps.clock.now() / 1000)
      const share = shareOf(request, answer, deps.answers)
      const page = await contentPage(view, query, { presenter: deps.presenter, nowSeconds, share })
      return sendPage(answer, page, { origins })
    } catch (error) {
      const { status } = refusalOf(error)
      if (status !== 'error-passwordRequired' && status !== 'error-passwordWrong') throw error
      // Counted like any guess, but not reported as wrong: it may have been kept for another
      // folder.
      if (status === 'error-passwordWrong') await guesses.wrong('password')
      return sendPage(answer, passwordPage({ id: name, wrong: false }), { code: httpCodeOf(status), origins })
    }
  }

  async function takePassword(
    request: FastifyRequest<NamedContent>,
    answer: FastifyReply,
    guesses: RequestGuesses,
  ) {
    const { name } = request.params
    const typed = request.body?.password
    if (typeof typed !== 'string' || typed === '' || typed.length > 1000)
      throw new RefusalError('error-password')
    try {
      await read(request, guesses, passwordDigest(typed))
    } catch (error) {
      if (refusalOf(error).status !== 'error-passwordWrong') throw error
      await guesses.wrong('password')
      return sendPage(answer, passwordPage({ id: name, wrong: true }), { code: 401, origins })
    }
    answer.header('set-cookie', passwordCookie(typed, { secure }))
    return answer
      .code(303)
      .header('location', `/d/${encodeURIComponent(name)}`)
      .send()
  }

  function read(
    request: FastifyRequest<NamedContent>,
    guesses: RequestGuesses,
    password: string | undefined,
  ) {
    const query = listingQueryOf(request.query)
    return visit(deps, { request, guesses, password }, (asked) => readAsVisitor(deps, { ...asked, query }))
  }
}

/** `/d/<code or UUID>`: what visitors see of a folder or file, and the password of a locked one. */
import {
  guessing,
  httpCodeOf,
  RefusalError,
  type RequestGuesses,
  refusalOf,
  shareOf,
} from '@holdfast/http-kit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { contentPage } from './listing-page.ts'
import { listingQueryOf } from './listing-query.ts'
import { type NamedContent, type PageDeps, pageRoute } from './page-deps.ts'
import { hashOf, passwordCookie, passwordOf } from './password-cookie.ts'
import { passwordPage } from './problem-page.ts'
import { contentNamed, readAsVisitor } from './reader.ts'
import { sendPage } from './shell.ts'

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
      await read(request, guesses, hashOf(typed))
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

  async function read(
    request: FastifyRequest<NamedContent>,
    guesses: RequestGuesses,
    password: string | undefined,
  ) {
    const { name } = request.params
    if (password !== undefined) await guesses.begin('password')
    await guesses.begin('code')
    try {
      const clientNetwork = deps.rateLimits.networkKey(request)
      const contentId = await contentNamed(deps, name, { clientNetwork })
      const query = listingQueryOf(request.query)
      // The kept password is sent only where one is required: locked folders below would reveal,
      // uncounted, whether it opens them.
      const question = { contentId, query, clientNetwork }
      const open = await readAsVisitor(deps, { ...question, password: undefined }).catch(onlyLocked)
      return open ?? (await readAsVisitor(deps, { ...question, password }))
    } catch (error) {
      if (refusalOf(error).status === 'error-notFound') await guesses.wrong('code')
      throw error
    }
  }
}

function onlyLocked(error: unknown): undefined {
  if (refusalOf(error).status !== 'error-passwordRequired') throw error
}

/**
 * The interim pages, as a plugin of the API host: everything is rendered here, and works without a
 * script where possible.
 */
import {
  guessing,
  httpCodeOf,
  type ItemPresenter,
  type RateLimits,
  RefusalError,
  type RequestGuesses,
  refusalOf,
} from '@holdfast/http-kit'
import { ModerationFault, type Reports } from '@holdfast/moderation'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { assetRoutes } from './assets.ts'
import { contentPage } from './listing-page.ts'
import { listingQueryOf } from './listing-query.ts'
import { hashOf, passwordCookie, passwordOf } from './password-cookie.ts'
import { passwordPage, problemPage } from './problem-page.ts'
import { profilePage } from './profile-page.ts'
import { contentNamed, type ReaderDeps, readAsVisitor } from './reader.ts'
import { reportedPage, reportOf, reportPage } from './report-page.ts'
import { sendPage } from './shell.ts'
import { startPage, type UploadRules } from './start-page.ts'
import { webAccountRoute } from './web-account.ts'
import { websiteConfig } from './website-config.ts'

export interface PageDeps extends ReaderDeps {
  limits: RateLimits
  /** Where reports of visitors go. */
  reports: Pick<Reports, 'add'>
  presenter: ItemPresenter
  /** Used in links; no slash at the end. */
  urls: { upload: string; web: string }
  /** What the start page says about uploads. */
  rules: UploadRules
}

interface Shared {
  Params: { name: string }
  Querystring: Record<string, unknown>
  Body: Record<string, unknown> | undefined
}

/** Register it once: `host.register(webPages(parts))`. */
export function webPages(parts: PageDeps): (app: FastifyInstance) => Promise<void> {
  const origins = { upload: parts.urls.upload }
  const secure = parts.urls.web.startsWith('https:')
  const page = { config: { endpoint: 'page' }, schema: { hide: true } as object }

  return async (app) => {
    assetRoutes(app)
    websiteConfig(app)
    webAccountRoute(app, parts)
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

    app.get('/', page, async (_request, answer) =>
      sendPage(answer, startPage({ uploadUrl: parts.urls.upload, rules: parts.rules }), { origins }),
    )
    app.get('/profile', page, async (_request, answer) => sendPage(answer, profilePage(), { origins }))
    app.get<Shared>('/d/:name', page, (request, answer) =>
      guessing(parts.limits, request, (guesses) => showContent(request, answer, guesses)),
    )
    app.get<Shared>('/report/:name', page, async (request, answer) => {
      await reported(request)
      return sendPage(answer, reportPage({ name: request.params.name }), { origins })
    })
    app.post<Shared>('/report/:name', { ...page, config: { endpoint: 'report' } }, takeReport)
    app.post<Shared>('/d/:name', page, (request, answer) =>
      guessing(parts.limits, request, (guesses) => takePassword(request, answer, guesses)),
    )
  }

  /** Known by its name alone: who reports a locked folder need not have its password. */
  async function reported(request: FastifyRequest<Shared>) {
    return guessing(parts.limits, request, async (guesses) => {
      await guesses.begin('code')
      try {
        const clientNetwork = parts.limits.networkKey(request)
        const content = await contentNamed(parts, request.params.name, { clientNetwork })
        return { content, account: parts.ids.accountOf(content) ?? '' }
      } catch (error) {
        if (refusalOf(error).status === 'error-notFound') await guesses.wrong('code')
        throw error
      }
    })
  }

  async function takeReport(request: FastifyRequest<Shared>, answer: FastifyReply) {
    const report = reportOf(request, await reported(request))
    try {
      await parts.reports.add(report)
    } catch (error) {
      if (error instanceof ModerationFault) throw new RefusalError('error-rateLimit')
      throw error
    }
    return sendPage(answer, reportedPage(), { code: 201, origins })
  }

  async function showContent(request: FastifyRequest<Shared>, answer: FastifyReply, guesses: RequestGuesses) {
    const { name } = request.params
    const password = passwordOf(request)
    const query = listingQueryOf(request.query)
    try {
      const view = await read(request, guesses, password)
      const nowSeconds = Math.floor(parts.clock.now() / 1000)
      return sendPage(answer, contentPage(view, query, { presenter: parts.presenter, nowSeconds }), {
        origins,
      })
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
    request: FastifyRequest<Shared>,
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
    request: FastifyRequest<Shared>,
    guesses: RequestGuesses,
    password: string | undefined,
  ) {
    const { name } = request.params
    if (password !== undefined) await guesses.begin('password')
    await guesses.begin('code')
    try {
      const clientNetwork = parts.limits.networkKey(request)
      const contentId = await contentNamed(parts, name, { clientNetwork })
      const query = listingQueryOf(request.query)
      // The kept password is sent only where one is required: locked folders below would reveal,
      // uncounted, whether it opens them.
      const question = { contentId, query, clientNetwork }
      const open = await readAsVisitor(parts, { ...question, password: undefined }).catch(onlyLocked)
      return open ?? (await readAsVisitor(parts, { ...question, password }))
    } catch (error) {
      if (refusalOf(error).status === 'error-notFound') await guesses.wrong('code')
      throw error
    }
  }
}

function onlyLocked(error: unknown): undefined {
  if (refusalOf(error).status !== 'error-passwordRequired') throw error
}

/**
 * The moderation page: what `ctl` does about abuse, in a browser. Rendered here and without any
 * script. `page-session.ts` says who may use it.
 */
import { readFileSync } from 'node:fs'
import { baseStyle, guessing, html, httpCodeOf, RefusalError, refusalOf } from '@holdfast/http-kit'
import { type Attribution, blockLists, listedName } from '@holdfast/moderation'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { placeOf } from '../accounts/contents.ts'
import { deleteAccount, deleteContent, undo } from '../accounts/deletions.ts'
import { accountNamed } from '../calls.ts'
import { assertNotWide, reasonCharactersMax, unlessFault } from '../moderation/moderation.ts'
import { accept } from '../moderation/reports.ts'
import { actForm, type FormFields, find, sendView, type View } from './frame.ts'
import type { ModerationPageDeps } from './page-deps.ts'
import { actsView, blockedView, homeView, reportsView, searchView } from './views.ts'

type Fields = Record<string, unknown>
interface PageRequest {
  Querystring: Record<string, string | undefined>
  Body: Fields | undefined
}

const style = Buffer.concat([baseStyle, readFileSync(new URL('./style.css', import.meta.url))])

export function moderationPage(deps: ModerationPageDeps): (app: FastifyInstance) => Promise<void> {
  const { sessions, rateLimits } = deps
  return async (app) => {
    app.setErrorHandler((error, request, answer) => {
      const { status } = refusalOf(error)
      const code = httpCodeOf(status)
      if (code >= 500) request.log.error({ err: error, requestId: request.id }, 'the moderation page failed')
      return sendView(answer, problemView(status), code)
    })
    app.get('/moderation/style.css', async (_request, answer) =>
      answer.type('text/css; charset=utf-8').header('cache-control', 'no-cache').send(style),
    )
    app.post<PageRequest>('/moderation/sign-in', async (request, answer) => {
      if ((await sessions.judge(request)) === 'error-forbidden') throw new RefusalError('error-forbidden')
      const cookie = sessions.signIn(request, request.body?.token)
      if (cookie === undefined) {
        await guessing(rateLimits, request, (guesses) => guesses.wrong('token'))
        return sendView(answer, signInView(true), 401)
      }
      return answer.code(303).headers({ 'set-cookie': cookie, location: '/moderation' }).send()
    })
    app.register(async (inner) => {
      inner.addHook('onRequest', async (request, answer) => {
        const verdict = await sessions.judge(request)
        if (verdict === 'error-forbidden') throw new RefusalError(verdict)
        if (verdict === 'error-token') return sendView(answer, signInView(false), 401)
        return undefined
      })
      views(inner, deps)
    })
  }
}

function views(app: FastifyInstance, deps: ModerationPageDeps): void {
  const show = (
    path: string,
    view: (query: PageRequest['Querystring'], form: FormFields) => View | Promise<View>,
  ) =>
    app.get<PageRequest>(path, async (request, answer) => {
      const form = { mark: deps.sessions.markFor(request), back: request.url }
      return sendView(answer, await view(request.query, form))
    })
  show('/moderation', (query, form) => {
    const text = query.q?.trim() ?? ''
    return text === '' ? homeView(deps, form) : searchView(deps, text, query, form)
  })
  show('/moderation/reports', (query, form) => unlessFault(reportsView(deps, query, form)))
  show('/moderation/acts', (query, form) => actsView(deps, query, form))
  show('/moderation/blocked', (query) => blockedView(deps, query))

  app.post<PageRequest>('/moderation/act', async (request, answer) => {
    const body = request.body ?? {}
    if (!deps.sessions.isMarked(request, body.mark)) throw new RefusalError('error-forbidden')
    const asked = askedOf(request, body)
    const rest = await restOf(deps, body, asked)
    if (rest === undefined) {
      await actOf(deps, body, asked)
      return seeOther(answer, body.back)
    }
    if (rest.next === null && rest.failed.length === 0) return seeOther(answer, body.back)
    const form = { mark: deps.sessions.markFor(request), back: String(body.back ?? '') }
    return sendView(answer, restView(body, rest, form))
  })
}

/** Work in steps: as many as fit into the time of a request; a button continues it. */
interface Rest {
  done: number
  failed: readonly { account: string; status: string }[]
  next: string | null
}

/** Undefined: another act. @throws RefusalError */
async function restOf(deps: ModerationPageDeps, body: Fields, asked: Attribution): Promise<Rest | undefined> {
  const { act, name, after } = body
  const named = typeof name === 'string' ? name : ''
  const from = typeof after === 'string' && after !== '' ? after : undefined
  const all = { ...deps.accounts, lists: deps.lists }
  if (act === 'undo') {
    const { changed, next } = await undo(all, named, asked, from)
    return { done: changed, failed: [], next }
  }
  const hash = listedName('content', named)
  if (act !== 'delete-hash') return undefined
  if (hash === undefined) throw new RefusalError('error-names')
  const { hits, failed, next } = await deps.allAccounts.deleteHash(hash, { ...asked, final: false }, from)
  return { done: hits.length, failed, next }
}

function restView({ act, name, reason }: Fields, { done, failed, next }: Rest, form: FormFields): View {
  const title = next === null ? 'Not all' : 'Not yet all'
  const again = [{ act: String(act), label: next === null ? 'Again' : 'Go on' }]
  const fields = { name: String(name), ...(next === null ? {} : { after: next }) }
  return {
    title,
    body: html`<h1>${title}</h1><p>${done} done, and there is more.${reason ? ` Reason: ${String(reason)}` : ''}</p>
<ul>${failed.map(({ account, status }) => html`<li>${find(account)}: ${words[status] ?? status}</li>\n`)}</ul>
${actForm(form, fields, again)}`,
  }
}

/** @throws RefusalError */
async function actOf(
  deps: ModerationPageDeps,
  { act, name, list }: Fields,
  asked: Attribution,
): Promise<void> {
  const { lists, reports } = deps
  const named = typeof name === 'string' ? name : ''
  const nothing = { block: false, delete: false, suspend: false }
  const take = (takedown: Partial<typeof nothing>) => accept(deps, named, { ...nothing, ...takedown }, asked)
  switch (act) {
    case 'block':
    case 'unblock': {
      const of = blockLists.find((one) => one === list)
      const spelled = of && listedName(of, named)
      if (of === undefined || spelled === undefined) throw new RefusalError('error-names')
      if (act === 'block' && of === 'network') assertNotWide([spelled])
      await unlessFault(lists[act](of, [spelled], asked))
      return
    }
    case 'delete': {
      const all = { ...deps.accounts, lists }
      await deleteContent(all, await placeOf(all, named), { ...asked, final: false })
      return
    }
    case 'delete-account': {
      const all = { ...deps.accounts, lists }
      await deleteAccount(all, await accountNamed(all, named), { ...asked, final: false })
      return
    }
    case 'accept':
      await take({})
      return
    case 'accept-block':
      await take({ block: true })
      return
    case 'accept-suspend':
      await take({ block: true, suspend: true })
      return
    case 'accept-delete':
      await take({ delete: true })
      return
    case 'reject':
      await unlessFault(reports.decide(named, 'rejected', asked))
      return
    default:
      throw new RefusalError('error-act')
  }
}

function askedOf(request: FastifyRequest, { reason = '' }: Fields): Attribution {
  if (typeof reason !== 'string' || reason.length > reasonCharactersMax)
    throw new RefusalError('error-reason')
  return { by: `page from ${request.raw.socket.remoteAddress ?? 'nowhere'}`, reason }
}

/** Only to one of our own paths. */
function seeOther(answer: FastifyReply, back: unknown): FastifyReply {
  const isOurs = typeof back === 'string' && /^\/moderation(?:[/?][\w\-./?=&%+:~]*)?$/.test(back)
  return answer
    .code(303)
    .header('location', isOurs ? back : '/moderation')
    .send()
}

function signInView(wrong: boolean): View {
  return {
    title: 'Sign in',
    body: html`<h1>Moderation</h1>
<p>Root and the user of the service need no token on this machine. Everybody else signs in with <code>HOLDFAST_ADMIN_TOKEN</code>.</p>
<form class="search" method="post" action="/moderation/sign-in">
<label for="token">Token</label>
<div><input id="token" type="password" name="token" required autocomplete="current-password"><button>Sign in</button></div>
${wrong && html`<p class="bad" role="alert">That is not it.</p>`}
</form>`,
  }
}

const words: Record<string, string> = {
  'error-notFound': 'There is no such account.',
  'error-content': 'There is no such content: it may be deleted.',
  'error-act': 'There is no such act or report.',
  'error-after': 'The page is old. Begin again.',
  'error-report': 'There is no such report.',
  'error-final': 'Such an act cannot be undone.',
  'error-wide':
    'The range is wider than /8 (IPv6: /16). To block it anyway, use ctl block network with --yes.',
  'error-tooLate': 'It was done more than 30 days ago.',
  'error-forbidden': 'The request did not come from this page, or the page is old. Open it again.',
  'error-protectedFolder': 'A root folder or bin is not deleted. Suspend the account.',
  'error-limits': 'The list is full, or the account can hold no more of what is deleted.',
  'error-tooMany':
    'The folder has more contents than one report blocks. Suspend the account, or delete the folder.',
  'error-unavailable': 'The account does not answer now. Try again.',
}

function problemView(status: string): View {
  return {
    title: 'Not done',
    body: html`<h1>Not done</h1><p role="alert">${words[status] ?? status}</p><p><a href="/moderation">Overview</a></p>`,
  }
}

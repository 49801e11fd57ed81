import { claimOf, viewOf } from '@holdfast/accounts'
import {
  accountCookieOf,
  guessing,
  httpCodeOf,
  RefusalError,
  type RequestGuesses,
  tokenOf,
} from '@holdfast/http-kit'
import { isShareCode, isUuid } from '@holdfast/kernel'
import type { ContentView } from '@holdfast/wire'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Call, lookAt, type SignedIn } from '../call.ts'
import type { ApiContext } from '../context.ts'
import { presentContent } from '../presenting.ts'

/**
 * Download links as clients and older pages make them. An account that may read the file is
 * redirected to the download host, by a link that needs no token; every other caller to the page of
 * the content. A name after the id is only for people.
 */
export function downloadWeb(app: FastifyInstance, context: ApiContext) {
  for (const url of ['/download/web/:id', '/download/web/:id/*']) {
    app.get(
      url,
      { config: { endpoint: 'downloadWeb' }, schema: { hide: true } as object },
      (request, reply) =>
        guessing(context.limits, request, (guesses) => placeOf({ context, request, guesses })).then((place) =>
          reply.redirect(place, 302),
        ),
    )
  }
}

interface Asking {
  context: ApiContext
  request: FastifyRequest
  guesses: RequestGuesses
}

async function placeOf(asking: Asking): Promise<string> {
  const { context, request } = asking
  const { id } = request.params as { id: string }
  const page = (name: string) => `${context.settings.urls.web}/d/${name}`
  if (isShareCode(id)) return page(id)
  if (!isUuid(id)) throw new RefusalError('error-notFound')
  return (await linkOf(asking, id)) ?? page(await pageOf(asking, id))
}

/**
 * The file's link for the account of the token or cookie; undefined without an account, or when it
 * may not read the file.
 */
async function linkOf(asking: Asking, id: string): Promise<string | undefined> {
  const signedIn = await signedInBy(asking)
  if (signedIn === undefined) return undefined
  const call = new Call({ ...asking, tier: '', signedIn, keyRequestId: undefined })
  const view = await readBy(call, id)
  if (view?.item === undefined || view.item.isFolder) return undefined
  return presentContent(call, view).link as string
}

async function signedInBy({ context, request, guesses }: Asking): Promise<SignedIn | undefined> {
  const sent = tokenOf(request)
  if (sent !== undefined) await guesses.begin('token')
  const token = sent ?? accountCookieOf(request) ?? ''
  const claim = claimOf(token, context.ids)
  if (claim !== undefined) return { ...claim, token, byCookie: sent === undefined }
  if (sent !== undefined) await guesses.wrong('token')
  return undefined
}

/** The share code when a visitor may see it, else the id; the page shows the reason. */
async function pageOf(asking: Asking, id: string): Promise<string> {
  const visitor = new Call({ ...asking, tier: '', signedIn: undefined, keyRequestId: undefined })
  return (await readBy(visitor, id))?.item?.code ?? id
}

/** Undefined when the caller may not read it. @throws RefusalError error-notFound */
async function readBy(call: Call, id: string): Promise<ContentView | undefined> {
  try {
    return viewOf(await call.askOf(id, { $case: 'readContent', value: lookAt(id) }), 'content')
  } catch (error) {
    if (error instanceof RefusalError && httpCodeOf(error.status) === 401) return undefined
    throw error
  }
}

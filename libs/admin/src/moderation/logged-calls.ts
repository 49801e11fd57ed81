/**
 * Changes that operators make by other calls than those on lists: each is a row of the log before
 * it runs. They are also needed when metadata is out of reach. So if the log cannot be written,
 * they are delayed for seconds and then made.
 */
import { aboutNothingElse, type OperatorActs } from '@holdfast/moderation'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { askedBy } from './moderation.ts'

/** These calls write their own log rows, with their changes. */
const logThemselves = /^\/admin\/(?:(?:blocked|acts|contents|reports)\/|accounts\/[^/]+\/delete$)/
/** Their bodies describe the change and contain no secrets. */
const shownBodies = /^\/admin\/accounts(?:\/|$)/
const whatCharactersMax = 1_000
const waitMs = 3_000

export function logCalls(operator: FastifyInstance, acts: OperatorActs): void {
  operator.addHook('preHandler', async (request) => {
    const { method, url } = request
    if (method === 'GET' || method === 'HEAD' || logThemselves.test(url)) return
    const body = shownBodies.test(url) ? ` ${JSON.stringify(request.body ?? {})}` : ''
    const what = `${method} ${url}${body}`.slice(0, whatCharactersMax)
    const written = acts.add({ ...askedBy(request, {}), kind: 'call', what, ...aboutNothingElse })
    await orSoon(request, written)
  })
}

async function orSoon(request: FastifyRequest, written: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`not written within ${waitMs} ms`)), waitMs)
  try {
    await Promise.race([written, late.promise])
  } catch (error) {
    request.log.error({ err: error, url: request.url }, 'a call of the operator is not in the log of acts')
  } finally {
    clearTimeout(timer)
  }
}

/** How a page asks for the content that its path names: guesses, and the kept password. */
import { type RequestGuesses, refusalOf } from '@holdfast/http-kit'
import type { FastifyRequest } from 'fastify'
import type { NamedContent, PageDeps } from './page-deps.ts'
import { contentNamed } from './reader.ts'

export interface Visit {
  request: FastifyRequest<NamedContent>
  guesses: RequestGuesses
  /** SHA-256 hex, as it was kept or typed. */
  password: string | undefined
}

/** What a visitor asks an account. */
export interface VisitQuestion {
  contentId: string
  password: string | undefined
  clientNetwork: string | undefined
}

/**
 * Sends the password only if the content requires one. Otherwise locked folders below it would show
 * whether the password opens them, and no guess would be counted.
 */
export async function visit<T>(
  deps: PageDeps,
  { request, guesses, password }: Visit,
  ask: (question: VisitQuestion) => Promise<T>,
): Promise<T> {
  const { name } = request.params
  if (password !== undefined) await guesses.begin('password')
  await guesses.begin('code')
  try {
    const clientNetwork = deps.rateLimits.networkKey(request)
    const contentId = await contentNamed(deps, name, { clientNetwork })
    try {
      return await ask({ contentId, password: undefined, clientNetwork })
    } catch (error) {
      if (refusalOf(error).status !== 'error-passwordRequired') throw error
      return await ask({ contentId, password, clientNetwork })
    }
  } catch (error) {
    if (refusalOf(error).status === 'error-notFound') await guesses.wrong('code')
    throw error
  }
}

/**
 * `PUT /web/account`: what an account may set about itself beyond the contract. JSON, for the
 * account page.
 */

import { asBearer, ask, claimOf } from '@holdfast/accounts'
import {
  booleanOf,
  guessing,
  ok,
  type RateLimits,
  RefusalError,
  type RequestGuesses,
  responsesOf,
  tokenOf,
} from '@holdfast/http-kit'

import { type AccountOperation, blank, SetAccount } from '@holdfast/wire'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebReaderDeps } from './reader.ts'

/** For the OpenAPI document. */
const documentation = {
  operationId: 'setOwnAccount',
  summary: 'Switch the recycle bin of the account',
  tags: ['Extensions'],
  security: [{ bearer: [] }],
  body: {
    type: 'object',
    required: ['recycleBin'],
    properties: {
      recycleBin: {
        anyOf: [{ type: 'boolean' }, { type: 'string', enum: ['true', 'false'] }],
        description: 'Deleted content is kept for 30 days',
      },
    },
  },
  response: responsesOf({
    method: 'PUT',
    tier: undefined,
    hasPathParameters: false,
    readsToken: true,
    readsKey: false,
    success: {
      type: 'object',
      required: ['status', 'data'],
      properties: {
        status: { type: 'string', enum: ['ok'] },
        data: {
          type: 'object',
          required: ['recycleBin'],
          properties: {
            recycleBin: {
              type: 'object',
              required: ['enabled'],
              properties: { enabled: { type: 'boolean' } },
            },
          },
        },
      },
    },
    parameters: ['recycleBin'],
    refusals: [],
  }),
} as object

export function webAccountRoute(
  app: FastifyInstance,
  deps: WebReaderDeps & { rateLimits: RateLimits },
): void {
  app.put<{ Body: Record<string, unknown> | undefined }>(
    '/web/account',
    { config: { endpoint: 'webAccount' }, schema: documentation },
    (request) => guessing(deps.rateLimits, request, (guesses) => setAccount(request, guesses)),
  )

  async function setAccount(
    request: FastifyRequest<{ Body: Record<string, unknown> | undefined }>,
    guesses: RequestGuesses,
  ) {
    await guesses.begin('token')
    const claim = claimOf(tokenOf(request), deps.ids)
    if (claim === undefined) return await refuse(guesses, new RefusalError('error-token'))
    const recycleBin = booleanOf(request.body?.recycleBin)
    // A bad value is refused only after the token was checked.
    const operation: AccountOperation =
      recycleBin === undefined
        ? { $case: 'authenticate', value: {} }
        : { $case: 'setAccount', value: { ...blank(SetAccount), recycleBin } }
    try {
      await ask(deps, { accountId: claim.accountId, who: asBearer(claim), operation })
    } catch (error) {
      return await refuse(guesses, error)
    }
    if (recycleBin === undefined) throw new RefusalError('error-recycleBin')
    return ok({ recycleBin: { enabled: recycleBin } })
  }

  async function refuse(guesses: RequestGuesses, error: unknown): Promise<never> {
    if (error instanceof RefusalError && error.status === 'error-token') await guesses.wrong('token')
    throw error
  }
}

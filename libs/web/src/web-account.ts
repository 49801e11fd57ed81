/**
 * `PUT /web/account`: what an account may set about itself beyond the contract. JSON, for the
 * account page.
 */
import {
  booleanOf,
  guessing,
  ok,
  type RateLimits,
  Refusal,
  type RequestGuesses,
  responsesOf,
  tokenOf,
} from '@holdfast/http-kit'
import { mintRequestId, parseToken } from '@holdfast/kernel'

import { blank, SetAccount } from '@holdfast/wire'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ReaderDeps } from './reader.ts'

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

export function webAccountRoute(app: FastifyInstance, parts: ReaderDeps & { limits: RateLimits }): void {
  app.put<{ Body: Record<string, unknown> | undefined }>(
    '/web/account',
    { config: { endpoint: 'webAccount' }, schema: documentation },
    (request) => guessing(parts.limits, request, (guesses) => setAccount(request, guesses)),
  )

  async function setAccount(
    request: FastifyRequest<{ Body: Record<string, unknown> | undefined }>,
    guesses: RequestGuesses,
  ) {
    await guesses.begin('token')
    const { accountId, bytes } = await accountOf(request, guesses)
    const recycleBin = booleanOf(request.body?.recycleBin)
    const reply = await parts.accounts.call(
      {
        accountId,
        requestId: mintRequestId(parts.clock.now()),
        caller: { who: { $case: 'bearer', value: { token: bytes } } },
        clientNetwork: undefined,
        tierNeeded: '',
        // A bad value is refused only after the token was checked.
        operation:
          recycleBin === undefined
            ? { $case: 'authenticate', value: {} }
            : { $case: 'setAccount', value: { ...blank(SetAccount), recycleBin } },
      },
      {},
    )
    if (reply.result?.$case === 'refusal') await refuse(guesses, reply.result.value.status)
    if (recycleBin === undefined) throw new Refusal('error-recycleBin')
    return ok({ recycleBin: { enabled: recycleBin } })
  }

  async function accountOf(request: FastifyRequest, guesses: RequestGuesses) {
    const parsed = parseToken(tokenOf(request) ?? '')
    const accountId = parsed && parts.ids.parseAccount(parsed.account)
    if (accountId === undefined) return await refuse(guesses, 'error-token')
    return { accountId, bytes: parsed?.bytes as Buffer }
  }

  async function refuse(guesses: RequestGuesses, status: string): Promise<never> {
    if (status === 'error-token') await guesses.wrong('token')
    throw new Refusal(status)
  }
}

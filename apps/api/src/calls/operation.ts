/**
 * How an operation is served, in the contract's order of checks: limits of the address and the body
 * (the host did both), token, limits of the account, tier, parameters. The operation and the
 * account do the rest.
 *
 * The account checks token and tier in the turn that answers. Only when a parameter is bad they are
 * checked separately, so that their refusal comes first.
 */
import { createHmac } from 'node:crypto'
import { claimOf } from '@holdfast/accounts'
import {
  type Fields,
  guessing,
  idempotencyKeyOf,
  type KnownStatus,
  parametersOf,
  RefusalError,
  type RequestGuesses,
  responsesOf,
  schemaForDocument,
  sendWritten,
  tokenOf,
  WrittenAnswer,
} from '@holdfast/http-kit'
import { requestIdOfKey } from '@holdfast/kernel'
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Call, type SignedIn } from './call.ts'
import type { ApiContext } from './context.ts'

/** Which callers an operation accepts, and which budgets its requests draw on. */
interface CallerAccess {
  /** Name of the budget of requests. */
  name: string
  /** `optional`: a token that is sent must be valid. `none`: tokens are ignored. */
  token: 'needed' | 'optional' | 'none'
  /** `premium` where the operation requires it. */
  tier?: string
}

export interface Operation<P extends TObject, Q extends TObject, B extends TObject> extends CallerAccess {
  /** Also its id in the OpenAPI document. */
  name: string
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  summary: string
  group: string
  /** Shown in the OpenAPI document beside the summary. */
  description?: string
  /**
   * The access of the requests for which `isAskedFor` holds. All others have the operation's own.
   */
  otherAccess?: { isAskedFor(request: FastifyRequest): boolean; access: CallerAccess; headers: TObject }
  params?: P
  query?: Q
  body?: B
  /** The body for the OpenAPI document, where its parameters depend on each other. */
  bodyDocument?: object
  /** Schema of `data`. */
  answer: TSchema
  /** Schema of `metadata`. */
  metadata?: TSchema
  /**
   * Statuses of its refusals, beside those of every operation, of the token, the tier and the
   * parameters.
   */
  refusals: readonly KnownStatus[]
  /** Values inside parameters that are refused under their own names. */
  innerNames?: readonly string[]
  handle(call: Call, input: Static<P> & Static<Q> & Static<B>): Promise<object>
}

interface HttpExchange {
  request: FastifyRequest
  reply: FastifyReply
  guesses: RequestGuesses
}

const nothing = Type.Object({})
type NoParameters = typeof nothing

export function serve<
  P extends TObject = NoParameters,
  Q extends TObject = NoParameters,
  B extends TObject = NoParameters,
>(app: FastifyInstance, context: ApiContext, operation: Operation<P, Q, B>): void {
  const readParams = parametersOf(operation.params ?? nothing)
  const readQuery = parametersOf(operation.query ?? nothing)
  const readBody = parametersOf(operation.body ?? nothing)

  app.route({
    method: operation.method,
    url: operation.path,
    config: { endpoint: operation.name },
    schema: schemaOf(operation),
    handler: async (request, reply) => {
      const result = await guessing(context.rateLimits, request, (guesses) =>
        answer({ request, reply, guesses }),
      )
      if (!(result instanceof WrittenAnswer)) return result
      const charge = () => context.rateLimits.charge(request, accessOf(request).name, 1)
      return await sendWritten(request, reply, { answer: result, budget: context.answers, charge })
    },
  })

  function accessOf(request: FastifyRequest): CallerAccess {
    const { otherAccess } = operation
    return otherAccess?.isAskedFor(request) === true ? otherAccess.access : operation
  }

  async function answer({ request, reply, guesses }: HttpExchange): Promise<object> {
    const access = accessOf(request)
    // The host drew on the budget of the operation's own endpoint.
    if (access !== operation) await context.rateLimits.takeAddress(request, access.name)
    const tier = access.tier ?? ''
    const signedIn = await signIn(context, { request, guesses }, access.token)
    const asking = { context, request, reply, guesses, signedIn }
    if (signedIn !== undefined) await drawOnAccount({ ...asking, signedIn }, access.name)
    let call = new Call({ ...asking, tier, keyRequestId: undefined })
    const input = await refuseAfterToken(call, () => ({
      ...readParams(fieldsOf(request.params)),
      ...readQuery(fieldsOf(request.query)),
      ...readBody(fieldsOf(request.body)),
    }))
    const keyRequestId = await refuseAfterToken(call, () =>
      requestIdOf(context, request, { operation: operation.name, input }),
    )
    if (keyRequestId !== undefined) call = new Call({ ...asking, tier, keyRequestId })
    if ((input as Fields).password) await guesses.begin('password')
    return await operation.handle(call, input as Static<P> & Static<Q> & Static<B>)
  }
}

/**
 * The account that the token claims.
 * @throws RefusalError error-token when it is missing or cannot be a token
 */
async function signIn(
  context: ApiContext,
  { request, guesses }: { request: FastifyRequest; guesses: RequestGuesses },
  needed: 'needed' | 'optional' | 'none',
): Promise<SignedIn | undefined> {
  if (needed === 'none') return undefined
  const token = tokenOf(request)
  if (token === undefined) {
    if (needed === 'optional') return undefined
    throw new RefusalError('error-token')
  }
  if (!context.tokens.has(token)) await guesses.begin('token')
  const claim = claimOf(token, context.ids)
  if (claim === undefined) {
    await guesses.wrong('token')
    throw new RefusalError('error-token')
  }
  return { ...claim, token, byCookie: false }
}

const endingTheToken: ReadonlySet<string> = new Set(['resetToken', 'confirmEmail'])

/**
 * Draws on the account's budget once its token is known to be valid: forged ones must not spend it.
 */
async function drawOnAccount(
  asking: HttpExchange & { context: ApiContext; signedIn: SignedIn },
  operation: string,
): Promise<void> {
  const { context, request, guesses, signedIn } = asking
  if (!context.tokens.has(signedIn.token)) {
    // A repeated request carries the token that the first run has made invalid. Only the account
    // can recognise the repetition.
    if (endingTheToken.has(operation) && request.headers['idempotency-key'] !== undefined) return
    await new Call({ ...asking, tier: '', keyRequestId: undefined }).authenticate()
    context.tokens.add(signedIn.token)
    guesses.right('token')
  }
  await context.rateLimits.takeAccount(request, operation, signedIn.accountId)
}

/** The result of `read`. When it refuses a parameter, token and tier are checked first. */
async function refuseAfterToken<T>(call: Call, read: () => T): Promise<T> {
  try {
    return read()
  } catch (error) {
    if (call.signedIn !== undefined) await call.authenticate()
    throw error
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

/**
 * A key is valid for one operation: the same key sent to another is another request. With other
 * parameters it is refused.
 */
function requestIdOf(
  { idempotencySecret }: ApiContext,
  request: FastifyRequest,
  { operation, input }: { operation: string; input: object },
): Buffer | undefined {
  const key = idempotencyKeyOf(request)
  if (key === undefined) return undefined
  // Keyed, because it is stored and a password may be among the parameters.
  const asked = createHmac('sha256', idempotencySecret)
    .update(`asked\0${JSON.stringify(input)}`)
    .digest()
  return requestIdOfKey(`${operation} ${key}`, asked)
}

function schemaOf<P extends TObject, Q extends TObject, B extends TObject>(operation: Operation<P, Q, B>) {
  const security = operation.method === 'GET' ? [{ bearer: [] }, { queryToken: [] }] : [{ bearer: [] }]
  const tokenMayLack = operation.token === 'optional' || operation.otherAccess?.access.token === 'optional'
  const descriptions = [
    ...(operation.tier === 'premium' ? ['Premium accounts only.'] : []),
    ...(operation.description === undefined ? [] : [operation.description]),
  ]
  return {
    operationId: operation.name,
    summary: operation.summary,
    tags: [operation.group],
    ...(descriptions.length === 0 ? {} : { description: descriptions.join(' ') }),
    ...(operation.token === 'none' ? {} : { security: tokenMayLack ? [...security, {}] : security }),
    ...(operation.params ? { params: schemaForDocument(operation.params, 'query') } : {}),
    ...(operation.otherAccess ? { headers: operation.otherAccess.headers } : {}),
    ...(operation.query ? { querystring: schemaForDocument(operation.query, 'query') } : {}),
    ...(operation.body ? { body: operation.bodyDocument ?? schemaForDocument(operation.body, 'body') } : {}),
    response: responsesOf({
      method: operation.method,
      hasPathParameters: operation.path.includes(':'),
      tier: operation.tier,
      readsToken: operation.token !== 'none',
      readsKey: true,
      success: Type.Object({
        status: Type.Literal('ok'),
        data: operation.answer,
        ...(operation.metadata ? { metadata: operation.metadata } : {}),
      }),
      parameters: [
        ...[operation.params, operation.query, operation.body].flatMap((schema) =>
          Object.keys(schema?.properties ?? {}),
        ),
        ...(operation.innerNames ?? []),
      ],
      refusals: operation.refusals,
    }),
  }
}

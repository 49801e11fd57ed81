/**
 * The answers of an operation as the OpenAPI document shows them: each HTTP code with the statuses
 * that the envelope carries under it. Pure.
 */
import { STATUS_CODES } from 'node:http'
import { httpCodeOf, type KnownStatus } from './refusals.ts'

/** What an operation declares about its answers. */
export interface OperationAnswers {
  method: string
  /** Its path has parameters. */
  hasPathParameters: boolean
  /** `premium` where it requires that tier. */
  tier: string | undefined
  /** Tokens are read; without any, their statuses are omitted. */
  readsToken: boolean
  /** An Idempotency-Key is read. */
  readsKey: boolean
  /** Schema of the whole answer of a success. */
  success: object
  /** Names of its parameters, and of values inside them: each is refused as `error-<name>`. */
  parameters: readonly string[]
  /** Statuses beside those that every operation has and those of token, tier and parameters. */
  refusals: readonly KnownStatus[]
}

export interface DocumentedResponse {
  description: string
  content: { 'application/json': { schema: object } }
}

/** Connection, head, networks, budgets, faults: outside of the operation's own work. */
const ofEvery: readonly KnownStatus[] = [
  'error-request',
  'error-host',
  // The operator blocks the client's network.
  'error-forbidden',
  'error-timeout',
  'error-expect',
  'error-headerSize',
  'error-rateLimit',
  'error-internal',
  'error-unavailable',
  'error-storageFull',
]
/** A GET has no body. */
const ofBodies: readonly KnownStatus[] = ['error-body', 'error-bodySize']

/** Keyed by HTTP code. */
export function responsesOf(answers: OperationAnswers): Record<number, DocumentedResponse> {
  const responses: Record<number, DocumentedResponse> = {
    200: { description: 'Success', content: { 'application/json': { schema: answers.success } } },
  }
  for (const [code, statuses] of Object.entries(Object.groupBy(statusesOf(answers), httpCodeOf))) {
    const schema = {
      type: 'object',
      required: ['status'],
      properties: { status: { type: 'string', enum: [...new Set(statuses)].sort() } },
      additionalProperties: false,
    }
    const description = STATUS_CODES[code] ?? code
    responses[Number(code)] = { description, content: { 'application/json': { schema } } }
  }
  return responses
}

function statusesOf(answers: OperationAnswers): string[] {
  const changes = answers.method !== 'GET'
  return [
    ...ofEvery,
    ...(changes ? ofBodies : []),
    ...(answers.readsKey ? ['error-idempotencyKey'] : []),
    // The change was made under this key, and its answer is no longer kept.
    ...(answers.readsKey && changes ? ['error-alreadyDone'] : []),
    // The operator may have suspended the account, or that of the content.
    ...(answers.readsToken ? ['error-token', 'error-blocked'] : []),
    ...(answers.tier === 'premium' ? ['error-notPremium'] : []),
    // A parameter that is not UTF-8, or far too long, matches no operation.
    ...(answers.hasPathParameters ? ['error-notFound'] : []),
    ...answers.parameters.map((name) => `error-${name}`),
    ...answers.refusals,
  ]
}

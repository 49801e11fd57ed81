/** The OpenAPI document's description of an operation's answers. */
import t from 'tap'
import { httpCodeOf, type OperationAnswers, responsesOf } from '../src/index.ts'

const plain: OperationAnswers = {
  method: 'GET',
  tier: undefined,
  hasPathParameters: false,
  readsToken: false,
  readsKey: false,
  success: { type: 'object' },
  parameters: [],
  refusals: [],
}

/** HTTP code → statuses. */
function statusesOf(answers: Partial<OperationAnswers>): Record<string, string[]> {
  const responses = Object.entries(responsesOf({ ...plain, ...answers }))
  return Object.fromEntries(
    responses
      .filter(([code]) => code !== '200')
      .map(([code, { content }]) => {
        const { schema } = content['application/json'] as {
          schema: { properties: { status: { enum: string[] } } }
        }
        return [code, schema.properties.status.enum]
      }),
  )
}

t.test('each status is under the HTTP code that it is answered with', async (t) => {
  const all = statusesOf({
    method: 'POST',
    hasPathParameters: true,
    tier: 'premium',
    readsToken: true,
    readsKey: true,
    parameters: ['folderId', 'accountId'],
    refusals: ['error-notOwner', 'error-limits'],
  })
  for (const [code, statuses] of Object.entries(all))
    for (const status of statuses) t.equal(String(httpCodeOf(status)), code, status)
  t.match(all, {
    400: ['error-body', 'error-folderId', 'error-host', 'error-idempotencyKey', 'error-request'],
    401: ['error-notOwner', 'error-notPremium', 'error-token'],
    403: ['error-accountId', 'error-forbidden', 'error-limits'],
    404: ['error-notFound'],
    409: ['error-alreadyDone'],
    413: ['error-bodySize'],
    429: ['error-rateLimit'],
    503: ['error-unavailable'],
  })
})

t.test('an operation without token, key, body and parameters has no statuses of theirs', async (t) => {
  t.strictSame(Object.keys(statusesOf({})), ['400', '403', '408', '417', '429', '431', '500', '503', '507'])
  t.strictSame(statusesOf({})[400], ['error-host', 'error-request'])
})

t.test('blocked networks and accounts are refused by every operation', async (t) => {
  t.strictSame(statusesOf({})[403], ['error-forbidden'], 'a network')
  t.strictSame(statusesOf({ readsToken: true })[451], ['error-blocked'], 'an account')
})

t.test('a read has a key and is never done already', async (t) => {
  const read = statusesOf({ readsKey: true })
  t.ok(read[400]?.includes('error-idempotencyKey'))
  t.notOk(409 in read)
})

t.test('a status that is named twice is there once', async (t) => {
  const { 404: notFound } = statusesOf({ hasPathParameters: true, refusals: ['error-notFound'] })
  t.strictSame(notFound, ['error-notFound'])
})

t.test('there is no response for all other codes', async (t) => {
  t.notOk('default' in responsesOf(plain))
})

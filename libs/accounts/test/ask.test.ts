import { type AccountId, hex, RefusalError } from '@holdfast/kernel'
import type { AccountReply, AccountRequest } from '@holdfast/wire'
import t from 'tap'
import {
  type AccountClient,
  type Asker,
  asBearer,
  ask,
  asOperator,
  asSystem,
  asVisitor,
  BlockedAccounts,
  viewOf,
} from '../src/index.ts'

const accountId = '4b6f7c1e-0000-4000-8000-000000000001' as AccountId
const clock = { now: () => 1_800_000_000_000 }
const operation = { $case: 'authenticate', value: {} } as const

function answering(reply: AccountReply) {
  const requests: Omit<AccountRequest, 'deadlineMs'>[] = []
  const accounts: AccountClient = {
    async call(request) {
      requests.push(request)
      return reply
    },
  }
  return { accounts, requests }
}

t.test('an answer is distinguished from a refusal, an empty reply and another kind', async (t) => {
  const done = answering({ result: { $case: 'done', value: {} } })
  const result = await ask({ ...done, clock }, { accountId, who: asSystem, operation })
  t.strictSame(result, { $case: 'done', value: {} })
  t.throws(() => viewOf(result, 'account'), /expected account, the account answered done/)
  const refused = answering({ result: { $case: 'refusal', value: { status: 'error-token' } } })
  const refusal = ask({ ...refused, clock }, { accountId, who: asSystem, operation })
  await t.rejects(refusal, new RefusalError('error-token'))
  const empty = answering({ result: undefined })
  await t.rejects(ask({ ...empty, clock }, { accountId, who: asSystem, operation }), /empty reply/)
})

t.test('only requests from outside carry the network', async (t) => {
  const { accounts, requests } = answering({ result: { $case: 'done', value: {} } })
  const grant = { folderId: '', ownerTokenCounter: undefined, passwordVersion: Buffer.alloc(0) }
  const askers: Asker[] = [
    asVisitor(),
    { $case: 'grant', value: grant },
    asBearer({ bytes: Buffer.from('token') }),
    asSystem,
    asOperator,
  ]
  for (const who of askers)
    await ask({ accounts, clock }, { accountId, who, operation, clientNetwork: 'net' })
  t.strictSame(
    requests.map(({ clientNetwork }) => clientNetwork),
    ['net', 'net', undefined, undefined, undefined],
  )
})

t.test('a request has a new id, or the one that its client chose', async (t) => {
  const { accounts, requests } = answering({ result: { $case: 'done', value: {} } })
  const requestId = Buffer.alloc(16, 7)
  await ask({ accounts, clock }, { accountId, who: asSystem, operation })
  await ask({ accounts, clock }, { accountId, who: asSystem, operation })
  await ask({ accounts, clock }, { accountId, who: asSystem, operation, requestId })
  const [first, second, third] = requests.map((request) => hex(request.requestId))
  t.not(first, second)
  t.equal(third, hex(requestId))
})

t.test('a suspended account answers only the operator and the service', async (t) => {
  const { accounts } = answering({ result: { $case: 'done', value: {} } })
  const blocked = { accounts: new BlockedAccounts(accounts, (account) => account === accountId), clock }
  for (const who of [asVisitor(), asBearer({ bytes: Buffer.from('token') })])
    await t.rejects(ask(blocked, { accountId, who, operation }), new RefusalError('error-blocked'))
  for (const who of [asOperator, asSystem]) t.ok(await ask(blocked, { accountId, who, operation }))
})

/**
 * Downloads continue from a copy when the home is unavailable, also when it is lost during the
 * request.
 */
import { type AccountClient, AccountsUnavailable, replicaSubjectOf } from '@holdfast/accounts'
import { MemoryBus } from '@holdfast/bus'
import { mintRequestId, systemClock } from '@holdfast/kernel'
import { type AccountOperation, AccountReply, type AccountRequest } from '@holdfast/wire'
import t from 'tap'
import { ReplicaReads } from '../src/accounts/replica-reads.ts'

const caller = { who: { $case: 'operator' as const, value: {} } }

function asked(operation: AccountOperation): Omit<AccountRequest, 'deadlineMs'> {
  return {
    accountId: '4b6f7c1e-0000-4000-8000-000000000001',
    requestId: mintRequestId(Date.now()),
    caller,
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation,
  }
}

const download = asked({
  $case: 'openFile',
  value: { password: undefined } as Extract<AccountRequest['operation'], { $case: 'openFile' }>['value'],
})
const statusOf = ({ result }: AccountReply) => (result?.$case === 'refusal' ? result.value.status : undefined)
const refusal = (status: string): AccountReply => ({ result: { $case: 'refusal', value: { status } } })

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** A home that answers on command, and gives up only when it is cancelled. */
function world() {
  const answer = Promise.withResolvers<AccountReply>()
  const home: AccountClient = {
    call: (_, { signal }) =>
      Promise.race([
        answer.promise,
        new Promise<AccountReply>((_, reject) =>
          signal?.addEventListener('abort', () => reject(new AccountsUnavailable('cancelled'))),
        ),
      ]),
  }
  const bus = new MemoryBus()
  bus.serve(replicaSubjectOf('keeper'), async () => AccountReply.encode(refusal('error-expired')).finish())
  let host: string | undefined
  let notify = () => {}
  let passedMs = 0
  const reads = new ReplicaReads({
    accounts: home,
    bus,
    replicaHostOf: () => host,
    onHostsChanged: (listener) => {
      notify = listener
    },
    clock: { ...systemClock, monotonic: () => passedMs },
  })
  const change = (now: string | undefined) => {
    host = now
    notify()
  }
  const pass = (ms: number) => {
    passedMs += ms
  }
  return { reads, change, answer, pass }
}

t.test('a home that is lost during the request is not awaited until the deadline', async (t) => {
  const { reads, change } = world()
  const call = reads.call(download)
  change('keeper')
  t.equal(statusOf(await call), 'error-expired', 'a copy answers')
})

t.test('a change that leaves the home available changes nothing', async (t) => {
  const { reads, change, answer } = world()
  const call = reads.call(download)
  change(undefined)
  answer.resolve(refusal('error-notFound'))
  t.equal(statusOf(await call), 'error-notFound', 'the home answers')
})

t.test('a home that was lost for a moment is asked again', async (t) => {
  const { reads, change, answer } = world()
  const call = reads.call(download)
  change('keeper')
  change(undefined)
  answer.resolve(refusal('error-notFound'))
  t.equal(statusOf(await call), 'error-notFound', 'no copy is there any more, and the home answers')
})

t.test('a home that is lost again and again ends with the deadline', async (t) => {
  const { reads, change, pass } = world()
  const ended = t.rejects(reads.call(download, { timeoutMs: 1_000 }), AccountsUnavailable)
  for (let times = 0; times < 4; times++) {
    pass(250)
    change('keeper')
    change(undefined)
    await turn()
  }
  await ended
})

t.test('requests that only the home may answer wait for it', async (t) => {
  const { reads, change, answer } = world()
  const call = reads.call(asked({ $case: 'getAccount', value: {} }))
  change('keeper')
  answer.resolve(refusal('error-notFound'))
  t.equal(statusOf(await call), 'error-notFound')
})

t.test('a request that was given up is not answered from a copy', async (t) => {
  const { reads, change } = world()
  const caller = new AbortController()
  const call = reads.call(download, { signal: caller.signal })
  caller.abort()
  change('keeper')
  await t.rejects(call)
})

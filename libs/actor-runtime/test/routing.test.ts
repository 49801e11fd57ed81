/** How a caller gets from a silent or dead host to the one that has the account now. */

import { RoutedAccountClient, subjectOf } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { MemoryBus } from '@holdfast/bus'
import { mintRequestId } from '@holdfast/kernel'
import { AccountReply, AccountRequest } from '@holdfast/wire'
import t from 'tap'
import { ManualTime, settled, statusOf } from './world.ts'

const account = '4b6f7c1e-0000-4000-8000-000000000001'

function asked(): Omit<AccountRequest, 'deadlineMs'> {
  const operation = { $case: 'getAccount' as const, value: {} }
  const caller = { who: { $case: 'operator' as const, value: {} } }
  return {
    accountId: account,
    requestId: mintRequestId(Date.now()),
    caller,
    clientNetwork: undefined,
    clientRequest: undefined,
    traceparent: undefined,
    tierNeeded: '',
    operation,
  }
}

const answer = AccountReply.encode({
  result: { $case: 'refusal', value: { status: 'error-token' } },
}).finish()

function routed(bus: MemoryBus) {
  const time = new ManualTime()
  const listeners: (() => void)[] = []
  const gone: string[] = []
  let host: string | undefined = 'silent'
  const client = new RoutedAccountClient({
    ...plainClient,
    bus,
    hostOf: () => host,
    onHostsChanged: (listener) => listeners.push(listener),
    onSilent: (id) => gone.push(id),
    clock: time,
    timers: time,
  })
  const name = (id: string | undefined) => {
    host = id
    for (const listener of listeners) listener()
  }
  return { client, time, gone, name }
}

t.test('a silent host is awaited until another one is named, not until the deadline', async (t) => {
  const bus = new MemoryBus()
  const requests: AccountRequest[] = []
  bus.serve(subjectOf('silent'), (message) => {
    requests.push(AccountRequest.decode(message))
    return new Promise(() => {})
  })
  bus.serve(subjectOf('next'), async (message) => {
    requests.push(AccountRequest.decode(message))
    return answer
  })
  const { client, time, gone, name } = routed(bus)
  const call = client.call(asked(), { timeoutMs: 15_000 })
  await settled()
  t.strictSame(gone, [])
  await time.advance(600)
  t.strictSame(gone, ['silent'], 'it may be dead')
  name('silent')
  await settled()
  t.equal(requests.length, 1, 'as long as it is named it is waited for')
  name('next')
  await settled()
  await time.advance(50)
  t.equal(statusOf(await call), 'error-token')
  t.equal(requests.length, 2)
  t.strictSame(requests[0]?.requestId, requests[1]?.requestId)
})

t.test('a silent host that only the next one still names does not block a caller', async (t) => {
  const bus = new MemoryBus()
  let waited = 0
  bus.serve(subjectOf('silent'), () => {
    waited++
    return new Promise(() => {})
  })
  let heard = false
  const movedReply = AccountReply.encode({ result: { $case: 'moved', value: { host: 'silent' } } }).finish()
  bus.serve(subjectOf('next'), async () => (heard ? answer : movedReply))
  const { client, time, name } = routed(bus)
  const call = client.call(asked(), { timeoutMs: 15_000 })
  await settled()
  name('next')
  await settled()
  await time.advance(50)
  t.equal(waited, 2, 'sent back to it')
  // This process sees no more changes: the silent host left its view before.
  heard = true
  await time.advance(1_000)
  await settled()
  await time.advance(100)
  t.equal(statusOf((await Promise.race([call, time.advance(1)])) as AccountReply), 'error-token')
})

t.test(
  'where no host is known a caller is refused soon, but not before one may have restarted',
  async (t) => {
    const { client, time, name } = routed(new MemoryBus())
    name(undefined)
    let ended = false
    const call = client.call(asked(), { timeoutMs: 15_000 }).finally(() => {
      ended = true
    })
    call.catch(() => {})
    const wait = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 100) await time.advance(100)
    }
    await wait(2_500)
    t.notOk(ended)
    await wait(2_000)
    await t.rejects(call, { message: /no host that serves it is known/ })
  },
)

t.test('a cancelled request is not sent elsewhere', async (t) => {
  const bus = new MemoryBus()
  bus.serve(subjectOf('silent'), () => new Promise(() => {}))
  const { client, name } = routed(bus)
  const caller = new AbortController()
  const call = client.call(asked(), { signal: caller.signal })
  await settled()
  caller.abort()
  name('next')
  await t.rejects(call)
})

t.test('a host without a responder is reported', async (t) => {
  const { client, time, gone } = routed(new MemoryBus())
  const call = client.call(asked(), { timeoutMs: 10 }).catch(() => {})
  await settled()
  await time.advance(20)
  await call
  t.ok(gone.length > 0 && gone.every((id) => id === 'silent'))
})

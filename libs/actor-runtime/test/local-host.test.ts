/** The host in the caller's own process: no bus in between, and the same promises. */

import { AccountsUnavailable, RoutedAccountClient } from '@holdfast/accounts'
import { plainClient } from '@holdfast/accounts/testing'
import { MemoryBus } from '@holdfast/bus'
import { mintRequestId } from '@holdfast/kernel'
import { type AccountReply, type AccountRequest, blank, CreateFolder } from '@holdfast/wire'
import t from 'tap'
import { ManualTime, settled, statusOf, World } from './world.ts'

function askerOf(take: (request: AccountRequest) => Promise<AccountReply>) {
  const time = new ManualTime()
  const client = new RoutedAccountClient({
    ...plainClient,
    bus: new MemoryBus(),
    hostOf: () => 'here',
    local: { hostId: 'here', take },
    clock: time,
    timers: time,
  })
  return { client, time }
}

function request(account: string): Omit<AccountRequest, 'deadlineMs'> {
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

t.test('gets the same requests as over the bus, and answers the same', async (t) => {
  const world = new World()
  const host = world.host()
  const { client } = askerOf((asked) => host.take(asked))
  await world.create()
  const reply = await client.call(request(world.account))
  const overBus = await world.ask({ $case: 'getAccount', value: {} })
  t.equal(statusOf(reply), 'ok')
  t.strictSame(reply, overBus)
  await world.close()
  await t.rejects(askerOf((asked) => host.take(asked)).client.call(request(world.account), { timeoutMs: 0 }))
})

t.test('takes a request itself, and answers a repeated one like the first', async (t) => {
  const world = new World()
  const host = world.host()
  const got: AccountRequest[] = []
  const { client } = askerOf((asked) => {
    got.push(asked)
    return host.take(asked)
  })
  await world.create()
  const { result } = await client.call(request(world.account))
  const root = result?.$case === 'account' ? result.value.rootFolder : ''
  const folder = {
    ...request(world.account.toUpperCase()),
    operation: {
      $case: 'createFolder' as const,
      value: { ...blank(CreateFolder), parentFolderId: root, name: 'Größe' },
    },
  }
  const made = await client.call(folder)
  t.equal(statusOf(made), 'ok')
  t.equal(got.at(-1)?.operation, folder.operation, 'it was not encoded')
  const again = { ...folder, operation: { ...folder.operation, value: { ...folder.operation.value } } }
  t.strictSame(await client.call(again), made)
  await world.close()
})

t.test('a malformed text arrives as the bus would bring it', async (t) => {
  const got: (string | undefined)[] = []
  const { client } = askerOf(async ({ operation }) => {
    got.push(operation?.$case === 'createFolder' ? operation.value.name : undefined)
    return { result: { $case: 'done', value: {} } }
  })
  const value = { ...blank(CreateFolder), name: 'a\ud800b' }
  await client.call({ ...request('one'), operation: { $case: 'createFolder', value } })
  t.same(got, ['a\ufffdb'])
})

t.test('without an answer it is awaited until the deadline, and retried with the same id', async (t) => {
  const asked: AccountRequest[] = []
  const { client, time } = askerOf((request) => {
    asked.push(request)
    if (asked.length === 1) return Promise.resolve({ result: { $case: 'moved', value: { host: '' } } })
    return new Promise(() => {})
  })
  const call = client.call(request('4b6f7c1e-0000-4000-8000-000000000001'), { timeoutMs: 500 })
  const outcome = call.then(
    () => 'answered',
    (error: unknown) => (error instanceof AccountsUnavailable ? error.code : String(error)),
  )
  await settled()
  await time.advance(499)
  t.equal(asked.length, 2)
  t.strictSame(asked[0]?.requestId, asked[1]?.requestId)
  await time.advance(2)
  t.equal(await outcome, 'ACCOUNTS_UNAVAILABLE')
})

t.test('is not awaited longer than the caller wants', async (t) => {
  const { client } = askerOf(() => new Promise(() => {}))
  const gone = new AbortController()
  const call = client.call(request('4b6f7c1e-0000-4000-8000-000000000001'), { signal: gone.signal })
  gone.abort()
  await t.rejects(call, { code: 'CANCELLED' })
})

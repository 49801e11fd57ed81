import { MemoryBus } from '@holdfast/bus'
import type { AccountReply } from '@holdfast/wire'
import t from 'tap'
import { RoutedAccountClient } from '../src/index.ts'
import { plainClient } from '../src/testing.ts'

const request = {
  requestId: new Uint8Array(16),
  accountId: 'one',
  caller: undefined,
  operation: undefined,
} as never

t.test('while accounts cannot be written no caller waits', async (t) => {
  const unavailable = { result: { $case: 'unavailable', value: { overloaded: false } } } as AccountReply
  let unwritable: Error | undefined
  let asked = 0
  let answer: () => Promise<AccountReply> = async () => unavailable
  const host = () => {
    asked++
    return answer()
  }
  const client = new RoutedAccountClient({
    ...plainClient,
    bus: new MemoryBus({ onHandlerError: () => {} }),
    hostOf: () => 'here',
    local: { hostId: 'here', take: host },
    unwritable: () => unwritable,
  })
  const outcome = () =>
    client.call(request).then(
      () => 'answered',
      (error: { code: string; cause: unknown }) => error,
    )
  unwritable = new Error('no descriptors')
  t.match(await outcome(), { code: 'ACCOUNTS_UNAVAILABLE', cause: { message: 'no descriptors' } })
  t.equal(asked, 1, 'it is not asked repeatedly')
  answer = async () => ({ result: { $case: 'refusal', value: { status: 'error-notFound' } } }) as AccountReply
  t.equal(await outcome(), 'answered', 'a refusal by a loaded account is passed on')
  answer = () => new Promise(() => {})
  const alive = setTimeout(() => {}, 5_000)
  t.match(
    await outcome(),
    { code: 'ACCOUNTS_UNAVAILABLE' },
    'a caller waits one second for an account whose store does not answer',
  )
  clearTimeout(alive)
})

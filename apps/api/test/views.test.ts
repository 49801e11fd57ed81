/** Answers of thousands of items have room before their account is asked. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AccountClient } from '@holdfast/accounts'
import { Keyring } from '@holdfast/kernel'
import type { AccountReply } from '@holdfast/wire'
import t from 'tap'
import { world } from './world.ts'

const { ids } = new Keyring(new Uint8Array(32).fill(3))

t.test('a few deep listings are under way at a time, and others do not wait for them', async (t) => {
  const asked = { deep: 0, plain: 0 }
  const answers: (() => void)[] = []
  const accounts: AccountClient = {
    call: ({ operation }) => {
      if (operation?.$case !== 'readContent') throw new Error('only reads are asked for')
      asked[operation.value.maxDepth > 1 ? 'deep' : 'plain']++
      const reply: AccountReply = {
        ...{ result: { $case: 'refusal', value: { status: 'error-notFound' } } },
      }
      return new Promise((resolve) => answers.push(() => resolve(reply)))
    },
  }
  const { app } = world(t, { accounts })
  const listed = (depth: number) =>
    app.inject(`/web/contents/${ids.content(ids.account('eu-par'))}?maxdepth=${depth}`)
  const running = Array.from({ length: 20 }, () => listed(2))
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  t.equal(asked.deep, 8)
  running.push(listed(1))
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  t.equal(asked.plain, 1)
  for (let left = 1000; answers.length > 0 && left > 0; left--) {
    answers.shift()?.()
    for (let turn = 0; turn < 5; turn++) await nextTurn()
  }
  for (const answer of running) t.equal((await answer).statusCode, 404)
  t.equal(asked.deep, 20)
})

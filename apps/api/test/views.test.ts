/** A call takes room for an answer of thousands of items before it asks the account. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AccountClient } from '@holdfast/accounts'
import { Keyring } from '@holdfast/kernel'
import type { AccountReply } from '@holdfast/wire'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { world } from './world.ts'

const { ids } = new Keyring(new Uint8Array(32).fill(3))

/** Counts the reads that the accounts are asked for, and holds their answers. */
function heldAccounts() {
  const asked = { deep: 0, plain: 0 }
  const answers: (() => void)[] = []
  const accounts: AccountClient = {
    call: ({ operation }) => {
      if (operation?.$case !== 'readContent') throw new Error('only reads are asked for')
      asked[operation.value.maxDepth > 1 ? 'deep' : 'plain']++
      const reply: AccountReply = { result: { $case: 'refusal', value: { status: 'error-notFound' } } }
      return new Promise((resolve) => answers.push(() => resolve(reply)))
    },
  }
  return { asked, answers, accounts }
}

const pathOf = (depth: number) => `/web/contents/${ids.content(ids.account('eu-par'))}?maxdepth=${depth}`

t.test('a few deep listings are under way at a time, and others do not wait for them', async (t) => {
  const { asked, answers, accounts } = heldAccounts()
  const { app } = world(t, { accounts })
  const listed = (depth: number) => app.inject(pathOf(depth))
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

t.test('no listing begins for waiting readers that left together with the readers before them', async (t) => {
  const { asked, answers, accounts } = heldAccounts()
  const { app } = world(t, { accounts })
  const left: Promise<unknown>[] = []
  app.addHook('onRequest', async (_, reply) => void left.push(once(reply.raw, 'close')))
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  const readers = Array.from({ length: 20 }, () => {
    const reader = connect(Number(port), '127.0.0.1')
    reader.write(`GET ${pathOf(2)} HTTP/1.1\r\nhost: one\r\n\r\n`)
    return reader
  })
  await until(() => asked.deep === 8 && left.length === 20)
  // libuv closes the last ones first.
  for (const reader of readers.toReversed()) reader.destroy()
  await Promise.all(left)
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  t.equal(asked.deep, 8)
  for (const answer of answers) answer()
})

/** Hashes of passwords leave the pool of the process, and its cores, to everything else. */
import { createHook } from 'node:async_hooks'
import { scryptSync } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import t from 'tap'
import { ScryptThreads, scryptOptions } from '../src/queues/scrypt-threads.ts'

const asked = { secret: 'ab'.repeat(32), salt: Buffer.alloc(16, 7), bytes: 32, cost: 4 }
const expected = scryptSync(asked.secret, asked.salt, asked.bytes, scryptOptions(asked.cost))

t.test('a hash takes no thread of the pool', async (t) => {
  const begun: string[] = []
  const hook = createHook({ init: (_, type) => begun.push(type) }).enable()
  t.teardown(() => hook.disable())
  const threads = new ScryptThreads()
  const [one, other] = await Promise.all([
    threads.derive(asked),
    threads.derive({ ...asked, secret: 'other' }),
  ])
  t.same(one, expected)
  t.notSame(other, expected)
  t.same(await threads.derive(asked), expected, 'by a thread that was idle')
  t.equal(begun.filter((type) => type === 'WORKER').length, 2)
  t.notOk(begun.includes('SCRYPTREQUEST'))
})

t.test('its thread has a low priority', { skip: process.platform !== 'linux' }, async (t) => {
  await new ScryptThreads().derive(asked)
  const niceness = readdirSync('/proc/self/task').map((id) => {
    const stat = readFileSync(`/proc/self/task/${id}/stat`, 'utf8')
    // The name in parentheses may contain spaces; the niceness is the 19th field.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
  })
  t.ok(niceness.includes(Math.min(getPriority() + 10, constants.priority.PRIORITY_LOW)), `${niceness}`)
})

t.test('a thread that fails is replaced', async (t) => {
  const threads = new ScryptThreads()
  await t.rejects(threads.derive({ ...asked, bytes: -1 }), { code: 'ERR_OUT_OF_RANGE' })
  t.same(await threads.derive(asked), expected)
})

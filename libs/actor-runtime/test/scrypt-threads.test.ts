/** Hashes of passwords leave the pool of the process, and its cores, to everything else. */
import { createHook } from 'node:async_hooks'
import { scryptSync } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
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

// Elsewhere a priority is that of the whole process, and threads keep it.
const noPriorities = process.platform !== 'linux' && 'only Linux has priorities of threads'

t.test('a thread for passwords has a low priority', { skip: noPriorities }, async (t) => {
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

t.test('where no thread starts, the pool hashes', async (t) => {
  const threads = new ScryptThreads(() => {
    throw new Error('ERR_WORKER_INIT_FAILED')
  })
  t.same(await threads.derive(asked), expected)
})

t.test('an idle thread that has ended is not asked', async (t) => {
  const workers: Worker[] = []
  const threads = new ScryptThreads(() => {
    workers.push(new Worker(new URL('../src/queues/scrypt-thread.ts', import.meta.url)))
    return workers.at(-1) as Worker
  })
  await threads.derive(asked)
  await workers[0]?.terminate()
  t.same(await threads.derive(asked), expected)
  t.equal(workers.length, 2)
})

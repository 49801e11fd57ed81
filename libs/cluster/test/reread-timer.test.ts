/** When rows that all processes hold a copy of are read again. */
import { MemoryBus } from '@holdfast/bus'
import t from 'tap'
import { RereadPlan, RereadTimer } from '../src/sharing/reread-timer.ts'

const ticks = (plan: RereadPlan, count: number) => Array.from({ length: count }, () => plan.isDue())
const often = Array<boolean>(5).fill(true)
const seldom = [false, false, false, false, true]

t.test('rows are read at every tick for a while after the start, then at every fifth', async (t) => {
  const plan = new RereadPlan()
  t.same(ticks(plan, 15), [...often, ...seldom, ...seldom])
})

t.test('after an announcement they are read at every tick again, as they may arrive late', async (t) => {
  const plan = new RereadPlan()
  ticks(plan, 8)
  plan.announced()
  t.same(ticks(plan, 10), [...often, ...seldom])
})

t.test('an announcement is followed by a read at once, until it is closed', async (t) => {
  const bus = new MemoryBus()
  let reads = 0
  const heard = Promise.withResolvers<void>()
  const rereading = new RereadTimer({
    bus,
    subject: 'changed',
    read: () => {
      reads++
      heard.resolve()
    },
  })
  bus.publish('changed', new Uint8Array())
  await heard.promise
  t.equal(reads, 1)
  rereading.close()
  bus.publish('changed', new Uint8Array())
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(reads, 1, 'nothing is read after the end')
})

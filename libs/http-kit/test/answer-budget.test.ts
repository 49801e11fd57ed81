import { Registry } from 'prom-client'
import t from 'tap'
import { AnswerBudget } from '../src/index.ts'

const KiB = 1024

function budgetOf(kib: number) {
  const clock = { nowMs: 0, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  const metrics = new Registry()
  const budget = new AnswerBudget({ metrics, clock }, { bytesMax: kib * KiB, sweepMs: 3_600_000 })
  const dropped: string[] = []
  const open = (network: string) => budget.open(network, () => dropped.push(network))
  return { clock, metrics, budget, dropped, open }
}

/** The state of a wait so far. */
function seen(wait: Promise<void> | undefined) {
  const state = { is: wait === undefined ? 'at once' : 'waits' }
  wait?.then(
    () => {
      state.is = 'served'
    },
    (error: Error) => {
      state.is = error.message
    },
  )
  return state
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

t.test('below half of the budget one network may take at once, above it only its fair share', async (t) => {
  const { open, budget } = budgetOf(100)
  t.equal(open('a').take(50 * KiB), undefined, 'half of it')
  t.equal(open('b').take(20 * KiB), undefined, 'another network has its share')
  const more = open('a')
  const wait = seen(more.take(10 * KiB))
  t.equal(wait.is, 'waits', 'the first one has more than half of it')
  t.equal(open('c').take(20 * KiB), undefined, 'a newcomer does not wait behind it')
  t.equal(budget.held, 90 * KiB)
  more.close()
  await settled()
  t.equal(wait.is, 'error-unavailable', 'a closed answer waits no more')
})

t.test(
  'returned bytes go to the network that holds the least, within a network to the longest wait',
  async (t) => {
    const { open } = budgetOf(100)
    const [a, b] = [open('a'), open('b')]
    t.equal(a.take(50 * KiB), undefined)
    t.equal(b.take(30 * KiB), undefined)
    t.equal(open('c').take(20 * KiB), undefined)
    const waits = [open('b').take(10 * KiB), open('d').take(10 * KiB), open('d').take(10 * KiB)].map(seen)
    b.keep(20 * KiB)
    await settled()
    t.same(
      waits.map(({ is }) => is),
      ['waits', 'served', 'waits'],
      'b holds 20, d nothing',
    )
    a.close()
    await settled()
    t.same(
      waits.map(({ is }) => is),
      ['served', 'served', 'served'],
    )
  },
)

t.test('bytes that an answer returns to take more are available to it at once', async (t) => {
  const { open } = budgetOf(100)
  const share = open('a')
  share.keep(10 * KiB)
  open('b').keep(60 * KiB)
  for (const network of ['c', 'd', 'e']) open(network).keep(1 * KiB)
  const wait = seen(share.take(25 * KiB))
  t.equal(wait.is, 'waits', 'with what it holds it would exceed its share')
  await settled()
  t.equal(wait.is, 'served', 'without it, it holds nothing')
})

t.test('an answer holds the last thing it took, and nothing once it is closed', async (t) => {
  const { open, budget } = budgetOf(100)
  const share = open('a')
  for (let turn = 0; turn < 1000; turn++) t.notOk(share.take(40 * KiB))
  t.equal(budget.held, 40 * KiB)
  share.keep(3 * KiB)
  t.equal(budget.held, 3 * KiB)
  share.close()
  share.close()
  t.equal(budget.held, 0)
  share.keep(9)
  t.equal(budget.held, 0, 'a closed share takes nothing')
})

t.test('while it is scarce, stalled readers of the largest network are dropped first', async (t) => {
  const { open, budget, clock, dropped } = budgetOf(100)
  for (let at = 0; at < 5; at++) open('many').keep(10 * KiB)
  const few = open('few')
  few.keep(10 * KiB)
  const other = open('other')
  other.keep(10 * KiB)
  clock.nowMs = 9_999
  budget.sweep()
  t.same(dropped, [], 'none has stalled for 10 s')
  clock.nowMs = 10_000
  budget.sweep()
  t.same(dropped, ['many', 'many'], 'as many as bring it to a half, and no more')
  clock.nowMs = 60_000
  budget.sweep()
  t.same(dropped, ['many', 'many'], 'where there is room no reader is dropped, however slow')
})

t.test('a reader at its pace is never dropped, and a large piece has longer', async (t) => {
  const { open, budget, clock, dropped } = budgetOf(1000)
  const steady = open('a')
  steady.keep(128 * KiB)
  open('b').keep(512 * KiB)
  for (const nowMs of [9_000, 18_000, 27_000, 36_000]) {
    clock.nowMs = nowMs
    steady.keep(128 * KiB)
    budget.sweep()
  }
  t.same(dropped, [])
  clock.nowMs = 40_000
  budget.sweep()
  t.same(dropped, ['b'])
})

t.test('a wait ends after 30 s with a refusal', async (t) => {
  const { open, budget, clock, metrics, dropped } = budgetOf(100)
  const reader = open('a')
  reader.keep(100 * KiB)
  const wait = seen(open('a').take(1))
  for (const nowMs of [9_000, 18_000, 27_000, 29_999]) {
    clock.nowMs = nowMs
    reader.keep(100 * KiB)
    budget.sweep()
  }
  await settled()
  t.equal(wait.is, 'waits')
  clock.nowMs = 30_000
  budget.sweep()
  await settled()
  t.equal(wait.is, 'error-unavailable')
  t.same(dropped, [], 'no other reader is dropped for that')
  t.match(await metrics.metrics(), /holdfast_answers_dropped_total\{reason="waited"\} 1/)
})

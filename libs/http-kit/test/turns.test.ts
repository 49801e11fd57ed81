import t from 'tap'
import { AnswerBudget } from '../src/index.ts'
import { Turns } from '../src/turns/turns.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Only the pieces advance time. */
function turns() {
  let nowMs = 0
  const made: string[] = []
  const of = new Turns({ monotonic: () => nowMs })
  const take = (network: string, ms: number, name = network) =>
    of.take(network, () => {
      nowMs += ms
      made.push(name)
      return name
    })
  return { take, made }
}

t.test('pieces take a few milliseconds of a turn, the rest waits for the next', async (t) => {
  const { take, made } = turns()
  const all = Array.from({ length: 5 }, (_, at) => take('one', 1, `piece ${at}`))
  t.same(made, ['piece 0', 'piece 1'], 'at once')
  await nextTurn()
  t.same(made.length, 4)
  await nextTurn()
  t.same(await Promise.all(all), ['piece 0', 'piece 1', 'piece 2', 'piece 3', 'piece 4'])
  await nextTurn()
  await take('one', 100)
  t.equal(made.length, 6, 'a piece that takes long is made, too')
})

t.test('networks take turns', async (t) => {
  const { take, made } = turns()
  const all = [...Array.from({ length: 4 }, () => take('many', 4)), take('two', 4), take('three', 4)]
  await Promise.all(all)
  t.same(made, ['many', 'many', 'two', 'three', 'many', 'many'])
})

t.test('only its caller sees what a piece throws', async (t) => {
  const of = new Turns()
  const broken = of.take('one', () => {
    throw new Error('a piece broke')
  })
  const next = of.take('one', () => 'made')
  await t.rejects(broken, { message: 'a piece broke' })
  t.equal(await next, 'made')
})

t.test('answers of one budget share its turns', async (t) => {
  let nowMs = 0
  const budget = new AnswerBudget({ clock: { now: () => nowMs, monotonic: () => nowMs } })
  const made: number[] = []
  const shares = [1, 2, 3].map((number) => ({ number, share: budget.open(`network ${number}`, () => {}) }))
  const all = shares.map(({ number, share }) =>
    share.make(() => {
      nowMs += 4
      made.push(number)
    }),
  )
  t.same(made, [1])
  await Promise.all(all)
  t.same(made, [1, 2, 3])
})

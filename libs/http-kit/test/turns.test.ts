import t from 'tap'
import { AnswerBudget } from '../src/index.ts'
import { plainBudget } from '../src/testing.ts'
import { Turns } from '../src/turns/turns.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Only the pieces advance time. */
function turns() {
  let nowMs = 0
  const made: string[] = []
  const of = new Turns({ monotonic: () => nowMs })
  const take = (network: string, ms: number, name = network, isNext = false) =>
    of.take(
      network,
      () => {
        nowMs += ms
        made.push(name)
        return name
      },
      isNext,
    )
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
  t.same(made, ['many', 'two', 'three', 'many', 'many', 'many'])
})

t.test('a network that asks rarely goes before forty that ask all the time', async (t) => {
  const { take, made } = turns()
  let asking = true
  const busy = Array.from({ length: 40 }, async (_, number) => {
    while (asking) await take(`busy ${number}`, 3)
  })
  while (made.length < 80) await nextTurn()
  for (let turn = 0; turn < 3; turn++) {
    const before = made.length
    await take('rare', 3)
    t.ok(made.length - before <= 2, `${made.length - before - 1} pieces of others are made before`)
    while (made.length < before + 40) await nextTurn()
  }
  asking = false
  await Promise.all(busy)
})

t.test('an answer that is begun is ended before the next of its network', async (t) => {
  const { take, made } = turns()
  const answer = async (name: string) => {
    for (let piece = 0; piece < 3; piece++) await take('one', 2, name, piece > 0)
  }
  await Promise.all([answer('first'), answer('second'), answer('third')])
  t.same(made.join(' '), 'first first first second second second third third third')
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
  const budget = new AnswerBudget({ ...plainBudget, clock: { now: () => nowMs, monotonic: () => nowMs } })
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

t.test('what answers of a network took counts for the turns of its bodies', async (t) => {
  let nowMs = 0
  const budget = new AnswerBudget({ ...plainBudget, clock: { now: () => nowMs, monotonic: () => nowMs } })
  const begun: string[] = []
  const take = (network: string) =>
    budget.bodies.take(network, () => {
      begun.push(network)
      nowMs += 4
    })
  await budget
    .open('reads much', () => {})
    .make(() => {
      nowMs += 10
    })
  for (const network of ['one', 'reads much', 'rare']) take(network)
  while (begun.length < 3) await nextTurn()
  t.same(begun, ['one', 'rare', 'reads much'])
})

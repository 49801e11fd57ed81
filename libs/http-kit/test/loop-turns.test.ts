import t from 'tap'
import { LoopTurns } from '../src/turns/loop-turns.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Only items that begin advance the clock, in the tick after their begin, as the read of a resumed
 * socket does.
 */
function newcomers() {
  let nowMs = 0
  const begun: string[] = []
  const turns = new LoopTurns({ monotonic: () => nowMs })
  const take = (network: string, ms: number) =>
    turns.take(network, () => {
      begun.push(network)
      process.nextTick(() => {
        nowMs += ms
      })
    })
  return { take, begun }
}

t.test('a crowd begins in several turns of the loop', async (t) => {
  const { take, begun } = newcomers()
  for (let at = 0; at < 6; at++) take('one', 2)
  t.equal(begun.length, 1, 'the first at once')
  await nextTurn()
  t.equal(begun.length, 4, 'two in its turn, two in the next')
  await nextTurn()
  t.equal(begun.length, 6)
  await nextTurn()
  take('one', 100)
  t.equal(begun.length, 7, 'one that takes long begins, too')
})

t.test('a newcomer waits for one of each network, not for a crowd', async (t) => {
  const { take, begun } = newcomers()
  for (let at = 0; at < 20; at++) take('crowd', 4)
  take('two', 4)
  take('three', 4)
  while (begun.length < 22) await nextTurn()
  t.same(begun.slice(0, 5), ['crowd', 'two', 'three', 'crowd', 'crowd'])
})

t.test('pieces are made at once while the turn has time, then networks take turns', async (t) => {
  let nowMs = 0
  const turns = new LoopTurns({ monotonic: () => nowMs })
  const made: string[] = []
  const body = async (network: string) => {
    for (let piece = 0; piece < 4; piece++) {
      const turn = turns.next(network)
      if (turn !== undefined) await turn
      made.push(network)
      nowMs += 3
    }
  }
  const all = Promise.all([body('one'), body('two'), body('two')])
  t.same(made, ['one', 'one'], 'no promise in 4 ms')
  await nextTurn()
  t.ok(made.length <= 4)
  await all
  t.same(made.slice(2, 6).sort(), ['one', 'one', 'two', 'two'])
})

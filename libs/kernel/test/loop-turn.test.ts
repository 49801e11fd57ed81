import t from 'tap'
import { TurnShare } from '../src/index.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

function time() {
  let nowMs = 0
  return {
    clock: { monotonic: () => nowMs },
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

/** Pieces of 0.5 ms that have time in this turn. */
function piecesOf(share: TurnShare, pass: (ms: number) => void): number {
  let pieces = 0
  for (; pieces < 100 && share.hasTime(); pieces++) pass(0.5)
  return pieces
}

t.test('a single queue gets its maximum in each turn', async (t) => {
  const { clock, pass } = time()
  const share = new TurnShare(clock, 2)
  for (let turn = 0; turn < 3; turn++) {
    t.equal(piecesOf(share, pass), 4)
    await nextTurn()
  }
})

t.test('queues share a turn: each has a millisecond, and more while the turn is young', async (t) => {
  const { clock, pass } = time()
  const shares = [4, 2, 2, 2].map((mostMs) => new TurnShare(clock, mostMs))
  for (let turn = 0; turn < 3; turn++) {
    t.same(
      shares.map((share) => piecesOf(share, pass)),
      [8, 2, 2, 2],
    )
    await nextTurn()
  }
})

t.test('the first piece of a turn that is over begins, too', async (t) => {
  const { clock, pass } = time()
  const [one, other] = [new TurnShare(clock, 4), new TurnShare(clock, 4)]
  t.ok(one.hasTime())
  pass(100)
  t.ok(other.hasTime())
  pass(100)
  t.notOk(other.hasTime())
  t.notOk(one.hasTime())
})

t.test('parts with different clocks do not share a turn', async (t) => {
  const one = time()
  const other = time()
  t.equal(piecesOf(new TurnShare(one.clock, 4), one.pass), 8)
  t.equal(piecesOf(new TurnShare(other.clock, 4), other.pass), 8)
})

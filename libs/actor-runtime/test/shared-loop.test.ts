import t from 'tap'
import { SharedLoop } from '../src/timers.ts'

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test('accounts share each turn of the loop, and each gets its own in order', async (t) => {
  let nowMs = 0
  const loop = new SharedLoop({ monotonic: () => nowMs })
  const slices: number[] = []
  const read = async (account: number) => {
    for (let slice = 0; slice < 3; slice++) {
      await loop.turn()
      slices.push(account)
      nowMs += 2
    }
  }
  const all = Promise.all([0, 1, 2, 3, 4].map((account) => read(account)))
  await nextTurn()
  await nextTurn()
  t.ok(slices.length <= 4, `${slices.length} slices of 2 ms in two turns`)
  await all
  t.same(slices, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
})

t.test('an account that is ready again at once waits for the next turn', async (t) => {
  const loop = new SharedLoop({ monotonic: () => 0 })
  let turns = 0
  let slices = 0
  const read = (async () => {
    for (; slices < 20; slices++) await loop.turn()
  })()
  while (slices < 20) {
    await nextTurn()
    turns++
    t.ok(slices <= turns + 1, `${slices} slices in ${turns} turns`)
  }
  await read
})

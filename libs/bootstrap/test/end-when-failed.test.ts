/** A process whose part needs a restart ends, also when the part cannot be closed. */
import t from 'tap'
import { endWhenFailed } from '../src/index.ts'

// The timer under test does not keep a process.
const held = setInterval(() => {}, 1_000)
t.teardown(() => clearInterval(held))

t.test('it is closed and ends with 70 once a part needs a restart, and not before', async (t) => {
  let endReason: string | undefined
  let [looks, closes] = [0, 0]
  const looked = Promise.withResolvers<void>()
  const code = await new Promise((exit) => {
    endWhenFailed(
      {
        get endReason() {
          looks++
          if (looks === 3) looked.resolve()
          return endReason
        },
        close: async () => void closes++,
      },
      { exit, everyMs: 1 },
    )
    void looked.promise.then(() => {
      t.equal(closes, 0)
      endReason = 'store fails'
    })
  })
  t.strictSame([code, closes], [70, 1])
})

for (const [how, close] of [
  ['fails', async () => Promise.reject(new Error('no disk'))],
  ['hangs', () => new Promise<void>(() => {})],
] as const)
  t.test(`it ends too when the close ${how}`, async (t) => {
    const code = await new Promise((exit) =>
      endWhenFailed({ endReason: 'store fails', close }, { exit, everyMs: 1, withinMs: 20 }),
    )
    t.equal(code, 70)
  })

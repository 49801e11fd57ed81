import t from 'tap'
import { epochsPerTerm, writesPerEpochMax, writeTimeOf } from '../src/index.ts'

const at = (epoch: number, counter: number) => writeTimeOf({ account: 'account', epoch }, counter)

t.test(
  'write times are ordered by term, epoch and counter, and fit into a signed number of 64 bits',
  async (t) => {
    const ascending = [
      at(1, 1),
      at(1, 2),
      at(1, writesPerEpochMax),
      at(2, 1),
      at(2 ** 28 - 1, 1),
      at(epochsPerTerm + 1, 1),
    ]
    for (const [index, time] of ascending.entries())
      if (index > 0) t.ok(time > (ascending[index - 1] as bigint))
    const last = at(epochsPerTerm * 254 + 2 ** 28 - 1, writesPerEpochMax)
    t.equal(last, (255n << 55n) | ((1n << 55n) - 1n))
    t.ok(last < 2n ** 63n)
    t.ok(at(1, 1) > BigInt(Date.UTC(3111, 0)) * 1000n, 'above every clock')
    t.equal(at(1, 1), 36_028_797_153_181_697n, 'frozen')
  },
)

t.test('a value beyond a range is refused, not confused with another time', async (t) => {
  const refused = { code: 'UNAVAILABLE' }
  t.throws(() => at(1, writesPerEpochMax + 1), refused)
  t.throws(() => at(2 ** 28, 1), refused)
  t.throws(() => at(epochsPerTerm * 255 + 1, 1), refused)
})

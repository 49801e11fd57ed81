import t from 'tap'
import { RareWarnings } from '../src/rare-warnings.ts'

t.test('of each kind one warning in ten seconds, with the number of the others', async (t) => {
  let nowMs = 0
  const warnings = new RareWarnings({ monotonic: () => nowMs })
  t.equal(warnings.due('full'), 0)
  for (let at = 0; at < 85; at++) t.equal(warnings.due('full'), undefined)
  t.equal(warnings.due('away'), 0, 'another kind')
  nowMs = 9_999
  t.equal(warnings.due('full'), undefined)
  nowMs = 10_000
  t.equal(warnings.due('full'), 86)
  nowMs = 20_000
  t.equal(warnings.due('full'), 0)
})

/**
 * A short form; `npm run test:long` tries thousands. HOLDFAST_SEED=… repeats a run.
 */
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { searchCrashStates } from './support/crash-search.ts'

const states = sizeOf('crashStates')
const seed = Number(process.env.HOLDFAST_SEED ?? 4242)

t.test(
  'no crash loses what was acknowledged, restores what was deleted, or serves a wrong byte',
  async (t) => {
    t.setTimeout(3_600_000)
    t.comment(`seed ${seed}`)
    const { tried, violations } = await searchCrashStates(seed, states)
    t.same(violations, [])
    t.ok(tried >= states, `${tried} states, ${violations.length} violations`)
  },
)

import t from 'tap'
import {
  type History,
  makeHistory,
  type Promised,
  promisesAfter,
  violations,
} from './support/crash-history.ts'
import { type DiskState, seeded } from './support/crash-machine.ts'

/** The long form: HOLDFAST_CRASH_STATES=5000, HOLDFAST_SEED=… to repeat a run. */
const states = Number(process.env.HOLDFAST_CRASH_STATES ?? 90)
const seed = Number(process.env.HOLDFAST_SEED ?? 4242)

t.test(
  'no crash loses what was acknowledged, brings back what was deleted, or serves a wrong byte',
  async (t) => {
    t.setTimeout(3_600_000)
    t.comment(`seed ${seed}`)
    const histories = Math.max(2, Math.ceil(states / 100))
    let tried = 0
    let crashed: { base: DiskState; promises: Promised[] } | undefined
    for (let n = 0; n < histories; n++) {
      // Every other one begins with what a crash of the one before has left.
      const history: History = await makeHistory(seed + n, 150, crashed)
      const random = seeded(seed * 7 + n)
      for (let k = 0; k < states / histories; k++) {
        const event = Math.floor(random() * history.machine.events) + 1
        const mood = [0, 0.5, 0.9, 1][k % 4] as number
        const state = history.machine.crashAt(event, random, mood)
        const lost = k % 5 === 4 // the catalogue's directory as well
        if (lost) state.rows.clear()
        const broken = await violations(state, history.promises, event, { deletionsHold: true, random })
        tried++
        if (broken.length > 0) {
          t.fail(`seed ${seed + n}, event ${event}, mood ${mood}, catalogue lost ${lost}`, {
            broken: broken.slice(0, 5),
          })
          return
        }
      }
      const event = Math.floor(history.machine.events * (0.5 + random() / 2))
      const base = history.machine.crashAt(event, random, 0.5)
      crashed = n % 2 === 0 ? { base, promises: promisesAfter(history, event) } : undefined
    }
    t.pass(`${tried} states`)
    t.comment(`${tried} states, 0 violations`)
  },
)

t.test('the search bites: acknowledging before the sync is found', async (t) => {
  const history = await makeHistory(seed, 40, { liesAboutSync: true })
  const random = seeded(seed)
  for (let k = 0; k < 60; k++) {
    const event = Math.floor(random() * history.machine.events) + 1
    const state = history.machine.crashAt(event, random, 0.3)
    const broken = await violations(state, history.promises, event, { deletionsHold: true, random })
    if (!broken.some((what) => what.startsWith('acknowledged at'))) continue
    t.pass(`found after ${k + 1} states`)
    return
  }
  t.fail('a store that acknowledges before the sync was not noticed')
})

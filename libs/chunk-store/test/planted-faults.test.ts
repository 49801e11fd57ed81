/**
 * The search of crash states is effective: it finds planted faults. HOLDFAST_SEED=… repeats a run.
 */
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { statesUntilFound } from './support/crash-search.ts'
import { plantedFaults } from './support/planted-faults.ts'

const seed = Number(process.env.HOLDFAST_SEED ?? 4242)

for (const fault of plantedFaults.filter(({ foundWithin }) => foundWithin <= sizeOf('plantedStates')))
  t.test(`the search finds the planted fault ${fault.name}`, async (t) => {
    t.setTimeout(3_600_000)
    const found = await statesUntilFound(seed, fault)
    t.ok(found !== undefined, `found after ${found} states`)
  })

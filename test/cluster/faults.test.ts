/**
 * A shorter form of `npm run test:long -- --only cluster`: each fault once, without similar
 * ones. The seed changes with every run and is printed.
 */
import t from 'tap'
import { faults } from './faults/faults.ts'
import { faultsOf, runFaultSuite, tableOf } from './faults/run-faults.ts'

t.setTimeout(900_000)

t.test('with every fault, what was acknowledged stays and nothing goes back', async (t) => {
  const short = faults.filter(({ longOnly }) => longOnly !== true)
  const seed = Date.now() % 1_000_000_000
  t.comment(`seed ${seed}; again with: npm run test:long -- --only cluster --runs 1 --seed ${seed}`)
  const report = (line: string) => t.comment(line)
  const rows = await runFaultSuite({ faults: short, runs: 1, seed, long: false, filesMax: 5, report })
  t.comment(`\n${tableOf(rows)}`)
  for (const row of rows) {
    t.strictSame(faultsOf(row), [], row.fault)
    t.ok(
      row.skipped !== undefined || row.acknowledged > 0,
      `${row.fault}: ${row.acknowledged} acknowledged changes`,
    )
  }
})

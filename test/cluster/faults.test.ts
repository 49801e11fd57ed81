/** A short form of `npm run test:long -- --suite cluster`: each fault once, on one cluster. The seed changes with every run and is printed. */
import t from 'tap'
import { faults } from './faults/faults.ts'
import { faultsOf, runFaults, tableOf } from './faults/run-faults.ts'
import { LocalCluster } from './local-cluster.ts'

t.setTimeout(900_000)

t.test(
  'whatever breaks, what was acknowledged stays, nothing goes back and all comes back by itself',
  async (t) => {
    const seed = Date.now() % 1_000_000_000
    t.comment(`seed ${seed}`)
    const cluster = await LocalCluster.start()
    t.teardown(() => cluster.stop())
    const rows = await runFaults({
      cluster,
      faults,
      runs: 1,
      seed,
      long: false,
      filesMax: 10,
      report: (line) => t.comment(line),
    })
    t.comment(`\n${tableOf(rows)}`)
    for (const row of rows) {
      t.strictSame(faultsOf(row), [], row.fault)
      t.ok(row.acknowledged > 0, `${row.fault}: ${row.acknowledged} acknowledged changes`)
    }
  },
)

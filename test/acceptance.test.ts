/** The acceptance suite against the embedded service, which runs as a separate process. */
import t from 'tap'
import { allCases } from './acceptance/cases.ts'
import { compareWithDocuments } from './acceptance/compared.ts'
import { hostsOf, Instances } from './acceptance/instances.ts'
import { emptyRows, runCases } from './acceptance/suite.ts'
import { Standalone } from './support/standalone.ts'

t.test('the embedded service keeps the contract', async (t) => {
  const service = await Standalone.start()
  const instances = new Instances()
  t.teardown(async () => {
    await instances.stop()
    await service.stop()
  })
  const results = await runCases(allCases, {
    network: undefined,
    parallel: 12,
    hosts: hostsOf(service),
    instances,
    report: ({ case: { name }, error }) => {
      if (error === undefined) t.pass(name)
      else t.fail(name, { reason: error instanceof Error ? error.stack : String(error) })
    },
  })
  const { compared, unseen, undocumented } = await compareWithDocuments([
    hostsOf(service),
    ...(await instances.hosts()),
  ])
  t.strictSame(undocumented, [], `the documents name all ${compared} kinds of answers`)
  t.strictSame(unseen, [], 'every operation of the documents was tried')
  t.strictSame(emptyRows(results), [], 'every row of the coverage table has a passing case')
})

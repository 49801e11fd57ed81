import fc from 'fast-check'
import { Histogram, Registry } from 'prom-client'
import t from 'tap'
import { CellHistogram } from '../src/metrics/cell-histogram.ts'

const options = { name: 'seconds', help: 'Seconds.', bounds: [0.1, 1, 10], labelNames: ['host'] }

t.test('a scrape reads the series of a histogram of prom-client', async () => {
  const observation = fc.record({
    host: fc.constantFrom('api', 'upload'),
    value: fc.constantFrom(0, 0.1, 0.11, 1, 5, 10, 11),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(observation), async (observations) => {
      const [ours, theirs] = [new Registry(), new Registry()]
      const { name, help, bounds: buckets, labelNames } = options
      const usual = new Histogram({ name, help, buckets, labelNames, registers: [theirs] })
      const cells = CellHistogram.in(ours, options)
      const byHost = new Map<string, ReturnType<typeof cells.cell>>()
      for (const { host, value } of observations) {
        usual.observe({ host }, value)
        const cell = byHost.get(host) ?? cells.cell({ host })
        byHost.set(host, cell)
        cells.observe(cell, value)
      }
      t.equal(await ours.metrics(), await theirs.metrics())
    }),
  )
})

t.test('hosts of a process share the histogram of a name', async (t) => {
  const registry = new Registry()
  t.equal(CellHistogram.in(registry, options), CellHistogram.in(registry, options))
})

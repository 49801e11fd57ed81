/** Placement groups by state, for alerts. */
import { Registry } from 'prom-client'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { GroupFigures, groupMetrics, type ToldGroup } from '../src/operator/group-metrics.ts'

const wanted = { home: 2 }
const group = (home: number, more: Partial<ToldGroup> = {}): ToldGroup => ({
  ...{ full: true, copies: { home, wanted }, limited: undefined },
  ...more,
})

t.test('groups are counted by what their copies lack, and a slow node delays no scrape', async (t) => {
  let told: readonly ToldGroup[] | undefined = [
    ...[group(2), group(1, { full: false }), group(0, { full: false, limited: ['few nodes'] })],
    ...[group(1, { limited: ['few nodes'] }), group(2, { limited: ['one region'] }), group(2)],
  ]
  let answer = () => {}
  let asked = 0
  const figures = new GroupFigures(async () => {
    asked++
    await new Promise<void>((resolve) => {
      answer = resolve
    })
    return told
  })
  const registry = new Registry()
  groupMetrics(registry, figures)
  const shown = async () => {
    const { values } = (await registry.getSingleMetric('holdfast_placement_groups')?.get()) ?? { values: [] }
    return Object.fromEntries(values.map(({ labels, value }) => [labels.state, value]))
  }
  t.strictSame(await shown(), {}, 'it is not known yet')
  t.strictSame(await shown(), {})
  t.equal(asked, 1, 'one round at a time')
  answer()
  await until(async () => (await shown()).full !== undefined)
  t.strictSame(await shown(), { full: 2, lacking: 2, limited: 1, regional: 1 })
  told = undefined
  answer()
  await until(async () => Object.keys(await shown()).length === 0)
  answer()
})

/** One budget of memory for layouts of archives in use and those kept, shared by networks. */
import { RefusalError } from '@holdfast/http-kit'
import t from 'tap'
import { LayoutBudget } from '../src/archives/layout-budget.ts'

const KiB = 1024
const refused = new RefusalError('error-unavailable', { retryAfter: 10 })
const budget = () => new LayoutBudget({ bytesMax: 100 * KiB })
/** Bytes that the budget adds for each layout. */
const overhead = KiB
const of = (network: string, kibibytes = 9) => ({ bytes: kibibytes * KiB, network })

t.test('a layout counts once, for any number of keepers and users', async (t) => {
  const layouts = budget()
  const one = {}
  const ends = [
    layouts.keep(one, of('a'), () => {}),
    layouts.keep(one, of('b'), () => {}),
    layouts.use(one, of('c')),
    layouts.use(one, of('d')),
  ]
  for (const end of ends) {
    t.equal(layouts.bytes, 9 * KiB + overhead)
    end()
  }
  t.equal(layouts.bytes, 0)
})

t.test('a full budget drops kept layouts, first the oldest of the network that has most', async (t) => {
  const layouts = budget()
  const dropped: string[] = []
  const keep = (name: string, network: string) => layouts.keep({}, of(network), () => dropped.push(name))
  keep('quiet', 'a')
  for (let made = 0; made < 9; made++) keep(`many ${made}`, 'b')
  t.strictSame(dropped, [])
  keep('new', 'c')
  keep('many 9', 'b')
  t.strictSame(dropped, ['many 0', 'many 1'])
  layouts.use({}, of('d', 19))
  t.strictSame(dropped, ['many 0', 'many 1', 'many 2', 'many 3'])
  t.ok(layouts.bytes <= 100 * KiB)
})

t.test('layouts in use, and layouts used again, are not dropped first', async (t) => {
  const layouts = budget()
  const dropped: number[] = []
  const all = Array.from({ length: 10 }, () => ({}))
  const keep = (number: number) => layouts.keep(all[number] ?? {}, of('a'), () => dropped.push(number))
  for (const number of all.keys()) keep(number)
  const end = layouts.use(all[0] ?? {}, of('a'))
  keep(1)
  keep(10)
  t.strictSame(dropped, [2])
  end()
  keep(11)
  t.strictSame(dropped, [2, 3])
})

t.test('above half of the budget a network uses its fair share', async (t) => {
  const layouts = budget()
  const use = (network: string) => {
    const layout = {}
    layouts.admit(layout, of(network))
    return layouts.use(layout, of(network))
  }
  for (let begun = 0; begun < 5; begun++) use('a')
  use('b')
  t.throws(() => use('a'), refused, 'half of the budget is its share')
  for (let begun = 0; begun < 2; begun++) use('b')
  use('c')
  t.throws(() => use('b'), refused, 'a third of it is')
  const last = use('d')
  t.throws(() => use('e'), refused, 'nothing is left')
  last()
  use('e')
})

t.test('one large layout is used beyond the budget, and excludes only other large ones', async (t) => {
  const layouts = budget()
  const large = {}
  layouts.admit(large, of('a', 200))
  const end = layouts.use(large, of('a', 200))
  layouts.admit(large, of('b', 200))
  t.throws(() => layouts.admit({}, of('b', 60)), refused)
  layouts.admit({}, of('b'))
  end()
  layouts.admit({}, of('b', 60))
})

t.test('a layout larger than the whole budget is dropped at once', async (t) => {
  const layouts = budget()
  let dropped = 0
  const end = layouts.keep({}, of('a', 200), () => dropped++)
  t.equal(dropped, 1)
  end()
  t.equal(layouts.bytes, 0)
})

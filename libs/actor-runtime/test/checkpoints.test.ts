/** Which pages are removed when a checkpoint is set. */
import type { JournalOwnership } from '@holdfast/journal'
import t from 'tap'
import { Checkpoints } from '../src/account/rows/checkpoints.ts'
import type { Services } from '../src/services.ts'

t.test('the root of one cut set twice at the same time keeps its pages', async (t) => {
  const gate = Promise.withResolvers<void>()
  const deleted: string[] = []
  const services = {
    journal: {
      putPage: async () => {},
      setRoot: () => gate.promise,
      trim: async () => {},
      deletePages: async (_: JournalOwnership, names: readonly string[]) => void deleted.push(...names),
    },
    clock: { now: () => 0, monotonic: () => 0 },
    timers: { turn: async () => {}, after: () => () => {} },
    bounds: { pagesAtOnceMax: 4, turnMs: 100 },
    metrics: { checkpointed() {}, checkpointFailed() {} },
    log: { warn: () => t.fail('nothing fails') },
  } as unknown as Services
  const state = {
    bytes: 10,
    // biome-ignore lint/correctness/useYield: a small state is cut in one turn.
    *checkpoint() {
      return { mark: 1, parts: [{ part: 0, pages: [Buffer.from('one'), Buffer.from('two')] }] }
    },
  }
  const start = {
    state,
    snapshot: { pages: [{ name: '1-0-0', part: 0 }], bytes: 0, mark: 0, weight: 0 },
    tail: [],
  }
  const checkpoints = new Checkpoints(
    services,
    { account: 'a', epoch: 2 } as unknown as JournalOwnership,
    start as unknown as ConstructorParameters<typeof Checkpoints>[2],
  )
  await checkpoints.cut(14)
  t.equal(await checkpoints.writePages(), true)
  const both = [checkpoints.setRoot(), checkpoints.setRoot()]
  gate.resolve()
  await Promise.all(both)
  await checkpoints.removed()
  t.same(deleted, ['1-0-0'])
})

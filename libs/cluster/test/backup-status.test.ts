import { lagSubjectOf } from '@holdfast/accounts'
import { MemoryBus } from '@holdfast/bus'
import t from 'tap'
import { backupStatus } from '../src/operator/cluster-status.ts'

t.test(
  'status reports how far second regions are behind, by the farthest account of all hosts',
  async (t) => {
    const bus = new MemoryBus()
    t.teardown(() => bus.close())
    const lags = new Map([
      ['h1', { accounts: 2, ms: 45_000 }],
      ['h2', { accounts: 1, ms: 10_000 }],
    ])
    for (const [id, lag] of lags)
      bus.serve(lagSubjectOf(id), async () => Buffer.from(JSON.stringify(lags.get(id) ?? lag)))
    const beats = ['h1', 'h2', 'gone'].map((id) => ({ id, roles: ['actor-host'] }))
    const cluster = {
      bus,
      membership: { beats: () => beats },
      config: { regions: ['eu-par', 'na-nyc'] },
    } as unknown as Parameters<typeof backupStatus>[0]
    t.strictSame(await backupStatus(cluster), {
      accounts: 3,
      lagSeconds: 45,
      says: 'what was acknowledged is in two regions; gone did not answer',
    })
    beats.pop()
    lags.set('h2', { accounts: 7, ms: 3_600_000 })
    t.strictSame(await backupStatus(cluster), {
      accounts: 9,
      lagSeconds: 3_600,
      says: '9 accounts have changes that are not known to be in their second region, the oldest for 3600 s at h2',
    })
    const alone = { ...cluster, config: { regions: ['eu-par'] } } as unknown as typeof cluster
    t.strictSame(await backupStatus(alone), { accounts: 0, lagSeconds: 0, says: 'there is one region alone' })
  },
)

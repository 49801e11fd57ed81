/** The parts that are functions of their input, compared with models. */

import { cutRequest, RequestJoiner } from '@holdfast/accounts'
import { maxEventBytes } from '@holdfast/journal'
import { MemoryLookupStore, MemoryMedium } from '@holdfast/journal/testing'
import { codesPerBlock, silentLog, systemRandomness } from '@holdfast/kernel'
import { type AccountReply, Change, type FileColumns, type Item, SweepReason } from '@holdfast/wire'
import fc from 'fast-check'
import t from 'tap'
import { reportSweeps, sweepsOf } from '../src/account/effects/sweeps.ts'
import { CodeBlocks } from '../src/account/needs/code-blocks.ts'
import { SpareIds } from '../src/account/needs/spare-ids.ts'
import { bytesOfAnswer } from '../src/account/requests/pending-request.ts'
import { cutPages, decodeFlushRow, encodeFlushRow, pageDigestOf } from '../src/account/rows/flush-row.ts'
import { DueAccounts } from '../src/host/due-accounts.ts'
import { CodeLeases, widthOf } from '../src/lookups/code-leases.ts'
import { writeRows } from '../src/lookups/lookup-rows.ts'
import { noMetrics } from '../src/observer.ts'
import { forEachAtMost, Semaphore } from '../src/queues/semaphore.ts'
import { TinyStates } from './tiny-core.ts'
import { ManualTime, settled, World } from './world.ts'

function change(outcome: Buffer): Change {
  return {
    requestId: Buffer.alloc(16, 1),
    timeMs: 5,
    events: [],
    outcome,
    seed: Buffer.alloc(16),
    codeStart: 3,
    codesUsed: undefined,
    operation: 31,
  }
}

t.test('rows return the changes of a flush in their order, large ones from pages', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constant(600_000)), { maxLength: 5 }),
      async (sizes) => {
        const changes = sizes.map((size, at) => change(Buffer.alloc(size, at + 1)))
        const stored = new Map<string, Uint8Array>()
        const entries = changes.map((one, at) => {
          const encoded = Change.encode(one).finish()
          if (encoded.length <= maxEventBytes) return encoded
          const pages = cutPages(encoded, (page) => `1-e${at}-${page}`)
          for (const page of pages) stored.set(page.name, page.bytes)
          return pages
        })
        const read = await decodeFlushRow(encodeFlushRow(entries), async (name, digest) => {
          const bytes = stored.get(name) as Uint8Array
          if (!pageDigestOf(bytes).equals(digest)) throw new Error('wrong digest')
          return bytes
        })
        return Buffer.concat(read.changes.map((one) => Change.encode(one).finish())).equals(
          Buffer.concat(changes.map((one) => Change.encode(one).finish())),
        )
      },
    ),
    { numRuns: 50 },
  )
  t.pass()
})

t.test('many rows are in transit before everything issued later', async (t) => {
  const rows = Array.from({ length: 25 }, (_, n) => ({ put: `code/${n}`, value: new Uint8Array() }))
  const did: number[] = []
  const write = async ({ length }: { length: number }) => void did.push(length)
  const written = writeRows({ write } as unknown as MemoryLookupStore, rows, { rowsMax: 10 })
  t.strictSame(did, [10, 10, 5])
  await written
})

t.test('timers are returned in their order, and timers beyond the bound are known to be missing', (t) => {
  const command = fc.record({
    account: fc.integer({ min: 0, max: 30 }),
    due: fc.option(fc.integer({ min: 0, max: 50 }), { nil: undefined }),
  })
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), fc.integer({ min: 4, max: 40 }), (commands, max) => {
      const due = new DueAccounts(max)
      const model = new Map<string, number>()
      for (const one of commands) {
        due.set(`a${one.account}`, one.due)
        if (one.due === undefined) model.delete(`a${one.account}`)
        else model.set(`a${one.account}`, one.due)
      }
      for (let now = 0; now < Math.min(51, due.horizon); now++) {
        const expected = [...model]
          .filter(([, at]) => at === now)
          .map(([account]) => account)
          .sort()
        const taken: string[] = []
        for (let account = due.take(now); account !== undefined; account = due.take(now)) taken.push(account)
        if (taken.sort().join() !== expected.join()) return false
      }
      return due.size <= max
    }),
  )
  t.end()
})

t.test('no block of codes is leased twice, in any order of draws, refusals and losses', async (t) => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('now' as const), blocks: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ kind: fc.constant('take' as const), blocks: fc.integer({ min: 1, max: 9 }) }),
    fc.record({ kind: fc.constant('fail' as const), blocks: fc.constant(0) }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const medium = new MemoryMedium()
      const lookups = new MemoryLookupStore(medium)
      const leases = [1, 2].map(() => new CodeLeases(lookups, { drawn: 4 * codesPerBlock }))
      const leased = new Set<number>()
      await Promise.all(
        steps.map(async ({ kind, blocks }, at) => {
          const lease = leases[at % 2] as CodeLeases
          if (kind === 'fail') return void medium.fail('lookup.take', { code: 'UNAVAILABLE' })
          const range =
            kind === 'now' ? lease.takeNow(blocks) : await lease.take(blocks).catch(() => undefined)
          if (range === undefined) return
          if (widthOf(range) !== blocks * codesPerBlock) throw new Error('another number of blocks')
          for (let next = range.next; next < range.end; next += codesPerBlock) {
            if (next % codesPerBlock !== 0 || leased.has(next)) throw new Error(`block at ${next}`)
            leased.add(next)
          }
        }),
      )
      return true
    }),
    { numRuns: 60 },
  )
  t.pass()
})

t.test('an account uses a block up, routes each once, and grows its leases', async (t) => {
  const leases = new CodeLeases(new MemoryLookupStore(), { drawn: 64 * codesPerBlock })
  const blocks = new CodeBlocks(leases, 'mine', { last: { next: 70, term: 1 }, term: 1 })
  t.equal(widthOf(blocks.show()), 2 * codesPerBlock - 70, 'the rest of its last block is its own')
  t.strictSame(blocks.used(blocks.show(), 3), [], 'and has its route')
  t.notOk(blocks.leaseNow(100), 'the host has none yet')
  await blocks.lease(100)
  const shown = blocks.show()
  t.equal(widthOf(shown), 2 * codesPerBlock)
  t.equal(shown.next % codesPerBlock, 0)
  t.strictSame(
    [blocks.used(shown, 10), blocks.used(shown, 60), blocks.used(shown, 10)].map((routes) => routes.length),
    [1, 1, 0],
  )
  t.throws(() => blocks.used(shown, 100), RangeError)
  for (const width of [2, 4, 8]) {
    t.ok(blocks.leaseNow(widthOf(blocks.show()) + 1))
    t.ok(widthOf(blocks.show()) >= width * codesPerBlock, `${width} blocks and more`)
    blocks.used(blocks.show(), widthOf(blocks.show()))
  }
  const moved = new CodeBlocks(leases, 'mine', { last: { next: 70, term: 1 }, term: 2 })
  t.equal(widthOf(moved.show()), 0, 'in another home term a block is not continued')
})

t.test('parts of a request are joined in order, and nothing else is', async (t) => {
  const time = new ManualTime()
  const message = Buffer.alloc(1_500_000, 'abc')
  const parts = [...cutRequest(message, Buffer.alloc(16, 1))]
  t.equal(parts.length, 3)
  const joiner = new RequestJoiner(time)
  t.strictSame(parts.map((part) => joiner.add(part)).slice(0, 2), ['more', 'more'])
  t.equal(joiner.add(parts[1] as Uint8Array), 'unknown', 'without the first')
  const whole = parts.map((part) => joiner.add(part)).at(-1)
  t.ok(Buffer.isBuffer(whole) && whole.equals(message))
  joiner.add(parts[0] as Uint8Array)
  await time.advance(60_000)
  t.equal(joiner.add(parts[1] as Uint8Array), 'unknown', 'forgotten')
  t.throws(() => [...cutRequest(Buffer.alloc(40 * 1024 * 1024), Buffer.alloc(16))])
})

t.test('a bounded number at one time; a fault is reported once all running work has ended', async (t) => {
  const semaphore = new Semaphore(2)
  let running = 0
  let most = 0
  const work = async () => {
    most = Math.max(most, ++running)
    await settled()
    running--
  }
  await Promise.all(Array.from({ length: 7 }, () => semaphore.run(work)))
  t.equal(most, 2)
  await t.rejects(
    semaphore.run(() => Promise.reject(new Error('one'))),
    'one',
  )
  most = 0
  await forEachAtMost(3, Array.from({ length: 10 }), work)
  t.equal(most, 3)
  let ended = 0
  const faulty = forEachAtMost(3, [1, 2, 3, 4, 5, 6], async (item) => {
    if (item === 2) throw new Error('two')
    await settled()
    ended++
  })
  await t.rejects(faulty, { message: 'two' })
  t.ok(ended < 5)
})

t.test("a host's figures add up", async (t) => {
  const world = new World()
  t.teardown(() => world.close())
  const reported = {
    flushed: 0,
    changes: 0,
    pending: 0,
    unknown: 0,
    activated: 0,
    made: 0,
    waited: 0,
    passivated: 0,
    lost: 0,
    checkpointed: 0,
    mailed: [] as string[],
    mailsWaiting: [] as number[],
  }
  const host = world.host('one', {
    bounds: { tailFlushesMax: 4 },
    metrics: {
      requested() {},
      overloaded() {},
      memory() {},
      mailed: ({ outcome }) => void reported.mailed.push(outcome),
      mailsWaiting: (change) => void reported.mailsWaiting.push(change),
      passwordChecked() {},
      swept() {},
      waited: ({ ms }) => {
        if (ms >= 0) reported.waited++
      },
      made: () => void reported.made++,
      flushed: ({ changes }) => {
        reported.flushed++
        reported.changes += changes
      },
      effectsPending: (change) => {
        reported.pending += change
      },
      unknown: () => void reported.unknown++,
      activated: () => void reported.activated++,
      passivated: () => void reported.passivated++,
      lost: () => void reported.lost++,
      checkpointed: () => void reported.checkpointed++,
      checkpointFailed() {},
      quarantined() {},
      backupLag() {},
    },
  })
  await world.create()
  world.medium.fail('append', { code: 'UNKNOWN', applied: true })
  for (let at = 0; at < 6; at++) await world.folder(`f${at}`)
  await world.ask({ $case: 'sendSignIn', value: {} })
  world.medium.fail('append', { code: 'FENCED' })
  await world.folder('fenced')
  await host.close({ drainMs: 10_000 })
  t.equal(reported.pending, 0)
  t.ok(reported.mailed.length >= 1 && reported.mailed.every((outcome) => outcome === 'sent'))
  t.equal(reported.mailsWaiting.length, 2 * reported.mailed.length)
  t.equal(
    reported.mailsWaiting.reduce((sum, change) => sum + change),
    0,
  )
  t.equal(reported.unknown, 1)
  t.equal(reported.activated, 2)
  t.equal(reported.made, 1)
  t.ok(reported.waited >= 9, 'each request had a wait that is no negative time')
  t.equal(reported.lost, 1)
  t.equal(reported.passivated, 1)
  t.ok(reported.checkpointed >= 1)
  t.ok(reported.flushed >= 9 && reported.changes >= reported.flushed)
})

t.test('the size of an unencoded answer is that of its list', (t) => {
  const files = { ids: Buffer.alloc(16 * 1_000) } as FileColumns
  const item = { children: [{ children: [] as Item[] }, { children: [{ children: [] as Item[] }] }] } as Item
  const weigh = (result: unknown) => bytesOfAnswer({ result } as AccountReply)
  const empty = weigh({ $case: 'done', value: {} })
  const one = weigh({ $case: 'items', value: { items: [item] } }) - empty
  t.ok(one > 0)
  t.equal(weigh({ $case: 'content', value: { item, files } }) - empty, 1_003 * one)
  t.equal(weigh({ $case: 'search', value: { hits: [1, 2] } }) - empty, 2 * one)
  t.equal(weigh({ $case: 'held', value: { contents: [1, 2] } }) - empty, 2 * one)
  t.equal(weigh({ $case: 'copy', value: { results: [1, 2] } }) - empty, 2 * one)
  t.equal(
    weigh({ $case: 'manifest', value: { manifests: [{ entries: [1] }, { entries: [1, 2] }] } }) - empty,
    3 * one,
  )
  t.equal(
    weigh({ $case: 'archive', value: { pages: [Buffer.alloc(5_000), Buffer.alloc(70)] } }) - empty,
    5_070,
  )
  t.equal(bytesOfAnswer(Buffer.alloc(77)), 77)
  t.end()
})

t.test('deletions by timers are one line per folder, and counted', async (t) => {
  const reported: unknown[] = []
  const log = { ...silentLog, info: (fields: object, message: string) => reported.push([message, fields]) }
  const swept = (fields: object) => reported.push(fields)
  const folders = [
    { id: 'a', contents: 2, bytes: 10 },
    { id: 'b', contents: 1, bytes: 5 },
  ]
  const value = { ids: ['a', 'x'], toBin: false, time: 0, ended: [] }
  const sweep = { why: SweepReason.IDLE, heldUntil: 7, folders }
  const events = [{ event: { $case: 'contentsDeleted', value: { ...value, sweep } } as const }]
  const sweeps = sweepsOf({ ...change(Buffer.alloc(0)), events })
  reportSweeps({ log, metrics: { ...noMetrics, swept } }, 'ann', sweeps)
  const why = 'idle'
  t.same(
    reported,
    folders.flatMap(({ id: folder, contents, bytes }) => [
      ['a timer deleted contents', { account: 'ann', folder, contents, bytes, why, heldUntil: 7 }],
      { why, contents },
    ]),
  )
})

t.test('ids of new content are made in batches that grow, and none is given twice', async (t) => {
  const batches: number[] = []
  const states = new TinyStates()
  const newIds = states.newIds.bind(states)
  states.newIds = (account, randoms) => {
    batches.push(randoms.length)
    return newIds(account, randoms)
  }
  const ids = new SpareIds('ann', { states, randomness: systemRandomness() })
  const taken = Array.from({ length: 60 }, () => ids.take())
  t.equal(new Set(taken).size, 60)
  t.same(batches, [1, 2, 4, 8, 16, 16, 16])
})

/** How the rows of the abuse table (`npm run test:long -- --only abuse`) are judged. */
import t from 'tap'
import { type AttackResult, lastTroubleMs, limits, p99Of, rowOf, tableOf } from './long/abuse/row.ts'
import type { Sample } from './long/abuse/users.ts'

const MiB = 1024 * 1024
const before = { fromMs: 0, toMs: 1_000 }
const reference = { fromMs: 1_000, toMs: 2_000 }
const during = { fromMs: 2_000, toMs: 3_000 }
const strict = { lenient: false, latencyJudged: true }

/** A call every 10 ms, each with a latency derived from its time. */
function calls(latencyMs: (dueMs: number) => number): Sample[] {
  return Array.from({ length: 400 }, (_, number) => {
    const dueMs = number * 10
    return { kind: 'list', dueMs, doneMs: dueMs + latencyMs(dueMs), refused: 0 }
  })
}

function measured(changes: Partial<AttackResult>): AttackResult {
  return {
    ...{ attack: 'an attack', inputs: 1, connections: 1, tally: {}, acknowledged: 10, restarts: 0 },
    ...{ before, reference, during, lost: [], faults: [] },
    samples: calls(() => 10),
    readings: [
      { atMs: 500, rssBytes: 100 * MiB, descriptors: 50, cpuMs: 0 },
      { atMs: 2_500, rssBytes: 150 * MiB, descriptors: 900, cpuMs: 0 },
      { atMs: 3_500, rssBytes: 140 * MiB, descriptors: 52, cpuMs: 0 },
    ],
    ...changes,
  }
}

t.test('an attack that costs others little passes', async (t) => {
  const row = rowOf(measured({}), strict)
  t.strictSame(row.faults, [])
  t.match(row, { normalMs: 10, duringMs: 10, rssGrowthBytes: 50 * MiB, descriptors: 900, recoveryMs: 0 })
  t.match(tableOf([row]), /an attack .* held$/)
})

t.test('each limit fails a row by itself', async (t) => {
  const late = (dueMs: number) => (dueMs >= during.fromMs && dueMs < during.toMs ? 300 : 10)
  const cases: [Partial<AttackResult>, RegExp][] = [
    [{ samples: calls(late) }, /others waited 300 ms \(p99\), 260 ms at most/],
    [{ lost: ['a file is gone'] }, /a file is gone/],
    [{ restarts: 1 }, /ended 1 times/],
    [{ faults: ['the 300th guess was not refused'] }, /300th guess/],
    [
      {
        readings: [...measured({}).readings, { atMs: 2_600, rssBytes: 301 * MiB, descriptors: 50, cpuMs: 0 }],
      },
      /RSS grew by 201 MiB/,
    ],
    [
      {
        readings: [...measured({}).readings, { atMs: 8_100, rssBytes: 100 * MiB, descriptors: 90, cpuMs: 0 }],
      },
      /5.1 s until all was as before/,
    ],
  ]
  for (const [changes, fault] of cases) {
    const row = rowOf(measured(changes), strict)
    t.match(row.faults, [fault])
    t.equal(row.faults.length, 1, fault.source)
    t.match(tableOf([row]), /FAILED$/)
  }
})

t.test('a call that was late until after the attack moves recovery to its end', async (t) => {
  const stuck: Sample = { kind: 'upload', dueMs: 2_900, doneMs: 9_000, refused: 3 }
  t.equal(lastTroubleMs(measured({ samples: [...calls(() => 10), stuck] })), 9_000)
  t.equal(lastTroubleMs(measured({})), during.toMs)
})

t.test("where the machine is shared, the sink's cost counts as normal", async (t) => {
  const busy = (dueMs: number) => (dueMs < reference.fromMs ? 10 : dueMs < reference.toMs ? 200 : 400)
  const samples = calls(busy).filter(({ dueMs }) => dueMs < during.toMs)
  t.equal(p99Of(samples, during), 400)
  const latency = (lenient: boolean) =>
    rowOf(measured({ samples }), { lenient, latencyJudged: true }).faults.filter((fault) =>
      fault.startsWith('others'),
    )
  t.equal(latency(false).length, 1)
  t.equal(latency(true).length, 0)
  t.equal(limits.latencyMs, 250)
})

t.test('where users alone wait longer than an attack may add, the short form judges no times', async (t) => {
  const stuck: Sample = { kind: 'upload', dueMs: 2_900, doneMs: 12_000, refused: 3 }
  const samples = [...calls((dueMs) => (dueMs < during.fromMs ? 251 : 2_000)), stuck]
  const faults = (lenient: boolean) =>
    rowOf(measured({ samples, lost: ['a file is gone'] }), { lenient, latencyJudged: true }).faults
  t.match(faults(false), ['a file is gone', /as before/, /others waited/])
  t.strictSame(faults(true), ['a file is gone'])
})

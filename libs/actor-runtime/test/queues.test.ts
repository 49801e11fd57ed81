/**
 * On a real Cassandra: due work, and the work of a dead host, is found as quickly after very many
 * activations and deletions as at first. Rows that are put and deleted again would otherwise fill
 * the scanned places, until these cannot be read.
 */
import type { LookupChange } from '@holdfast/journal'
import { CassandraMetadataStore } from '@holdfast/journal-cassandra'
import { plainConnection, plainStore } from '@holdfast/journal-cassandra/testing'
import { systemClock } from '@holdfast/kernel'
import t from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'
import { ActiveSegments } from '../src/lookups/active-segments.ts'
import { activeSegmentPrefix } from '../src/lookups/lookup-rows.ts'
import { hourOf, WakeHours } from '../src/lookups/wake-hours.ts'
import { forEachAtMost } from '../src/queues/semaphore.ts'
import { firstWrite, wakeRowsOfBeginnings } from './beginnings.ts'

const activations = Number(process.env.HOLDFAST_ACTIVATIONS ?? 20_000)
const deletions = activations / 5
const hours = 50
/** From the first read of full places to the last one, the number of deletions grows by this. */
const growth = 8
/** Rows in one write, which all come and go: what is left of them does not depend on it. */
const together = 64
const writesAtOnce = 4
const attemptsMax = 20
const home = 'eu-par'
const bounds = {
  clock: systemClock,
  rowsPerSegment: 256,
  segmentsBack: 8,
  goneSeconds: 86_400,
  trustMs: 86_400_000,
}
t.setTimeout(3_600_000)

const address = '127.0.0.24'
const server = await startCassandra({
  directory: t.testdir(),
  host: address,
  seeds: [address],
  dataCentre: 'eu-par',
})
t.teardown(() => server.stop('SIGKILL'))
const store = await CassandraMetadataStore.open({
  ...plainConnection,
  ...plainStore,
  contactPoints: [address],
  keyspace: 'holdfast_eu_par',
})
t.teardown(() => store.close())
const { lookups } = store

const uuid = (number: number) => `${String(number).padStart(8, '0')}-1111-4111-8111-111111111111`
const counts = (count: number) => Array.from({ length: count }, (_, at) => at)

/**
 * Where others use the machine Cassandra sometimes does not answer in time. What is asked again
 * means the same: rows are written at times of their own.
 */
async function insistent<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++)
    try {
      return await work()
    } catch (error) {
      if (attempt === attemptsMax) throw error
    }
}

function write(changes: readonly LookupChange[], writeTime: bigint): Promise<void> {
  return insistent(() => lookups.write(changes, writeTime))
}

/** The numbers from `first` to before `end`, some at a time. */
function* groups(first: number, end: number): Generator<number[]> {
  for (let at = first; at < end; at += together)
    yield counts(Math.min(together, end - at)).map((number) => at + number)
}

/** The best of several, ms: others share the machine. */
async function bestOf<T>(work: () => Promise<T>): Promise<{ ms: number; found: T }> {
  let ms = Number.POSITIVE_INFINITY
  let found = await insistent(work)
  for (let round = 0; round < 7; round++) {
    const startedMs = performance.now()
    found = await insistent(work)
    ms = Math.min(ms, performance.now() - startedMs)
  }
  return { ms, found }
}

t.test("a dead host's work is found as quickly after many activations", async (t) => {
  const busy = new ActiveSegments(lookups, { hostId: 'busy', ...bounds })
  const other = new ActiveSegments(lookups, { hostId: 'other', ...bounds })
  let writeTime = 1n << 55n
  const rowOf = (segment: number, account: number) =>
    `${activeSegmentPrefix({ home, host: 'busy', segment })}${uuid(account)}`
  const putAll = async (accounts: readonly number[]) => {
    const rows = await Promise.all(
      accounts.map(async (account) => ({ account, segment: await insistent(() => busy.take(home)) })),
    )
    const puts = rows.map(({ account, segment }) => ({
      put: rowOf(segment, account),
      value: new Uint8Array(),
    }))
    await write(puts, ++writeTime)
    return rows
  }
  const find = () =>
    bestOf(async () => {
      const found: string[] = []
      for await (const { host, range } of other.others(home))
        for await (const { account } of other.rowsIn({ home, host, range })) found.push(account)
      return found
    })
  const removeAll = async (rows: readonly { account: number; segment: number }[]) => {
    await write(
      rows.map(({ account, segment }) => ({ delete: rowOf(segment, account) })),
      ++writeTime,
    )
    for (const { segment } of rows) busy.left(home, segment)
  }
  const staying = await putAll(counts(50))
  /** As accounts do that keep changing. */
  const moveAlong = async () => {
    const old = staying.filter(({ segment }) => busy.isOld(home, segment))
    if (old.length === 0) return
    for (const moved of await putAll(old.map(({ account }) => account))) staying[moved.account] = moved
    await removeAll(old)
  }
  let writes = 0
  let moving = Promise.resolve()
  const activate = (first: number, end: number) =>
    forEachAtMost(writesAtOnce, groups(first, end), async (numbers) => {
      await removeAll(await putAll(numbers.map((number) => 100 + number)))
      if (++writes % 32 > 0) return
      moving = moving.then(moveAlong)
      await moving
    })
  const none = await find()
  t.equal(none.found.length, 50)
  // By then the segments that are read are full of deleted rows.
  const early = activations / growth
  await activate(0, early)
  const first = await find()
  await activate(early, activations)
  const last = await find()
  t.equal(last.found.length, 50)
  const [before, at, then] = [none, first, last].map(({ ms }) => `${ms.toFixed(1)} ms`)
  t.comment(`activations: 50 ${before}, ${early} ${at}, ${activations} ${then}`)
  t.ok(last.ms < (growth / 2) * first.ms, 'far from growing with them')
})

t.test('due work in a bucket is found as quickly after many deletions', async (t) => {
  const start = hourOf(Date.now() / 1000) * 3600
  let seconds = start
  const wakeHours = new WakeHours(lookups, { buckets: 1, nowSeconds: () => seconds })
  let writeTime = 1n << 56n
  const put = async (account: number, due: number) => {
    const key = wakeHours.keyFor({ home, account: uuid(account) }, due)
    await write([{ put: key, value: Buffer.from(String(due)) }], ++writeTime)
    t.ok(await insistent(() => wakeHours.holds(key)))
    return key
  }
  const find = () => bestOf(() => Array.fromAsync(wakeHours.rows(home, hourOf(seconds))))
  for (const account of counts(50)) await put(account, start + 60)
  const first = await find()
  t.equal(first.found.length, 50)
  for (const hour of counts(hours)) {
    seconds = start + hour * 3600 + 1800
    await forEachAtMost(writesAtOnce, groups(0, deletions / hours), async (numbers) => {
      const rows = numbers.map((number) => {
        const due = seconds + (number % 1700)
        const key = wakeHours.keyFor({ home, account: uuid(100 + number) }, due)
        return { key, value: Buffer.from(String(due)) }
      })
      await write(
        rows.map(({ key, value }) => ({ put: key, value })),
        ++writeTime,
      )
      const [{ key }] = rows as [(typeof rows)[0]]
      if (!(await insistent(() => wakeHours.holds(key)))) throw new Error(`${key} has no place`)
      await write(
        rows.map((row) => ({ delete: row.key })),
        ++writeTime,
      )
    })
    await insistent(() => wakeHours.close(home))
  }
  seconds += 3600
  await insistent(() => wakeHours.close(home))
  const last = await find()
  t.equal(last.found.length, 50, 'and those that could not be woken all the time')
  t.comment(`${deletions} deletions: ${first.ms.toFixed(1)} ms at first, ${last.ms.toFixed(1)} ms then`)
  t.ok(last.ms < (growth / 2) * first.ms, 'far from growing with them')
})

t.test('a bucket begins by clocks that are three days apart: no row is passed over', async (t) => {
  await wakeRowsOfBeginnings(t, lookups, { hours: 72, stops: firstWrite })
})

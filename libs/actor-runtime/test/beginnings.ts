/**
 * The first rows of a bucket of wake rows, put by two hosts whose clocks are far apart, in every
 * order of their operations: neither row is passed over. For any lookup store.
 */
import type { LookupStore } from '@holdfast/journal'
import type { Test } from 'tap'
import { hourOf, WakeHours } from '../src/lookups/wake-hours.ts'

const start = 1_000_000 * 3600
const dueOfBoth = start + 30 * 60
const accounts = {
  one: '11111111-1111-4111-8111-111111111111',
  other: '22222222-2222-4222-8222-222222222222',
}
/**
 * What a host does that begins a bucket: its row, `open`, `first`, `open` raised and read again.
 */
const operations = [1, 2, 3, 4, 5]
/** Before and after it are the two orders that matter most. */
export const firstWrite = [3]

/**
 * With clocks that are these hours apart, to either side, and a host that stops at one of these
 * operations.
 */
export async function wakeRowsOfBeginnings(
  t: Test,
  lookups: LookupStore,
  { hours, stops = operations }: { hours: number; stops?: readonly number[] },
): Promise<void> {
  const clocks = [
    { one: hours, other: 0 },
    { one: 0, other: hours },
    { one: -hours, other: 0 },
    { one: 0, other: -hours },
  ]
  for (const apart of clocks)
    for (const at of stops)
      for (const point of ['before', 'after'] as const) {
        const name = `${apart.one} h and ${apart.other} h, stopped ${point} operation ${at}`
        await atOnce(t, bucketOf(lookups), { apart, at, point, name })
        await closedBetween(t, bucketOf(lookups), { apart, at, point, name })
        await crashed(t, bucketOf(lookups), { apart, at, point, name })
      }
}

interface Case {
  /** Hours by which their clocks are ahead. */
  apart: { one: number; other: number }
  at: number
  point: 'before' | 'after'
  name: string
}

async function atOnce(t: Test, bucket: Bucket, { apart, at, point, name }: Case): Promise<void> {
  const stop = stoppedAt(bucket.lookups, { at, point })
  const putting = bucket.put(accounts.one, { hoursAhead: apart.one, lookups: stop.lookups })
  await Promise.race([stop.reached, putting])
  await bucket.put(accounts.other, { hoursAhead: apart.other })
  stop.go()
  await putting
  await bucket.finds(t, [accounts.one, accounts.other], `both begin: ${name}`)
}

/** Hours end, and are closed, while the one is stopped. */
async function closedBetween(t: Test, bucket: Bucket, { apart, at, point, name }: Case): Promise<void> {
  const stop = stoppedAt(bucket.lookups, { at, point })
  const putting = bucket.put(accounts.one, { hoursAhead: apart.one, lookups: stop.lookups })
  await Promise.race([stop.reached, putting])
  await bucket.put(accounts.other, { hoursAhead: apart.other })
  await bucket.close()
  stop.go()
  await putting
  await bucket.finds(t, [accounts.one, accounts.other], `closed between: ${name}`)
}

async function crashed(t: Test, bucket: Bucket, { apart, at, point, name }: Case): Promise<void> {
  const stop = stoppedAt(bucket.lookups, { at, point })
  void bucket.put(accounts.one, { hoursAhead: apart.one, lookups: stop.lookups })
  await stop.reached
  await bucket.put(accounts.other, { hoursAhead: apart.other })
  await bucket.finds(t, [accounts.other], `crashed: ${name}`)
}

type Bucket = ReturnType<typeof bucketOf>

/** A bucket of its own, read and closed by hosts whose clocks are right. */
function bucketOf(lookups: LookupStore) {
  const home = crypto.randomUUID()
  const host = (seconds: number, own = lookups) =>
    new WakeHours(own, { buckets: 1, nowSeconds: () => seconds })
  const later = start + 3 * 3600
  return {
    lookups,
    async put(account: string, of: { hoursAhead: number; lookups?: LookupStore }): Promise<void> {
      const own = of.lookups ?? lookups
      const hours = host(start + of.hoursAhead * 3600, own)
      for (;;) {
        const key = hours.keyFor({ home, account }, dueOfBoth)
        await own.write([{ put: key, value: Buffer.from(String(dueOfBoth)) }], 1n << 56n)
        if (await hours.holds(key)) return
      }
    },
    close: () => host(later).close(home),
    /** Before and after the next hours are closed. */
    async finds(t: Test, expected: readonly string[], name: string): Promise<void> {
      for (const when of ['then', 'later']) {
        const found = new Set<string>()
        for await (const { account, due } of host(later).rows(home, hourOf(later)))
          if (due === dueOfBoth) found.add(account)
        const missing = expected.filter((account) => !found.has(account))
        if (missing.length > 0) t.fail(`${name}: not found ${when}`, { missing })
        await host(later).close(home)
      }
      t.pass(name)
    },
  }
}

/** A store whose n-th operation stops, before or after its effect. */
function stoppedAt(lookups: LookupStore, { at, point }: Pick<Case, 'at' | 'point'>) {
  const reached = Promise.withResolvers<void>()
  const going = Promise.withResolvers<void>()
  let count = 0
  const stop = async <T>(run: () => Promise<T>): Promise<T> => {
    if (++count !== at) return run()
    const early = point === 'after' ? await run() : undefined
    reached.resolve()
    await going.promise
    return point === 'after' ? (early as T) : run()
  }
  const passing = new Proxy(lookups, {
    get(target, name) {
      const member = Reflect.get(target, name, target) as unknown
      if (typeof member !== 'function') return member
      if (name === 'scan') return (...args: unknown[]) => member.apply(target, args)
      return (...args: unknown[]) => stop(() => member.apply(target, args))
    },
  })
  return { lookups: passing, reached: reached.promise, go: going.resolve }
}

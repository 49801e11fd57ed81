/**
 * When sleeping accounts have to be woken: rows `wake/<home>/<bucket>/<hour>/<origin>/<account>` →
 * Unix seconds.
 *
 * Rows of one bucket and hour are kept together. A search for due rows reads the open hours, and
 * never one that is done: deleted rows in those cost nothing. A due time may be centuries ahead;
 * nothing is read before its hour.
 *
 * Three rows of each bucket say which hours these are. `hours/<home>/<bucket>/open`, the first hour
 * that takes rows, and `…/done`, the first one that is not done, only rise. `…/first`, before which
 * there never was a row, only falls.
 *
 * - An owner puts its row into the hour that is due, or into the first open one if that is later.
 *   Then it reads `open`: if the hour was closed meanwhile it puts the row again, into an open
 *   hour.
 * - The owner of a bucket's first row begins the bucket: it lowers `first` to the hour of its
 *   clock, then raises `open` to that hour, then reads `open` as above. Others may begin it at the
 *   same time, by other clocks.
 * - To close hours, `open` is first moved behind them. Then `first` is read, and then the hours, a
 *   last time. Remaining rows, of accounts that could not be woken, are put once more into an open
 *   hour (`origin` keeps their keys apart from those of their owners). Then `done` follows.
 *
 * A host that raises `open` from nothing has lowered `first` before, so `first` is never above a
 * value of `open` that was read. A row counts when its hour is not below such a value, so `first`
 * is not above its hour either, and readers begin early enough. `done` rises only over hours that
 * were read after `open` was raised and `first` was read: a row that counts was there before, or
 * its owner finds `open` raised and puts it again. All this is independent of clocks, pauses and
 * crashes: a wrong clock makes timers late, and loses none.
 */
import { crc32 } from 'node:zlib'
import type { LookupRow, LookupStore } from '@holdfast/journal'
import { forEachAtMost } from '../queues/semaphore.ts'
import { dueOf } from './lookup-rows.ts'

const hourSeconds = 3600
/** Places covered by one read. */
const placesPerRead = 1_000
/** Rows put once more at one time. */
const movesAtOnce = 64
/** Later than every hour. */
const afterAllHours = 1n << 40n
/** All hours from the first one on are read: a clock of 1970 must not make that half a million. */
const earliestHour = hourOf(Date.UTC(2026, 0) / 1_000)
/** An hour is closed this long after its end: what was due in it has been done by then. */
const closeAfterSeconds = 15 * 60

export function hourOf(seconds: number): number {
  return Math.floor(seconds / hourSeconds)
}

export interface WakeRow {
  key: string
  account: string
  /** Unix seconds. */
  due: number
}

interface Cursor {
  /** The first hour that takes rows. */
  open: number
  /** The first hour that may have rows. */
  from: number
}

export class WakeHours {
  readonly #lookups: LookupStore
  readonly #buckets: number
  readonly #nowSeconds: () => number
  /** As last read or written; the real one may be higher. */
  readonly #open = new Map<string, number>()

  constructor(lookups: LookupStore, { buckets, nowSeconds }: { buckets: number; nowSeconds: () => number }) {
    this.#lookups = lookups
    this.#buckets = buckets
    this.#nowSeconds = nowSeconds
  }

  /** The key of an account's row. A later hour than the one that is due where that is closed. */
  keyFor({ home, account }: { home: string; account: string }, due: number): string {
    const bucket = this.#bucketOf(account)
    const hour = Math.max(hourOf(due), this.#open.get(`${home}/${bucket}`) ?? 0)
    return `${placeOf({ home, bucket, hour })}${hour}/${account}`
  }

  /** The key of the row that a timer in the future has. */
  expectedKey({ home, account }: { home: string; account: string }, due: number): string {
    const hour = hourOf(due)
    return `${placeOf({ home, bucket: this.#bucketOf(account), hour })}${hour}/${account}`
  }

  /** Call it when the row is durable. @returns false: its hour was closed, put it again. */
  async holds(key: string): Promise<boolean> {
    const [, home = '', bucket = '', hour = ''] = key.split('/')
    const open = (await this.#readOpen(home, bucket)) ?? (await this.#begin(home, bucket))
    this.#open.set(`${home}/${bucket}`, open)
    return Number(hour) >= open
  }

  /** Rows of all hours that are not done up to this one. */
  async *rows(home: string, through: number): AsyncIterable<WakeRow> {
    const places: string[] = []
    for (const [bucket, { open, from }] of await this.#cursors(home)) {
      const last = Math.max(through, open)
      for (let hour = from; hour <= last; hour++) {
        places.push(placeOf({ home, bucket, hour }))
        if (places.length === placesPerRead) yield* this.#rowsAt(places.splice(0))
      }
    }
    yield* this.#rowsAt(places)
  }

  /** Closes the hours that are over. Several processes may do it at the same time. */
  async close(home: string): Promise<void> {
    const over = hourOf(this.#nowSeconds() - closeAfterSeconds)
    const ends = new Map<string, number>()
    for (const [bucket, { open, from }] of await this.#cursors(home)) {
      // No clock is needed for hours that take no rows any more.
      const end = Math.max(over, open)
      if (from < end) ends.set(bucket, end)
    }
    if (ends.size === 0) return
    await this.#raise(home, 'open', ends)
    let places: string[] = []
    const move = async () => {
      const read = places
      places = []
      await forEachAtMost(movesAtOnce, this.#rowsAt(read), (row) => this.#putOn(row))
    }
    // `first` may have fallen since.
    for (const [bucket, { from }] of await this.#cursors(home)) {
      const end = ends.get(bucket)
      if (end === undefined) continue
      for (let hour = from; hour < end; hour++) {
        places.push(placeOf({ home, bucket, hour }))
        if (places.length === placesPerRead) await move()
      }
    }
    await move()
    await this.#raise(home, 'done', ends)
  }

  /**
   * The old row stays where it is not read any more. Its owner's deletes of other keys do not
   * affect the new one.
   */
  async #putOn({ key, due }: WakeRow): Promise<void> {
    const [, home = '', bucket = '', closed = '', origin = '', account = ''] = key.split('/')
    for (let hour = Number(closed); ; ) {
      hour = Math.max(hour + 1, this.#open.get(`${home}/${bucket}`) ?? 0)
      const moved = `${placeOf({ home, bucket, hour })}${origin}/${account}`
      await this.#lookups.write([{ put: moved, value: Buffer.from(String(due)) }], BigInt(hour))
      if (await this.holds(moved)) return
    }
  }

  async *#rowsAt(places: readonly string[]): AsyncIterable<WakeRow> {
    if (places.length === 0) return
    const found: (LookupRow | undefined)[] = await this.#lookups.firstOf(places)
    for (const [at, place] of places.entries()) {
      if (found[at] === undefined) continue
      for await (const { key, value } of this.#lookups.scan(place))
        yield { key, account: key.slice(key.lastIndexOf('/') + 1), due: dueOf(value) }
    }
  }

  /** The cursors of the buckets that were ever used. */
  async #cursors(home: string): Promise<Map<string, Cursor>> {
    const prefix = `hours/${home}/`
    const found = new Map<string, number>()
    for await (const { key, value } of this.#lookups.scan(prefix))
      found.set(key.slice(prefix.length), dueOf(value))
    const cursors = new Map<string, Cursor>()
    for (let number = 0; number < this.#buckets; number++) {
      const bucket = String(number)
      const open = found.get(`${bucket}/open`)
      if (open === undefined) continue
      this.#open.set(`${home}/${bucket}`, open)
      const [done = 0, first = 0] = [found.get(`${bucket}/done`), found.get(`${bucket}/first`)]
      cursors.set(bucket, { open, from: Math.max(done, first) })
    }
    return cursors
  }

  async #readOpen(home: string, bucket: string): Promise<number | undefined> {
    const value = await this.#lookups.get(cursorKey(home, bucket, 'open'))
    return value && dueOf(value)
  }

  /** @returns the first hour that takes rows: another one may have begun with a later one */
  async #begin(home: string, bucket: string): Promise<number> {
    const hour = Math.max(hourOf(this.#nowSeconds()), earliestHour)
    const first = { put: cursorKey(home, bucket, 'first'), value: Buffer.from(String(hour)) }
    // The lower hour wins.
    await this.#lookups.write([first], afterAllHours - BigInt(hour))
    await this.#raise(home, 'open', new Map([[bucket, hour]]))
    return (await this.#readOpen(home, bucket)) ?? hour
  }

  /** The higher hour wins: it is its own write time. */
  async #raise(home: string, name: 'open' | 'done', hours: ReadonlyMap<string, number>): Promise<void> {
    for (const [hour, buckets] of Map.groupBy(hours, ([, hour]) => hour)) {
      const value = Buffer.from(String(hour))
      await this.#lookups.write(
        buckets.map(([bucket]) => ({ put: cursorKey(home, bucket, name), value })),
        BigInt(hour),
      )
    }
  }

  #bucketOf(account: string): string {
    return String(crc32(account) % this.#buckets)
  }
}

function placeOf({ home, bucket, hour }: { home: string; bucket: string; hour: number }): string {
  return `wake/${home}/${bucket}/${hour}/`
}

function cursorKey(home: string, bucket: string, name: 'first' | 'open' | 'done'): string {
  return `hours/${home}/${bucket}/${name}`
}

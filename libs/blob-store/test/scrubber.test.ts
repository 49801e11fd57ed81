/** The scrubber of a standalone store: pace, position, findings, and sources of repair. */

import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, hex, hourMs } from '@holdfast/kernel'
import t from 'tap'
import { type BlobInfo, MemoryBlobStore, Scrubber, type ScrubberOptions } from '../src/index.ts'
import { get, plainScrubber, put } from '../src/testing.ts'

/** Time that passes when the scrubber waits. */
class Time implements Clock {
  ms = 1_700_000_000_000
  readonly pauses: number[] = []
  /** Called at each pause. */
  passing: () => void | Promise<void> = () => {}
  now = () => this.ms
  monotonic = () => this.ms
  pause = async (ms: number, signal: AbortSignal) => {
    this.pauses.push(ms)
    this.ms += ms
    await this.passing()
    if (!signal.aborted) await new Promise((resolve) => setImmediate(resolve))
  }
}

function scrubberOf(
  store: MemoryBlobStore,
  time: Time,
  more: Partial<Pick<ScrubberOptions, 'bytesPerSecond' | 'restMs' | 'pause'>> = {},
): { scrubber: Scrubber; errors: Record<string, unknown>[] } {
  const errors: Record<string, unknown>[] = []
  const log = {
    warn: () => {},
    error: (fields: object) => void errors.push(fields as Record<string, unknown>),
  }
  const scrubber = new Scrubber({ ...plainScrubber, store, clock: time, pause: time.pause, log, ...more })
  return { scrubber, errors }
}

const repeatedByte = (n: number, size = 1000) => Buffer.alloc(size, n + 1)

t.test(
  'the scrubber keeps to its rate, within a large copy too, and does not save up unused rate',
  async (t) => {
    const store = new MemoryBlobStore()
    const time = new Time()
    for (let n = 0; n < 4; n++) await put(store, repeatedByte(n))
    const { scrubber } = scrubberOf(store, time, { bytesPerSecond: 256 * 1024 })
    const begun = time.ms
    await scrubber.pass()
    t.equal(Math.round(time.ms - begun), 4_000, 'a small copy counts as 256 KiB because of the seek')
    time.ms += hourMs
    const again = time.ms
    await scrubber.pass()
    t.equal(Math.round(time.ms - again), 4_000)
    time.pauses.length = 0
    const one = new MemoryBlobStore()
    await put(one, Buffer.alloc(3_000_000))
    one.verify = async function* () {
      yield* [1_000_000, 1_000_000, 1_000_000]
    }
    await scrubberOf(one, time, { bytesPerSecond: 1_000_000 }).scrubber.pass()
    t.same(time.pauses, [1000, 1000, 1000])
  },
)

t.test(
  'a damaged copy without another is kept, named once and counted, and an upload repairs it',
  async (t) => {
    const store = new MemoryBlobStore()
    const time = new Time()
    const bytes = repeatedByte(1)
    const info = await put(store, bytes)
    await put(store, repeatedByte(2))
    store.rot(info)
    const { scrubber, errors } = scrubberOf(store, time)
    t.match(await scrubber.pass(), { copies: 2, damaged: 1, repaired: 0 })
    t.match(await scrubber.pass(), { copies: 2, damaged: 1, repaired: 0 })
    t.equal(errors.length, 1)
    t.match(errors, [{ blob: hex(info.id), code: 'NOT_FOUND' }])
    t.match(scrubber.figures, { damaged: 1, repaired: 0 }, 'it was found once')
    t.match(await store.stat(info), { damaged: true }, 'kept')
    await put(store, bytes)
    t.ok(bytes.equals(await get(store, info)))
    t.match(await scrubber.pass(), { copies: 2, damaged: 0 })
  },
)

t.test('another copy of the content in the store repairs it', async (t) => {
  const store = new MemoryBlobStore()
  const bytes = repeatedByte(1, 200_000)
  const copies: BlobInfo[] = []
  for (let n = 0; n < 2; n++) {
    const stage = await store.stage()
    await stage.write(bytes)
    copies.push(await stage.commit({ pinMs: 0, asNew: true }))
  }
  const [one, other] = copies as [BlobInfo, BlobInfo]
  store.rot(one)
  t.match(await scrubberOf(store, new Time()).scrubber.pass(), { damaged: 1, repaired: 1 })
  for (const info of [one, other]) t.ok(bytes.equals(await get(store, info)))
})

t.test('passes repeat with a rest between them, and the store remembers the last one', async (t) => {
  const store = new MemoryBlobStore()
  const time = new Time()
  await put(store, repeatedByte(1))
  let verified = 0
  const verify = store.verify.bind(store)
  store.verify = (blob) => {
    verified++
    return verify(blob)
  }
  const run = async (rests: number) => {
    const { scrubber } = scrubberOf(store, time, { restMs: 24 * hourMs })
    let left = rests
    const rested = new Promise<void>((resolve) => {
      time.passing = () => {
        if (left-- === 0) resolve()
        return left < 0 ? new Promise(() => {}) : undefined
      }
    })
    scrubber.start()
    await rested
    return scrubber
  }
  const first = await run(2)
  t.equal(verified, 3)
  t.equal(first.figures.progress, undefined, 'it rests')
  const last = first.figures.lastPassMs as number
  t.ok(last > 0)
  verified = 0
  time.ms = last + hourMs
  const second = await run(0)
  t.equal(second.figures.lastPassMs, last, 'known after a restart')
  t.equal(verified, 0)
  t.equal(time.pauses.at(-1), 23 * hourMs, 'the rest of the day')
})

t.test('a pause of months between passes does not make the scrubber loop', async (t) => {
  const time = new Time()
  let looks = 0
  const now = time.now.bind(time)
  time.now = () => {
    looks++
    return now()
  }
  const options = { restMs: 90 * 24 * hourMs, pause: undefined }
  const { scrubber } = scrubberOf(new MemoryBlobStore(), time, options)
  scrubber.start()
  await delay(50)
  await scrubber.close()
  t.ok(looks < 10, `it looked at the clock ${looks} times`)
})

t.test('an interrupted pass continues from its position', async (t) => {
  const store = new MemoryBlobStore()
  const time = new Time()
  for (let n = 0; n < 10; n++) await put(store, repeatedByte(n))
  const seen: string[] = []
  const verify = store.verify.bind(store)
  store.verify = (blob) => {
    seen.push(hex(blob.id))
    return verify(blob)
  }
  // A copy takes a minute, so each one is recorded.
  const options = { bytesPerSecond: (256 * 1024) / 60, restMs: 24 * hourMs }
  const { scrubber } = scrubberOf(store, time, options)
  let closing = false
  const stopped = new Promise<void>((resolve) => {
    time.passing = () => {
      if (seen.length < 4 || closing) return
      closing = true
      t.ok((scrubber.figures.progress as number) > 0)
      void scrubber.close().then(resolve)
    }
  })
  scrubber.start()
  await stopped
  t.equal(seen.length, 4)
  t.equal(scrubber.figures.lastPassMs, undefined)
  seen.splice(3) // the fourth was not finished
  const { scrubber: next } = scrubberOf(store, time, options)
  const ended = new Promise<void>((resolve) => {
    time.passing = () => {
      if (next.figures.lastPassMs !== undefined) void next.close().then(resolve)
    }
  })
  next.start()
  await ended
  t.equal(seen.length, 10)
  t.equal(new Set(seen).size, 10, 'each once')
})

t.test('the store remembers when it was scrubbed first, also if no pass ends', async (t) => {
  const store = new MemoryBlobStore()
  const time = new Time()
  await put(store, repeatedByte(1))
  store.verify = () => {
    throw new Error('no pass ends')
  }
  const run = async () => {
    const { scrubber } = scrubberOf(store, time)
    const paused = new Promise<void>((resolve) => {
      time.passing = () => {
        resolve()
        return new Promise(() => {})
      }
    })
    scrubber.start()
    await paused
    return scrubber.figures
  }
  const beganMs = time.ms
  t.match(await run(), { beganMs, lastPassMs: undefined })
  time.ms += 24 * hourMs
  t.match(await run(), { beganMs, lastPassMs: undefined }, 'known after a restart')
  // As earlier releases wrote it.
  const after = '00'.repeat(16)
  await store.setNote('scrubber', Buffer.from(JSON.stringify({ lastPassMs: 7, after })))
  const upgradedMs = time.ms
  t.match(await run(), { beganMs: upgradedMs, lastPassMs: 7 })
  t.match(JSON.parse(Buffer.from((await store.note('scrubber')) ?? []).toString()), { lastPassMs: 7, after })
})

t.test('a rate of 0 scrubs nothing', async (t) => {
  const store = new MemoryBlobStore()
  store.verify = () => t.fail('nothing is to be read') as never
  await put(store, repeatedByte(1))
  const { scrubber } = scrubberOf(store, new Time(), { bytesPerSecond: 0 })
  scrubber.start()
  await new Promise((resolve) => setImmediate(resolve))
  await scrubber.close()
})

t.test('a copy that cannot be read for lack of memory is not damage, and the pass continues', async (t) => {
  const store = new MemoryBlobStore()
  for (let n = 0; n < 3; n++) await put(store, repeatedByte(n))
  const { verify } = store
  let asked = 0
  store.verify = (...args) => {
    if (asked++ === 1) throw new RangeError('Array buffer allocation failed')
    return verify.apply(store, args)
  }
  const { scrubber, errors } = scrubberOf(store, new Time())
  t.match(await scrubber.pass(), { copies: 3, damaged: 0, unreadable: 1 })
  t.same(errors, [])
})

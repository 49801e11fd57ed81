/** Blob ids of several streams side by side, compared with the ordinary digests. */
import { randomBytes } from 'node:crypto'
import { digestOf } from '@holdfast/blob-store'
import fc from 'fast-check'
import t from 'tap'
import { HashLanes } from '../src/hashing/hash-lanes.ts'
import { digestRequest, dropRequest, type HashStream, WorkerHashing } from '../src/hashing/hashing.ts'

const pages = 32
const random = randomBytes(pages * 64 * 1024)

function memoryOf(bytes: Buffer): WebAssembly.Memory {
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  Buffer.from(memory.buffer).set(bytes)
  return memory
}

t.test('other streams and the division into chunks do not change the id of a stream', async () => {
  const memory = memoryOf(random)
  const part = fc.record({
    start: fc.nat(100_000),
    bytes: fc.oneof(
      fc.nat(200),
      fc.integer({ min: 1, max: 300 }).map((n) => n * 64),
      fc.nat(200_000),
    ),
  })
  const streams = fc.array(fc.record({ parts: fc.array(part, { maxLength: 5 }), dropped: fc.boolean() }), {
    minLength: 1,
    maxLength: 9,
  })
  fc.assert(
    fc.property(streams, fc.array(fc.nat(20), { maxLength: 60 }), (streams, turns) => {
      const lanes = new HashLanes(memory)
      const answered = streams.map((): (Uint8Array | 0)[] => [])
      const left = streams.map(({ parts }) => [...parts])
      const ended = streams.map(() => false)
      const hear = () => {
        for (const [name, digest] of lanes.answers()) answered[name]?.push(digest)
      }
      const ask = (n: number) => {
        const next = left[n]?.shift()
        if (next !== undefined) lanes.ask([n, next.start, next.bytes])
        else if (ended[n] === false) {
          lanes.ask([n, streams[n]?.dropped === true ? dropRequest : digestRequest, 0])
          ended[n] = true
        }
      }
      for (const turn of turns) {
        if (turn < streams.length) ask(turn)
        else lanes.step()
        hear()
      }
      while (ended.includes(false)) for (let n = 0; n < streams.length; n++) ask(n)
      while (lanes.ready > 0) lanes.step()
      hear()
      return streams.every(({ parts, dropped }, n) => {
        const answers = answered[n] ?? []
        const last = answers.pop()
        if (answers.length !== parts.length || answers.some((answer) => answer !== 0)) return false
        const content = Buffer.concat(parts.map(({ start, bytes }) => random.subarray(start, start + bytes)))
        return dropped ? last === 0 : last !== 0 && digestOf(content).id.equals(last ?? content)
      })
    }),
    { numRuns: 300 },
  )
})

t.test('a step that was planned for a dropped stream does nothing', (t) => {
  const lanes = new HashLanes(memoryOf(random))
  lanes.ask([1, 0, 100_000])
  lanes.ask([1, dropRequest, 0])
  lanes.step()
  t.same(lanes.answers(), [
    [1, 0],
    [1, 0],
  ])
  t.equal(lanes.waitingSince, undefined)
  t.end()
})

t.test('every length of a last block', async (t) => {
  const lanes = new HashLanes(memoryOf(random))
  for (let bytes = 0; bytes <= 130; bytes++) {
    if (bytes > 0) lanes.ask([bytes, 7, bytes])
    lanes.ask([bytes, digestRequest, 0])
    while (lanes.ready > 0) lanes.step()
    t.same(lanes.answers().at(-1)?.[1], digestOf(random.subarray(7, 7 + bytes)).id, `${bytes} bytes`)
  }
})

t.test('threads hash many streams at once, and no stream waits long for others', async (t) => {
  const hashing = new WorkerHashing(memoryOf(random), 2)
  t.teardown(() => hashing.close())
  const idle = hashing.open()
  await updated(idle, 0, 100)
  const content = Buffer.concat([random.subarray(5, 500_005), random.subarray(9, 300_009)])
  const ids = await Promise.all(
    Array.from({ length: 11 }, async () => {
      const stream = hashing.open()
      const first = updated(stream, 5, 500_000)
      await Promise.all([first, updated(stream, 9, 300_000)])
      return stream.digest()
    }),
  )
  for (const id of ids) t.same(id, digestOf(content).id)
  const dropped = hashing.open()
  const under = updated(dropped, 0, 1_000_000)
  dropped.drop()
  await under
  t.same(await idle.digest(), digestOf(random.subarray(0, 100)).id)
})

function updated(stream: HashStream, start: number, bytes: number): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.update(start, bytes, (error) => (error === undefined ? resolve() : reject(error)))
  })
}

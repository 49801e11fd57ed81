import fc from 'fast-check'
import t from 'tap'
import { GrowingBytes } from '../src/index.ts'

t.test('appended bytes that were not dropped are there, in order', async () => {
  const acts = fc.array(
    fc.oneof(
      fc.uint8Array({ maxLength: 3_000 }).map((bytes) => ({ append: Buffer.from(bytes) })),
      fc.nat(4_000).map((drop) => ({ drop })),
    ),
    { maxLength: 30 },
  )
  fc.assert(
    fc.property(acts, (acts) => {
      const gathered = new GrowingBytes()
      let expected = Buffer.alloc(0)
      for (const act of acts) {
        if ('append' in act) {
          gathered.append(act.append)
          expected = Buffer.concat([expected, act.append])
          act.append.fill(0)
        } else {
          gathered.drop(Math.min(act.drop, gathered.length))
          expected = expected.subarray(act.drop)
        }
        if (gathered.length !== expected.length || !gathered.view().equals(expected)) return false
      }
      return true
    }),
  )
})

t.test('single bytes take little more memory than one piece', async (t) => {
  const gathered = new GrowingBytes()
  const blocks = new Set<ArrayBufferLike>()
  for (let at = 0; at < 60_000; at++) {
    gathered.append(Buffer.of(at))
    blocks.add(gathered.view().buffer)
  }
  t.ok(gathered.capacity <= 2 * 60_000, `${gathered.capacity} bytes`)
  t.ok(blocks.size <= 6, `${blocks.size} blocks`)
  gathered.clear()
  t.equal(gathered.capacity, 0)
})

t.test('one piece has a block of its own length, and its view stays valid later', async (t) => {
  const gathered = new GrowingBytes()
  gathered.append(Buffer.alloc(5_000, 1))
  t.equal(gathered.capacity, 5_000)
  const view = gathered.view()
  gathered.append(Buffer.alloc(5_000, 2))
  gathered.drop(5_000)
  gathered.append(Buffer.alloc(9_000, 3))
  t.ok(view.every((byte) => byte === 1))
  t.equal(gathered.length, 14_000)
})

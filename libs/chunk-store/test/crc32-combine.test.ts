import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { Crc32Combiner } from '../src/hashing/crc32-combine.ts'

t.test('the checksum of a whole comes from those of its parts', async (t) => {
  const combiner = new Crc32Combiner()
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.integer({ min: 65_530, max: 65_540 }).map((length) => Buffer.alloc(length, 'content')),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
      const sum = parts.reduce((sum, bytes) => combiner.combine(sum, crc32(bytes), bytes.length), 0)
      t.equal(sum, crc32(Buffer.concat(parts)))
    }),
  )
  const zeros = Buffer.alloc(3 * 2 ** 20 + 5)
  t.equal(
    combiner.combine(crc32('a'), crc32(zeros), zeros.length),
    crc32(Buffer.concat([Buffer.from('a'), zeros])),
  )
})

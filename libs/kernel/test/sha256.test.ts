import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { sha256 } from '../src/index.ts'

t.test('the digest of parts equals that of the joined parts, short or long', async (t) => {
  for (const lengths of [[], [0], [36], [5, 0, 16, 300], [4_000, 96], [4_000, 97], [1, 100_000]]) {
    const parts = lengths.map((length) => randomBytes(length))
    const expected = createHash('sha256').update(Buffer.concat(parts)).digest()
    t.same(sha256(parts), expected, `parts of ${lengths.join(', ')} bytes`)
  }
})

t.test('a digest that is kept needs no more memory than its own bytes', async (t) => {
  const first = sha256([Buffer.from('one')])
  const copy = Buffer.from(first)
  sha256([Buffer.from('two')])
  t.same(first, copy)
  t.equal(first.buffer.byteLength, 32)
})

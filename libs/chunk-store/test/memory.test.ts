/** Tables in memory, compared with plain models. */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { pack, unpack } from '../src/memory/packed.ts'
import { Pins } from '../src/writing/pins.ts'

t.test('pins hold until they end or are dropped, through growth and renewal', async () => {
  const name = (n: number, bytes: number) =>
    createHash('sha512')
      .update(bytes === 16 ? `incarnation ${n}` : `blob ${n % 10}`)
      .digest()
      .subarray(0, bytes)
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          act: fc.constantFrom('extend', 'extend', 'extend', 'drop', 'wait'),
          n: fc.nat(1500),
          ms: fc.nat(1000),
        }),
        { maxLength: 4000, size: 'max' },
      ),
      (steps) => {
        let now = 1
        const clock = { now: () => now, monotonic: () => now }
        const pins = new Pins(clock)
        const model = new Map<number, number>()
        for (const { act, n, ms } of steps) {
          if (act === 'wait') now += ms
          else if (act === 'drop') {
            pins.drop(name(n, 48), name(n, 16))
            model.delete(n)
          } else {
            pins.extend(name(n, 48), name(n, 16), ms)
            model.set(n, Math.max(model.get(n) ?? 0, now + ms))
          }
        }
        return Array.from({ length: 1501 }, (_, n) => n).every(
          (n) => pins.holds(name(n, 48), name(n, 16)) === (model.get(n) ?? 0) > now,
        )
      },
    ),
    { numRuns: 30 },
  )
})

t.test('packed parts come out as they went in, missing and empty ones too', async () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.uint8Array(), { nil: undefined })), (parts) => {
      const out = unpack(pack(parts))
      return (
        out.length === parts.length &&
        parts.every((part, n) => (part === undefined ? out[n] === undefined : out[n]?.equals(part)))
      )
    }),
  )
})

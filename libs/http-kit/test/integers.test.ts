import fc from 'fast-check'
import t from 'tap'
import { decimalForm, integerForms, integerOf } from '../src/index.ts'

t.test('the form of a range has the decimal strings that are read as its integers, no others', async (t) => {
  const bound = fc.oneof(
    fc.integer({ min: -1_100, max: 1_100 }),
    fc.integer({ min: -(10 ** 12), max: 10 ** 12 }),
    fc.constantFrom(0, 9, 10, 99, 100, 999, 1_000, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER),
  )
  fc.assert(
    fc.property(bound, bound, fc.array(bound), (one, other, others) => {
      const [minimum, maximum] = [Math.min(one, other), Math.max(one, other)]
      const form = new RegExp(`^${decimalForm({ minimum, maximum })}$`)
      const near = [minimum, maximum, 0].flatMap((number) => [number - 1, number, number + 1])
      return [...near, ...others]
        .filter((number) => Number.isSafeInteger(number))
        .flatMap((number) => [`${number}`, `${number}`.replace(/^-?/, '$&00')])
        .every((text) => {
          const number = integerOf(text) as number
          return form.test(text) === (number >= minimum && number <= maximum)
        })
    }),
    { numRuns: 2_000 },
  )
  const form = new RegExp(`^${decimalForm({ minimum: -5, maximum: 17 })}$`)
  for (const text of ['', '-', '+1', ' 1', '1.0', '1e1', '0x1', '1_0', '\u0661']) {
    t.notMatch(text, form, text)
    t.notOk(Number.isInteger(integerOf(text)), text)
  }
  t.match('-0', form, 'as integerOf has it')
})

t.test('zeros may lead, as many as there are', async (t) => {
  const text = `-${'0'.repeat(1_000)}7`
  const [, { pattern }] = integerForms({ minimum: -7, maximum: -7 }) as [object, { pattern: string }]
  t.equal(integerOf(text), -7)
  t.match(text, new RegExp(pattern))
})

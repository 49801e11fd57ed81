/** Integers, as numbers or as texts: how they are read, and how the document states them. */

/**
 * An integer, as a number or a decimal string; one beyond the exact range of a number counts as the
 * largest in it.
 */
export function integerOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?[0-9]+$/.test(value) ? Number(value) : value
  if (
    typeof number !== 'number' ||
    !(Number.isInteger(number) || Math.abs(number) === Number.POSITIVE_INFINITY)
  )
    return undefined
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, number))
}

export interface IntegerRange {
  minimum: number
  maximum: number
}

/** Schemas of all that `integerOf` reads as an integer of this range. */
export function integerForms(range: IntegerRange): [object, object] {
  return [
    { type: 'integer', minimum: range.minimum, maximum: range.maximum },
    { type: 'string', pattern: `^${decimalForm(range)}$` },
  ]
}

/** An expression for the decimal strings of this range, without anchors. */
export function decimalForm({ minimum, maximum }: IntegerRange): string {
  const forms: string[] = []
  if (maximum >= 0) forms.push(digitsForm(Math.max(minimum, 0), maximum))
  if (minimum <= 0) forms.push(`-${digitsForm(Math.max(-maximum, 0), -minimum)}`)
  return `(${forms.join('|')})`
}

/** The form of numbers that are not negative; zeros may lead. */
function digitsForm(from: number, to: number): string {
  const forms: string[] = []
  for (let length = String(from).length; length <= String(to).length; length++) {
    const least = length === 1 ? 0 : 10 ** (length - 1)
    const [first, last] = [Math.max(from, least), Math.min(to, 10 ** length - 1)]
    forms.push(sameLengthForm(String(first), String(last)))
  }
  return `0*(${forms.join('|')})`
}

/**
 * The form of the numbers from `from` to `to`, which have equally many digits. After some first
 * digits all other digits are free.
 */
function sameLengthForm(from: string, to: string): string {
  const free = from.length - 1
  let [first, last] = [Number(from[0]), Number(to[0])]
  const [fromRest, toRest] = [from.slice(1), to.slice(1)]
  const [isFreeAbove, isFreeBelow] = [/^0*$/.test(fromRest), /^9*$/.test(toRest)]
  if (first === last && !(isFreeAbove && isFreeBelow)) return first + sameLengthForm(fromRest, toRest)
  const forms: string[] = []
  if (!isFreeAbove) forms.push(first++ + sameLengthForm(fromRest, '9'.repeat(free)))
  if (!isFreeBelow) forms.push(last-- + sameLengthForm('0'.repeat(free), toRest))
  const leading = first === last ? first : `[${first}-${last}]`
  if (first <= last)
    forms.push(`${leading}${'[0-9]'.repeat(Math.min(free, 1))}${free > 1 ? `{${free}}` : ''}`)
  return forms.length === 1 ? String(forms[0]) : `(${forms.join('|')})`
}

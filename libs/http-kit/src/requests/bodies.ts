/**
 * Request bodies as real clients send them: JSON, JSON declared as a form, flat forms, nothing at
 * all.
 *
 * A body becomes a flat object of own properties. Only declared ones are read (`Object.hasOwn`), so
 * keys such as `__proto__` have no effect. A repeated key is kept as `RepeatedParameter`, which
 * only an array parameter of a form accepts.
 */
import { RefusalError } from '@holdfast/kernel'

/** A parameter that was sent several times. */
export class RepeatedParameter {
  /** As sent in a form or query; empty for a JSON body, where the earlier values are lost. */
  readonly values: readonly string[]

  constructor(values: readonly string[]) {
    this.values = values
  }
}

export type Fields = Record<string, unknown>

/** 256 KiB: six times the longest list of ids, four times the largest direct link. */
export const bodyBytesMaxDefault = 256 * 1024
/** Levels of arrays and objects in a JSON body. Parameters have two. */
const bodyDepthMax = 32
/**
 * Members, elements and form fields of a body. The longest lists have 100 entries. Each costs
 * `JSON.parse` up to a microsecond, so that a body of 256 KiB made of nothing else would take 50 ms
 * before any token is checked.
 */
const bodyValuesMax = 1_024

/** @throws RefusalError error-body */
export function parseBody(contentType: string | undefined, bytes: Uint8Array): Fields {
  if (bytes.length === 0) return {}
  const text = decodeUtf8(bytes)
  if (text.trim() === '') return {}
  const media = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (media === 'application/x-www-form-urlencoded') {
    return text.trimStart().startsWith('{') ? parseJson(text) : parseFormBody(text)
  }
  // fetch() and plain socket clients declare JSON as text or send no type.
  if (
    media === '' ||
    media === 'application/json' ||
    media === 'text/plain' ||
    /^[\w.+/-]+\+json$/.test(media)
  ) {
    return parseJson(text)
  }
  throw new RefusalError('error-body')
}

/**
 * Linear in the text.
 * @throws RefusalError error-body, also beyond `bodyDepthMax` and `bodyValuesMax`.
 */
export function parseJson(text: string): Fields {
  let value: unknown
  let repeated: ReadonlySet<string>
  try {
    // Before the parser creates a value from the text.
    repeated = repeatedKeys(text)
    value = JSON.parse(text)
  } catch {
    throw new RefusalError('error-body')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new RefusalError('error-body')
  const fields = value as Fields
  for (const name of repeated) define(fields, name, new RepeatedParameter([]))
  return fields
}

function parseFormBody(text: string): Fields {
  let fields = 1
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++fields > bodyValuesMax) throw new RefusalError('error-body')
  return parseForm(text)
}

/** Most requests have no query: they share this. */
const noFields: Fields = Object.freeze(Object.create(null) as Fields)

/** Fields of a query or a form. Malformed percent escapes stay unchanged. */
export function parseForm(text: string): Fields {
  if (text === '') return noFields
  const fields: Fields = Object.create(null)
  for (const [name, value] of plainForm.test(text) ? plainPairs(text) : new URLSearchParams(text)) {
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined
    // Without a prototype every name is an own property.
    if (before === undefined) fields[name] = value
    else if (before instanceof RepeatedParameter) (before.values as string[]).push(value)
    else define(fields, name, new RepeatedParameter([before as string, value]))
  }
  return fields
}

/** Without `%` and `+` nothing needs decoding. */
const plainForm = /^[\w.~&=-]*$/

function plainPairs(text: string): [string, string][] {
  const pairs: [string, string][] = []
  for (const pair of text === '' ? [] : text.split('&')) {
    const equals = pair.indexOf('=')
    if (pair !== '') pairs.push(equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)])
  }
  return pairs
}

function define(fields: Fields, name: string, value: unknown) {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new RefusalError('error-body')
  }
}

/**
 * Names that occur more than once among the members of the outermost object: `JSON.parse` silently
 * keeps the last of equal members. One pass, which also enforces the bounds of depth and values.
 * The parser refuses text that is no JSON.
 *
 * @throws RefusalError error-body beyond the bounds. @throws SyntaxError for a name that is no JSON
 *   string.
 */
function repeatedKeys(text: string): ReadonlySet<string> {
  const seen = new Set<string>()
  const repeated = new Set<string>()
  let depth = 0
  let values = 1
  let keyExpected = false
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        depth++
        keyExpected = depth === 1
        if (depth > bodyDepthMax) throw new RefusalError('error-body')
        break
      case 0x7d: // }
      case 0x5d: // ]
        depth--
        break
      case 0x2c: // ,
        keyExpected = depth === 1
        if (++values > bodyValuesMax) throw new RefusalError('error-body')
        break
      case 0x22: {
        const end = endOfString(text, at)
        if (keyExpected && depth === 1) {
          const name = JSON.parse(text.slice(at, end + 1)) as string
          if (seen.has(name)) repeated.add(name)
          seen.add(name)
          keyExpected = false
        }
        at = end
        break
      }
    }
  }
  return repeated
}

/** Index of the quote that closes the string opened at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === 0x5c) at++
    else if (character === 0x22) return at
  }
  return text.length
}

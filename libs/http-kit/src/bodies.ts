/**
 * Request bodies as real clients send them: JSON, JSON announced as a form, flat forms, nothing at all.
 *
 * A body becomes a flat object of own properties; only declared ones are ever read (`Object.hasOwn`), so keys such as `__proto__`
 * mean nothing. A key that came more than once is kept as `Repeated`, which only an array parameter of a form accepts.
 */
import { Refusal } from './refusals.ts'

/** A parameter that was sent several times. */
export class Repeated {
  /** As sent in a form or query; empty for a JSON body, where the earlier values are lost. */
  readonly values: readonly string[]

  constructor(values: readonly string[]) {
    this.values = values
  }
}

export type Fields = Record<string, unknown>

/** 1 MiB. */
export const bodyBytesMaxDefault = 1024 * 1024

/** @throws Refusal error-body */
export function parseBody(contentType: string | undefined, bytes: Uint8Array): Fields {
  if (bytes.length === 0) return {}
  const text = decodeUtf8(bytes)
  if (text.trim() === '') return {}
  const media = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (media === 'application/x-www-form-urlencoded') {
    return text.trimStart().startsWith('{') ? parseJson(text) : parseForm(text)
  }
  // fetch() and plain socket clients announce JSON as text or not at all.
  if (
    media === '' ||
    media === 'application/json' ||
    media === 'text/plain' ||
    /^[\w.+/-]+\+json$/.test(media)
  ) {
    return parseJson(text)
  }
  throw new Refusal('error-body')
}

export function parseJson(text: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refusal('error-body')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Refusal('error-body')
  const fields = value as Fields
  for (const name of repeatedKeys(text)) define(fields, name, new Repeated([]))
  return fields
}

/** Fields of a query or a form. Broken percent escapes stay as they are. */
export function parseForm(text: string): Fields {
  const fields: Fields = Object.create(null)
  for (const [name, value] of plainForm.test(text) ? plainPairs(text) : new URLSearchParams(text)) {
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined
    // Without a prototype every name is an own property.
    if (before === undefined) fields[name] = value
    else if (before instanceof Repeated) (before.values as string[]).push(value)
    else define(fields, name, new Repeated([before as string, value]))
  }
  return fields
}

/** Nothing in it stands for something else. */
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
    throw new Refusal('error-body')
  }
}

/**
 * Names that occur more than once among the members of the outermost object. The text is JSON that `JSON.parse` accepted, which
 * silently keeps the last of equal members; one pass over it tells what was lost.
 */
function repeatedKeys(text: string): Set<string> {
  const seen = new Set<string>()
  const repeated = new Set<string>()
  let depth = 0
  let keyExpected = false
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        depth++
        keyExpected = depth === 1
        break
      case 0x7d: // }
      case 0x5d: // ]
        depth--
        break
      case 0x2c: // ,
        keyExpected = depth === 1
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

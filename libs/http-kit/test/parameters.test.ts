import { Type } from '@sinclair/typebox'
import fc from 'fast-check'
import t from 'tap'
import { growsLinearly } from '../../../test/support/growth.ts'
import {
  bearerOf,
  integerOf,
  parametersOf,
  parseEmail,
  RefusalError,
  RepeatedParameter,
  withParser,
} from '../src/index.ts'
import { pathOf } from '../src/log.ts'
import { normalAddress } from '../src/rate-limits/addresses.ts'
import { parseBody, parseForm, parseJson } from '../src/requests/bodies.ts'
import * as contentRules from '../src/requests/content-rules.ts'

const read = parametersOf(
  Type.Object({
    ids: withParser(Type.String(), (text) => (text === '' ? undefined : text.split(','))),
    depth: Type.Integer({ minimum: 1, maximum: 16, default: 1 }),
    public: Type.Optional(Type.Boolean()),
    list: Type.Optional(Type.Array(Type.String())),
    value: Type.Optional(Type.Unknown()),
  }),
)

const outcome = (fields: object) => {
  try {
    return read(fields as Record<string, unknown>)
  } catch (error) {
    if (error instanceof RefusalError) return error.status
    throw error
  }
}

t.test('only the listed conversions happen, and the first bad parameter gives its name', async (t) => {
  t.same(outcome({ ids: 'a,b' }), { ids: ['a', 'b'], depth: 1 })
  t.same(outcome({ ids: 'a', depth: '16', public: 'true' }), { ids: ['a'], depth: 16, public: true })
  t.same(outcome({ ids: 'a', public: false }), { ids: ['a'], depth: 1, public: false })
  t.same(outcome({ ids: 'a', public: null, depth: null, list: null }), { ids: ['a'], depth: 1 })
  t.same(outcome({ ids: 'a', value: null }), { ids: ['a'], depth: 1, value: null })
  t.same(outcome({ ids: 'a', unknown: 1 }), { ids: ['a'], depth: 1 })
  t.equal(outcome({}), 'error-ids')
  t.equal(outcome({ ids: null }), 'error-ids')
  t.equal(outcome({ ids: '' }), 'error-ids')
  t.equal(outcome({ ids: 7 }), 'error-ids')
  t.equal(outcome({ ids: ['a'] }), 'error-ids')
  for (const depth of ['', '1.0', '1e1', '+1', ' 1', '0x1', '17', '0', 1.5, true, {}, [], '9'.repeat(40)])
    t.equal(outcome({ ids: 'a', depth }), 'error-depth', String(depth))
  for (const flag of ['TRUE', '1', 1, 0, '', 'yes', {}])
    t.equal(outcome({ ids: 'a', public: flag }), 'error-public', String(flag))
  t.equal(outcome({ ids: 'a', list: 'x' }), 'error-list')
  t.equal(outcome({ ids: 'a', list: [1] }), 'error-list')
})

t.test('a repeated parameter is refused by name, unless it is a list', async (t) => {
  t.equal(outcome(parseForm('ids=a&ids=b')), 'error-ids')
  t.equal(outcome(parseForm('ids=a&depth=1&depth=1')), 'error-depth')
  t.equal(outcome(parseJson('{"ids":"a","ids":"a"}')), 'error-ids')
  t.equal(outcome(parseJson('{"ids":"a","list":["x"],"list":["y"]}')), 'error-list')
  t.same(outcome(parseForm('ids=a&list=x&list=y')), { ids: ['a'], depth: 1, list: ['x', 'y'] })
})

t.test('names of the prototype are names like others', async (t) => {
  t.equal(outcome(parseJson('{"__proto__":{"ids":"a"}}')), 'error-ids')
  t.equal(outcome(parseForm('__proto__=x&constructor=y')), 'error-ids')
  const proto = parametersOf(Type.Object({ constructor: Type.Optional(Type.String()) }))
  t.same(Object.keys(proto({})), [])
  t.equal(({} as { ids?: string }).ids, undefined)
})

t.test('any bytes are a body or error-body', async () => {
  const types = fc.constantFrom(
    undefined,
    'application/json',
    'application/x-www-form-urlencoded',
    'text/plain',
    'image/png',
  )
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.json().map((text) => Buffer.from(text)),
    fc.string().map((text) => Buffer.from(`{"a":"${text}`)),
  )
  fc.assert(
    fc.property(types, bytes, (type, body) => {
      try {
        const fields = parseBody(type, body)
        return typeof fields === 'object' && !Array.isArray(fields)
      } catch (error) {
        return error instanceof RefusalError && error.status === 'error-body'
      }
    }),
    { numRuns: 500 },
  )
})

t.test('objects without repetitions survive JSON as they are', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      const parsed = parseJson(JSON.stringify(object))
      return JSON.stringify(parsed) === JSON.stringify(object)
    }),
  )
})

t.test(
  'nested, crowded and repeated bodies are refused or read in time linear in their length',
  async (t) => {
    const bytes = 256 * 1024
    const fill = (unit: string) => unit.repeat(Math.floor(bytes / unit.length))
    const bodies: Record<string, string> = {
      open: fill('['),
      arrays: `${fill('[').slice(0, bytes / 2)}${fill(']').slice(0, bytes / 2)}`,
      objects: `{"a":${fill('{"a":')}`,
      elements: `{"a":[${fill('0,')}0]}`,
      shapes: `{"a":[${Array.from({ length: 20_000 }, (_, at) => `{"k${at}":0}`).join(',')}]}`,
      members: `{${Array.from({ length: 20_000 }, (_, at) => `"k${at}":0`).join(',')}}`,
      repeated: `{${Array.from({ length: 20_000 }, (_, at) => `"k${at % 10_000}":0`).join(',')}}`,
    }
    for (const [name, text] of Object.entries(bodies)) {
      const parsed: number[] = []
      const parse = JSON.parse
      JSON.parse = (json: string) => {
        parsed.push(json.length)
        return parse(json)
      }
      t.teardown(() => {
        JSON.parse = parse
      })
      t.throws(() => parseBody('application/json', Buffer.from(text)), new RefusalError('error-body'), name)
      JSON.parse = parse
      t.ok(parsed.length <= 2_048 && Math.max(0, ...parsed) < 100, `${name}: not parsed as a whole`)
    }
    t.throws(
      () => parseBody('application/x-www-form-urlencoded', Buffer.from(fill('a&'))),
      new RefusalError('error-body'),
    )
    t.same(parseJson(`{"a":${'['.repeat(31)}${']'.repeat(31)}}`), {
      a: JSON.parse('['.repeat(31) + ']'.repeat(31)),
    })
    t.throws(() => parseJson(`{"a":${'['.repeat(32)}${']'.repeat(32)}}`), new RefusalError('error-body'))
    t.equal((parseJson(`{"a":[${'0,'.repeat(1_022)}0]}`).a as number[]).length, 1_023)
    t.ok(parseJson(`{"a":"${'[{,'.repeat(10_000)}"}`), 'text in a string is no structure')
    t.ok(Object.values(parseJson('{"a":1,"b":2,"a":3}')).some((value) => value instanceof RepeatedParameter))
  },
)

t.test('the time to read what a request carries grows with its length, for any content', async (t) => {
  const bearer = (value: string) =>
    bearerOf({
      headers: { authorization: value },
      raw: { rawHeaders: ['authorization', value] },
    } as unknown as Parameters<typeof bearerOf>[0])
  // Every rule for a text, also those that come later.
  const ofContents = Object.fromEntries(
    Object.entries(contentRules).filter(([name]) => /^(parse|clean|mailbox)/.test(name)),
  ) as Record<string, (text: string) => unknown>
  t.ok(Object.keys(ofContents).length >= 10)
  const readers: Record<string, (text: string) => unknown> = {
    parseForm,
    'a form body': (text) => parseBody('application/x-www-form-urlencoded', Buffer.from(text)),
    'a JSON body': (text) => parseBody('application/json', Buffer.from(text)),
    'a type': (text) => parseBody(text, Buffer.from('{}')),
    ...ofContents,
    normalAddress,
    pathOf,
    integerOf,
    bearerOf: (text) => bearer(`bearer ${text}`),
    'a domain of an address': (text) => parseEmail(`a@${text}`),
  }
  const pieces = [
    'a',
    ' ',
    '.',
    '&',
    '=',
    '%',
    '+json',
    '@',
    ',',
    '/',
    '\\',
    '::',
    '[',
    '{"a":',
    '"',
    '1',
    '\u202e',
    'ü',
  ]
  for (const [what, read] of Object.entries(readers)) {
    for (const piece of pieces) {
      const { linear, growth } = growsLinearly((n) => `${piece.repeat(n / piece.length)} !`, read)
      t.ok(linear, `${what} of "${piece}": ${growth.toFixed(1)} times for 8 times the characters`)
    }
  }
})

t.test('lengths of texts count characters', async (t) => {
  const read = parametersOf(Type.Object({ word: Type.String({ maxLength: 4 }) }))
  t.strictSame(read({ word: '😀😀😀😀' }), { word: '😀😀😀😀' })
  for (const word of ['😀😀😀😀😀', 'abcde', 'x'.repeat(100)])
    t.throws(() => read({ word }), { message: 'error-word' }, word)
})

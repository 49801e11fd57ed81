/**
 * Parameters by their schemas: one TypeBox object describes them for the types, the check and the
 * OpenAPI document.
 *
 * Only these conversions happen: `"true"`/`"false"` to booleans, decimal strings to integers, a
 * repeated form field to an array of strings. `null` in an optional parameter means that it was
 * omitted. The first bad one, in the schema's order, is refused by its name.
 */

import { codePoints, RefusalError } from '@holdfast/kernel'
import { Kind, type Static, type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Fields, RepeatedParameter } from './bodies.ts'
import { integerForms, integerOf } from './integers.ts'

const refine = Symbol('holdfast.refine')
const shown = Symbol('holdfast.shown')

/**
 * A schema whose value goes through `parse` after its plain form was accepted; `undefined` refuses
 * it. The parameter has the type that `parse` returns.
 *
 * @param document what `parse` requires beyond the schema, for readers of the OpenAPI document;
 *   only `parse` checks it
 */
export function withParser<In, Out>(
  schema: TSchema & { static: In },
  parse: (value: In) => Out | undefined,
  document: object = {},
): TUnsafe<Out> {
  return Type.Unsafe<Out>({ ...schema, [Kind]: schema[Kind], [refine]: parse, [shown]: document })
}

/**
 * The parameters as the OpenAPI document shows them: with the requirements of `withParser`, those
 * with a default optional, and in a JSON body with the accepted conversions.
 */
export function schemaForDocument(schema: TObject, place: 'body' | 'query'): object {
  const required = schema.required?.filter((name) => schema.properties[name]?.default === undefined) ?? []
  const properties = Object.entries(schema.properties).map(([name, property]) => {
    const one = { ...property, ...(property as { [shown]?: object })[shown] }
    return [name, place === 'query' ? one : inBody(one, required.includes(name))]
  })
  return { ...schema, required, properties: Object.fromEntries(properties) }
}

/** @throws when the document states no bounds: a text of any length would be valid */
function decimalText({ minimum, maximum }: TSchema): object {
  if (typeof minimum !== 'number' || typeof maximum !== 'number') throw new Error('an integer without bounds')
  return integerForms({ minimum, maximum })[1]
}

function inBody(schema: TSchema, isRequired: boolean): object {
  const { description, default: preset, ...plain } = schema
  const forms: object[] = [plain]
  if (schema.type === 'integer') forms.push(decimalText(schema))
  if (schema.type === 'boolean') forms.push({ type: 'string', enum: ['true', 'false'] })
  if (!isRequired && schema.type !== undefined) forms.push({ type: 'null' })
  if (forms.length === 1) return schema
  return {
    ...(description === undefined ? {} : { description }),
    ...(preset === undefined ? {} : { default: preset }),
    anyOf: forms,
  }
}

/** Compiles the reader of these parameters once. The reader throws RefusalError `error-<name>`. */
export function parametersOf<S extends TObject>(schema: S): (fields: Fields) => Static<S> {
  const readers = Object.entries(schema.properties).map(([name, property]) => ({
    name,
    read: readerOf(property, schema.required?.includes(name) === true),
  }))
  return (fields) => {
    const values: Fields = {}
    for (const { name, read } of readers) {
      const value = read(Object.hasOwn(fields, name) ? fields[name] : undefined)
      if (value === bad) throw new RefusalError(`error-${name}`)
      if (value !== undefined) values[name] = value
    }
    return values as Static<S>
  }
}

const bad = Symbol('bad')

function readerOf(schema: TSchema, required: boolean): (raw: unknown) => unknown {
  // Formats are for readers of the document: TypeBox refuses unknown ones, and `withParser` does
  // the check. Lengths count characters, as in JSON Schema; TypeBox counts UTF-16 units.
  const { format: _, maxLength, ...checked } = schema
  const plain = TypeCompiler.Compile(checked as TSchema)
  const charactersMax = typeof maxLength === 'number' ? maxLength : Number.POSITIVE_INFINITY
  const parse = (schema as { [refine]?: (value: unknown) => unknown })[refine]
  return (raw) => {
    const value = raw === null && !acceptsNull(schema) ? undefined : convert(schema, raw)
    if (value === undefined) return schema.default ?? (required ? bad : undefined)
    if (value instanceof RepeatedParameter || !plain.Check(value)) return bad
    if (typeof value === 'string' && isLonger(value, charactersMax)) return bad
    if (parse === undefined) return value
    return parse(value) ?? bad
  }
}

function isLonger(text: string, charactersMax: number): boolean {
  return text.length > charactersMax && (text.length > 2 * charactersMax || codePoints(text) > charactersMax)
}

function acceptsNull(schema: TSchema): boolean {
  return schema[Kind] === 'Unknown'
}

function convert(schema: TSchema, raw: unknown): unknown {
  if (raw instanceof RepeatedParameter) {
    return schema.type === 'array' && raw.values.length > 0 ? [...raw.values] : raw
  }
  if (typeof raw !== 'string') return raw
  if (schema.type === 'boolean') return booleanOf(raw) ?? raw
  if (schema.type === 'integer') return integerOf(raw) ?? raw
  return raw
}

export function booleanOf(value: unknown): boolean | undefined {
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  return undefined
}

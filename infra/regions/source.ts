/**
 * The text of a deployment as values that know their place: every fault names its line and field,
 * and all faults of a file are found in one pass.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

/** Far above what eight regions with hundreds of hosts need. */
const bytesMax = 4 * 1024 ** 2
const faultsMax = 50

export interface SourceFault {
  line: number
  /** Like `regions[0].hosts[1].rack`; empty for the whole file. */
  field: string
  text: string
}

/** A deployment that cannot be rendered. */
export class DeploymentFault extends Error {
  override readonly name = 'DeploymentFault'
  readonly code = 'DEPLOYMENT_INVALID'
  readonly faults: readonly SourceFault[]

  constructor(file: string, faults: readonly SourceFault[]) {
    const lines = faults
      .slice(0, faultsMax)
      .map(({ line, field, text }) => `${file}:${line}: ${field === '' ? '' : `${field} `}${text}`)
    if (faults.length > faultsMax) lines.push(`and ${faults.length - faultsMax} more`)
    super(lines.join('\n'))
    this.faults = faults
  }
}

/** Reads a text as one value. Faults of YAML itself are in `faults` already. */
export function readSource(text: string): { root: Value; faults: SourceFault[] } {
  const faults: SourceFault[] = []
  const lines = new LineCounter()
  const document = parseDocument(text.slice(0, bytesMax), { lineCounter: lines, prettyErrors: false })
  if (text.length > bytesMax) faults.push({ line: 1, field: '', text: 'the file is larger than 4 MiB' })
  for (const { message, pos } of [...document.errors, ...document.warnings])
    faults.push({ line: lines.linePos(pos[0]).line, field: '', text: message })
  const root = new Value(document.contents as Node | null, { field: '', line: 1, document, lines, faults })
  return { root, faults }
}

interface FieldPosition {
  field: string
  /** The line of the nearest node around it that has a place in the text. */
  line: number
  document: Document
  lines: LineCounter
  faults: SourceFault[]
}

/** A value in the text. Each reader records a fault and answers undefined when it does not fit. */
export class Value {
  readonly #node: Node | null
  readonly #place: FieldPosition

  constructor(node: Node | null, place: FieldPosition) {
    this.#node = isAlias(node) ? (node.resolve(place.document) ?? null) : node
    this.#place = place
  }

  get field(): string {
    return this.#place.field
  }

  fault(text: string): undefined {
    this.#place.faults.push({ line: this.#place.line, field: this.#place.field, text })
  }

  get isMap(): boolean {
    return isMap(this.#node)
  }

  /** Fields of a map; those that are not among `known` are faults. */
  fields<K extends string>(known: readonly K[]): Partial<Record<K, Value>> {
    const entries = this.entries() ?? []
    for (const [name, value] of entries)
      if (!(known as readonly string[]).includes(name))
        value.fault(`is unknown; known fields are ${known.join(', ')}`)
    return Object.fromEntries(entries) as Partial<Record<K, Value>>
  }

  /** A field that must be there. */
  required(fields: Partial<Record<string, Value>>, name: string): Value | undefined {
    if (fields[name] === undefined && this.isMap) this.#below(name, null, null).fault('is missing')
    return fields[name]
  }

  entries(): [name: string, value: Value][] | undefined {
    if (!isMap(this.#node)) return this.fault(`must be a map, but is ${this.#kind()}`)
    return this.#node.items.map(({ key, value }) => {
      const name = isScalar(key) ? String(key.value) : String(key)
      return [name, this.#below(name, value as Node | null, isScalar(key) ? key : null)]
    })
  }

  list(): Value[] | undefined {
    if (!isSeq(this.#node)) return this.fault(`must be a list, but is ${this.#kind()}`)
    return this.#node.items.map((item, at) => this.#below(`[${at}]`, item as Node, item as Node))
  }

  /** @param what in words, like `a name of letters, digits and -` */
  text(what: string, fits: RegExp | ((text: string) => boolean) = /./s): string | undefined {
    const text = this.#scalar()
    const good = typeof text === 'string' && (fits instanceof RegExp ? fits.test(text) : fits(text))
    if (good) return text
    const number = typeof text === 'number' ? ', a number: write it in quotes' : ''
    return this.fault(`must be ${what}, but is ${this.#kind()}${number}`)
  }

  /** As `text`, also of a number without quotes. */
  textOrNumber(what: string, fits: RegExp): string | undefined {
    const number = this.#scalar()
    return typeof number === 'number' && fits.test(String(number)) ? String(number) : this.text(what, fits)
  }

  choice<T extends string>(choices: readonly T[]): T | undefined {
    const text = this.#scalar()
    const known = choices.find((choice) => choice === text)
    return known ?? this.fault(`must be one of ${choices.join(', ')}, but is ${this.#kind()}`)
  }

  integer({ min, max }: { min: number; max: number }): number | undefined {
    const value = this.#scalar()
    const good = typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    return good ? value : this.fault(`must be a whole number from ${min} to ${max}, but is ${this.#kind()}`)
  }

  #scalar(): unknown {
    return isScalar(this.#node) ? this.#node.value : undefined
  }

  #kind(): string {
    if (this.#node === null) return 'empty'
    if (isMap(this.#node)) return 'a map'
    if (isSeq(this.#node)) return 'a list'
    return JSON.stringify(this.#scalar()) ?? 'empty'
  }

  /** @param at where a reader looks for it: the name of a field, which stands before its value. */
  #below(name: string, node: Node | null, at: Node | null): Value {
    const separator = name.startsWith('[') || this.field === '' ? '' : '.'
    const start = at?.range?.[0]
    const line = start === undefined ? this.#place.line : this.#place.lines.linePos(start).line
    return new Value(node, { ...this.#place, line, field: `${this.field}${separator}${name}` })
  }
}

/**
 * Settings as data: the name of a setting, its meaning, its default, and how its text becomes a
 * value. Reading them is pure and reports every fault at once, so that an operator need not fix a
 * configuration line by line.
 */
import { editsBetween } from '@holdfast/kernel'

export interface Setting<T> {
  /** Its meaning, in one line: unit, range, reason. */
  readonly meaning: string
  /** Its text when it is not set; empty: no value. */
  readonly fallback: string
  /** What its text must be, in words: for faults, and for the page of settings. Empty: any text. */
  readonly form: string
  /** Never printed, and readable from the file that `<NAME>_FILE` names. */
  readonly secret: boolean
  /** @throws Error with the valid form; the text is not empty unless the fallback is. */
  parse(text: string): T
}

export type Settings = Record<string, Setting<unknown>>
export type ValuesOf<S extends Settings> = { [K in keyof S]: ReturnType<S[K]['parse']> }
export type Environment = Readonly<Record<string, string | undefined>>

/** All faults of an environment, one line each. */
export class SettingsFault extends Error {
  override readonly name = 'SettingsFault'
  readonly code = 'SETTINGS'
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(
      `the settings have ${faults.length} fault${faults.length === 1 ? '' : 's'}:\n${faults.map((fault) => `  ${fault}`).join('\n')}`,
    )
    this.faults = faults
  }
}

/**
 * Every setting's value. An empty variable counts as unset.
 *
 * @param prefix variables with this prefix that are no settings are faults: a mistyped name must
 *   not be silently ignored.
 * @param readSecret reads the file that a `<NAME>_FILE` variable names.
 * @param check rules over several settings; receives those that are valid by themselves.
 * @throws SettingsFault naming every fault.
 */
export function readSettings<S extends Settings>(
  settings: S,
  env: Environment,
  {
    prefix,
    readSecret,
    check = () => [],
  }: {
    prefix: string
    readSecret: (path: string) => string
    check?: (values: Partial<ValuesOf<S>>) => string[]
  },
): ValuesOf<S> {
  const faults = unknownNames(settings, env, prefix)
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(settings)) {
    try {
      values[name] = setting.parse(textOf(name, setting, env, readSecret) || setting.fallback)
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`)
    }
  }
  faults.push(...check(values as Partial<ValuesOf<S>>))
  if (faults.length > 0) throw new SettingsFault(faults)
  return values as ValuesOf<S>
}

function textOf(
  name: string,
  setting: Setting<unknown>,
  env: Environment,
  readSecret: (path: string) => string,
): string {
  const text = env[name]?.trim() ?? ''
  const file = setting.secret ? env[`${name}_FILE`] : undefined
  if (!file) return text
  if (text !== '') throw new Error(`is set twice, also by ${name}_FILE`)
  const secret = readFrom(file)
  // Without this a file that was cut off would count as a secret that is not set.
  if (secret === '') throw new Error(`is empty in ${name}_FILE=${file}`)
  return secret

  function readFrom(path: string): string {
    try {
      return readSecret(path).trim()
    } catch (error) {
      throw new Error(`cannot be read from ${name}_FILE=${path}: ${(error as Error).message}`)
    }
  }
}

function unknownNames(settings: Settings, env: Environment, prefix: string): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !isSetting(settings, name))
    .sort()
    .map((name) => {
      const near = nearest(name, Object.keys(settings))
      return `${name} is no setting${near === undefined ? '' : `; did you mean ${near}?`}`
    })
}

function isSetting(settings: Settings, name: string): boolean {
  if (Object.hasOwn(settings, name)) return true
  const base = name.replace(/_FILE$/, '')
  return base !== name && Object.hasOwn(settings, base) && settings[base]?.secret === true
}

/** The name that differs by at most three letters, for a hint. */
function nearest(name: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((other) => ({ other, far: editsBetween(name, other) }))
    .sort((a, b) => a.far - b.far)
  return best !== undefined && best.far <= 3 ? best.other : undefined
}

// ---- kinds of values

type SettingText = { fallback: string; meaning: string }

function notOf(form: string, value: string): Error {
  return new Error(`is "${value}", but must be ${form}`)
}

export function text({ fallback, meaning }: SettingText): Setting<string> {
  return { fallback, meaning, form: '', secret: false, parse: (value) => value }
}

export function secret({
  meaning,
  form = '',
  check,
}: {
  meaning: string
  form?: string
  check?: (value: string) => void
}): Setting<string | undefined> {
  return {
    fallback: '',
    meaning,
    form,
    secret: true,
    parse: (value) => {
      if (value === '') return undefined
      check?.(value)
      return value
    },
  }
}

export function choice<const T extends string>(
  among: readonly T[],
  { fallback, meaning }: SettingText & { fallback: T },
): Setting<T> {
  const form = `one of ${among.join(', ')}`
  return {
    fallback,
    meaning,
    form,
    secret: false,
    parse: (value) => {
      if (!(among as readonly string[]).includes(value)) throw notOf(form, value)
      return value as T
    },
  }
}

export function onOff({ fallback, meaning }: SettingText & { fallback: 'on' | 'off' }): Setting<boolean> {
  const words = choice(['on', 'off'], { fallback, meaning })
  return { ...words, parse: (value) => words.parse(value) === 'on' }
}

export function integer({
  fallback,
  meaning,
  min,
  max,
}: SettingText & { min: number; max: number }): Setting<number> {
  const form = `a whole number from ${min} to ${max}`
  return {
    fallback,
    meaning,
    form,
    secret: false,
    parse: (value) => {
      const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
      if (!(number >= min && number <= max)) throw notOf(form, value)
      return number
    },
  }
}

/** Seconds, fractions allowed. */
export function seconds({
  fallback,
  meaning,
  min,
  max,
}: SettingText & { min: number; max: number }): Setting<number> {
  const form = `a number of seconds from ${min} to ${max}`
  return {
    fallback,
    meaning,
    form,
    secret: false,
    parse: (value) => {
      const number = /^\d{1,9}(\.\d{1,3})?$/.test(value) ? Number(value) : Number.NaN
      if (!(number >= min && number <= max)) throw notOf(form, value)
      return number
    },
  }
}

const daySeconds = 86_400
const daysMax = 36_500

/** Days, fractions allowed, as seconds; or `none`. */
export function daysOrNone({ fallback, meaning }: SettingText): Setting<number | undefined> {
  const form = `a number of days up to ${daysMax}, or none`
  return {
    fallback,
    meaning,
    form,
    secret: false,
    parse: (value) => {
      if (value === 'none') return undefined
      const seconds = /^\d{1,5}(\.\d{1,6})?$/.test(value)
        ? Math.round(Number(value) * daySeconds)
        : Number.NaN
      if (!(seconds >= 1 && seconds <= daysMax * daySeconds)) throw notOf(form, value)
      return seconds
    },
  }
}

const byteUnits: Record<string, number> = {
  '': 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
}

const bytesForm = 'a number of bytes like 1048576, 10MB or 2GiB'

/** Bytes, as a plain number or with a unit; with `none` where that makes sense. */
export function bytesOrNone({ fallback, meaning }: SettingText): Setting<number | undefined> {
  const some = bytes({ fallback, meaning })
  return {
    ...some,
    form: `${some.form}, or none`,
    parse: (value) => (value === 'none' ? undefined : some.parse(value)),
  }
}

/** @param min smallest accepted value, bytes. */
export function bytes({ fallback, meaning, min = 0 }: SettingText & { min?: number }): Setting<number> {
  return {
    fallback,
    meaning,
    form: min === 0 ? bytesForm : `${bytesForm}, ${min} or more`,
    secret: false,
    parse: (value) => {
      const [, digits, unit] = /^(\d{1,15}) ?([kKMGT]i?B)?$/.exec(value) ?? []
      const factor = byteUnits[unit ?? '']
      const number = digits === undefined || factor === undefined ? Number.NaN : Number(digits) * factor
      if (!Number.isSafeInteger(number)) throw notOf(bytesForm, value)
      if (number < min) throw notOf(`${min} bytes or more`, value)
      return number
    },
  }
}

const urlForm = 'a URL like https://files.example.org'

/** An http(s) base URL without query and trailing slash; empty: none. */
export function baseUrl({ meaning }: { meaning: string }): Setting<string | undefined> {
  return { fallback: '', meaning, form: urlForm, secret: false, parse: parsedUrl }
}

/** A base URL without a path: clients append the paths of the interface to it. */
export function origin({ meaning }: { meaning: string }): Setting<string | undefined> {
  return {
    fallback: '',
    meaning,
    form: `${urlForm} without a path`,
    secret: false,
    parse: (value) => {
      const base = parsedUrl(value)
      const url = base === undefined ? undefined : new URL(base)
      if (url !== undefined && url.pathname !== '/')
        throw new Error(`is "${value}", but must have no path, like ${url.origin}`)
      return base
    },
  }
}

function parsedUrl(value: string): string | undefined {
  if (value === '') return undefined
  const url = URL.canParse(value) ? new URL(value) : undefined
  const plain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    url.username === '' &&
    url.password === '' &&
    !/[?#\s]/.test(value)
  if (!plain) throw notOf(urlForm, value)
  return value.replace(/\/+$/, '')
}

export function pattern(valid: RegExp, form: string, { fallback, meaning }: SettingText): Setting<string> {
  return {
    fallback,
    meaning,
    form,
    secret: false,
    parse: (value) => {
      if (!valid.test(value)) throw notOf(form, value)
      return value
    },
  }
}

/** `auto`: undefined. */
export function countOrAuto({
  meaning,
  ...range
}: {
  meaning: string
  min: number
  max: number
}): Setting<number | undefined> {
  const number = integer({ fallback: '', meaning, ...range })
  return {
    fallback: 'auto',
    meaning,
    form: `${number.form}, or auto`,
    secret: false,
    parse: (value) => (value === 'auto' ? undefined : number.parse(value)),
  }
}

/** Databases as the stores have them, with what they hold. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { blockFrom } from '../src/block.ts'
import { type KeyRange, type LiveTable, type Manifest, readManifest } from '../src/index.ts'
import { contentsAt, handleIn, listsOf } from '../src/table.ts'

export type Rows = Map<string, Buffer>
export type Level = ClassicLevel<Uint8Array, Uint8Array>

export const storeOptions = { keyEncoding: 'view', valueEncoding: 'view', compression: false } as const

export async function inLevel<T>(path: string, use: (level: Level) => Promise<T>, options = {}): Promise<T> {
  const level: Level = new ClassicLevel(path, { ...storeOptions, ...options })
  await level.open()
  try {
    return await use(level)
  } finally {
    await level.close()
  }
}

export function seeded(seed: number): { below(max: number): number; bytes(count: number): Buffer } {
  let state = seed >>> 0
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  return {
    below: (max) => Math.floor(next() * max),
    bytes: (count) => {
      const bytes = Buffer.allocUnsafe(count)
      for (let at = 0; at < count; at++) bytes[at] = next() * 256
      return bytes
    },
  }
}

/**
 * Tables in several levels: rows that were compacted, then newer ones of some of them, removals,
 * and a row that fills several blocks with its versions.
 */
export async function variedDatabase(path: string, seed: number): Promise<Rows> {
  const random = seeded(seed)
  const rows: Rows = new Map()
  const keyOf = (n: number) => `j account ${(n * 7_919) % 2_003}/${String(n).padStart(8, '0')}`
  const put = async (level: Level, key: string, bytes: number) => {
    const value = random.bytes(bytes)
    rows.set(key, value)
    await level.put(Buffer.from(key), value)
  }
  const compacted = async (level: Level) => {
    for (let n = 0; n < 2_000; n++) await put(level, keyOf(n), n % 500 === 0 ? 40_000 : random.below(2_500))
    await put(level, '', 10)
    await level.compactRange(Buffer.alloc(0), Buffer.alloc(1, 0xff))
    // The first table only moves to a deeper level. Two are merged, and cut where they are full.
    for (let n = 0; n < 2_000; n += 5) await put(level, keyOf(n), random.below(2_500))
    await level.compactRange(Buffer.alloc(0), Buffer.alloc(1, 0xff))
  }
  await inLevel(path, compacted, { maxFileSize: 1 << 20 })
  await inLevel(path, async (level) => {
    for (let n = 0; n < 600; n += 2) await put(level, keyOf(random.below(2_000)), random.below(1_500))
    for (let n = 0; n < 100; n++) await put(level, 'm hot', 300)
    for (let n = 0; n < 2_000; n += 50) {
      rows.delete(keyOf(n))
      await level.del(Buffer.from(keyOf(n)))
    }
  })
  // The log becomes a table when it is opened.
  await inLevel(path, async (level) => {
    for (let n = 0; n < 50; n++) await put(level, `n newest ${n}`, 200)
  })
  await inLevel(path, async () => {})
  return rows
}

export function manifestPath(path: string): string {
  return join(path, readFileSync(join(path, 'CURRENT'), 'utf8').trim())
}

export function manifestOf(path: string): Manifest {
  const manifest = readManifest(readFileSync(manifestPath(path)))
  if (manifest === undefined) throw new Error(`${manifestPath(path)} cannot be read`)
  return manifest
}

export function tablePath(path: string, { number }: { number: number }): string {
  return join(path, `${String(number).padStart(6, '0')}.ldb`)
}

/** @param replaced tables in place of its own */
export function copyOf(path: string, copy: string, replaced: [LiveTable, Buffer][]): string {
  cpSync(path, copy, { recursive: true })
  for (const [table, bytes] of replaced) writeFileSync(tablePath(copy, table), bytes)
  return copy
}

export function filesEnding(path: string, ending: string): string[] {
  return readdirSync(path).filter((file) => file.endsWith(ending))
}

/** The data blocks of a table that is whole, with the user keys in each. */
export function blocksOf(table: Buffer): { begin: number; end: number; keys: Buffer[] }[] {
  const entriesIn = (contents: Buffer) => blockFrom(contents)?.entries ?? []
  return entriesIn(contentsAt(table, listsOf(table).index)).map(({ value }) => {
    const handle = handleIn(value)
    const keys = entriesIn(contentsAt(table, handle)).map(({ key }) => key.subarray(0, -8))
    return { begin: handle.offset, end: handle.offset + handle.size + 5, keys }
  })
}

export function isLost(key: Uint8Array, lost: KeyRange[]): boolean {
  return lost.some(
    ({ after, through }) =>
      (after === undefined || Buffer.compare(key, after) > 0) &&
      (through === undefined || Buffer.compare(key, through) <= 0),
  )
}

/** Reads every row that is not lost, one by one and in order; what differs. */
export async function differences(level: Level, rows: Rows, lost: KeyRange[]): Promise<string[]> {
  const wrong: string[] = []
  const isRight = (key: Buffer, value: Uint8Array | undefined) =>
    isLost(key, lost) || (value === undefined ? !rows.has(String(key)) : rows.get(String(key))?.equals(value))
  const seen = new Set<string>()
  for await (const [key, value] of level.iterator()) {
    seen.add(String(key))
    if (!isRight(Buffer.from(key), value)) wrong.push(`iterated ${String(key)}`)
  }
  for (const name of rows.keys()) {
    const key = Buffer.from(name)
    if (!isRight(key, await level.get(key))) wrong.push(`got ${name}`)
    if (!seen.has(name) && !isLost(key, lost)) wrong.push(`missed ${name}`)
  }
  return wrong
}

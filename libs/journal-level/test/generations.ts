/** A store whose rows lie in several levels, and a model of what it acknowledged. */
import { join } from 'node:path'
import { Level } from 'level'
import type { Test } from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'
import { directory } from './directories.ts'

/** The same numbers for the same seed, from 0 to 1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export interface AccountModel {
  /** All that were ever written. */
  rows: Map<number, string>
  head: number
  /** The root and its page, the newest last. */
  roots: { root: string; page: string }[]
}

export interface Model {
  accounts: Map<string, AccountModel>
  lookups: Map<string, string>
  /** The next number of each. */
  counters: Map<string, number>
}

const owner = 'writer'
const text = (random: () => number, words: string) => `${words} ${'.'.repeat(Math.floor(random() * 400))}`

/** @param options.generations each in a run of its own, so in a table of its own. */
export async function generationsOf(
  t: Test,
  { seed, accounts, generations }: { seed: number; accounts: number; generations: number },
): Promise<{ path: string; model: Model; names: string[] }> {
  const random = seeded(seed)
  const path = await directory(t)
  const hex = (digits: number) =>
    Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join('')
  const names = Array.from({ length: accounts }, () => [8, 4, 4, 4, 12].map(hex).join('-'))
  const model: Model = { accounts: new Map(), lookups: new Map(), counters: new Map() }
  for (let generation = 0; generation < generations; generation++) {
    const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    const chosen = names.filter(() => generation === 0 || random() < 0.3)
    // Of its own, because they run at the same time.
    const randomOf = (name: string) => seeded(seed + 997 * generation + Number.parseInt(name, 16))
    await Promise.all(
      chosen.map((name) => change(store, model, { name, random: randomOf(name), generation })),
    )
    for (const counter of ['codes', 'legacy'])
      model.counters.set(counter, (await store.lookups.take(counter, 64)) + 64)
    await store.close()
    if (generation === 1 || generation === generations - 3) await compact(path)
  }
  return { path, model, names }
}

async function change(
  { journals, lookups }: LevelMetadataStore,
  model: Model,
  { name, random, generation }: { name: string; random: () => number; generation: number },
): Promise<void> {
  const ownership = await journals.acquire(name, { owner })
  const known: AccountModel = model.accounts.get(name) ?? { rows: new Map(), head: 0, roots: [] }
  model.accounts.set(name, known)
  for (let rows = 1 + Math.floor(random() * 4); rows > 0; rows--) {
    const row = text(random, `row ${known.head + 1} of ${name}`)
    await journals.append(ownership, Buffer.from(row))
    known.rows.set(++known.head, row)
  }
  if (random() < 0.5) {
    // As checkpoints do it: a page is written once, and a root names it.
    const pageName = `page-${generation}`
    const page = text(random, `${pageName} of ${name}`)
    await journals.putPage(name, pageName, Buffer.from(page))
    const through = known.head - 1
    const root = text(random, `${pageName} through ${through}`)
    await journals.setRoot(ownership, { root: Buffer.from(root), through })
    await journals.trim(ownership, through)
    known.roots.push({ root, page })
  }
  for (const key of [`ref/${name}`, `mail/${name}/${generation}`]) {
    const value = text(random, `${key} in ${generation}`)
    await lookups.write([{ put: key, value: Buffer.from(value) }])
    model.lookups.set(key, value)
  }
  await journals.release(ownership)
}

async function compact(path: string): Promise<void> {
  const level = new Level(join(path, 'rows'), { compression: false })
  await level.open()
  const { compactRange } = level as unknown as { compactRange(from: string, to: string): Promise<void> }
  await compactRange.call(level, '\x01', '\x7f')
  await level.close()
}

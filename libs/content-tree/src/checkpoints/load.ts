/**
 * The state from the pages of a checkpoint.
 *
 * Whole columns are set: what is left to do for a row is its name, its place in the index and its
 * neighbours. Rows keep their numbers, so the next checkpoint can continue with the same parts;
 * only a table with far more rows than are taken is made dense, and saved as a whole then. Yields
 * about every millisecond.
 */

import { isAscii } from 'node:buffer'
import { hex, isTier } from '@holdfast/kernel'
import { type BlobColumns, CheckpointPage, type ContentColumns } from '@holdfast/wire'
import { Account } from '../account/account.ts'
import { rowsPerPart, sparseTimes } from '../bounds.ts'
import { assertRows, none, type RowRun, setColumn, wordsOf } from '../tree/columns.ts'
import { noteNames } from '../tree/notes.ts'
import type { Tree } from '../tree/tree.ts'
import { pageVersion } from './checkpoint.ts'
import { upgradePages } from './older-checkpoint.ts'

/** @throws Error when the pages are not whole, or of another account. */
export function* loadAccount(accountId: string, pages: readonly Uint8Array[]): Generator<void, Account> {
  const account = new Account(accountId)
  const decoded: CheckpointPage[] = []
  for (const bytes of pages) {
    decoded.push(CheckpointPage.decode(bytes))
    yield
  }
  const [first] = decoded
  const version = first?.version ?? pageVersion
  if (decoded.some((page) => page.version !== version) || (version !== pageVersion && version !== 1))
    throw new Error(`checkpoint pages of version ${version}, not ${pageVersion}`)
  if (version === 1) upgradePages(decoded)
  const record = first?.account
  if (record === undefined) {
    if (decoded.some((page) => page.contents !== undefined))
      throw new Error('a checkpoint without its first page')
    return account
  }
  const head = first?.head
  if (head === undefined) throw new Error('a checkpoint without its head')
  if (record.id !== accountId) throw new Error(`a checkpoint of account ${record.id}, not ${accountId}`)
  if (!isTier(record.tier)) throw new Error(`a checkpoint with tier ${record.tier}`)
  const { nextEffect, outcomeFloorMs, nextCode, codeTerm, tier, ...rest } = record
  account.record = {
    ...rest,
    tier: record.tier,
    email: record.email,
    premiumType: record.premiumType,
    limitContents: record.limitContents,
    limitStorage: record.limitStorage,
    idleFrom: record.idleFrom,
    endTime: record.endTime,
  }
  const rows = new Loader(account.tree, decoded)
  yield* rows.load(head)
  const { effects, outcomes } = account
  effects.next = nextEffect
  account.nextCode = { next: nextCode, term: codeTerm }
  for (const effect of decoded.flatMap((page) => page.effects)) effects.restore(effect)
  outcomes.restore(
    decoded.flatMap((page) => page.outcomes),
    { floorMs: outcomeFloorMs, first: { minted: head.firstMinted, keyed: head.firstKeyed } },
  )
  outcomes.digests.oldest = head.firstDigest
  for (const { keyDigests } of decoded) {
    for (const columns of keyDigests) outcomes.digests.load(columns)
    yield
  }
  for (const { source, sequence } of decoded.flatMap((page) => page.sources))
    account.sources.set(hex(source), sequence)
  const { tree } = account
  const tables = [tree.contents, tree.blobs.columns, tree.passwords, outcomes.minted, outcomes.keyed]
  for (const { marks } of [...tables, outcomes.digests]) marks.clear()
  if (rows.isMoved) for (const { marks, end } of [tree.contents, tree.blobs.columns]) marks.touchAll(end)
  return account
}

/** Where the rows of a checkpoint go. */
class Places {
  readonly end: number
  readonly #places: Uint32Array | undefined

  constructor(runs: readonly RowRun[]) {
    const end = runs.reduce((last, { row, count }) => Math.max(last, row + count), 0)
    const taken = runs.reduce((sum, { count }) => sum + count, 0)
    const isSparse = end > rowsPerPart && end > sparseTimes * taken
    this.end = isSparse ? taken : end
    if (!isSparse) return
    this.#places = new Uint32Array(end).fill(none)
    let place = 0
    for (const { row, count } of runs.toSorted((one, other) => one.row - other.row))
      for (let at = row; at < row + count; at++) this.#places[at] = place++
  }

  get areNew(): boolean {
    return this.#places !== undefined
  }

  of(row: number): number {
    return row === none || this.#places === undefined ? row : (this.#places[row] ?? none)
  }

  /** Rows from `first` on, before `end`, of a column of row numbers. */
  move(column: Uint32Array, first: number, end: number): void {
    if (this.#places === undefined) return
    for (let row = first; row < end; row++) column[row] = this.of(column[row] as number)
  }
}

class Loader {
  readonly #tree: Tree
  readonly #pages: readonly CheckpointPage[]
  readonly #contents: Places
  readonly #blobs: Places

  constructor(tree: Tree, pages: readonly CheckpointPage[]) {
    this.#tree = tree
    this.#pages = pages
    this.#contents = new Places(pages.flatMap(({ contents }) => runsOf(contents)))
    this.#blobs = new Places(pages.flatMap(({ blobs }) => runsOf(blobs)))
  }

  /** Rows have other numbers than in the checkpoint. */
  get isMoved(): boolean {
    return this.#contents.areNew || this.#blobs.areNew
  }

  *load(head: NonNullable<CheckpointPage['head']>): Generator<void, void> {
    const tree = this.#tree
    const pages = this.#pages
    const folders = pages.reduce((sum, { contents }) => sum + (contents?.expiries.length ?? 0) / 8, 0)
    tree.reserve({ contents: this.#contents.end, folders, blobs: this.#blobs.end })
    for (const { passwords, passwordRows } of pages) {
      if (passwords.length !== passwordRows.length) throw new Error('checkpoint passwords without their rows')
      for (const [at, verifier] of passwords.entries())
        tree.passwords.restore(passwordRows[at] as number, verifier)
    }
    for (const { blobs } of pages) {
      if (blobs === undefined) continue
      this.#loadBlobs(blobs)
      yield
    }
    tree.blobs.restored()
    for (const { contents } of pages) {
      if (contents === undefined) continue
      this.#loadContents(contents)
      yield
    }
    tree.root = this.#contents.of(head.rootRow)
    tree.bin = this.#contents.of(head.binRow)
    for (const { garbage } of pages)
      for (const row of wordsOf(garbage)) if (row !== head.heldRow) tree.garbage.push(this.#contents.of(row))
    if (head.heldRow !== undefined) tree.held = this.#contents.of(head.heldRow)
    yield* tree.restored()
    this.#loadNotes()
  }

  #loadBlobs(saved: BlobColumns): void {
    let place = 0
    for (const { row, count } of runsOf(saved)) {
      this.#tree.blobs.load(saved, { row: this.#blobs.of(row), count }, place)
      place += count
    }
  }

  #loadContents(saved: ContentColumns): void {
    const { flags, mimetypeIndexes } = saved
    const count = flags.length
    const runs = runsOf(saved)
    assertRows(count, [
      [saved.ids, 16],
      [saved.parents, 4],
      [saved.previous, 4],
      [saved.links, 4],
      [saved.codes, 8],
      [saved.createTimes, 8],
      [saved.modTimes, 8],
      [saved.downloads, 8],
      [saved.nameLengths, 4],
      [mimetypeIndexes, 2],
      ...(saved.usedTimes.length > 0 ? [[saved.usedTimes, 4] as [Uint8Array, number]] : []),
    ])
    if (runs.reduce((sum, run) => sum + run.count, 0) !== count)
      throw new Error('checkpoint columns of other rows than they say')
    const mimetypes = saved.mimetypes.map((mimetype) => this.#tree.shared(mimetype))
    const mimetypeOf = new Uint16Array(count)
    setColumn(mimetypeOf, 0, mimetypeIndexes)
    const names = namesOf(saved.names, saved.nameLengths)
    let place = 0
    let folder = 0
    for (const run of runs) {
      const first = this.#setColumns(saved, run, place)
      for (let row = first; row < first + run.count; row++, place++) {
        const name = names[place] as string
        const flag = flags[place] as number
        if ((flag & 1) === 0) this.#file(row, name, mimetypes[mimetypeOf[place] as number])
        else this.#folder(row, name, { flags: flag, expiry: saved.expiries.readDoubleLE(folder++ * 8) })
      }
    }
  }

  /** @returns the first row of the run in the table. */
  #setColumns(saved: ContentColumns, { row, count }: RowRun, place: number): number {
    const { contents } = this.#tree
    const first = this.#contents.of(row)
    const part = (column: Uint8Array, bytes: number) =>
      column.subarray(place * bytes, (place + count) * bytes)
    contents.restore({ row: first, count })
    setColumn(contents.ids, first, part(saved.ids, 16), 4)
    setColumn(contents.code, first, part(saved.codes, 8), 8)
    setColumn(contents.created, first, part(saved.createTimes, 8))
    setColumn(contents.modified, first, part(saved.modTimes, 8))
    setColumn(contents.downloads, first, part(saved.downloads, 8))
    if (saved.usedTimes.length > 0) setColumn(contents.used, first, part(saved.usedTimes, 4))
    setColumn(contents.parent, first, part(saved.parents, 4))
    setColumn(contents.previous, first, part(saved.previous, 4))
    setColumn(contents.link, first, part(saved.links, 4))
    this.#contents.move(contents.parent, first, first + count)
    this.#contents.move(contents.previous, first, first + count)
    return first
  }

  #file(row: number, name: string, mimetype: string | undefined): void {
    const { contents, blobs } = this.#tree
    const blob = this.#blobs.of(contents.link[row] as number)
    if (mimetype === undefined || !blobs.columns.isTaken(blob))
      throw new Error('a checkpoint row names a type or a blob that is not there')
    contents.link[row] = blob
    this.#tree.restoreFile(row, name, mimetype)
  }

  #folder(row: number, name: string, { flags, expiry }: { flags: number; expiry: number }): void {
    const link = this.#tree.contents.link[row] as number
    this.#tree.restoreFolder(row, { name, flags, expiry, password: link === 0 ? undefined : link - 1 })
  }

  #loadNotes(): void {
    const tree = this.#tree
    for (const note of this.#pages.flatMap(({ notes }) => notes)) {
      const row = this.#contents.of(note.row)
      for (const name of noteNames) {
        const text = note[name]
        if (text !== undefined) tree.sparse.setNote(name, row, text)
      }
      const { recycledTime: time, recycledFrom: from = '', heldUntil: until, heldWhy: why } = note
      if (time === undefined) continue
      if (until === undefined) tree.sparse.setRecycled(row, { time, from })
      else tree.sparse.setSwept(row, { time, from, until, why })
    }
    const links = new Map<number, NonNullable<CheckpointPage['links'][number]['link']>[]>()
    for (const { row, link } of this.#pages.flatMap((page) => page.links)) {
      if (link === undefined) continue
      const known = links.get(row)
      if (known === undefined) links.set(row, [link])
      else known.push(link)
    }
    for (const [row, all] of links) tree.sparse.setDirectLinks(this.#contents.of(row), all)
  }
}

function runsOf(saved: { runs: Uint8Array } | undefined): RowRun[] {
  if (saved === undefined) return []
  const words = wordsOf(saved.runs)
  return Array.from({ length: words.length / 2 }, (_, at) => ({
    row: words[at * 2] as number,
    count: words[at * 2 + 1] as number,
  }))
}

/**
 * In ASCII they are substrings of one string, which lives as long as one of them; anything else is
 * decoded name by name.
 */
function namesOf(names: Buffer, nameLengths: Uint8Array): string[] {
  const found: string[] = []
  const text = isAscii(names) ? names.toString('latin1') : undefined
  let at = 0
  for (const length of wordsOf(nameLengths)) {
    const end = at + length
    found.push(text === undefined ? names.toString('utf8', at, end) : text.slice(at, end))
    at = end
  }
  if (at !== names.length) throw new Error('checkpoint names of other lengths than theirs')
  return found
}

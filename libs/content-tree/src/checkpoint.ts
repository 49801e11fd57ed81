/**
 * The state as pages of bytes, and back.
 *
 * Rows are renumbered into the canonical order of the columns (see checkpoint.proto), so equal
 * states make equal pages in any order of rows. Numbers are little-endian, as in the memory of
 * every machine that Node runs on. Loading sets whole columns: no work per row except its name, its
 * place in the index and its neighbours. Both yield about every millisecond.
 */
import {
  type BlobColumns,
  CheckpointPage,
  type ContentColumns,
  type ContentNote,
  type LinkNote,
  type PasswordVerifier,
} from '@holdfast/wire'
import { Account } from './account.ts'
import { none } from './columns.ts'
import { isTier } from './facts.ts'
import { keyDigestsPerSlice, rowsPerSlice } from './limits.ts'
import { loadContents } from './load.ts'
import { savedLinkBytes, savedNoteBytes, savedRowBytes, savedTextBytes } from './saved-bytes.ts'
import type { Tree } from './tree.ts'

/** Pages are at most 256 KiB; the last part may be 64 KiB (a direct link). */
const pageBytesTarget = 160 * 1024
const version = 1

/** The state must not change until the last step. */
export function* checkpointPages(account: Account): Generator<void, Uint8Array[]> {
  const pages = new Pages()
  if (account.facts === undefined) return pages.end()
  const { facts, effects, outcomes, tree } = account
  pages.page.account = {
    ...facts,
    nextEffect: effects.next,
    outcomeFloorMs: outcomes.floorMs,
    nextCode: account.nextCode.next,
    codeTerm: account.nextCode.term,
  }
  const order = yield* canonicalOrder(tree)
  for (const verifier of order.passwords.keys()) pages.add('passwords', verifier, savedRowBytes.password)
  yield* writeBlobs(tree, order, pages)
  yield* writeContents(tree, order, pages)
  yield* writeNotes(tree, order, pages)
  for (const outcome of outcomes.all()) {
    const cut = pages.add('outcomes', outcome, 60 + outcome.reply.length + outcome.ids.length)
    if (cut) yield
  }
  for (const columns of outcomes.digests.saved(keyDigestsPerSlice)) {
    pages.page.keyDigests.push(columns)
    pages.grow(columns.operations.length * savedRowBytes.keyDigest)
    yield
  }
  for (const [source, sequence] of account.sources)
    pages.add('sources', { source: Buffer.from(source, 'hex'), sequence }, 40)
  for (const effect of effects.kept()) {
    const cut = pages.add('effects', effect, mailBytes)
    if (cut) yield
  }
  return pages.end()
}

/** An effect that is kept. */
const mailBytes = 500

/** Cuts the stream of entries into pages. */
class Pages {
  page = blankPage()
  #bytes = 0
  readonly #done: Uint8Array[] = []

  /** @returns whether that filled a page. */
  add<List extends 'passwords' | 'notes' | 'links' | 'outcomes' | 'sources' | 'effects'>(
    list: List,
    entry: CheckpointPage[List][number],
    bytes: number,
  ): boolean {
    ;(this.page[list] as (typeof entry)[]).push(entry)
    return this.grow(bytes)
  }

  /** Call it after that many bytes were put into the page. */
  grow(bytes: number): boolean {
    this.#bytes += bytes
    const full = this.#bytes >= pageBytesTarget
    if (full) this.cut()
    return full
  }

  get room(): number {
    return pageBytesTarget - this.#bytes
  }

  end(): Uint8Array[] {
    if (this.#bytes > 0 || this.#done.length === 0) this.cut()
    return this.#done
  }

  cut(): void {
    this.#done.push(CheckpointPage.encode(this.page).finish())
    this.page = blankPage()
    this.#bytes = 0
  }
}

function blankPage(): CheckpointPage {
  return {
    version,
    account: undefined,
    passwords: [],
    blobs: undefined,
    contents: undefined,
    notes: [],
    links: [],
    outcomes: [],
    keyDigests: [],
    sources: [],
    effects: [],
  }
}

interface Canonical {
  /** Rows in the order of their places, and the place of each row. */
  rows: Uint32Array
  places: Uint32Array
  /** The same of blobs. */
  blobRows: number[]
  blobPlaces: Uint32Array
  passwords: Map<PasswordVerifier, number>
}

function* canonicalOrder(tree: Tree): Generator<void, Canonical> {
  const { contents, blobs } = tree
  const rows = new Uint32Array(contents.count)
  const places = new Uint32Array(contents.parent.length)
  const blobRows: number[] = []
  const blobPlaces = new Uint32Array(blobs.columns.uses.length).fill(none)
  const passwords = new Map<PasswordVerifier, number>()
  let end = 0
  const put = (row: number) => {
    places[row] = end
    rows[end++] = row
  }
  for (const top of [tree.root, tree.bin, ...tree.garbage]) {
    const open = [top]
    for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
      put(folder)
      const password = tree.passwordOf(folder)
      if (password !== undefined && !passwords.has(password)) passwords.set(password, passwords.size)
      for (const file of tree.fileRows(folder)) {
        put(file)
        const blob = tree.blobRowOf(file)
        if (blobPlaces[blob] === none) blobPlaces[blob] = blobRows.push(blob) - 1
        if (end % rowsPerSlice === 0) yield
      }
      for (const below of [...tree.folderRows(folder)].reverse()) open.push(below)
      if (end % rowsPerSlice === 0) yield
    }
  }
  for (const [, blob] of blobs.releases()) blobPlaces[blob] = blobRows.push(blob) - 1
  return { rows, places, blobRows, blobPlaces, passwords }
}

function* writeBlobs(tree: Tree, { blobRows: rows }: Canonical, pages: Pages): Generator<void> {
  for (let at = 0; at < rows.length; ) {
    const count = Math.min(rows.length - at, Math.max(1, Math.ceil(pages.room / savedRowBytes.blob)))
    pages.page.blobs = blobColumns(tree, rows.slice(at, at + count))
    pages.grow(count * savedRowBytes.blob)
    at += count
    yield
  }
}

function blobColumns({ blobs }: Tree, rows: number[]): BlobColumns {
  const { columns } = blobs
  const keys = new Uint8Array(columns.keys.buffer)
  const ids = Buffer.alloc(rows.length * 48)
  const incarnations = Buffer.alloc(rows.length * 16)
  for (const [place, row] of rows.entries()) {
    ids.set(keys.subarray(row * 64, row * 64 + 48), place * 48)
    incarnations.set(keys.subarray(row * 64 + 48, row * 64 + 64), place * 16)
  }
  return {
    ids,
    incarnations,
    sizes: bytesOf(Float64Array.from(rows, (row) => columns.size[row] as number)),
    crc32s: bytesOf(Uint32Array.from(rows, (row) => columns.crc32[row] as number)),
    placementGroups: bytesOf(Uint32Array.from(rows, (row) => columns.placementGroup[row] as number)),
    releases: bytesOf(Float64Array.from(rows, (row) => columns.release[row] as number)),
  }
}

/** Columns and the longest name. */
const contentBytesMax = savedRowBytes.content + 1_020 + 255

function* writeContents(tree: Tree, order: Canonical, pages: Pages): Generator<void> {
  let rows: number[] = []
  let bytes = 0
  const write = () => {
    pages.page.contents = contentColumns(tree, rows, order)
    rows = []
    bytes = 0
    pages.cut()
  }
  for (const row of order.rows) {
    rows.push(row)
    bytes +=
      savedRowBytes.content +
      savedTextBytes(tree.contents.names[row] as string) +
      savedTextBytes(tree.contents.mimetypes[row] as string)
    if (bytes + contentBytesMax < pages.room) continue
    write()
    yield
  }
  if (rows.length > 0) write()
}

function contentColumns(tree: Tree, rows: number[], order: Canonical): ContentColumns {
  const { contents, folders } = tree
  const names = rows.map((row) => Buffer.from(contents.names[row] as string))
  const mimetypes = new Map<string, number>()
  for (const row of rows) {
    const mimetype = contents.mimetypes[row] as string
    if (!mimetypes.has(mimetype)) mimetypes.set(mimetype, mimetypes.size)
  }
  const folderRows = rows.filter((row) => tree.isFolder(row))
  return {
    ids: bytesOf(idsOf(tree, rows)),
    parents: bytesOf(
      Uint32Array.from(rows, (row) => {
        const parent = tree.parentOf(row)
        return parent === none ? none : (order.places[parent] as number)
      }),
    ),
    createTimes: bytesOf(Float64Array.from(rows, (row) => contents.created[row] as number)),
    modTimes: bytesOf(Float64Array.from(rows, (row) => contents.modified[row] as number)),
    codes: codesOf(tree, rows),
    downloads: bytesOf(Float64Array.from(rows, (row) => contents.downloads[row] as number)),
    flags: Buffer.from(rows.map((row) => flagsOf(tree, row))),
    links: bytesOf(Uint32Array.from(rows, (row) => linkOf(tree, row, order))),
    names: Buffer.concat(names),
    nameLengths: bytesOf(Uint32Array.from(names, (name) => name.length)),
    mimetypes: [...mimetypes.keys()],
    mimetypeIndexes: bytesOf(
      Uint16Array.from(rows, (row) => mimetypes.get(contents.mimetypes[row] as string) as number),
    ),
    expiries: bytesOf(
      Float64Array.from(folderRows, (row) => folders.expiry[contents.link[row] as number] as number),
    ),
  }
}

function idsOf({ contents }: Tree, rows: number[]): Uint32Array {
  const ids = new Uint32Array(rows.length * 4)
  for (let place = 0; place < rows.length; place++)
    for (let word = 0; word < 4; word++)
      ids[place * 4 + word] = contents.ids[(rows[place] as number) * 4 + word] as number
  return ids
}

function codesOf({ contents }: Tree, rows: number[]): Buffer {
  const codes = Buffer.alloc(rows.length * 8)
  for (let place = 0; place < rows.length; place++)
    for (let at = 0; at < 8; at++)
      codes[place * 8 + at] = contents.code[(rows[place] as number) * 8 + at] as number
  return codes
}

function flagsOf(tree: Tree, row: number): number {
  if (!tree.isFolder(row)) return 0
  return (
    1 + (tree.isPublic(row) ? 2 : 0) + (tree.deletesAfterExpiry(row) ? 4 : 0) + (tree.isClosed(row) ? 8 : 0)
  )
}

function linkOf(tree: Tree, row: number, order: Canonical): number {
  if (!tree.isFolder(row)) return order.blobPlaces[tree.blobRowOf(row)] as number
  const password = tree.passwordOf(row)
  return password === undefined ? 0 : 1 + (order.passwords.get(password) as number)
}

function* writeNotes(tree: Tree, { rows }: Canonical, pages: Pages): Generator<void> {
  for (let place = 0; place < rows.length; place++) {
    if (place % rowsPerSlice === rowsPerSlice - 1) yield
    const row = rows[place] as number
    const recycled = tree.recycled.get(row)
    const note: ContentNote = {
      row: place,
      description: tree.descriptions.get(row),
      tags: tree.tags.get(row),
      recycledTime: recycled?.time,
      recycledFrom: recycled?.from,
    }
    if (note.description !== undefined || note.tags !== undefined || recycled !== undefined) {
      const bytes = savedRowBytes.note + savedNoteBytes(note.description) + savedNoteBytes(note.tags)
      if (pages.add('notes', note, bytes)) yield
    }
    for (const link of tree.directLinks.get(row) ?? []) {
      const entry: LinkNote = { row: place, link }
      if (pages.add('links', entry, savedLinkBytes(link))) yield
    }
  }
}

function bytesOf(column: Float64Array | Uint32Array | Uint16Array): Buffer {
  return Buffer.from(column.buffer, column.byteOffset, column.byteLength)
}

/** @throws Error when the pages are not whole, or of another account. */
export function* loadPages(accountId: string, pages: readonly Uint8Array[]): Generator<void, Account> {
  const account = new Account(accountId)
  const decoded: CheckpointPage[] = []
  for (const bytes of pages) {
    const page = CheckpointPage.decode(bytes)
    if (page.version !== version)
      throw new Error(`checkpoint page of version ${page.version}, not ${version}`)
    decoded.push(page)
    yield
  }
  const facts = decoded[0]?.account
  if (facts === undefined) {
    if (decoded.some((page) => page.contents !== undefined))
      throw new Error('a checkpoint without its first page')
    return account
  }
  if (facts.id !== accountId) throw new Error(`a checkpoint of account ${facts.id}, not ${accountId}`)
  if (!isTier(facts.tier)) throw new Error(`a checkpoint with tier ${facts.tier}`)
  const { nextEffect, outcomeFloorMs, nextCode, codeTerm, tier, ...rest } = facts
  account.facts = {
    ...rest,
    tier: facts.tier,
    email: facts.email,
    premiumType: facts.premiumType,
    limitContents: facts.limitContents,
    limitStorage: facts.limitStorage,
  }
  yield* loadContents(account.tree, decoded)
  account.effects.next = nextEffect
  account.nextCode = { next: nextCode, term: codeTerm }
  for (const effect of decoded.flatMap((page) => page.effects)) account.effects.restore(effect)
  account.outcomes.restore(
    decoded.flatMap((page) => page.outcomes),
    outcomeFloorMs,
  )
  for (const { keyDigests } of decoded) {
    for (const columns of keyDigests) account.outcomes.digests.load(columns)
    yield
  }
  for (const { source, sequence } of decoded.flatMap((page) => page.sources))
    account.sources.set(source.toString('hex'), sequence)
  return account
}

/**
 * The state as pages of bytes, part by part (see checkpoint.proto).
 *
 * A part is a fixed range of rows, or of numbers. Rows are saved where they lie in memory, so a
 * change of one row changes one part: a checkpoint writes those that changed since the one that it
 * follows, and names the others. A small state is one part, and one page. Numbers are
 * little-endian, as in the memory of every machine that Node runs on. Yields about every
 * millisecond.
 */
import {
  type BlobColumns,
  CheckpointPage,
  type ContentColumns,
  type ContentNote,
  SweepReason,
} from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { onePartBytesMax, rowsPerSlice } from '../bounds.ts'
import { columnBytes } from '../column-bytes.ts'
import type { CheckpointBase, CheckpointCut, CheckpointPart } from '../contract.ts'
import { none, type RowRun } from '../tree/columns.ts'
import { hasNotes, noteNames } from '../tree/notes.ts'
import type { RowMarks } from '../tree/row-marks.ts'
import { savedLinkBytes, savedNotesBytes, savedRowBytes, savedTextBytes } from '../tree/saved-bytes.ts'
import type { Tree } from '../tree/tree.ts'

/** Pages are at most 256 KiB; the last part may be 64 KiB (a direct link). */
const pageBytesTarget = 160 * 1024
export const pageVersion = 2

/** First comes the part that has everything that belongs to no range; it is always written. */
const kinds = ['head', 'passwords', 'blobs', 'contents', 'minted', 'keyed', 'digests'] as const

/** Rows or numbers that are cut into parts. */
interface PagedPart {
  kind: Exclude<(typeof kinds)[number], 'head'>
  marks: RowMarks
  first: number
  end: number
  write: (pages: Pages, first: number, end: number) => Generator<void>
}

/** The state must not change until the last step. */
export function* checkpointOf(
  account: Account,
  base: CheckpointBase | undefined,
): Generator<void, CheckpointCut> {
  const mark = account.tree.cuts.now++
  const pages = new Pages()
  if (account.record !== undefined) writeHead(account, pages)
  if (savedBytesOf(account) <= onePartBytesMax) {
    for (const { write, first, end } of rangedOf(account)) yield* write(pages, first, end)
    return { mark, parts: [{ part: 0, pages: pages.end() }] }
  }
  const parts: CheckpointPart[] = [{ part: 0, pages: pages.end() }]
  for (const ranged of rangedOf(account)) yield* writeRanged(ranged, { parts, base })
  return { mark, parts }
}

function* writeRanged(
  { kind, marks, first, end, write }: PagedPart,
  { parts, base }: { parts: CheckpointPart[]; base: CheckpointBase | undefined },
): Generator<void> {
  const rows = marks.rowsPerRange
  for (let range = Math.floor(first / rows); range * rows < end; range++) {
    const part = kinds.indexOf(kind) + range * 8
    if (base?.parts.has(part) && !marks.changed(range, base.mark)) {
      parts.push({ part, pages: undefined })
      continue
    }
    const pages = new Pages()
    yield* write(pages, Math.max(first, range * rows), Math.min(end, (range + 1) * rows))
    if (!pages.isEmpty) parts.push({ part, pages: pages.end() })
    yield
  }
}

function rangedOf({ tree, outcomes }: Account): PagedPart[] {
  const { passwords, blobs, contents } = tree
  const { minted, keyed, digests } = outcomes
  const kept =
    (window: typeof minted): PagedPart['write'] =>
    (pages, first, end) =>
      writeOutcomes(window.all(), { pages, first, end })
  return [
    {
      kind: 'passwords',
      marks: passwords.marks,
      first: 0,
      end: passwords.end,
      write: (pages, first, end) => writePasswords(tree, { pages, first, end }),
    },
    {
      kind: 'blobs',
      marks: blobs.columns.marks,
      first: 0,
      end: blobs.columns.end,
      write: (pages, first, end) => writeBlobs(tree, { pages, first, end }),
    },
    {
      kind: 'contents',
      marks: contents.marks,
      first: 0,
      end: contents.end,
      write: (pages, first, end) => writeContents(tree, { pages, first, end }),
    },
    { kind: 'minted', marks: minted.marks, first: minted.first, end: minted.end, write: kept(minted) },
    { kind: 'keyed', marks: keyed.marks, first: keyed.first, end: keyed.end, write: kept(keyed) },
    {
      kind: 'digests',
      marks: digests.marks,
      first: digests.oldest,
      end: digests.end,
      *write(pages, first, end) {
        const columns = digests.saved(first, end)
        pages.page.keyDigests.push(columns)
        if (pages.grow(columns.operations.length * savedRowBytes.keyDigest)) yield
      },
    },
  ]
}

/** The size of a full checkpoint, slightly overestimated. */
function savedBytesOf({ tree, outcomes }: Account): number {
  const { minted, keyed, digests } = outcomes
  return tree.savedBytes + minted.bytes + keyed.bytes + digests.count * savedRowBytes.keyDigest
}

/** The estimated size of a checkpoint that follows the one with this mark. */
export function changedBytesOf(account: Account, mark: number): number {
  const { tree, outcomes } = account
  const { contents, blobs, passwords, savedBytes } = tree
  const all = savedBytesOf(account)
  if (all <= onePartBytesMax) return all
  const blobBytes = blobs.columns.count * savedRowBytes.blob
  const passwordBytes = passwords.count * savedRowBytes.password
  const { minted, keyed, digests } = outcomes
  const shares: [bytes: number, rows: number, marks: RowMarks][] = [
    [savedBytes - blobBytes - passwordBytes, contents.count, contents.marks],
    [blobBytes, blobs.columns.count, blobs.columns.marks],
    [passwordBytes, passwords.count, passwords.marks],
    [minted.bytes, minted.end - minted.first, minted.marks],
    [keyed.bytes, keyed.end - keyed.first, keyed.marks],
    [digests.count * savedRowBytes.keyDigest, digests.count, digests.marks],
  ]
  let sum = 0
  for (const [bytes, rows, marks] of shares)
    if (rows > 0) sum += bytes * Math.min(1, marks.rowsChanged(mark) / rows)
  return sum
}

/** An effect that is kept. */
const mailBytes = 500
/** Tops of deleted folders in one page. */
const garbageRowsPerPage = 16 * 1024

function writeHead(account: Account, pages: Pages): void {
  const { effects, outcomes, tree, sources } = account
  pages.page.account = {
    ...account.known,
    nextEffect: effects.next,
    outcomeFloorMs: outcomes.floorMs,
    nextCode: account.nextCode.next,
    codeTerm: account.nextCode.term,
  }
  pages.page.head = {
    rootRow: tree.root,
    binRow: tree.bin,
    firstMinted: outcomes.minted.first,
    firstKeyed: outcomes.keyed.first,
    firstDigest: outcomes.digests.oldest,
    heldRow: tree.held === none ? undefined : tree.held,
  }
  for (const [source, sequence] of sources)
    pages.add('sources', { source: Buffer.from(source, 'hex'), sequence }, 40)
  for (const effect of effects.kept()) pages.add('effects', effect, mailBytes)
  const garbage = tree.held === none ? tree.garbage : [...tree.garbage, tree.held]
  for (let at = 0; at < garbage.length; at += garbageRowsPerPage) {
    const rows = garbage.slice(at, at + garbageRowsPerPage)
    pages.page.garbage = columnBytes(Uint32Array.from(rows))
    if (at + garbageRowsPerPage < garbage.length) pages.cut()
    else pages.grow(rows.length * 4)
  }
}

/** Cuts the stream of entries into pages. */
class Pages {
  page = blankPage()
  #bytes = 0
  readonly #done: Uint8Array[] = []

  /** @returns whether that filled a page. */
  add<List extends 'notes' | 'links' | 'outcomes' | 'sources' | 'effects'>(
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

  get isEmpty(): boolean {
    return this.#bytes === 0 && this.#done.length === 0
  }

  /** At least one. */
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
    version: pageVersion,
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
    head: undefined,
    garbage: Buffer.alloc(0),
    passwordRows: [],
  }
}

interface Range {
  pages: Pages
  first: number
  end: number
}

function* writePasswords({ passwords }: Tree, { pages, first, end }: Range): Generator<void> {
  for (const { row, verifier } of passwords.saved(first, end)) {
    pages.page.passwords.push(verifier)
    pages.page.passwordRows.push(row)
    if (pages.grow(savedRowBytes.password)) yield
  }
}

function* writeBlobs(tree: Tree, { pages, first, end }: Range): Generator<void> {
  let runs: RowRun[] = []
  let count = 0
  const write = () => {
    pages.page.blobs = blobColumns(tree, runs)
    const full = pages.grow(count * savedRowBytes.blob)
    runs = []
    count = 0
    return full
  }
  for (const run of tree.blobs.columns.runs(first, end)) {
    for (let { row, count: left } = run; left > 0; ) {
      const room = Math.max(1, Math.ceil(pages.room / savedRowBytes.blob) - count)
      const taken = Math.min(left, room)
      runs.push({ row, count: taken })
      count += taken
      row += taken
      left -= taken
      if (taken === room && write()) yield
    }
  }
  if (count > 0) write()
}

function blobColumns({ blobs }: Tree, runs: readonly RowRun[]): BlobColumns {
  const { columns } = blobs
  const keys = gatherRuns(columns.keys, runs, 16)
  const count = keys.length / 64
  const ids = Buffer.alloc(count * 48)
  const incarnations = Buffer.alloc(count * 16)
  for (let place = 0; place < count; place++) {
    ids.set(keys.subarray(place * 64, place * 64 + 48), place * 48)
    incarnations.set(keys.subarray(place * 64 + 48, place * 64 + 64), place * 16)
  }
  return {
    ids,
    incarnations,
    sizes: gatherRuns(columns.size, runs),
    crc32s: gatherRuns(columns.crc32, runs),
    placementGroups: gatherRuns(columns.placementGroup, runs),
    releases: gatherRuns(columns.release, runs),
    runs: bytesOfRuns(runs),
  }
}

/** Columns and the longest name. */
const contentBytesMax = savedRowBytes.content + 1_020 + 255

function* writeContents(tree: Tree, { pages, first, end }: Range): Generator<void> {
  let runs: RowRun[] = []
  let bytes = 0
  const write = () => {
    pages.page.contents = contentColumns(tree, runs)
    const full = pages.grow(bytes)
    runs = []
    bytes = 0
    return full
  }
  // Columns of one range are on one page, and those of the next on another.
  if (pages.page.contents !== undefined) pages.cut()
  for (const { row, count } of tree.contents.runs(first, end)) {
    for (let at = row; at < row + count; at++) {
      const last = runs.at(-1)
      if (last !== undefined && last.row + last.count === at) last.count++
      else runs.push({ row: at, count: 1 })
      bytes +=
        savedRowBytes.content +
        savedTextBytes(tree.contents.names[at] as string) +
        savedTextBytes(tree.contents.mimetypes[at] as string)
      if (bytes + contentBytesMax < pages.room) continue
      if (!write()) pages.cut()
      yield
    }
  }
  if (runs.length > 0) write()
  yield* writeNotes(tree, { pages, first, end })
}

function contentColumns(tree: Tree, runs: readonly RowRun[]): ContentColumns {
  const { contents, folders } = tree
  const rows = runs.flatMap(({ row, count }) => Array.from({ length: count }, (_, at) => row + at))
  const names = rows.map((row) => Buffer.from(contents.names[row] as string))
  const mimetypes = new Map<string, number>()
  for (const row of rows) {
    const mimetype = contents.mimetypes[row] as string
    if (!mimetypes.has(mimetype)) mimetypes.set(mimetype, mimetypes.size)
  }
  const folderRows = rows.filter((row) => tree.isFolder(row))
  return {
    ids: gatherRuns(contents.ids, runs, 4),
    parents: gatherRuns(contents.parent, runs),
    previous: gatherRuns(contents.previous, runs),
    createTimes: gatherRuns(contents.created, runs),
    modTimes: gatherRuns(contents.modified, runs),
    codes: gatherRuns(contents.code, runs, 8),
    downloads: gatherRuns(contents.downloads, runs),
    flags: Buffer.from(rows.map((row) => flagsOf(tree, row))),
    links: columnBytes(Uint32Array.from(rows, (row) => linkOf(tree, row))),
    names: Buffer.concat(names),
    nameLengths: columnBytes(Uint32Array.from(names, (name) => name.length)),
    mimetypes: [...mimetypes.keys()],
    mimetypeIndexes: columnBytes(
      Uint16Array.from(rows, (row) => mimetypes.get(contents.mimetypes[row] as string) as number),
    ),
    expiries: columnBytes(
      Float64Array.from(folderRows, (row) => folders.expiry[contents.link[row] as number] as number),
    ),
    runs: bytesOfRuns(runs),
    usedTimes: rows.some((row) => contents.used[row] !== 0) ? gatherRuns(contents.used, runs) : noBytes,
  }
}

const noBytes = Buffer.alloc(0)

function flagsOf(tree: Tree, row: number): number {
  if (!tree.isFolder(row)) return 0
  return (
    1 + (tree.isPublic(row) ? 2 : 0) + (tree.deletesAfterExpiry(row) ? 4 : 0) + (tree.isClosed(row) ? 8 : 0)
  )
}

function linkOf({ contents, folders }: Tree, row: number): number {
  const link = contents.link[row] as number
  return contents.isFolder[row] === 1 ? (folders.password[link] as number) : link
}

function* writeNotes(tree: Tree, { pages, first, end }: Range): Generator<void> {
  const isPlain = noteNames.every((name) => tree.sparse.notes[name].size === 0)
  if (isPlain && tree.sparse.recycled.size + tree.sparse.sweptByRow.size + tree.sparse.directLinks.size === 0)
    return
  for (let row = first; row < Math.min(end, tree.contents.end); row++) {
    if (row % rowsPerSlice === rowsPerSlice - 1) yield
    const swept = tree.sparse.sweptByRow.get(row)
    const recycled = swept ?? tree.sparse.recycled.get(row)
    const note: ContentNote = {
      row,
      ...tree.sparse.notesOf(row),
      recycledTime: recycled?.time,
      recycledFrom: recycled?.from,
      heldUntil: swept?.until,
      heldWhy: swept?.why ?? SweepReason.UNSPECIFIED,
    }
    if (hasNotes(note) || recycled !== undefined) {
      const bytes = savedRowBytes.note + savedNotesBytes(note)
      if (pages.add('notes', note, bytes)) yield
    }
    for (const link of tree.sparse.directLinks.get(row) ?? [])
      if (pages.add('links', { row, link }, savedLinkBytes(link))) yield
  }
}

function* writeOutcomes(
  outcomes: Iterable<CheckpointPage['outcomes'][number]>,
  { pages, first, end }: Range,
): Generator<void> {
  for (const outcome of outcomes) {
    if (outcome.number < first || outcome.number >= end) continue
    if (pages.add('outcomes', outcome, 60 + outcome.reply.length + outcome.ids.length)) yield
  }
}

/** A copy of these rows of a column. */
function gatherRuns(
  { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT }: Float64Array | Uint32Array | Uint8Array,
  runs: readonly RowRun[],
  width = 1,
): Buffer {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength)
  const each = BYTES_PER_ELEMENT * width
  return Buffer.concat(runs.map(({ row, count }) => bytes.subarray(row * each, (row + count) * each)))
}

function bytesOfRuns(runs: readonly RowRun[]): Buffer {
  return columnBytes(Uint32Array.from(runs.flatMap(({ row, count }) => [row, count])))
}

/**
 * The layout of an archive by arithmetic alone. Names, sizes and CRC-32s are known before the first
 * byte is sent, and stored entries need nothing else. So the length is exact and any range can be
 * produced alone, which resuming needs.
 *
 * The archive itself is never stored. The layout is a few columns, about 60 bytes an entry beside
 * its name. A path is assembled from its parents when its header is needed. The central directory
 * is written in blocks as it is sent. Building takes one pass over the tree, in slices; an offset
 * is found by binary search.
 *
 * ```
 * start[0]        start[1]                       start[n]             + central[n]
 * | header | file | header | file | …            | central directory  | end |
 * ```
 */
import { createHash } from 'node:crypto'
import { cleanName, uniqueNames } from './names.ts'
import {
  centralHeader,
  centralHeaderBytes,
  type EntryInfo,
  endRecords,
  localHeader,
  localHeaderBytes,
} from './records.ts'

/**
 * One item of the tree, in pre-order: a parent comes before its children. Entry 0 is the top
 * folder.
 */
export interface TreeEntry {
  /** Index of the folder that contains it; for entry 0: 0. */
  parent: number
  isFolder: boolean
  name: string
  /** Unix seconds. */
  modTime: number
  /**
   * Undefined for folders. The identity of the content (bytes that differ whenever the content
   * does), its size and CRC-32.
   */
  blob: { id: Uint8Array; size: number; crc32: number } | undefined
}

export type ArchivePiece =
  /** Bytes of the archive itself. */
  | { bytes: Buffer }
  /** The bytes `start` … `end` (exclusive) of the file that is entry `file` of the tree. */
  | { file: number; start: number; end: number }

/** Entries handled between two yields: about a millisecond. */
const sliceEntries = 2_048
/** Headers are gathered into blocks of about this size. */
const blockBytes = 64 * 1024
const archiveBytesMax = Number.MAX_SAFE_INTEGER
const pathBytesMax = 0xffff
/** Changes whenever the archive's bytes would change. */
const formatVersion = 'holdfast-zip/1'

/** The layout at once, for small trees and tests. */
export function layOut(tree: readonly TreeEntry[]): ZipLayout {
  const steps = layOutInSlices(tree)
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/**
 * The layout in slices of about a millisecond, so that a tree of a million items does not block its
 * process. The tree must not change meanwhile. Files are stored in the tree's order. Only empty
 * folders have their own entries. A tree of one empty folder gives an archive without entries.
 *
 * @throws RangeError a parent that is no folder before its child, a file without blob, a path over
 *   65,535 bytes.
 */
export function* layOutInSlices(tree: readonly TreeEntry[]): Generator<void, ZipLayout> {
  const names = yield* namesOf(tree)
  const count = tree.length
  const parents = new Uint32Array(count)
  const pathBytes = new Uint32Array(count)
  const occupied = new Uint8Array(count)
  for (let node = 0; node < count; node++) {
    if (node % sliceEntries === 0) yield
    const entry = tree[node] as TreeEntry
    parents[node] = entry.parent
    const own = names.bytesOf(node) + (entry.isFolder ? 1 : 0)
    const path = own + (node === 0 ? 0 : (pathBytes[entry.parent] as number))
    if (path > pathBytesMax) throw new RangeError(`a path of ${path} bytes at entry ${node}`)
    pathBytes[node] = path
    if (node > 0) occupied[entry.parent] = 1
  }

  const kept: number[] = []
  for (let node = 1; node < count; node++) {
    if (!tree[node]?.isFolder || occupied[node] === 0) kept.push(node)
  }
  const columns: Columns = {
    nodes: Uint32Array.from(kept),
    sizes: new Float64Array(kept.length),
    crcs: new Uint32Array(kept.length),
    modTimes: new Float64Array(kept.length),
    folders: new Uint8Array(kept.length),
    starts: new Float64Array(kept.length + 1),
    centrals: new Float64Array(kept.length + 1),
    parents,
    pathBytes,
    names,
  }
  const digest = createHash('sha256').update(formatVersion)
  for (const [index, node] of kept.entries()) {
    if (index % sliceEntries === 0) yield
    fill(columns, index, tree[node] as TreeEntry, node)
  }
  for (let node = 0; node < count; node++) {
    if (node % sliceEntries === 0) yield
    digest.update(identityOf(tree[node] as TreeEntry, names.of(node)))
  }
  return new ZipLayout(columns, digest.digest('hex').slice(0, 40))
}

interface Columns {
  /** By archive entry: its index in the tree, its attributes, the positions of its headers. */
  nodes: Uint32Array
  sizes: Float64Array
  crcs: Uint32Array
  modTimes: Float64Array
  folders: Uint8Array
  starts: Float64Array
  /** Where its header is in the central directory. */
  centrals: Float64Array
  /** By tree entry: its parent, and the length of its path. */
  parents: Uint32Array
  pathBytes: Uint32Array
  names: PackedNames
}

function fill(columns: Columns, index: number, entry: TreeEntry, node: number): void {
  if (!entry.isFolder && entry.blob === undefined)
    throw new RangeError(`entry ${node} is a file without blob`)
  const size = entry.blob?.size ?? 0
  const modTime = Number.isSafeInteger(entry.modTime) ? entry.modTime : 0
  const details = { pathBytes: columns.pathBytes[node] as number, size, modTime }
  const start = columns.starts[index] as number
  columns.sizes[index] = size
  columns.crcs[index] = (entry.blob?.crc32 ?? 0) >>> 0
  columns.modTimes[index] = modTime
  columns.folders[index] = entry.isFolder ? 1 : 0
  columns.starts[index + 1] = start + localHeaderBytes(details) + size
  columns.centrals[index + 1] = (columns.centrals[index] as number) + centralHeaderBytes(details, start)
  if ((columns.starts[index + 1] as number) > archiveBytesMax / 2)
    throw new RangeError('an archive beyond 2^52 bytes')
}

export class ZipLayout {
  /** Bytes of the whole archive. */
  readonly size: number
  /** Files and empty folders in it. */
  readonly count: number
  /** Hex; equal for equal archives, different when any byte differs. */
  readonly digest: string
  /** Memory this layout holds. */
  readonly bytes: number
  readonly #columns: Columns
  readonly #directoryStart: number
  readonly #end: Buffer

  constructor(columns: Columns, digest: string) {
    this.#columns = columns
    this.digest = digest
    this.count = columns.nodes.length
    this.#directoryStart = columns.starts[this.count] as number
    const directoryBytes = columns.centrals[this.count] as number
    this.#end = endRecords({ count: this.count, offset: this.#directoryStart, bytes: directoryBytes })
    this.size = this.#directoryStart + directoryBytes + this.#end.length
    this.bytes = 512 + this.count * 41 + columns.parents.length * 8 + columns.names.bytes
  }

  /** Tree indices of the files whose bytes are in the range, in order. */
  *files(start = 0, end = this.size): Generator<number> {
    const { nodes, folders, sizes, starts } = this.#columns
    for (let index = this.#entryAt(starts, start); index < this.count; index++) {
      if ((starts[index] as number) >= end) return
      if (folders[index] === 0 && (sizes[index] as number) > 0) yield nodes[index] as number
    }
  }

  /**
   * The parts of the bytes `start` … `end` (exclusive) of the archive, in order.
   * @throws RangeError unless 0 <= start <= end <= size.
   */
  *pieces(start: number, end: number): Generator<ArchivePiece> {
    if (!(start >= 0 && start <= end && end <= this.size))
      throw new RangeError(`${start} … ${end} of ${this.size}`)
    const gather = new Gather()
    for (const part of this.#parts(start, end)) {
      if ('file' in part) {
        yield* gather.flush()
        yield part
      } else if (gather.add(part.bytes)) {
        yield* gather.flush()
      }
    }
    yield* gather.flush()
  }

  *#parts(start: number, end: number): Generator<ArchivePiece> {
    yield* this.#entries(start, Math.min(end, this.#directoryStart))
    const directoryEnd = this.size - this.#end.length
    yield* this.#directory(Math.max(start, this.#directoryStart), Math.min(end, directoryEnd))
    yield* overlap(this.#end, directoryEnd, start, end)
  }

  *#entries(start: number, end: number): Generator<ArchivePiece> {
    if (start >= end) return
    const { starts, sizes, nodes } = this.#columns
    for (let index = this.#entryAt(starts, start); index < this.count; index++) {
      const from = starts[index] as number
      if (from >= end) return
      const size = sizes[index] as number
      const dataFrom = (starts[index + 1] as number) - size
      if (start < dataFrom) yield* overlap(localHeader(this.#entryInfo(index)), from, start, end)
      const first = Math.max(start - dataFrom, 0)
      const last = Math.min(end - dataFrom, size)
      if (first < last) yield { file: nodes[index] as number, start: first, end: last }
    }
  }

  *#directory(start: number, end: number): Generator<ArchivePiece> {
    if (start >= end) return
    const { centrals, starts } = this.#columns
    for (let index = this.#entryAt(centrals, start - this.#directoryStart); index < this.count; index++) {
      const from = this.#directoryStart + (centrals[index] as number)
      if (from >= end) return
      yield* overlap(centralHeader(this.#entryInfo(index), starts[index] as number), from, start, end)
    }
  }

  /** The last entry that begins at or before the offset. */
  #entryAt(begins: Float64Array, offset: number): number {
    let low = 0
    let high = this.count
    while (low + 1 < high) {
      const middle = (low + high) >>> 1
      if ((begins[middle] as number) <= offset) low = middle
      else high = middle
    }
    return low
  }

  #entryInfo(index: number): EntryInfo {
    const { nodes, folders, sizes, crcs, modTimes } = this.#columns
    return {
      path: this.#path(nodes[index] as number),
      isFolder: folders[index] === 1,
      size: sizes[index] as number,
      crc32: crcs[index] as number,
      modTime: modTimes[index] as number,
    }
  }

  #path(node: number): Buffer {
    const { parents, pathBytes, names } = this.#columns
    const path = Buffer.allocUnsafe(pathBytes[node] as number)
    for (let at = node, end = path.length; ; at = parents[at] as number) {
      const own = names.of(at)
      const begin = at === 0 ? 0 : (pathBytes[parents[at] as number] as number)
      path.set(own, begin)
      if (begin + own.length < end) path[end - 1] = 0x2f
      if (at === 0) return path
      end = begin
    }
  }
}

/** The names of all entries in one buffer. */
class PackedNames {
  readonly #packed: Buffer
  readonly #ends: Float64Array

  private constructor(packed: Buffer, ends: Float64Array) {
    this.#packed = packed
    this.#ends = ends
  }

  static *of(names: readonly string[]): Generator<void, PackedNames> {
    const ends = new Float64Array(names.length)
    let bytes = 0
    for (const [index, name] of names.entries()) {
      if (index % sliceEntries === 0) yield
      bytes += Buffer.byteLength(name)
      ends[index] = bytes
    }
    const packed = Buffer.allocUnsafeSlow(bytes)
    let at = 0
    for (const [index, name] of names.entries()) {
      if (index % sliceEntries === 0) yield
      at += packed.write(name, at)
    }
    return new PackedNames(packed, ends)
  }

  get bytes(): number {
    return this.#packed.length + this.#ends.byteLength
  }

  of(index: number): Buffer {
    return this.#packed.subarray(this.#begin(index), this.#ends[index])
  }

  bytesOf(index: number): number {
    return (this.#ends[index] as number) - this.#begin(index)
  }

  #begin(index: number): number {
    return index === 0 ? 0 : (this.#ends[index - 1] as number)
  }
}

/** Names as written in the archive, unique within each folder. */
function* namesOf(tree: readonly TreeEntry[]): Generator<void, PackedNames> {
  const children = new Map<number, number[]>()
  for (const [node, entry] of tree.entries()) {
    if (node % sliceEntries === 0) yield
    if (node === 0) continue
    if (!(entry.parent < node && tree[entry.parent]?.isFolder)) {
      throw new RangeError(`entry ${node} lies in ${entry.parent}, which is no folder before it`)
    }
    const siblings = children.get(entry.parent)
    if (siblings === undefined) children.set(entry.parent, [node])
    else siblings.push(node)
  }
  const names: string[] = new Array(tree.length).fill('')
  names[0] = cleanName(tree[0]?.name ?? '')
  let handled = 0
  for (const siblings of children.values()) {
    const unique = yield* uniqueNames(siblings.map((node) => (tree[node] as TreeEntry).name))
    for (const [index, node] of siblings.entries()) names[node] = unique[index] as string
    handled += siblings.length
    if (handled < sliceEntries) continue
    handled = 0
    yield
  }
  return yield* PackedNames.of(names)
}

/** Everything in an entry that affects the archive. */
function identityOf(entry: TreeEntry, name: Buffer): Buffer {
  const details = Buffer.alloc(28)
  details.writeUInt32LE(entry.parent, 0)
  details.writeUInt32LE(name.length, 4)
  details.writeDoubleLE(Number.isSafeInteger(entry.modTime) ? entry.modTime : 0, 8)
  details.writeDoubleLE(entry.isFolder ? -1 : (entry.blob?.size ?? 0), 16)
  details.writeUInt32LE((entry.blob?.crc32 ?? 0) >>> 0, 24)
  return Buffer.concat([details, name, entry.isFolder ? details.subarray(0, 0) : (entry.blob?.id ?? details)])
}

class Gather {
  #parts: Buffer[] = []
  #bytes = 0

  /** True when it is time to flush. */
  add(part: Buffer): boolean {
    this.#parts.push(part)
    this.#bytes += part.length
    return this.#bytes >= blockBytes
  }

  *flush(): Generator<ArchivePiece> {
    const [first] = this.#parts
    if (first === undefined) return
    const bytes = this.#parts.length === 1 ? first : Buffer.concat(this.#parts, this.#bytes)
    this.#parts = []
    this.#bytes = 0
    yield { bytes }
  }
}

/** The part of a record beginning at `at` that is in the range. */
function* overlap(record: Buffer, at: number, start: number, end: number): Generator<{ bytes: Buffer }> {
  const bytes = record.subarray(Math.max(start - at, 0), Math.max(end - at, 0))
  if (bytes.length > 0) yield { bytes }
}

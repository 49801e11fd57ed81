/**
 * Rows of the journal: the encoded changes of one flush, in the order of decision.
 *
 * Changes arrive encoded, so a row is assembled without encoding anything twice. A change beyond
 * `maxEventBytes` is cut into pages first and the row names them with their digests; a reader of
 * the row gets the change back whole.
 */
import { createHash } from 'node:crypto'
import { maxEventBytes } from '@holdfast/journal'
import { Change, Flush, PagedChange } from '@holdfast/wire'

/** Wire tags of `Flush.changes` and `Flush.paged`: field number << 3 | length-delimited. */
const changesTag = 0x0a
const pagedTag = 0x12
/** Tag and length of one entry of a row. */
const entryOverheadBytes = 6
/** Name and digest of a page in a row. */
const pageEntryBytes = 80

export interface Page {
  name: string
  bytes: Uint8Array
}

/** Cuts bytes into pages with the names given. */
export function cutPages(bytes: Uint8Array, nameOf: (page: number) => string): Page[] {
  const pages: Page[] = []
  for (let start = 0; start < bytes.length; start += maxEventBytes) {
    pages.push({ name: nameOf(pages.length), bytes: bytes.subarray(start, start + maxEventBytes) })
  }
  return pages
}

/** One entry of a row: an unchanged change, or the pages that hold it. */
export type FlushEntry = Uint8Array | Page[]

/** Its maximum size in a row. */
export function bytesOfEntry(entry: FlushEntry): number {
  return entryOverheadBytes + (Array.isArray(entry) ? entry.length * pageEntryBytes : entry.length)
}

export function encodeFlushRow(entries: readonly FlushEntry[]): Uint8Array {
  const parts: Uint8Array[] = []
  for (const [place, entry] of entries.entries()) {
    if (Array.isArray(entry)) parts.push(...field(pagedTag, encodePaged(entry, place)))
    else parts.push(...field(changesTag, entry))
  }
  return Buffer.concat(parts)
}

function encodePaged(entry: readonly Page[], place: number): Uint8Array {
  const pages = entry.map(({ name }) => name)
  const digests = entry.map(({ bytes }) => pageDigestOf(bytes))
  return PagedChange.encode({ place, pages, digests }).finish()
}

function field(tag: number, bytes: Uint8Array): Uint8Array[] {
  const head = [tag]
  let length = bytes.length
  for (; length > 0x7f; length >>>= 7) head.push((length & 0x7f) | 0x80)
  head.push(length)
  return [Uint8Array.from(head), bytes]
}

export interface ReadRow {
  changes: Change[]
  /** Names of the pages it needed. */
  pages: string[]
}

/** @param pageOf the verified bytes of a page; throws when it is missing or damaged. */
export async function decodeFlushRow(
  row: Uint8Array,
  pageOf: (name: string, digest: Uint8Array) => Promise<Uint8Array>,
): Promise<ReadRow> {
  const flush = Flush.decode(row)
  const changes = [...flush.changes]
  const pages: string[] = []
  for (const paged of flush.paged) {
    const parts: Uint8Array[] = []
    for (const [at, name] of paged.pages.entries()) {
      parts.push(await pageOf(name, paged.digests[at] ?? new Uint8Array()))
      pages.push(name)
    }
    changes.splice(paged.place, 0, Change.decode(Buffer.concat(parts)))
  }
  return { changes, pages }
}

export function pageDigestOf(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}

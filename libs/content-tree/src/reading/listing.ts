/**
 * A folder read: one page of its children in the requested order, and everything below them as far
 * as the depth and the bounds on items and bytes reach. Deeper folders come whole or without
 * children, so that a recursing reader misses nothing.
 */
import type { FileColumns, Item, ListingPage, ReadContent } from '@holdfast/wire'
import {
  asciiUnitsPerFolded,
  deeperBytesMax,
  deeperItemsPerSlice,
  deeperLooksBytesMax,
  deeperRowsMax,
  foldedUnitsPerSlice,
  itemsPerAnswerMax,
  itemsPerSlice,
  rowsPerSlice,
} from '../bounds.ts'
import { composeText, foldText, isAscii } from '../text.ts'
import { fileColumns, fitsColumns } from '../tree/file-columns.ts'
import { listedBytes } from './listed-bytes.ts'
import type { ReaderView } from './reader-view.ts'

type Query = Pick<
  ReadContent,
  'page' | 'pageSize' | 'sortField' | 'ascending' | 'contentFilter' | 'contentName' | 'maxDepth' | 'columns'
>

export interface Listing {
  item: Item
  page: ListingPage
  /**
   * Files of the page that columns can hold, when the query asks for them; the item's children are
   * the others.
   */
  files: FileColumns | undefined
  /** Places of the item's children on the page, where there are columns. */
  places: number[] | undefined
}

/** The folder is open to the reader. */
export function* listing(view: ReaderView, folder: number, query: Query): Generator<void, Listing> {
  const item = view.item(folder)
  const { rows, total } = yield* pageOf(view, folder, query)
  const page = { page: query.page, pageSize: query.pageSize, totalCount: total }
  item.hasChildren = true
  const { shown, ...columns } = query.columns ? inColumns(view, rows) : asItems(rows)
  item.children = yield* childrenOf(view, shown)
  yield* fillBelow(view, {
    query,
    rows: shown,
    items: item.children,
    left: itemsPerAnswerMax - rows.length,
  })
  return { item, page, ...columns }
}

function asItems(rows: readonly number[]) {
  return { shown: rows, places: undefined, files: undefined }
}

function inColumns(
  { tree }: ReaderView,
  rows: readonly number[],
): { shown: number[]; places: number[]; files: FileColumns } {
  const shown: number[] = []
  const places: number[] = []
  const files: number[] = []
  for (const [place, row] of rows.entries()) {
    if (fitsColumns(tree, row)) files.push(row)
    else {
      shown.push(row)
      places.push(place)
    }
  }
  return { shown, places, files: fileColumns(tree, files) }
}

/**
 * Whether a text occurs in a content's name, or in tags that this reader may see.
 * @param needle folded.
 */
export function matches(view: ReaderView, row: number, needle: string, meter: SearchMeter): boolean {
  const { contents, sparse } = view.tree
  if (meter.fold(contents.names[row] as string).includes(needle)) return true
  const tags = sparse.notes.tags.get(row)
  return tags !== undefined && meter.fold(tags).includes(needle) && view.isOpen(row)
}

/** Reports when examined rows, or their texts, have taken long enough to yield. */
export class SearchMeter {
  #rows = 0
  #units = 0

  /** `foldText`; counts the text. */
  fold(text: string): string {
    if (isAscii(text)) {
      this.#units += Math.floor(text.length / asciiUnitsPerFolded)
      return text.toLowerCase()
    }
    this.#units += text.length
    return foldText(text)
  }

  /** `composeText`; counts the text, unless it is ASCII, which stays as it is. */
  compose(text: string): string {
    if (isAscii(text)) return text
    this.#units += text.length
    return composeText(text)
  }

  /** Counts a row. @returns whether to yield before it */
  next(): boolean {
    if (++this.#rows < rowsPerSlice && this.#units < foldedUnitsPerSlice) return false
    this.#rows = 0
    this.#units = 0
    return true
  }
}

function* pageOf(
  view: ReaderView,
  folder: number,
  query: Query,
): Generator<void, { rows: number[]; total: number }> {
  const order = yield* view.tree.orders.sorted(folder, query.sortField)
  const at = (place: number) => order[query.ascending ? place : order.length - 1 - place] as number
  const start = (query.page - 1) * query.pageSize
  const looks = new SearchMeter()
  const wanted = wantedBy(view, query, looks)
  if (wanted === undefined && view.seesAll(folder)) {
    const count = Math.max(0, Math.min(query.pageSize, order.length - start))
    return { rows: Array.from({ length: count }, (_, place) => at(start + place)), total: order.length }
  }
  const rows: number[] = []
  let total = 0
  for (let place = 0; place < order.length; place++) {
    const row = at(place)
    if (looks.next()) yield
    if (wanted !== undefined && !wanted(row)) continue
    if (!view.isShown(row)) continue
    if (total >= start && rows.length < query.pageSize) rows.push(row)
    total++
  }
  return { rows, total }
}

/** What passes the filters; undefined: everything. */
function wantedBy(
  view: ReaderView,
  query: Query,
  meter: SearchMeter,
): ((row: number) => boolean) | undefined {
  const { names } = view.tree.contents
  const needle = foldText(query.contentFilter)
  const name = query.contentName === undefined ? undefined : composeText(query.contentName)
  if (needle === '' && name === undefined) return undefined
  return (row) =>
    (name === undefined || meter.compose(names[row] as string) === name) &&
    (needle === '' || matches(view, row, needle, meter))
}

/** Level by level, every folder that fits into the rest of the answer. */
function* fillBelow(
  view: ReaderView,
  { query, rows, items, left: room }: { query: Query; rows: readonly number[]; items: Item[]; left: number },
): Generator<void, void> {
  let left = room
  let bytesLeft = deeperBytesMax
  let looksLeft = deeperRowsMax
  let looksBytesLeft = deeperLooksBytesMax
  let looked = 0
  let level = foldersOf(rows, items)
  for (let depth = 2; depth <= query.maxDepth && level.length > 0; depth++) {
    const next: OpenFolder[] = []
    for (const { row, item } of level) {
      const all = view.tree.childCount(row)
      if (item.childrenCount > Math.min(left, looksLeft)) continue
      looksLeft -= item.childrenCount
      // Folders without children, and children that are not shown, take time too.
      if (looked + all + 1 > deeperItemsPerSlice) {
        yield
        looked = 0
      }
      looked += all + 1
      if (all === 0) {
        item.hasChildren = true
        continue
      }
      const bytes = bytesBelow(view, row, Math.min(bytesLeft, looksBytesLeft))
      looksBytesLeft -= bytes
      looked += bytes / bytesLikeAnItem
      if (looksBytesLeft < 0) return
      if (bytes > bytesLeft) continue
      left -= item.childrenCount
      bytesLeft -= bytes
      const below = yield* shownChildren(view, row, query)
      item.children = yield* childrenOf(view, below)
      item.hasChildren = true
      next.push(...foldersOf(below, item.children))
    }
    level = next
  }
}

/** Counting this many takes as long as making an item: texts are examined unit by unit. */
const bytesLikeAnItem = 1_024

/** The size of a folder's children in the answer; stops beyond `most`. */
function bytesBelow(view: ReaderView, folder: number, most: number): number {
  let bytes = 0
  for (const row of view.tree.children(folder)) {
    if (!view.isShown(row)) continue
    bytes += listedBytes(view, row)
    if (bytes > most) break
  }
  return bytes
}

function* childrenOf(view: ReaderView, rows: readonly number[]): Generator<void, Item[]> {
  const items: Item[] = []
  for (const row of rows) {
    items.push(view.child(row))
    if (items.length % itemsPerSlice === 0) yield
  }
  return items
}

interface OpenFolder {
  row: number
  item: Item
}

function foldersOf(rows: readonly number[], items: readonly Item[]): OpenFolder[] {
  const folders: OpenFolder[] = []
  for (const [place, item] of items.entries())
    if (item.isFolder && item.canAccess) folders.push({ row: rows[place] as number, item })
  return folders
}

function* shownChildren(view: ReaderView, folder: number, query: Query): Generator<void, number[]> {
  const order = yield* view.tree.orders.sorted(folder, query.sortField)
  const rows = [...order].filter((row) => view.isShown(row))
  return query.ascending ? rows : rows.reverse()
}

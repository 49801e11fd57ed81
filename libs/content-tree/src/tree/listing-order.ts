/**
 * The orders of large folders: the children's rows, sorted, kept per (folder, field) from the first
 * listing on.
 *
 * The cost of a page of a listing is then the page alone. A new, deleted or changed child is placed
 * by binary search. An order is only a cache of the tree: it is dropped freely and rebuilt on
 * demand.
 */
import { SortField } from '@holdfast/wire'
import {
  foldedUnitsPerSlice,
  orderBytesMax,
  orderedFolderMin,
  orderFoldedUnitsMax,
  rowsPerSlice,
} from '../bounds.ts'
import { foldText, isAscii } from '../text.ts'
import type { ContentTable } from './columns.ts'

/** All orders of one folder are dropped together when a change would shift more words than this. */
const shiftedWordsMax = 4 * 1024 * 1024

export interface OrderSource {
  contents: ContentTable
  /** Bytes of a file, 0 for a folder. */
  sizeOf(row: number): number
  /** Children in the order of insertion. */
  children(folder: number): Iterable<number>
  childCount(folder: number): number
}

interface Order {
  folder: number
  field: SortField
  rows: Uint32Array
  length: number
  /** Units that changes have folded since it was last asked for. */
  foldedUnits: number
}

export class ListingOrders {
  readonly #tree: OrderSource
  /** Least recently used first. */
  readonly #orders = new Map<string, Order>()
  /** How many orders a folder has. */
  readonly #folders = new Map<number, number>()
  #bytes = 0

  constructor(tree: OrderSource) {
    this.#tree = tree
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The children's rows, ascending. Valid until the next change. Yields while it sorts many. */
  *sorted(folder: number, field: SortField): Generator<void, Uint32Array> {
    const key = `${folder}/${field}`
    const kept = this.#orders.get(key)
    if (kept !== undefined) {
      this.#orders.delete(key)
      this.#orders.set(key, kept)
      kept.foldedUnits = 0
      return kept.rows.subarray(0, kept.length)
    }
    const rows = yield* this.#sort(folder, field)
    if (rows.length >= orderedFolderMin)
      this.#keep(key, { folder, field, rows, length: rows.length, foldedUnits: 0 })
    return rows
  }

  inserted(folder: number, row: number): void {
    const touched = this.#ordersOf(folder)
    for (const order of touched) this.#insert(order, row)
    this.#dropSlow(touched)
  }

  /** Call it while the row is still unchanged. */
  removing(folder: number, row: number): void {
    const touched = this.#ordersOf(folder)
    for (const order of touched) this.#remove(order, row)
    this.#dropSlow(touched)
  }

  /** Runs a change of a child that may move it in these orders. */
  changing(folder: number, row: number, fields: readonly SortField[], change: () => void): void {
    const touched = this.#ordersOf(folder).filter((order) => fields.includes(order.field))
    for (const order of touched) this.#remove(order, row)
    change()
    for (const order of touched) this.#insert(order, row)
    this.#dropSlow(touched)
  }

  /** A thousand changes of names that are slow to fold would take seconds in one turn. */
  #dropSlow(touched: readonly Order[]): void {
    for (const order of touched) if (order.foldedUnits > orderFoldedUnitsMax) this.#forget(order)
  }

  /** Before many children of a folder change at once. */
  expect(folder: number, changes: number): void {
    if (changes * this.#tree.childCount(folder) > shiftedWordsMax) this.drop(folder)
  }

  drop(folder: number): void {
    for (const order of this.#ordersOf(folder)) this.#forget(order)
  }

  *#sort(folder: number, field: SortField): Generator<void, Uint32Array> {
    const rows = new Uint32Array(this.#tree.childCount(folder))
    let count = 0
    for (const row of this.#tree.children(folder)) {
      rows[count++] = row
      if (count % rowsPerSlice === 0) yield
    }
    return field === SortField.NAME
      ? yield* this.#sortByName(rows)
      : yield* sortInSlices(rows, (a, b) => this.#compare(field, a, b))
  }

  /** Names are folded once each, not at every comparison: their places are sorted. */
  *#sortByName(rows: Uint32Array): Generator<void, Uint32Array> {
    const names = new Array<string>(rows.length)
    const places = new Uint32Array(rows.length)
    let units = 0
    for (let place = 0; place < rows.length; place++) {
      const name = this.#tree.contents.names[rows[place] as number] as string
      names[place] = foldText(name)
      places[place] = place
      units += name.length
      if (units < foldedUnitsPerSlice) continue
      units = 0
      yield
    }
    const sorted = yield* sortInSlices(places, (a, b) => {
      const one = names[a] as string
      const other = names[b] as string
      if (one !== other) return one < other ? -1 : 1
      return this.#compareTies(rows[a] as number, rows[b] as number)
    })
    for (let place = 0; place < sorted.length; place++) {
      sorted[place] = rows[sorted[place] as number] as number
      if (place % rowsPerSlice === rowsPerSlice - 1) yield
    }
    return sorted
  }

  #compare(field: SortField, a: number, b: number): number {
    return this.#compareKeys(field, a, b) || this.#compareTies(a, b)
  }

  #compareKeys(field: SortField, a: number, b: number): number {
    const { mimetypes, downloads } = this.#tree.contents
    if (field === SortField.MIMETYPE) return compareText(mimetypes[a] as string, mimetypes[b] as string)
    if (field === SortField.SIZE) return this.#tree.sizeOf(a) - this.#tree.sizeOf(b)
    if (field === SortField.DOWNLOADS) return (downloads[a] as number) - (downloads[b] as number)
    return 0
  }

  /** By creation, then id. */
  #compareTies(a: number, b: number): number {
    const { created, ids } = this.#tree.contents
    const byTime = (created[a] as number) - (created[b] as number)
    if (byTime !== 0) return byTime
    for (let word = 0; word < 4; word++) {
      const byWord = (ids[a * 4 + word] as number) - (ids[b * 4 + word] as number)
      if (byWord !== 0) return byWord
    }
    return 0
  }

  /** Where the row is, or would be. */
  #place(order: Order, row: number): number {
    const compare =
      order.field === SortField.NAME
        ? this.#comparedName(order, row)
        : (other: number) => this.#compare(order.field, other, row)
    let low = 0
    let high = order.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (compare(order.rows[middle] as number) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Compares others with a row by name, and counts what that folds. */
  #comparedName(order: Order, row: number): (other: number) => number {
    const folded = (of: number) => {
      const name = this.#tree.contents.names[of] as string
      if (!isAscii(name)) order.foldedUnits += name.length
      return foldText(name)
    }
    const own = folded(row)
    return (other) => compareText(folded(other), own) || this.#compareTies(other, row)
  }

  #insert(order: Order, row: number): void {
    const place = this.#place(order, row)
    if (order.length === order.rows.length) {
      const grown = new Uint32Array(Math.ceil(order.length * 1.5) + 16)
      grown.set(order.rows)
      this.#bytes += grown.byteLength - order.rows.byteLength
      order.rows = grown
    }
    order.rows.copyWithin(place + 1, place, order.length)
    order.rows[place] = row
    order.length++
  }

  #remove(order: Order, row: number): void {
    const place = this.#place(order, row)
    if (order.rows[place] !== row) throw new Error(`row ${row} is not where its order has it`)
    order.rows.copyWithin(place, place + 1, order.length)
    order.length--
  }

  #keep(key: string, order: Order): void {
    this.#orders.set(key, order)
    this.#folders.set(order.folder, (this.#folders.get(order.folder) ?? 0) + 1)
    this.#bytes += order.rows.byteLength
    for (const oldest of this.#orders.values()) {
      if (this.#bytes <= orderBytesMax || oldest === order) break
      this.#forget(oldest)
    }
  }

  #forget(order: Order): void {
    this.#orders.delete(`${order.folder}/${order.field}`)
    this.#bytes -= order.rows.byteLength
    const left = (this.#folders.get(order.folder) ?? 1) - 1
    if (left === 0) this.#folders.delete(order.folder)
    else this.#folders.set(order.folder, left)
  }

  #ordersOf(folder: number): Order[] {
    if (!this.#folders.has(folder)) return []
    const found: Order[] = []
    for (const field of sortFields) {
      const order = this.#orders.get(`${folder}/${field}`)
      if (order !== undefined) found.push(order)
    }
    return found
  }
}

/** Every field that content is sorted by. */
export const sortFields: readonly SortField[] = [
  SortField.CREATE_TIME,
  SortField.NAME,
  SortField.SIZE,
  SortField.DOWNLOADS,
  SortField.MIMETYPE,
]

function compareText(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Merge sort that yields between slices. The given items are its working memory. */
export function* sortInSlices(
  items: Uint32Array,
  compare: (a: number, b: number) => number,
): Generator<void, Uint32Array> {
  const { length } = items
  for (let start = 0; start < length; start += rowsPerSlice) {
    items.subarray(start, start + rowsPerSlice).sort(compare)
    if (length > rowsPerSlice) yield
  }
  let from = items
  let to = length > rowsPerSlice ? new Uint32Array(length) : items
  for (let run = rowsPerSlice; run < length; run *= 2) {
    for (let start = 0; start < length; start += 2 * run) {
      const middle = Math.min(start + run, length)
      yield* merge(from, to, { start, middle, end: Math.min(middle + run, length), compare })
    }
    ;[from, to] = [to, from]
  }
  return from
}

function* merge(
  from: Uint32Array,
  to: Uint32Array,
  {
    start,
    middle,
    end,
    compare,
  }: { start: number; middle: number; end: number; compare: (a: number, b: number) => number },
): Generator<void, void> {
  // Children added one after the other are already ordered by creation.
  if (middle === end || compare(from[middle - 1] as number, from[middle] as number) <= 0) {
    to.set(from.subarray(start, end), start)
    return
  }
  let left = start
  let right = middle
  for (let at = start; at < end; at++) {
    const takeLeft =
      right >= end || (left < middle && compare(from[left] as number, from[right] as number) <= 0)
    to[at] = from[takeLeft ? left++ : right++] as number
    if (at % rowsPerSlice === rowsPerSlice - 1) yield
  }
}

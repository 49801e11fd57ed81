/**
 * Search below a folder: names and tags, newest first. Unreadable folders are found, but not
 * searched. And the operator's search in everything.
 */
import type { Copy, FindContents, SearchContents, SearchView } from '@holdfast/wire'
import { foldText } from '../text.ts'
import { sortInSlices } from '../tree/listing-order.ts'
import type { Tree } from '../tree/tree.ts'
import { matches, SearchMeter } from './listing.ts'
import type { ReaderView } from './reader-view.ts'

/** The folder is open to the reader; it is not among the hits. */
export function* search(
  view: ReaderView,
  folder: number,
  query: SearchContents,
): Generator<void, SearchView> {
  return yield* pageOf(view.tree, yield* hits(view, folder, query), query)
}

/** In all that the account holds, the bin included. @param view of the owner. */
export function* searchAll(
  view: ReaderView,
  by: NonNullable<FindContents['by']>,
  page: Page,
): Generator<void, SearchView> {
  const { tree } = view
  const looks = new SearchMeter()
  const isWanted = by.$case === 'copy' ? usesOf(tree, by.value) : namedBy(view, by.value, looks)
  const rows: number[] = []
  const open = [tree.root, tree.bin]
  for (let at = isWanted && open.pop(); at !== undefined; at = open.pop())
    for (const row of tree.children(at)) {
      if (looks.next()) yield
      if (isWanted?.(row)) rows.push(row)
      if (tree.isFolder(row)) open.push(row)
    }
  const found = yield* pageOf(tree, rows, page)
  for (const hit of found.hits) {
    const row = tree.find(hit.id)
    hit.inBin = tree.inBin(row)
    hit.path = tree.pathOf(row, pathUnitsMax)
  }
  return found
}

/** The longest path that is shown: hundreds of hits fit into one message. */
const pathUnitsMax = 400

/** Undefined: nothing in the account uses the copy. */
function usesOf(tree: Tree, copy: Copy): ((row: number) => boolean) | undefined {
  const blob = tree.blobs.rowOf(copy)
  return blob < 0 ? undefined : (row) => !tree.isFolder(row) && tree.blobRowOf(row) === blob
}

function namedBy(view: ReaderView, text: string, meter: SearchMeter): (row: number) => boolean {
  const needle = foldText(text)
  return (row) => matches(view, row, needle, meter)
}

interface Page {
  page: number
  pageSize: number
}

/** Newest first. */
function* pageOf(tree: Tree, found: readonly number[], query: Page): Generator<void, SearchView> {
  const { created, ids } = tree.contents
  const sorted = yield* sortInSlices(
    new Uint32Array(found),
    (a, b) =>
      (created[b] as number) - (created[a] as number) ||
      (ids[a * 4] as number) - (ids[b * 4] as number) ||
      (ids[a * 4 + 1] as number) - (ids[b * 4 + 1] as number),
  )
  const start = (query.page - 1) * query.pageSize
  return {
    hits: Array.from(sorted.subarray(start, start + query.pageSize), (row) => ({
      id: tree.idOf(row),
      isFolder: tree.isFolder(row),
      name: tree.contents.names[row] as string,
      size: tree.sizeOf(row),
      createTime: created[row] as number,
      inBin: false,
      path: '',
    })),
    page: { page: query.page, pageSize: query.pageSize, totalCount: sorted.length },
  }
}

function* hits(view: ReaderView, folder: number, query: SearchContents): Generator<void, number[]> {
  const { tree } = view
  const needle = foldText(query.searchedString)
  const from = query.createTimeFrom ?? Number.NEGATIVE_INFINITY
  const to = query.createTimeTo ?? Number.POSITIVE_INFINITY
  const rows: number[] = []
  const open = [folder]
  const looks = new SearchMeter()
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const row of tree.children(at)) {
      if (looks.next()) yield
      if (!view.isShown(row)) continue
      const created = tree.contents.created[row] as number
      if (created >= from && created <= to && matches(view, row, needle, looks)) rows.push(row)
      if (tree.isFolder(row) && view.accessToChild(row) === 'open') open.push(row)
    }
  }
  return rows
}

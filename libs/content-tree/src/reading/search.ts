/**
 * Search below a folder: names and tags, newest first. Unreadable folders are found, but not
 * searched.
 */
import type { SearchContents, SearchView } from '@holdfast/wire'
import { folded } from '../text.ts'
import { sortInSlices } from '../tree/listing-order.ts'
import { Looks, matches } from './listing.ts'
import type { Reading } from './reading.ts'

/** The folder is open to the reader; it is not among the hits. */
export function* search(
  reading: Reading,
  folder: number,
  query: SearchContents,
): Generator<void, SearchView> {
  const { tree } = reading
  const found = yield* hits(reading, folder, query)
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
    })),
    page: { page: query.page, pageSize: query.pageSize, totalCount: sorted.length },
  }
}

function* hits(reading: Reading, folder: number, query: SearchContents): Generator<void, number[]> {
  const { tree } = reading
  const needle = folded(query.searchedString)
  const from = query.createTimeFrom ?? Number.NEGATIVE_INFINITY
  const to = query.createTimeTo ?? Number.POSITIVE_INFINITY
  const rows: number[] = []
  const open = [folder]
  const looks = new Looks()
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const row of tree.children(at)) {
      if (looks.next()) yield
      looks.compared(tree, row)
      if (!reading.isShown(row)) continue
      const created = tree.contents.created[row] as number
      if (created >= from && created <= to && matches(reading, row, needle)) rows.push(row)
      if (tree.isFolder(row) && reading.accessToChild(row) === 'open') open.push(row)
    }
  }
  return rows
}

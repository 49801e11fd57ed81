/**
 * Files of a page as columns: the cost of a listing of a thousand files is making, sending and
 * reading a thousand messages. Content with more than the columns hold (folders, tags, direct
 * links, the bin) is a separate item.
 */
import type { FileColumns } from '@holdfast/wire'
import { columnBytes } from '../column-bytes.ts'
import type { Tree } from './tree.ts'

/** Whether the columns say everything about this content. */
export function fitsColumns(tree: Tree, row: number): boolean {
  return (
    !tree.isFolder(row) &&
    !tree.sparse.hasNotes(row) &&
    !tree.sparse.directLinks.has(row) &&
    !tree.sparse.recycled.has(row) &&
    (tree.contents.names[row] as string).isWellFormed()
  )
}

/** @param rows all of which fit. */
export function fileColumns({ contents, blobs }: Tree, rows: readonly number[]): FileColumns {
  const count = rows.length
  // Bytes are copied a word at a time.
  const ids = new Uint32Array(count * 4)
  const codes = new Uint32Array(count * 2)
  const md5s = new Uint32Array(count * 4)
  const { keys } = blobs.columns
  const codeWords = new Uint32Array(contents.code.buffer)
  const lengths = new Uint16Array(count)
  const created = new Float64Array(count)
  const modified = new Float64Array(count)
  const sizes = new Float64Array(count)
  const downloads = new Float64Array(count)
  const groups = new Uint32Array(count)
  const types = new Uint16Array(count)
  const typePlaces = new Map<string, number>()
  let names = ''
  for (let place = 0; place < count; place++) {
    const row = rows[place] as number
    for (let word = 0; word < 4; word++) ids[place * 4 + word] = contents.ids[row * 4 + word] as number
    codes[place * 2] = codeWords[row * 2] as number
    codes[place * 2 + 1] = codeWords[row * 2 + 1] as number
    const name = contents.names[row] as string
    names += name
    lengths[place] = name.length
    created[place] = contents.created[row] as number
    modified[place] = contents.modified[row] as number
    downloads[place] = contents.downloads[row] as number
    const blob = contents.link[row] as number
    for (let word = 0; word < 4; word++) md5s[place * 4 + word] = keys[blob * 16 + word] as number
    sizes[place] = blobs.columns.size[blob] as number
    groups[place] = blobs.columns.placementGroup[blob] as number
    types[place] = placeOf(typePlaces, contents.mimetypes[row] as string)
  }
  return {
    // The words of an id are numbers, its bytes are in network order.
    ids: columnBytes(ids).swap32(),
    names,
    nameLengths: columnBytes(lengths),
    codes: columnBytes(codes),
    createTimes: columnBytes(created),
    modTimes: columnBytes(modified),
    sizes: columnBytes(sizes),
    downloads: columnBytes(downloads),
    md5s: columnBytes(md5s),
    placementGroups: columnBytes(groups),
    mimetypes: [...typePlaces.keys()],
    mimetypeIndexes: columnBytes(types),
  }
}

function placeOf(places: Map<string, number>, text: string): number {
  const known = places.get(text)
  if (known !== undefined) return known
  places.set(text, places.size)
  return places.size - 1
}

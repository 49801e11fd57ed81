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
  const ids = Buffer.allocUnsafe(count * 16)
  const codes = Buffer.allocUnsafe(count * 8)
  const md5s = Buffer.allocUnsafe(count * 16)
  const blobKeys = new Uint8Array(blobs.columns.keys.buffer)
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
    for (let word = 0; word < 4; word++)
      ids.writeUInt32BE(contents.ids[row * 4 + word] as number, place * 16 + word * 4)
    for (let at = 0; at < 8; at++) codes[place * 8 + at] = contents.code[row * 8 + at] as number
    const name = contents.names[row] as string
    names += name
    lengths[place] = name.length
    created[place] = contents.created[row] as number
    modified[place] = contents.modified[row] as number
    downloads[place] = contents.downloads[row] as number
    const blob = contents.link[row] as number
    for (let at = 0; at < 16; at++) md5s[place * 16 + at] = blobKeys[blob * 64 + at] as number
    sizes[place] = blobs.columns.size[blob] as number
    groups[place] = blobs.columns.placementGroup[blob] as number
    types[place] = placeOf(typePlaces, contents.mimetypes[row] as string)
  }
  return {
    ids,
    names,
    nameLengths: columnBytes(lengths),
    codes,
    createTimes: columnBytes(created),
    modTimes: columnBytes(modified),
    sizes: columnBytes(sizes),
    downloads: columnBytes(downloads),
    md5s,
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

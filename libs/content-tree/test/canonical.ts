/** What a checkpoint says, however its rows are divided: equal states give equal values. */
import { requestTime } from '@holdfast/kernel'
import { type Blob, CheckpointPage } from '@holdfast/wire'

const none = 0xffffffff

interface Row {
  id: string
  parent: number
  previous: number
  isFolder: boolean
  details: unknown[]
}

export function canonical(pages: readonly Uint8Array[]): unknown {
  const decoded = pages.map((bytes) => CheckpointPage.decode(bytes))
  const [first] = decoded
  if (first?.account === undefined || first.head === undefined) return decoded
  const { rootRow, binRow, firstMinted, firstKeyed, firstDigest } = first.head
  const rows = rowsOf(decoded)
  const garbage = decoded.flatMap((page) => wordsOf(page.garbage))
  const firstOf = (id: Uint8Array) => (requestTime(id) === undefined ? firstKeyed : firstMinted)
  const behind = new Map<string, number>()
  for (const [row, { parent, previous, isFolder }] of rows)
    behind.set(`${parent}/${previous}/${isFolder}`, row)
  return {
    account: first.account,
    trees: [rootRow, binRow, ...garbage].map((top) => treeOf(rows, behind, top)),
    releases: [...blobsOf(decoded).values()].filter((blob) => blob.release !== 0).sort(byRelease),
    outcomes: decoded
      .flatMap((page) => page.outcomes)
      .filter(({ requestId, number }) => number >= firstOf(requestId))
      .map(({ number, ...outcome }) => outcome),
    digests: digestsOf(decoded, firstDigest),
    sources: decoded.flatMap((page) => page.sources),
    effects: decoded.flatMap((page) => page.effects),
  }
}

function rowsOf(pages: readonly CheckpointPage[]): Map<number, Row> {
  const rows = new Map<number, Row>()
  const blobs = blobsOf(pages)
  const passwords = new Map(
    pages.flatMap((page) => page.passwordRows.map((row, at) => [row, page.passwords[at]] as const)),
  )
  for (const { contents } of pages) {
    if (contents === undefined) continue
    const { ids, flags, codes, names, mimetypes } = contents
    const parents = wordsOf(contents.parents)
    const previous = wordsOf(contents.previous)
    const links = wordsOf(contents.links)
    const lengths = wordsOf(contents.nameLengths)
    let nameAt = 0
    let folder = 0
    for (const [place, row] of rowsIn(contents.runs).entries()) {
      const flag = flags[place] as number
      const isFolder = (flag & 1) === 1
      const link = links[place] as number
      const nameEnd = nameAt + (lengths[place] as number)
      rows.set(row, {
        id: ids.toString('hex', place * 16, place * 16 + 16),
        parent: parents[place] as number,
        previous: previous[place] as number,
        isFolder,
        details: [
          flag,
          names.toString('utf8', nameAt, nameEnd),
          mimetypes[contents.mimetypeIndexes.readUInt16LE(place * 2)],
          codes.toString('latin1', place * 8, place * 8 + 8),
          ...[contents.createTimes, contents.modTimes, contents.downloads].map((column) =>
            column.readDoubleLE(place * 8),
          ),
          isFolder ? contents.expiries.readDoubleLE(folder++ * 8) : blobs.get(link),
          isFolder && link > 0 ? passwords.get(link - 1) : undefined,
          contents.usedTimes.length > 0 ? contents.usedTimes.readUInt32LE(place * 4) : 0,
        ],
      })
      nameAt = nameEnd
    }
  }
  for (const { row, ...note } of pages.flatMap((page) => page.notes)) rows.get(row)?.details.push(note)
  for (const { row, link } of pages.flatMap((page) => page.links)) rows.get(row)?.details.push(link)
  return rows
}

/** In pre-order, files of a folder before its folders. */
function treeOf(rows: Map<number, Row>, behind: Map<string, number>, top: number): unknown[] {
  const found: unknown[] = []
  const open: [row: number, depth: number][] = [[top, 0]]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const [row, depth] = at
    const { id, isFolder, details } = rows.get(row) as Row
    found.push([depth, id, ...details])
    if (!isFolder) continue
    const below = [true, false].flatMap((ofFolders) => childrenOf(behind, row, ofFolders).reverse())
    for (const child of below) open.push([child, depth + 1])
  }
  return found
}

function childrenOf(behind: Map<string, number>, folder: number, ofFolders: boolean): number[] {
  const children: number[] = []
  for (let row: number | undefined = none; ; ) {
    row = behind.get(`${folder}/${row}/${ofFolders}`)
    if (row === undefined) return children
    children.push(row)
  }
}

interface SavedBlob extends Omit<Blob, 'id' | 'incarnation'> {
  id: string
  incarnation: string
  release: number
}

function blobsOf(pages: readonly CheckpointPage[]): Map<number, SavedBlob> {
  const found = new Map<number, SavedBlob>()
  for (const { blobs } of pages) {
    if (blobs === undefined) continue
    for (const [place, row] of rowsIn(blobs.runs).entries())
      found.set(row, {
        id: blobs.ids.toString('hex', place * 48, place * 48 + 48),
        incarnation: blobs.incarnations.toString('hex', place * 16, place * 16 + 16),
        size: blobs.sizes.readDoubleLE(place * 8),
        crc32: blobs.crc32s.readUInt32LE(place * 4),
        placementGroup: blobs.placementGroups.readUInt32LE(place * 4),
        release: blobs.releases.readDoubleLE(place * 8),
      })
  }
  return found
}

function byRelease(one: SavedBlob, other: SavedBlob): number {
  return one.release - other.release
}

function digestsOf(pages: readonly CheckpointPage[], from: number): unknown[] {
  return pages
    .flatMap((page) => page.keyDigests)
    .flatMap(({ names, asked, seconds, operations, first }) =>
      Array.from(operations, (operation, at) => [
        first + at,
        names.toString('hex', at * 12, at * 12 + 12),
        asked.toString('hex', at * 8, at * 8 + 8),
        seconds.readUInt32LE(at * 4),
        operation,
      ]),
    )
    .filter(([number]) => (number as number) >= from)
    .map(([, ...digest]) => digest)
}

function wordsOf(bytes: Buffer): number[] {
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readUInt32LE(at * 4))
}

function rowsIn(runs: Buffer): number[] {
  const words = wordsOf(runs)
  const rows: number[] = []
  for (let at = 0; at < words.length; at += 2)
    for (let row = words[at] as number, left = words[at + 1] as number; left > 0; left--) rows.push(row++)
  return rows
}

/**
 * Pages of version 1 as those of version 2.
 *
 * Rows of version 1 are numbered across all pages, contents in pre-order, and have no neighbours: a
 * row follows the last earlier row of the same folder. The first two tops are root and bin, the
 * others are deleted folders.
 */
import type { CheckpointPage } from '@holdfast/wire'
import { none, wordsOf } from '../tree/columns.ts'

export function upgradePages(pages: readonly CheckpointPage[]): void {
  const rows = { contents: 0, blobs: 0, passwords: 0 }
  const tops: number[] = []
  const last = { files: new Map<number, number>(), folders: new Map<number, number>() }
  for (const page of pages) {
    page.passwordRows = page.passwords.map(() => rows.passwords++)
    if (page.blobs !== undefined) {
      const count = page.blobs.releases.length / 8
      page.blobs.runs = wordBytes([rows.blobs, count])
      rows.blobs += count
    }
    if (page.contents === undefined) continue
    const first = rows.contents
    const { flags, parents } = page.contents
    const previous = Array.from(wordsOf(parents), (parent, place) => {
      const row = first + place
      if (parent === none) {
        tops.push(row)
        return none
      }
      const neighbours = ((flags[place] as number) & 1) === 0 ? last.files : last.folders
      const before = neighbours.get(parent) ?? none
      neighbours.set(parent, row)
      return before
    })
    page.contents.runs = wordBytes([first, flags.length])
    page.contents.previous = wordBytes(previous)
    rows.contents += flags.length
  }
  const [page] = pages
  if (page === undefined) return
  const [rootRow = none, binRow = none, ...garbage] = tops
  page.head = { rootRow, binRow, firstMinted: 0, firstKeyed: 0, firstDigest: 0, heldRow: undefined }
  page.garbage = wordBytes(garbage)
}

function wordBytes(words: readonly number[]): Buffer {
  return Buffer.from(Uint32Array.from(words).buffer)
}

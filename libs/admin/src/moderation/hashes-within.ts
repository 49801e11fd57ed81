/** The hashes of the bytes of a reported file or folder. */
import { RefusalError } from '@holdfast/http-kit'
import type { Item } from '@holdfast/wire'
import { hashesOf } from '../accounts/contents.ts'

/** Children of a folder that the account gives in one answer. */
export const childrenPerRead = 1_000
/** Contents of a folder whose bytes one report can take down: some 100 bytes each are held. */
export const contentsWithinMax = 20_000

/** A content with one page of its children, `childrenPerRead` each. */
export type ReadPage = (contentId: string, page: number) => Promise<Item>

/**
 * The BLAKE3 of a file, or of all files in a folder, at any depth, each once.
 * @throws RefusalError error-tooMany when the folder has more contents than `contentsWithinMax`.
 */
export async function hashesWithin(contentId: string, readPage: ReadPage): Promise<string[]> {
  const hashes = new Set<string>()
  const folders: string[] = []
  const note = (item: Item) => {
    const { blake3 } = hashesOf(item)
    if (item.isFolder) folders.push(item.id)
    else if (blake3 !== undefined) hashes.add(blake3)
  }
  let count = 0
  for (let id: string | undefined = contentId; id !== undefined; id = folders.shift()) {
    for (let page = 1, more = true; more; page++) {
      const item = await readPage(id, page)
      if (!item.isFolder) note(item)
      count += item.children.length
      if (count > contentsWithinMax) throw new RefusalError('error-tooMany')
      for (const child of item.children) note(child)
      more = item.children.length === childrenPerRead
    }
  }
  return [...hashes]
}

/** The files for the clients: difficult names and contents. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export const md5 = (bytes: string | Uint8Array) => createHash('md5').update(bytes).digest('hex')

/** Names of real files that programs fail on. */
export const names = {
  plain: 'report.txt',
  spaced: 'a name with spaces.txt',
  foreign: 'ünï 文件 🗂.txt',
  quoted: `it's "quoted" & 100%25 #1;.txt`,
}

/** Larger than a buffer of any layer, and odd. */
export function largeBytes(full: boolean): Buffer {
  return randomBytes(full ? 100_000_003 : 6_000_001)
}

export async function writeTree(root: string, tree: Record<string, string | Uint8Array>): Promise<void> {
  for (const [path, content] of Object.entries(tree)) {
    const file = join(root, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  }
}

/** md5 of every file below a folder, by its path there. */
export async function digests(root: string): Promise<Record<string, string>> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  const read = entries
    .filter((entry) => entry.isFile())
    .map(async (entry): Promise<[string, string]> => {
      const file = join(entry.parentPath, entry.name)
      return [file.slice(root.length + 1), md5(await readFile(file))]
    })
  return Object.fromEntries((await Promise.all(read)).sort())
}

export function digestsOf(tree: Record<string, string | Uint8Array>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tree)
      .map(([path, content]): [string, string] => [path, md5(content)])
      .sort(),
  )
}

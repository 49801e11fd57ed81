/** Stored files are readable only by the service's user. */
import { chmod, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const forOthers = 0o077

/**
 * From now on every file that this process makes, in any library, is readable only by its user; the
 * directory and its existing files are changed to that. Links are not followed.
 *
 * @returns paths that could not be changed, for example because they belong to another user; at
 *   most 10 of them
 */
export async function makePrivate(path: string): Promise<string[]> {
  process.umask(forOthers)
  const left: string[] = []
  await visit(path, left)
  return left
}

const leftMax = 10

async function visit(path: string, left: string[]): Promise<void> {
  try {
    const stats = await lstat(path)
    if (stats.isSymbolicLink()) return
    if ((stats.mode & forOthers) !== 0) await chmod(path, stats.mode & 0o700)
    if (!stats.isDirectory()) return
    for (const name of await readdir(path)) await visit(join(path, name), left)
  } catch (error) {
    // Deleted meanwhile.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    if (left.length < leftMax) left.push(path)
  }
}

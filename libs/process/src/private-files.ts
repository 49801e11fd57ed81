/** What the service stores is for its own user alone. */
import { chmod, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const forOthers = 0o077

/**
 * From now on every file that this process makes, in whatever library, is readable by its user
 * alone; what lies in the directory already is made so, and the directory itself. Links are not
 * followed.
 *
 * @returns paths that could not be changed, because they belong to another user; at most 10 of them
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
    const facts = await lstat(path)
    if (facts.isSymbolicLink()) return
    if ((facts.mode & forOthers) !== 0) await chmod(path, facts.mode & 0o700)
    if (!facts.isDirectory()) return
    for (const name of await readdir(path)) await visit(join(path, name), left)
  } catch (error) {
    // Gone meanwhile.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    if (left.length < leftMax) left.push(path)
  }
}

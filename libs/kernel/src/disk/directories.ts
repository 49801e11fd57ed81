import { mkdir, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Makes a directory, readable by its owner alone, and all missing parents. It works step by step:
 * the recursive `mkdir` of Node 24 never returns where the kernel answers ENOENT below an existing
 * directory, as in /proc.
 * @returns the outermost directory that was made; undefined: all existed.
 * @throws the error of the file system.
 */
export async function makeDirectories(path: string): Promise<string | undefined> {
  if (await isDirectory(path)) return undefined
  const parent = dirname(path)
  const first = parent === path ? undefined : await makeDirectories(parent)
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const madeByAnother = (error as NodeJS.ErrnoException).code === 'EEXIST' && (await isDirectory(path))
    if (!madeByAnother) throw error
    return first
  }
  return first ?? path
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return false
    throw error
  }
}

/** Makes what was created, renamed or removed in it durable. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r')
  await directory.sync()
}

/** For `catch`: undefined where a file does not exist. @throws other errors */
export function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

import { statfs } from 'node:fs/promises'

/**
 * Bytes that this process can still write on the file system that holds the path; space reserved
 * for root counts only for root.
 */
export async function writableBytes(path: string): Promise<number> {
  const { bavail, bfree, bsize } = await statfs(path)
  return (process.getuid?.() === 0 ? bfree : bavail) * bsize
}

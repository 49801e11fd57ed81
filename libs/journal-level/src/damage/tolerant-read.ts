/** Reads files of a disk that cannot read all of its sectors. */
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { absent } from '@holdfast/kernel'

const pieceBytes = 4096

export interface TolerantRead {
  bytes: Buffer
  /** Pieces of 4 KiB that the disk could not read: they are zeros in `bytes`. */
  unreadable: number
}

/** Undefined: there is no such file. @throws errors other than EIO */
export async function readTolerantly(path: string): Promise<TolerantRead | undefined> {
  try {
    return { bytes: await readFile(path), unreadable: 0 }
  } catch (error) {
    if (!isUnreadableFile(error)) return absent(error as NodeJS.ErrnoException)
    await using file = await open(path, 'r')
    const { bytes, unreadable } = await readInPieces(file)
    // The first read failed, so the file is copied to another place of the disk even if the second
    // read succeeds.
    return { bytes, unreadable: Math.max(1, unreadable) }
  }
}

export async function readInPieces(file: Pick<FileHandle, 'read' | 'stat'>): Promise<TolerantRead> {
  const { size } = await file.stat()
  const bytes = Buffer.alloc(size)
  let unreadable = 0
  for (let at = 0; at < size; at += pieceBytes) {
    const length = Math.min(pieceBytes, size - at)
    try {
      await file.read(bytes, at, length, at)
    } catch (error) {
      if (!isUnreadableFile(error)) throw error
      bytes.fill(0, at, at + length)
      unreadable++
    }
  }
  return { bytes, unreadable }
}

/** By the system, or in words by LevelDB. */
export function isUnreadableFile(error: unknown): boolean {
  const { code, message = '' } = (error ?? {}) as { code?: string; message?: string }
  return code === 'EIO' || message.includes('Input/output error')
}

import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Flips a bit of these bytes in all their places in the extents of a store.
 * @returns in how many places.
 */
export function rotOnDisk(path: string, bytes: Buffer, at = bytes.length >> 1): number {
  const directory = join(path, 'extents')
  const wanted = bytes.subarray(0, 64 * 1024) // contiguous
  const place = Math.min(at, wanted.length - 1)
  let found = 0
  for (const name of readdirSync(directory)) {
    const file = readFileSync(join(directory, name))
    const descriptor = openSync(join(directory, name), 'r+')
    for (let start = file.indexOf(wanted); start >= 0; start = file.indexOf(wanted, start + 1)) {
      writeSync(descriptor, Buffer.from([(file[start + place] as number) ^ 4]), 0, 1, start + place)
      found++
    }
    closeSync(descriptor)
  }
  return found
}

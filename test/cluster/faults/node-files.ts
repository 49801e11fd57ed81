/** The files of a storage node by their kinds, and damage to them. */
import { closeSync, fstatSync, openSync, readdirSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Kinds by name. Locks and logs for people hold nothing. */
const kinds: readonly (readonly [kind: string, name: RegExp])[] = [
  ['extent', /\.extent$/],
  ['table', /\.(sst|blob)$/],
  ['write-ahead log', /^\d+\.log$/],
  ['manifest', /^MANIFEST-/],
  ['current', /^CURRENT$/],
  ['identity', /^IDENTITY$/],
  ['options', /^OPTIONS-/],
  ['ballast', /^ballast$/],
  ['end mark', /^orderly-end$/],
  ['identity of the store', /^identity$/],
]
const ofNoUse = /^(LOCK|LOG.*|lock|damaged|ballast of the test)$/

/** Paths by kind. @throws Error when a file has no kind: add it */
export function filesOf(directory: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || ofNoUse.test(entry.name)) continue
    const kind = kinds.find(([, name]) => name.test(entry.name))?.[0]
    if (kind === undefined) throw new Error(`${entry.name}: a file of no known kind in ${directory}`)
    found.set(kind, [...(found.get(kind) ?? []), join(entry.parentPath, entry.name)])
  }
  return found
}

/**
 * One bit, in the middle of what was written. @returns where, in bytes; undefined when nothing was
 * written
 */
export function flipBit(path: string): number | undefined {
  const file = openSync(path, 'r+')
  try {
    const at = writtenMiddle(file)
    if (at === undefined) return undefined
    const byte = Buffer.alloc(1)
    readSync(file, byte, 0, 1, at)
    byte[0] = (byte[0] as number) ^ 0x10
    writeSync(file, byte, 0, 1, at)
    return at
  } finally {
    closeSync(file)
  }
}

/** Files are allocated ahead: zeros at the end are not written yet. */
function writtenMiddle(file: number): number | undefined {
  const { size } = fstatSync(file)
  const part = Buffer.alloc(64 * 1024)
  let end = 0
  for (let at = 0; at < size; at += part.length) {
    const read = readSync(file, part, 0, part.length, at)
    if (part.subarray(0, read).some((byte) => byte !== 0)) end = at + read
  }
  if (end === 0) return undefined
  // The nearest non-zero byte to the middle: a gap would have no effect.
  for (let at = Math.floor(end / 2); at < end; at += part.length) {
    const read = readSync(file, part, 0, part.length, at)
    const found = part.subarray(0, read).findIndex((byte) => byte !== 0)
    if (found >= 0) return at + found
  }
  return undefined
}

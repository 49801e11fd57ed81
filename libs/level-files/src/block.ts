/**
 * The structure of LevelDB's blocks, without the checksum behind them:
 *
 *     entry …: bytes shared with the key before | other bytes of the key | bytes of the value
 *              (varints) | other bytes of the key | value
 *     restart …: offset of an entry that shares nothing (4, little-endian); the first is 0
 *     count of restarts (4)
 *
 * No key is empty, so an entry never begins with two zeros, and the first restart ends the entries.
 */
import { Cursor, varint } from './numbers.ts'

const restartBytes = 4

export interface Entry {
  key: Buffer
  value: Buffer
}

export interface Block {
  entries: Entry[]
  bytes: number
}

/**
 * The block that `bytes` begin with; undefined if they do not.
 *
 * @param spanMax bytes within which each entry begins
 */
export function blockFrom(bytes: Buffer, spanMax = Number.POSITIVE_INFINITY): Block | undefined {
  const entries: Entry[] = []
  const unshared: number[] = []
  const cursor = new Cursor(bytes)
  let before: Buffer = Buffer.alloc(0)
  while (cursor.at + restartBytes <= bytes.length) {
    const { at } = cursor
    if (bytes.readUInt32LE(at) === 0) {
      const end = endOfRestarts(bytes, at, unshared)
      return end === undefined ? undefined : { entries, bytes: end }
    }
    if (at > spanMax) return undefined
    const [shared, others, valueBytes] = [cursor.varint(), cursor.varint(), cursor.varint()]
    const keyAt = cursor.at
    cursor.skip(others + valueBytes)
    const isPossible = shared <= before.length && shared + others > 0 && cursor.at <= bytes.length
    if (!isPossible) return undefined
    const rest = bytes.subarray(keyAt, keyAt + others)
    before = shared === 0 ? rest : Buffer.concat([before.subarray(0, shared), rest])
    entries.push({ key: before, value: bytes.subarray(keyAt + others, cursor.at) })
    if (shared === 0) unshared.push(at)
  }
  return undefined
}

/** @param unshared offsets of entries that may be restarts, ascending */
function endOfRestarts(bytes: Buffer, begin: number, unshared: number[]): number | undefined {
  let next = 0
  for (let count = 0, at = begin; at + restartBytes <= bytes.length; count++, at += restartBytes) {
    const value = bytes.readUInt32LE(at)
    // No offset is as small as its place in the list: an entry has more bytes than one.
    if (count > 0 && value === count) return at + restartBytes
    while ((unshared[next] ?? value) < value) next++
    const isRestart = unshared[next] === value || (begin === 0 && count === 0)
    if (!isRestart) return undefined
  }
  return undefined
}

/** A block whose entries share nothing, as those of an index. */
export function blockOf(entries: Entry[]): Buffer {
  const parts: Buffer[] = []
  const restarts: number[] = []
  let bytes = 0
  for (const { key, value } of entries) {
    const entry = [varint(0), varint(key.length), varint(value.length), key, value]
    restarts.push(bytes)
    for (const part of entry) bytes += part.length
    parts.push(...entry)
  }
  if (restarts.length === 0) restarts.push(0)
  const end = Buffer.from(Uint32Array.from([...restarts, restarts.length]).buffer)
  return Buffer.concat([...parts, end])
}

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

/** Where the parts of an entry are. */
interface Head {
  at: number
  shared: number
  keyAt: number
  valueAt: number
  end: number
}

/**
 * The block that `bytes` begin with; undefined if they do not.
 *
 * @param spanMax bytes within which each entry begins
 */
export function blockFrom(bytes: Buffer, spanMax = Number.POSITIVE_INFINITY): Block | undefined {
  const heads: Head[] = []
  const cursor = new Cursor(bytes)
  let keyBytes = 0
  while (cursor.at + restartBytes <= bytes.length) {
    const { at } = cursor
    if (bytes.readUInt32LE(at) === 0) {
      const end = endOfRestarts(bytes, at, heads)
      return end === undefined ? undefined : { entries: entriesOf(bytes, heads), bytes: end }
    }
    if (at > spanMax) return undefined
    const [shared, others, valueBytes] = [cursor.varint(), cursor.varint(), cursor.varint()]
    const keyAt = cursor.at
    cursor.skip(others + valueBytes)
    const isPossible = shared <= keyBytes && shared + others > 0 && cursor.at <= bytes.length
    if (!isPossible) return undefined
    keyBytes = shared + others
    heads.push({ at, shared, keyAt, valueAt: keyAt + others, end: cursor.at })
  }
  return undefined
}

/** The first key, if a block begins with `bytes`. */
export function firstKey(bytes: Buffer): Buffer {
  const cursor = new Cursor(bytes)
  const [, others] = [cursor.varint(), cursor.varint(), cursor.varint()]
  return bytes.subarray(cursor.at, cursor.at + (others as number))
}

function entriesOf(bytes: Buffer, heads: Head[]): Entry[] {
  let before: Buffer = Buffer.alloc(0)
  return heads.map(({ shared, keyAt, valueAt, end }) => {
    const others = bytes.subarray(keyAt, valueAt)
    before = shared === 0 ? others : Buffer.concat([before.subarray(0, shared), others])
    return { key: before, value: bytes.subarray(valueAt, end) }
  })
}

function endOfRestarts(bytes: Buffer, begin: number, heads: Head[]): number | undefined {
  let next = 0
  for (let count = 0, at = begin; at + restartBytes <= bytes.length; count++, at += restartBytes) {
    const value = bytes.readUInt32LE(at)
    // No offset is as small as its place in the list: an entry has more bytes than one.
    if (count > 0 && value === count) return at + restartBytes
    while ((heads[next]?.at ?? value) < value) next++
    const isEmpty = begin === 0 && count === 0
    if (!isEmpty && !(heads[next]?.at === value && heads[next]?.shared === 0)) return undefined
    next++
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

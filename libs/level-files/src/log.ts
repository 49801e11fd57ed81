/**
 * LevelDB's logs (its doc/log_format.md): blocks of 32 KiB with records.
 *
 *     record: masked CRC-32C of type and data (4, little-endian) | bytes of data (2) | type (1) |
 *             data
 *
 * Data that does not fit into the rest of a block continues in the next one: types 2, 3 and 4 are
 * its first, its middle and its last record; 1 is a full one.
 */
import { checksumOf, isChecksumOf } from './stored-checksum.ts'

const blockBytes = 32 * 1024
const headerBytes = 7
const lengthAt = 4
const typeAt = 6
const typesMax = 4
const [fullType, firstType, middleType, lastType] = [1, 2, 3, 4]

/**
 * The damage of a log, if any. Its end may be torn: it was being written when the process or the
 * machine ended. A record that is not whole is damage when a whole one follows.
 */
export function logDamage(log: Buffer): string | undefined {
  let torn: number | undefined
  for (let block = 0; block < log.length; block += blockBytes) {
    const end = Math.min(log.length, block + blockBytes)
    let at = block
    while (end - at >= headerBytes) {
      const bytes = wholeRecord(log.subarray(at, end))
      if (bytes === undefined) {
        if (log.subarray(at, end).some((byte) => byte !== 0)) torn ??= at
        break
      }
      if (torn !== undefined) return `a record at ${torn} is damaged`
      at += bytes
    }
  }
  return undefined
}

/**
 * Whether a log whose records were all synced has each of them. Its last one may be torn. In
 * contrast to `logDamage` a damaged record that none follows is damage.
 */
export function isWholeLog(log: Buffer): boolean {
  return dataOf(log) !== undefined
}

/**
 * The data of a log of which nothing may be missing; undefined if something is damaged.
 *
 * LevelDB accepts a torn end. This function does too, unless the bytes behind it show that it is
 * not the end. LevelDB does not look at those bytes.
 */
export function dataOf(log: Buffer): Buffer[] | undefined {
  const data: Buffer[] = []
  let parts: Buffer[] | undefined
  for (let block = 0; block < log.length; block += blockBytes) {
    const end = Math.min(log.length, block + blockBytes)
    let at = block
    while (end - at >= headerBytes) {
      const bytes = wholeRecord(log.subarray(at, end))
      if (bytes === undefined) {
        const isAccepted = parts === undefined ? isTornEnd(log, at) : isCutRecord(log, at)
        return isAccepted ? data : undefined
      }
      const type = log[at + typeAt]
      const isBegin = type === fullType || type === firstType
      if (isBegin === (parts !== undefined)) return undefined
      parts = [...(parts ?? []), log.subarray(at + headerBytes, at + bytes)]
      if (type === fullType || type === lastType) {
        data.push(Buffer.concat(parts))
        parts = undefined
      }
      at += bytes
    }
  }
  return data
}

/** Space that was never written, or a record that was not written to its end. */
function isTornEnd(log: Buffer, at: number): boolean {
  return log.subarray(at).every((byte) => byte === 0) || isCutRecord(log, at)
}

/** Whether the file ends within the record there. If another one follows, its length is damaged. */
function isCutRecord(log: Buffer, at: number): boolean {
  const rest = log.subarray(at)
  const isInLastBlock = (at % blockBytes) + rest.length < blockBytes
  if (!isInLastBlock || headerBytes + rest.readUInt16LE(lengthAt) <= rest.length) return false
  const hasOtherLength = isChecksumOf(rest.subarray(typeAt), rest.readUInt32LE(0))
  if (hasOtherLength) return false
  for (let n = 1; n + headerBytes < rest.length; n++)
    if (wholeRecord(rest.subarray(n)) !== undefined) return false
  return true
}

/** @returns its length with the header */
function wholeRecord(rest: Buffer): number | undefined {
  const type = rest[typeAt] as number
  const bytes = headerBytes + rest.readUInt16LE(lengthAt)
  if (type < 1 || type > typesMax || bytes > rest.length) return undefined
  return isChecksumOf(rest.subarray(typeAt, bytes), rest.readUInt32LE(0)) ? bytes : undefined
}

/** A log with one piece of data. */
export function logOf(data: Buffer): Buffer {
  const records: Buffer[] = []
  const partMax = blockBytes - headerBytes
  for (let at = 0; at === 0 || at < data.length; at += partMax) {
    const part = data.subarray(at, at + partMax)
    const isLast = at + partMax >= data.length
    const type = at === 0 ? (isLast ? fullType : firstType) : isLast ? lastType : middleType
    records.push(record(type as number, part))
  }
  return Buffer.concat(records)
}

function record(type: number, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from([type]), data])
  const length = Buffer.alloc(typeAt - lengthAt)
  length.writeUInt16LE(data.length)
  return Buffer.concat([checksumOf(typed), length, typed])
}

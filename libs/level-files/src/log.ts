/**
 * LevelDB's logs (its doc/log_format.md): blocks of 32 KiB with records.
 *
 *     record: masked CRC-32C of type and data (4, little-endian) | bytes of data (2) | type (1) |
 *             data
 */
import { isChecksumOf } from './stored-checksum.ts'

const blockBytes = 32 * 1024
const headerBytes = 7
const lengthAt = 4
const typeAt = 6
const typesMax = 4

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

/** @returns its length with the header */
function wholeRecord(rest: Buffer): number | undefined {
  const type = rest[typeAt] as number
  const bytes = headerBytes + rest.readUInt16LE(lengthAt)
  if (type < 1 || type > typesMax || bytes > rest.length) return undefined
  return isChecksumOf(rest.subarray(typeAt, bytes), rest.readUInt32LE(0)) ? bytes : undefined
}

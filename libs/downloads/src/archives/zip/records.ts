/**
 * The records of a ZIP archive (APPNOTE 6.3.10) for stored entries whose size and CRC-32 are known
 * beforehand.
 *
 * | record | bytes | ZIP64 |
 * |---|---|---|
 * | local header | 30 + path + 9 (time) | + 20 when the file has 4 GiB - 1 or more |
 * | central header | 46 + path + 9 (time) | + 4 and 8 for each of size, size, offset that does not fit |
 * | end | 22 | + 56 + 20 when count, directory size or offset do not fit |
 *
 * Times are DOS times of UTC (a pure function knows no zone) plus the extended timestamp, which
 * unpackers prefer; it is omitted for times beyond its signed 32 bits.
 */

/** Values of one entry's headers. */
export interface EntryInfo {
  /** Full path, UTF-8; ends in `/` for a folder. */
  path: Uint8Array
  isFolder: boolean
  size: number
  crc32: number
  /** Unix seconds. */
  modTime: number
}

const max16 = 0xffff
const max32 = 0xffffffff
const utf8Names = 0x0800
const madeBy = (3 << 8) | 45
const timeExtraBytes = 9
/** What is before the path. */
const localFixedBytes = 30
const centralFixedBytes = 46

export function localHeaderBytes(entry: { pathBytes: number; size: number; modTime: number }): number {
  return localFixedBytes + entry.pathBytes + timeExtra(entry.modTime) + (entry.size >= max32 ? 20 : 0)
}

export function centralHeaderBytes(
  entry: { pathBytes: number; size: number; modTime: number },
  offset: number,
): number {
  const wide = wideFields(entry.size, offset)
  return centralFixedBytes + entry.pathBytes + timeExtra(entry.modTime) + (wide === 0 ? 0 : 4 + 8 * wide)
}

export function localHeader(entry: EntryInfo): Buffer {
  const wide = entry.size >= max32
  const details = { pathBytes: entry.path.length, size: entry.size, modTime: entry.modTime }
  const bytes = Buffer.allocUnsafe(localHeaderBytes(details)).fill(0, 0, localFixedBytes)
  bytes.writeUInt32LE(0x04034b50, 0)
  bytes.writeUInt16LE(versionNeeded(entry, wide), 4)
  bytes.writeUInt16LE(utf8Names, 6)
  bytes.writeUInt32LE(dosTime(entry.modTime), 10)
  bytes.writeUInt32LE(entry.crc32, 14)
  bytes.writeUInt32LE(Math.min(entry.size, max32), 18)
  bytes.writeUInt32LE(Math.min(entry.size, max32), 22)
  bytes.writeUInt16LE(entry.path.length, 26)
  bytes.writeUInt16LE(bytes.length - localFixedBytes - entry.path.length, 28)
  bytes.set(entry.path, localFixedBytes)
  const at = writeTime(bytes, localFixedBytes + entry.path.length, entry.modTime)
  if (wide) writeWide(bytes, at, [entry.size, entry.size])
  return bytes
}

export function centralHeader(entry: EntryInfo, offset: number): Buffer {
  const wide = wideFields(entry.size, offset)
  const details = { pathBytes: entry.path.length, size: entry.size, modTime: entry.modTime }
  const bytes = Buffer.allocUnsafe(centralHeaderBytes(details, offset)).fill(0, 0, centralFixedBytes)
  bytes.writeUInt32LE(0x02014b50, 0)
  bytes.writeUInt16LE(madeBy, 4)
  bytes.writeUInt16LE(versionNeeded(entry, wide > 0), 6)
  bytes.writeUInt16LE(utf8Names, 8)
  bytes.writeUInt32LE(dosTime(entry.modTime), 12)
  bytes.writeUInt32LE(entry.crc32, 16)
  bytes.writeUInt32LE(Math.min(entry.size, max32), 20)
  bytes.writeUInt32LE(Math.min(entry.size, max32), 24)
  bytes.writeUInt16LE(entry.path.length, 28)
  bytes.writeUInt16LE(bytes.length - centralFixedBytes - entry.path.length, 30)
  // Unix mode in the upper half, the DOS directory bit in the lower.
  bytes.writeUInt32LE(entry.isFolder ? 0x41ed0010 : 0x81a40000, 38)
  bytes.writeUInt32LE(Math.min(offset, max32), 42)
  bytes.set(entry.path, centralFixedBytes)
  const at = writeTime(bytes, centralFixedBytes + entry.path.length, entry.modTime)
  if (wide > 0) {
    const sizes = entry.size >= max32 ? [entry.size, entry.size] : []
    writeWide(bytes, at, offset >= max32 ? [...sizes, offset] : sizes)
  }
  return bytes
}

/** The end of the archive: the end record, preceded by the ZIP64 ones when a field does not fit. */
export function endRecords(directory: { count: number; offset: number; bytes: number }): Buffer {
  const { count, offset, bytes } = directory
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Math.min(count, max16), 8)
  end.writeUInt16LE(Math.min(count, max16), 10)
  end.writeUInt32LE(Math.min(bytes, max32), 12)
  end.writeUInt32LE(Math.min(offset, max32), 16)
  if (count < max16 && bytes < max32 && offset < max32) return end

  const wide = Buffer.alloc(56 + 20)
  wide.writeUInt32LE(0x06064b50, 0)
  wide.writeBigUInt64LE(44n, 4)
  wide.writeUInt16LE(madeBy, 12)
  wide.writeUInt16LE(45, 14)
  wide.writeBigUInt64LE(BigInt(count), 24)
  wide.writeBigUInt64LE(BigInt(count), 32)
  wide.writeBigUInt64LE(BigInt(bytes), 40)
  wide.writeBigUInt64LE(BigInt(offset), 48)
  wide.writeUInt32LE(0x07064b50, 56)
  wide.writeBigUInt64LE(BigInt(offset + bytes), 64)
  wide.writeUInt32LE(1, 72)
  return Buffer.concat([wide, end])
}

function wideFields(size: number, offset: number): number {
  return (size >= max32 ? 2 : 0) + (offset >= max32 ? 1 : 0)
}

function versionNeeded(entry: EntryInfo, wide: boolean): number {
  if (wide) return 45
  return entry.isFolder ? 20 : 10
}

function timeExtra(modTime: number): number {
  return modTime >= 0 && modTime <= 0x7fffffff ? timeExtraBytes : 0
}

/** @returns where the next extra field goes. */
function writeTime(bytes: Buffer, at: number, modTime: number): number {
  if (timeExtra(modTime) === 0) return at
  bytes.writeUInt16LE(0x5455, at)
  bytes.writeUInt16LE(5, at + 2)
  bytes[at + 4] = 1
  bytes.writeInt32LE(modTime, at + 5)
  return at + timeExtraBytes
}

function writeWide(bytes: Buffer, at: number, values: number[]): void {
  bytes.writeUInt16LE(0x0001, at)
  bytes.writeUInt16LE(values.length * 8, at + 2)
  values.forEach((value, index) => {
    bytes.writeBigUInt64LE(BigInt(value), at + 4 + index * 8)
  })
}

const dosFirst = Date.UTC(1980, 0, 1) / 1000
const dosLast = Date.UTC(2107, 11, 31, 23, 59, 58) / 1000

/** Files that were uploaded together have the same one. */
let lastTime = { unixSeconds: 0, dos: dosTimeOf(0) }

function dosTime(unixSeconds: number): number {
  if (lastTime.unixSeconds !== unixSeconds) lastTime = { unixSeconds, dos: dosTimeOf(unixSeconds) }
  return lastTime.dos
}

/** Date in the upper half, time in the lower; clamped to the years of DOS times. */
function dosTimeOf(unixSeconds: number): number {
  const at = new Date(Math.min(Math.max(unixSeconds, dosFirst), dosLast) * 1000)
  const date = ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate()
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1)
  return ((date << 16) | time) >>> 0
}

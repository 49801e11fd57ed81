/**
 * Records in segments, which are objects named by their SHA-256.
 *
 * A segment ends after a record if the CRC of the record's key selects that record (one key in 64)
 * and the segment has at least 128 KiB. A segment has at most 4 MiB. The end depends only on nearby
 * records, so a change does not alter the later segments, and the next backup need not write them
 * again.
 *
 * A record is: length of the key (4 bytes, big-endian), length of the value (4), key, value.
 */

import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { BlobInfo } from '@holdfast/blob-store'
import { blobIdBytes } from '@holdfast/kernel'
import type { BackupDirectory } from './backup-directory.ts'
import { BackupFault } from './errors.ts'

const segmentBytesLeast = 128 * 1024
const segmentBytesMost = 4 * 1024 * 1024
/** One key in 64 may end a segment. */
const endMask = 63

export type SegmentRow = [key: Uint8Array, value: Uint8Array]

export class SegmentWriter {
  readonly #directory: BackupDirectory
  readonly #names: string[] = []
  #parts: Uint8Array[] = []
  #size = 0

  constructor(directory: BackupDirectory) {
    this.#directory = directory
  }

  /** @returns bytes that were written to the target. */
  async add([key, value]: SegmentRow): Promise<number> {
    const head = Buffer.alloc(8)
    head.writeUInt32BE(key.length, 0)
    head.writeUInt32BE(value.length, 4)
    this.#parts.push(head, key, value)
    this.#size += head.length + key.length + value.length
    const mayEnd = this.#size >= segmentBytesLeast && (crc32(key) & endMask) === 0
    return mayEnd || this.#size >= segmentBytesMost ? this.#flush() : 0
  }

  /** @returns the names of the segments. */
  async end(): Promise<string[]> {
    if (this.#size > 0) await this.#flush()
    return this.#names
  }

  async #flush(): Promise<number> {
    const bytes = Buffer.concat(this.#parts)
    this.#parts = []
    this.#size = 0
    const name = createHash('sha256').update(bytes).digest('hex')
    this.#names.push(name)
    if (await this.#directory.has(name)) return 0
    await this.#directory.put(name, [bytes], async (written) => {
      await bytesOfSegment(written, name)
    })
    return bytes.length
  }
}

/** @throws BackupFault `DAMAGED` before any record of a segment that is not as it was written. */
export async function* readSegments(
  directory: BackupDirectory,
  names: readonly string[],
): AsyncGenerator<SegmentRow> {
  for (const name of names) {
    const bytes = await readSegment(directory, name)
    for (let at = 0; at < bytes.length; ) {
      const keyEnd = at + 8 + bytes.readUInt32BE(at)
      const valueEnd = keyEnd + bytes.readUInt32BE(at + 4)
      yield [bytes.subarray(at + 8, keyEnd), bytes.subarray(keyEnd, valueEnd)]
      at = valueEnd
    }
  }
}

/** @throws BackupFault `DAMAGED`. */
export async function readSegment(directory: BackupDirectory, name: string): Promise<Buffer> {
  return bytesOfSegment(directory.read(name), name)
}

async function bytesOfSegment(pieces: AsyncIterable<Uint8Array>, name: string): Promise<Buffer> {
  const bytes = Buffer.concat(await Array.fromAsync(pieces))
  if (createHash('sha256').update(bytes).digest('hex') === name) return bytes
  throw new BackupFault('DAMAGED', `segment ${name} is not what was written`)
}

/**
 * A copy as a record: id and incarnation; size (8), CRC-32 (4), time of the commit (8), and in a
 * cluster its placement group (4).
 */
export function rowOfCopy(copy: BlobInfo): SegmentRow {
  const { id, incarnation, size, crc32: crc, createdMs, placementGroup = 0 } = copy
  const value = Buffer.alloc(placementGroup === 0 ? 20 : 24)
  value.writeBigUInt64BE(BigInt(size), 0)
  value.writeUInt32BE(crc, 8)
  value.writeBigUInt64BE(BigInt(createdMs), 12)
  if (placementGroup !== 0) value.writeUInt32BE(placementGroup, 20)
  return [Buffer.concat([id, incarnation]), value]
}

export function copyOfRow([key, value]: SegmentRow): BlobInfo {
  const details = Buffer.from(value)
  return {
    id: key.subarray(0, blobIdBytes),
    incarnation: key.subarray(blobIdBytes),
    size: Number(details.readBigUInt64BE(0)),
    crc32: details.readUInt32BE(8),
    createdMs: Number(details.readBigUInt64BE(12)),
    placementGroup: details.length === 24 ? details.readUInt32BE(20) : undefined,
    damaged: undefined,
  }
}

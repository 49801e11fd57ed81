/**
 * The disk format, byte by byte. FORMAT.md has the same in prose and tables; test/golden holds
 * examples. Version 1 is final: a change is a new version beside it, and readers keep accepting
 * this one.
 *
 * Everything starts on a 4 KiB boundary and no block is ever submitted twice within a generation of
 * its extent, so a torn write cannot damage what was acknowledged before. Headers carry a BLAKE3
 * hash keyed with the store's secret over their position and generation as well: neither uploaded
 * bytes, nor leftovers of an earlier generation, nor a misdirected write can pass for a record.
 */
import { Blake3Hasher } from '@napi-rs/blake-hash'
import { alignUp, getU64, putU64 } from './numbers.ts'

export const blockBytes = 4096
/** Unit of checksums and of range reads. */
export const chunkBytes = 64 * 1024
/** Payload of a full data record. */
export const recordBytesMax = 1024 * 1024
/** Where the first record of an extent starts: after two copies of the extent's header. */
export const firstRecordOffset = 2 * blockBytes
/** The largest blob that is packed into a group record; one checksum each. */
export const inlineBytesMax = chunkBytes

const storeFormatVersion = 1
const identityMagic = Buffer.from('HFSTORE1', 'latin1')
const extentMagic = Buffer.from('HFEXTENT', 'latin1')
const recordMagic = 0x31524648 // "HFR1"
const commonBytes = 96
/**
 * The first seal covers this: for the price of 64 bytes it shows whether a header's length can be
 * trusted.
 */
const headBytes = 64
const headSealAt = 64
const fullSealAt = 80
/** Where the seal is in the headers of extents and in the store's identity. */
const blockSealAt = blockBytes - 32
/** Bytes of an extent's header before its zeros. */
const extentFieldsBytes = 96

/** Keyed hashes over headers. */
export class HeaderSeal {
  readonly #hasher: Blake3Hasher

  /** @param secret 32 bytes. */
  constructor(secret: Uint8Array) {
    this.#hasher = Blake3Hasher.newKeyed(Buffer.from(secret))
  }

  /** Keyed BLAKE3 of all these bytes: 32 bytes. */
  sum(bytes: Buffer): Buffer {
    this.#hasher.reset()
    this.#hasher.update(bytes)
    return this.#hasher.digestBuffer()
  }

  /** Fills in both seals of a record's header. */
  close(header: Buffer): void {
    header.fill(0, headSealAt, commonBytes)
    this.sum(header.subarray(0, headBytes)).copy(header, headSealAt, 0, 16)
    this.sum(header).copy(header, fullSealAt, 0, 16)
  }

  holdsHead(header: Buffer): boolean {
    const sum = this.sum(header.subarray(0, headBytes))
    return sum.compare(header, headSealAt, headSealAt + 16, 0, 16) === 0
  }

  /** True when nothing in the header changed since `close`. */
  holds(header: Buffer): boolean {
    const copy = Buffer.from(header).fill(0, fullSealAt, commonBytes)
    return this.sum(copy).compare(header, fullSealAt, commonBytes, 0, 16) === 0
  }
}

// ---- identity of the store

export interface StoreIdentity {
  /** 16 bytes. */
  storeId: Buffer
  /** 32 bytes. */
  secret: Buffer
}

/** Both copies of the identity. */
export const identityBytes = 2 * blockBytes

/** Writes both copies: `into` has `identityBytes`. */
export function encodeStoreIdentity({ storeId, secret }: StoreIdentity, into: Buffer): void {
  const block = into.subarray(0, blockBytes).fill(0)
  identityMagic.copy(block)
  block.writeUInt16LE(storeFormatVersion, 8)
  storeId.copy(block, 32)
  secret.copy(block, 48)
  block.set(new HeaderSeal(secret).sum(block.subarray(0, blockSealAt)), blockSealAt)
  into.copyWithin(blockBytes, 0, blockBytes)
}

/** Reads one copy; undefined when it is not whole. */
export function decodeStoreIdentity(copy: Buffer): StoreIdentity | undefined {
  const block = copy.subarray(0, blockBytes)
  if (block.length < blockBytes || !block.subarray(0, 8).equals(identityMagic)) return undefined
  if (block.readUInt16LE(8) !== storeFormatVersion) return undefined
  const secret = Buffer.from(block.subarray(48, 80))
  const sum = new HeaderSeal(secret).sum(block.subarray(0, blockSealAt))
  if (!sum.equals(block.subarray(blockSealAt))) return undefined
  return { storeId: Buffer.from(block.subarray(32, 48)), secret }
}

// ---- extent header

export interface ExtentHeader extends StoreIdentity {
  number: number
  generation: number
  capacityBytes: number
  createdMs: number
  /** No group record in this generation has a lower sequence. */
  firstSequence: number
}

/** Writes both copies of the header: `into` has `firstRecordOffset` bytes. */
export function encodeExtentHeader(header: ExtentHeader, into: Buffer): void {
  const block = into.subarray(0, blockBytes).fill(0)
  extentMagic.copy(block)
  block.writeUInt16LE(storeFormatVersion, 8)
  block.writeUInt32LE(header.number, 12)
  putU64(block, header.generation, 16)
  putU64(block, header.capacityBytes, 24)
  header.storeId.copy(block, 32)
  header.secret.copy(block, 48)
  putU64(block, header.createdMs, 80)
  putU64(block, header.firstSequence, 88)
  block.set(new HeaderSeal(header.secret).sum(block.subarray(0, blockSealAt)), blockSealAt)
  into.copyWithin(blockBytes, 0, blockBytes)
}

/** Reads one copy; undefined when it is no whole header of version 1. */
export function decodeExtentHeader(block: Buffer): ExtentHeader | undefined {
  if (block.length < blockBytes || !block.subarray(0, 8).equals(extentMagic)) return undefined
  if (block.readUInt16LE(8) !== storeFormatVersion) return undefined
  const secret = Buffer.from(block.subarray(48, 80))
  const whole = block.subarray(0, blockBytes)
  const sum = new HeaderSeal(secret).sum(whole.subarray(0, blockSealAt))
  if (!sum.equals(whole.subarray(blockSealAt))) return undefined
  return {
    number: block.readUInt32LE(12),
    generation: getU64(block, 16),
    capacityBytes: getU64(block, 24),
    storeId: Buffer.from(block.subarray(32, 48)),
    secret,
    createdMs: getU64(block, 80),
    firstSequence: getU64(block, 88),
  }
}

/**
 * The generation in the beginning of one copy, whether or not its seal is valid; undefined when it
 * is not of this store and place. A header torn by a power failure is a mix of whole sectors of the
 * old one and the new one.
 */
export function generationNamed(
  block: Buffer,
  { number, storeId, secret }: Pick<ExtentHeader, 'number' | 'storeId' | 'secret'>,
): number | undefined {
  const isOurs =
    block.subarray(0, 8).equals(extentMagic) &&
    block.readUInt32LE(12) === number &&
    block.subarray(32, 48).equals(storeId) &&
    block.subarray(48, 80).equals(secret)
  return isOurs ? getU64(block, 16) : undefined
}

/**
 * Contains only what an interrupted header write may leave, over zeros or over another header: its
 * fields and its seal come and go in whole sectors, and everything between them is zero.
 */
export function isHeaderBegun(block: Buffer): boolean {
  const fields = block.subarray(0, extentFieldsBytes)
  const isOurs = fields.subarray(0, extentMagic.length).equals(extentMagic) || isZero(fields)
  return isOurs && isZero(block.subarray(extentFieldsBytes, blockSealAt))
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0)
}

// ---- records

/** Where a record is; part of what its seal covers. */
export interface RecordPlace {
  extent: number
  generation: number
  /** From the start of the extent, a multiple of 4 KiB. */
  offset: number
}

export interface DataHeader extends RecordPlace {
  kind: 'data'
  /** 16 bytes; the incarnation of the blob this belongs to. */
  uploadId: Buffer
  /** Position of the payload in the blob. */
  position: number
  payloadBytes: number
  /** One CRC-32 for every 64 KiB of payload; the last chunk may be shorter. */
  checksums: Uint32Array
}

export interface GroupHeader extends RecordPlace {
  kind: 'group'
  /** Store-wide, rising. */
  sequence: number
  /** Common header and entries; the payload follows at once. */
  headerBytes: number
  payloadBytes: number
  entries: GroupEntry[]
}

/** A run of consecutive data records, all full except possibly the last. */
export interface Run {
  extent: number
  generation: number
  /** Where the first record's header is. */
  offset: number
  /** Payload bytes of the run, all records together. */
  bytes: number
}

export type GroupEntry = InlineEntry | StagedEntry | DeletedEntry | VoidEntry

/** A blob whose bytes are in the payload of this record. */
export interface InlineEntry {
  kind: 'inline'
  id: Buffer
  incarnation: Buffer
  size: number
  crc32: number
  createdMs: number
  /** Its group of nodes; 0 for a standalone store. */
  placementGroup: number
  /** From the start of the record. */
  payloadOffset: number
}

/** A blob whose bytes are in data records; valid only if all of them verify. */
export interface StagedEntry {
  kind: 'staged'
  id: Buffer
  incarnation: Buffer
  size: number
  crc32: number
  createdMs: number
  placementGroup: number
  runs: Run[]
}

/** A deleted copy, whose commit is in the named extent. Kept as long as that generation exists. */
export interface DeletedEntry {
  kind: 'deleted'
  id: Buffer
  incarnation: Buffer
  commitExtent: number
  commitGeneration: number
  deletedMs: number
  placementGroup: number
}

/** The group record of that sequence was refused to its waiters: none of its entries is valid. */
export interface VoidEntry {
  kind: 'void'
  sequence: number
  extent: number
  generation: number
}

const kinds = { data: 1, group: 2 } as const
const entryKinds = { inline: 1, staged: 2, deleted: 3, void: 4 } as const
const fixedEntryBytes = 104
const voidEntryBytes = 32
const runBytes = 32

/** Bytes of a data record with this payload. */
export function dataRecordBytes(payloadBytes: number): number {
  return blockBytes + alignUp(payloadBytes, blockBytes)
}

/** Writes the header block in front of a data record's payload. */
export function encodeDataHeader(header: Omit<DataHeader, 'kind'>, seal: HeaderSeal, into: Buffer): void {
  const block = into.subarray(0, blockBytes).fill(0)
  putCommon(
    block,
    kinds.data,
    header,
    blockBytes,
    header.payloadBytes,
    header.checksums.length,
    header.position,
  )
  header.uploadId.copy(block, 48)
  for (let n = 0; n < header.checksums.length; n++)
    block.writeUInt32LE(header.checksums[n] as number, commonBytes + 4 * n)
  seal.close(block)
}

export function entryBytes(entry: GroupEntry): number {
  if (entry.kind === 'void') return voidEntryBytes
  return fixedEntryBytes + (entry.kind === 'staged' ? runBytes * entry.runs.length : 0)
}

/** Bytes of a group record, padding included. */
export function groupRecordBytes(entriesBytes: number, payloadBytes: number): number {
  return alignUp(commonBytes + entriesBytes + payloadBytes, blockBytes)
}

/** Bytes of a group record's header with these entries. */
export function groupHeaderBytes(entriesBytes: number): number {
  return commonBytes + entriesBytes
}

/**
 * Writes a group record's header and its zero padding; the caller writes the payload between them.
 */
export function encodeGroupHeader(
  group: RecordPlace & { sequence: number; entries: readonly GroupEntry[]; payloadBytes: number },
  seal: HeaderSeal,
  into: Buffer,
): void {
  let at = commonBytes
  into.fill(0, 0, commonBytes)
  for (const entry of group.entries) at = putEntry(into, entry, at)
  putCommon(into, kinds.group, group, at, group.payloadBytes, group.entries.length, group.sequence)
  into.fill(0, at + group.payloadBytes, alignUp(at + group.payloadBytes, blockBytes))
  seal.close(into.subarray(0, at))
}

/** True when a record may start here; cheap, for scans. */
export function startsRecord(bytes: Buffer, at: number): boolean {
  return bytes.length - at >= commonBytes && bytes.readUInt32LE(at) === recordMagic
}

/**
 * Length of the header that starts at `at`: read that much, then call `decodeRecord`. Undefined
 * when no record of this store is at this place, so that a scan never reads or hashes much for
 * bytes that only look like one.
 */
export function recordHeaderBytes(
  bytes: Buffer,
  at: number,
  place: RecordPlace,
  seal: HeaderSeal,
): number | undefined {
  if (!startsRecord(bytes, at) || bytes.readUInt16LE(at + 4) !== storeFormatVersion) return undefined
  if (bytes.readUInt32LE(at + 8) !== place.extent || getU64(bytes, at + 24) !== place.offset) return undefined
  if (getU64(bytes, at + 16) !== place.generation) return undefined
  if (!seal.holdsHead(bytes.subarray(at, at + commonBytes))) return undefined
  return bytes.readUInt32LE(at + 12)
}

/** The generation of a record that this store sealed for this place, in any generation. */
export function generationAt(
  bytes: Buffer,
  at: number,
  place: Omit<RecordPlace, 'generation'>,
  seal: HeaderSeal,
): number | undefined {
  if (!startsRecord(bytes, at)) return undefined
  const generation = getU64(bytes, at + 16)
  return recordHeaderBytes(bytes, at, { ...place, generation }, seal) === undefined ? undefined : generation
}

/**
 * Reads the header at the start of `bytes`. Undefined when it is not whole, not sealed by this
 * store, or was written for another place.
 */
export function decodeRecord(
  bytes: Buffer,
  place: RecordPlace,
  seal: HeaderSeal,
): DataHeader | GroupHeader | undefined {
  const headerBytes = recordHeaderBytes(bytes, 0, place, seal)
  if (headerBytes === undefined || headerBytes > bytes.length) return undefined
  const header = bytes.subarray(0, headerBytes)
  if (!seal.holds(header)) return undefined
  const kind = header[6]
  if (kind === kinds.data) return decodeData(header, place)
  return kind === kinds.group ? decodeGroup(header, place) : undefined
}

/** Bytes that a record occupies, padding included. */
export function recordBytes(header: DataHeader | GroupHeader): number {
  return header.kind === 'data'
    ? dataRecordBytes(header.payloadBytes)
    : alignUp(header.headerBytes + header.payloadBytes, blockBytes)
}

function decodeData(header: Buffer, place: RecordPlace): DataHeader {
  const checksums = new Uint32Array(header.readUInt32LE(36))
  for (let n = 0; n < checksums.length; n++) checksums[n] = header.readUInt32LE(commonBytes + 4 * n)
  return {
    kind: 'data',
    extent: place.extent,
    generation: place.generation,
    offset: place.offset,
    uploadId: Buffer.from(header.subarray(48, 64)),
    position: getU64(header, 40),
    payloadBytes: header.readUInt32LE(32),
    checksums,
  }
}

function decodeGroup(header: Buffer, place: RecordPlace): GroupHeader {
  const entries: GroupEntry[] = []
  const count = header.readUInt32LE(36)
  for (let at = commonBytes; entries.length < count; at += header.readUInt32LE(at + 4))
    entries.push(getEntry(header, at))
  return {
    kind: 'group',
    extent: place.extent,
    generation: place.generation,
    offset: place.offset,
    sequence: getU64(header, 40),
    headerBytes: header.length,
    payloadBytes: header.readUInt32LE(32),
    entries,
  }
}

function putCommon(
  into: Buffer,
  kind: number,
  place: RecordPlace,
  headerBytes: number,
  payloadBytes: number,
  count: number,
  number: number,
): void {
  into.writeUInt32LE(recordMagic, 0)
  into.writeUInt16LE(storeFormatVersion, 4)
  into[6] = kind
  into.writeUInt32LE(place.extent, 8)
  into.writeUInt32LE(headerBytes, 12)
  putU64(into, place.generation, 16)
  putU64(into, place.offset, 24)
  into.writeUInt32LE(payloadBytes, 32)
  into.writeUInt32LE(count, 36)
  putU64(into, number, 40)
}

/** @returns where the next entry goes. */
function putEntry(into: Buffer, entry: GroupEntry, at: number): number {
  const end = at + entryBytes(entry)
  into.fill(0, at, Math.min(end, at + fixedEntryBytes))
  into[at] = entryKinds[entry.kind]
  into.writeUInt32LE(end - at, at + 4)
  if (entry.kind === 'void') {
    putU64(into, entry.sequence, at + 8)
    putU64(into, entry.generation, at + 16)
    into.writeUInt32LE(entry.extent, at + 24)
    return end
  }
  into.set(entry.id, at + 8)
  into.set(entry.incarnation, at + 56)
  into.writeUInt32LE(entry.placementGroup, at + 96)
  switch (entry.kind) {
    case 'inline':
      putU64(into, entry.size, at + 72)
      putU64(into, entry.createdMs, at + 80)
      into.writeUInt32LE(entry.crc32, at + 88)
      into.writeUInt32LE(entry.payloadOffset, at + 92)
      break
    case 'staged':
      putU64(into, entry.size, at + 72)
      putU64(into, entry.createdMs, at + 80)
      into.writeUInt32LE(entry.crc32, at + 88)
      into.writeUInt32LE(entry.runs.length, at + 92)
      putRuns(into, entry.runs, at + fixedEntryBytes)
      break
    case 'deleted':
      putU64(into, entry.commitGeneration, at + 72)
      putU64(into, entry.deletedMs, at + 80)
      into.writeUInt32LE(entry.commitExtent, at + 88)
      break
  }
  return end
}

function putRuns(into: Buffer, runs: readonly Run[], start: number): void {
  let at = start
  for (const run of runs) {
    into.writeUInt32LE(run.extent, at)
    into.writeUInt32LE(0, at + 4)
    putU64(into, run.generation, at + 8)
    putU64(into, run.offset, at + 16)
    putU64(into, run.bytes, at + 24)
    at += runBytes
  }
}

function getEntry(from: Buffer, at: number): GroupEntry {
  const kind = from[at]
  if (kind === entryKinds.void)
    return {
      kind: 'void',
      sequence: getU64(from, at + 8),
      generation: getU64(from, at + 16),
      extent: from.readUInt32LE(at + 24),
    }
  const id = Buffer.from(from.subarray(at + 8, at + 56))
  const incarnation = Buffer.from(from.subarray(at + 56, at + 72))
  const placementGroup = from.readUInt32LE(at + 96)
  if (kind === entryKinds.deleted)
    return {
      kind: 'deleted',
      id,
      incarnation,
      commitGeneration: getU64(from, at + 72),
      deletedMs: getU64(from, at + 80),
      commitExtent: from.readUInt32LE(at + 88),
      placementGroup,
    }
  const details = {
    id,
    incarnation,
    size: getU64(from, at + 72),
    createdMs: getU64(from, at + 80),
    crc32: from.readUInt32LE(at + 88),
    placementGroup,
  }
  const last = from.readUInt32LE(at + 92)
  return kind === entryKinds.inline
    ? { kind: 'inline', ...details, payloadOffset: last }
    : { kind: 'staged', ...details, runs: getRuns(from, at + fixedEntryBytes, last) }
}

function getRuns(from: Buffer, start: number, count: number): Run[] {
  const runs: Run[] = []
  for (let at = start; runs.length < count; at += runBytes)
    runs.push({
      extent: from.readUInt32LE(at),
      generation: getU64(from, at + 8),
      offset: getU64(from, at + 16),
      bytes: getU64(from, at + 24),
    })
  return runs
}

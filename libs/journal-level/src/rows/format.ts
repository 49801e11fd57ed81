/**
 * Keys and rows as stored in LevelDB. Fixed by DESIGN.md and golden tests: change them only with a
 * new version.
 *
 * Every row is self-verifying: its checksum covers its place (account, number, name, key) as well
 * as its content, so that a misplaced row, or an older one that reappears, is detected as well as a
 * flipped bit.
 */
import { crc32 } from 'node:zlib'
import { chainBytes, corruptJournal, firstChain, JournalFault, rowChecksum } from '@holdfast/journal'
import { sha256 } from '@holdfast/kernel'

/** Version of the whole store; a newer one is refused at opening. */
export const metadataFormatVersion = 1
const rowVersion = 1

/**
 * Markers in which the last batches leave their numbers: more batches than one write-ahead log of 4
 * MiB holds.
 */
export const markersMax = 32_768

const kinds = {
  marker: 'b',
  counter: 'c',
  suspect: 'd',
  lostRanges: 'g',
  journal: 'j',
  lookup: 'l',
  meta: 'm',
  copy: 'n',
} as const

export const keys = {
  meta: (name: 'format' | 'store' | 'lost' | 'named' | 'checked' | 'copies') => textKey(kinds.meta, name),
  /** Of the second row with the same content: one damaged place of the disk does not hold both. */
  copy: (key: Uint8Array) => Buffer.concat([Buffer.from(kinds.copy), key]),
  copies: { gte: textKey(kinds.copy, ''), lt: textKey('o', '') },
  copiesOf: ({ gte, lt }: { gte: Uint8Array; lt: Uint8Array }) => ({
    gte: keys.copy(gte),
    lt: keys.copy(lt),
  }),
  copied: (key: Uint8Array) => key.subarray(kinds.copy.length),
  lostRanges: textKey(kinds.lostRanges, ''),
  lostKinds: textKey(kinds.lostRanges, 'k'),
  spanOf: (key: Uint8Array) => ({ gte: key, lt: Buffer.concat([key, Buffer.of(0)]) }),
  counters: { gte: textKey(kinds.counter, ''), lt: textKey(kinds.suspect, '') },
  marker: (batch: number) => numberKey(kinds.marker, batch % markersMax, 2),
  markers: { gte: textKey(kinds.marker, ''), lt: textKey(kinds.counter, '') },
  counter: (name: string) => textKey(kinds.counter, name),
  counterOf: (key: Uint8Array) => textBehind(key, 1),
  suspect: (digest: string) => textKey(kinds.suspect, digest),
  suspects: { gte: textKey(kinds.suspect, ''), lt: textKey('e', '') },
  suspectOf: (key: Uint8Array) => textBehind(key, 1),
  lookup: (key: string) => textKey(kinds.lookup, key),
  lookupsOf: (beginning: string) => ({
    gte: textKey(kinds.lookup, beginning),
    lt: textKey(kinds.lookup, `${beginning}\xff`),
  }),
  lookupOf: (key: Uint8Array) => textBehind(key, 1),
  fixed: (account: string) => textKey(kinds.journal, `${account}\0s`),
  root: (account: string) => textKey(kinds.journal, `${account}\0r`),
  row: (account: string, seq: number) => numberKey(`${kinds.journal}${account}\0e`, seq, 6),
  seqOf: (key: Uint8Array) => bufferOf(key).readUIntBE(key.length - 6, 6),
  journals: { gte: textKey(kinds.journal, ''), lt: textKey('k', '') },
  journalsBehind: (account: string) => ({
    gt: textKey(kinds.journal, `${account}\x01`),
    lt: textKey('k', ''),
  }),
  everythingOf: (account: string) => ({
    gte: textKey(kinds.journal, `${account}\0`),
    lt: textKey(kinds.journal, `${account}\x01`),
  }),
  journalOf: (account: string) => textKey(kinds.journal, account),
  accountOf: (key: Uint8Array) => textBehind(key, 1).split('\0', 1)[0] as string,
  rowsEnd: (account: string) => textKey(kinds.journal, `${account}\0f`),
  page: (account: string, name: string) => textKey(kinds.journal, `${account}\0p${name}`),
  pages: (account: string) => ({
    gte: textKey(kinds.journal, `${account}\0p`),
    lt: textKey(kinds.journal, `${account}\0q`),
  }),
  pageOf: (account: string, key: Uint8Array) => textBehind(key, account.length + 3),
}

function textBehind(key: Uint8Array, before: number): string {
  return bufferOf(key).toString('latin1', before)
}

function textKey(kind: string, text: string): Buffer {
  return Buffer.from(kind + text, 'latin1')
}

function numberKey(before: string, number: number, bytes: number): Buffer {
  const key = Buffer.alloc(before.length + bytes)
  key.write(before, 'latin1')
  key.writeUIntBE(number, before.length, bytes)
  return key
}

/** The statics of an account's journal. */
export interface JournalStatics {
  epoch: number
  head: number
  chain: Uint8Array
  /** Rows up to here were removed. */
  trimmed: number
  owner: string | undefined
  root: { through: number; digest: Uint8Array } | undefined
}

export const neverWritten: JournalStatics = {
  epoch: 0,
  head: 0,
  chain: firstChain,
  trimmed: 0,
  owner: undefined,
  root: undefined,
}

export const maxOwnerBytes = 256
const fixedBytes = 1 + 8 + 8 + chainBytes + 8 + 8 + chainBytes + 1 + 2

export function encodeFixed(account: string, fixed: JournalStatics): Buffer {
  const owner = Buffer.from(fixed.owner ?? '', 'utf8')
  const row = Buffer.alloc(fixedBytes + owner.length + chainBytes)
  row.writeUInt8(rowVersion, 0)
  row.writeBigUInt64BE(BigInt(fixed.epoch), 1)
  row.writeBigUInt64BE(BigInt(fixed.head), 9)
  row.set(fixed.chain, 17)
  row.writeBigUInt64BE(BigInt(fixed.trimmed), 33)
  row.writeBigUInt64BE(BigInt(fixed.root?.through ?? 0), 41)
  row.set(fixed.root?.digest ?? firstChain, 49)
  row.writeUInt8((fixed.owner === undefined ? 0 : 1) | (fixed.root === undefined ? 0 : 2), 65)
  row.writeUInt16BE(owner.length, 66)
  row.set(owner, fixedBytes)
  row.set(digestOf('fixed', account, row.subarray(0, -chainBytes)), fixedBytes + owner.length)
  return row
}

export function decodeFixed(account: string, bytes: Uint8Array): JournalStatics {
  const row = bufferOf(bytes)
  const proven =
    row.length >= fixedBytes + chainBytes &&
    digestOf('fixed', account, row.subarray(0, -chainBytes)).equals(row.subarray(-chainBytes))
  if (!proven) throw corruptJournal(account, 'the static row has a wrong checksum')
  assertVersion(account, row)
  const flags = row.readUInt8(65)
  return {
    epoch: Number(row.readBigUInt64BE(1)),
    head: Number(row.readBigUInt64BE(9)),
    chain: Buffer.from(row.subarray(17, 33)),
    trimmed: Number(row.readBigUInt64BE(33)),
    owner:
      flags & 1 ? row.subarray(fixedBytes, fixedBytes + row.readUInt16BE(66)).toString('utf8') : undefined,
    root:
      flags & 2
        ? { through: Number(row.readBigUInt64BE(41)), digest: Buffer.from(row.subarray(49, 65)) }
        : undefined,
  }
}

export interface LevelRow {
  seq: number
  epoch: number
  predecessor: Uint8Array
  checksum: Uint8Array
  bytes: Uint8Array
}

const rowHeaderBytes = 1 + 8 + 8 + chainBytes + chainBytes

export function encodeRow(row: LevelRow): Buffer {
  const stored = Buffer.allocUnsafe(rowHeaderBytes + row.bytes.length)
  stored.writeUInt8(rowVersion, 0)
  stored.writeBigUInt64BE(BigInt(row.seq), 1)
  stored.writeBigUInt64BE(BigInt(row.epoch), 9)
  stored.set(row.predecessor, 17)
  stored.set(row.checksum, 17 + chainBytes)
  stored.set(row.bytes, rowHeaderBytes)
  return stored
}

/** @param expected number by the row's key. */
export function decodeRow(account: string, bytes: Uint8Array, expected: { seq: number }): LevelRow {
  const stored = bufferOf(bytes)
  if (stored.length < rowHeaderBytes) throw corruptJournal(account, `row ${expected.seq} is cut short`)
  assertVersion(account, stored)
  const row = {
    seq: Number(stored.readBigUInt64BE(1)),
    epoch: Number(stored.readBigUInt64BE(9)),
    predecessor: stored.subarray(17, 17 + chainBytes),
    checksum: stored.subarray(17 + chainBytes, rowHeaderBytes),
    bytes: stored.subarray(rowHeaderBytes),
  }
  if (row.seq !== expected.seq || !rowChecksumHolds(account, row)) {
    throw corruptJournal(account, `row ${expected.seq} has a wrong checksum`)
  }
  return row
}

function rowChecksumHolds(account: string, row: LevelRow): boolean {
  return Buffer.compare(rowChecksum({ account, ...row }), row.checksum) === 0
}

/** A page, or a root under the empty name: version, checksum, bytes. */
export function encodeNamed(account: string, name: string, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(rowVersion), namedDigest(account, name, bytes), bytes])
}

export function decodeNamed(account: string, name: string, stored: Uint8Array): Buffer {
  const row = bufferOf(stored)
  const bytes = row.subarray(1 + chainBytes)
  const proven =
    row.length > chainBytes && namedDigest(account, name, bytes).equals(row.subarray(1, 1 + chainBytes))
  if (!proven) throw corruptJournal(account, name === '' ? 'the root is damaged' : `page ${name} is damaged`)
  assertVersion(account, row)
  return bytes
}

export function namedDigest(account: string, name: string, bytes: Uint8Array): Buffer {
  return digestOf('named', `${account}\0${name}`, bytes)
}

/** A small value under its key: crc32 of both, then the value. */
export function encodeSmall(key: Uint8Array, value: Uint8Array): Buffer {
  const row = Buffer.allocUnsafe(4 + value.length)
  row.writeUInt32BE(crc32(value, crc32(key)), 0)
  row.set(value, 4)
  return row
}

export function decodeSmall(key: Uint8Array, stored: Uint8Array): Buffer {
  if (isWholeValue(key, stored)) return bufferOf(stored).subarray(4)
  throw new JournalFault('CORRUPT', `the row ${JSON.stringify(textBehind(key, 0))} is damaged`)
}

/** True when the small value is the one that was written under this key. */
export function isWholeValue(key: Uint8Array, stored: Uint8Array): boolean {
  const row = bufferOf(stored)
  return row.length >= 4 && row.readUInt32BE(0) === crc32(row.subarray(4), crc32(key))
}

export function encodeNumber(key: Uint8Array, number: number): Buffer {
  const value = Buffer.alloc(8)
  value.writeBigUInt64BE(BigInt(number))
  return encodeSmall(key, value)
}

export function decodeNumber(key: Uint8Array, stored: Uint8Array): number {
  const value = decodeSmall(key, stored)
  if (value.length !== 8) throw new JournalFault('CORRUPT', `a number of ${value.length} bytes`)
  return Number(value.readBigUInt64BE(0))
}

function digestOf(kind: string, place: string, bytes: Uint8Array): Buffer {
  return sha256([Buffer.from(`${kind}\0${place}\0`), bytes]).subarray(0, chainBytes)
}

function assertVersion(account: string, row: Buffer): void {
  if (row[0] !== rowVersion)
    throw corruptJournal(account, `a row of version ${row[0]}, this release reads ${rowVersion}`)
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

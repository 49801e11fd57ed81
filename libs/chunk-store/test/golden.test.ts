import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { digestOf } from '@holdfast/blob-store'
import { get } from '@holdfast/blob-store/testing'
import t from 'tap'
import {
  decodeExtentHeader,
  decodeRecord,
  decodeStoreIdentity,
  encodeDataHeader,
  encodeExtentHeader,
  encodeGroupHeader,
  encodeStoreIdentity,
  firstRecordOffset,
  type GroupEntry,
  HeaderSeal,
  identityBytes,
} from '../src/format.ts'
import { openOn } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

/**
 * FORMAT.md in bytes. The files were written once by version 1 and are never written again: every
 * later version must read them, and must write these very bytes.
 */
const golden = (name: string) => readFileSync(join(import.meta.dirname, 'golden', name))
const filled = (bytes: number, first: number) =>
  Buffer.from(Array.from({ length: bytes }, (_, n) => (first + n) & 0xff))

const secret = filled(32, 0x20)
const seal = new HeaderSeal(secret)
const place = { extent: 7, generation: 0x1_0000_0002, offset: 0x3000 }

const extentHeader = {
  number: 7,
  generation: 0x1_0000_0002,
  capacityBytes: 1024 ** 3,
  storeId: filled(16, 0x10),
  secret,
  createdMs: 1_700_000_000_123,
  firstSequence: 42,
}
const dataHeader = {
  ...place,
  uploadId: filled(16, 0x40),
  position: 3 * 1024 * 1024,
  payloadBytes: 150_000,
  checksums: Uint32Array.from([0x01020304, 0xa0b0c0d0, 0xffffffff]),
}
const names = { id: filled(48, 0x60), incarnation: filled(16, 0xa0), placementGroup: 5 }
const entries: GroupEntry[] = [
  { kind: 'inline', ...names, size: 11, crc32: 0xdeadbeef, createdMs: 1_700_000_000_456, payloadOffset: 600 },
  {
    kind: 'staged',
    ...names,
    size: 2_100_000,
    crc32: 0x11223344,
    createdMs: 1_700_000_000_789,
    runs: [
      { extent: 7, generation: 0x1_0000_0002, offset: 0x5000, bytes: 2_097_152 },
      { extent: 8, generation: 0x1_0000_0003, offset: 0x2000, bytes: 2_848 },
    ],
  },
  { kind: 'deleted', ...names, commitExtent: 3, commitGeneration: 99, deletedMs: 1_700_000_001_000 },
  { kind: 'void', sequence: 41, extent: 6, generation: 98 },
]
const group = { ...place, sequence: 43, entries, payloadBytes: 11 }

t.test('the extent header is written and read as version 1 has it', async (t) => {
  const bytes = Buffer.alloc(firstRecordOffset)
  encodeExtentHeader(extentHeader, bytes)
  t.ok(bytes.equals(golden('extent-header.bin')))
  t.same(decodeExtentHeader(golden('extent-header.bin')), extentHeader)
  t.same(decodeExtentHeader(golden('extent-header.bin').subarray(4096)), extentHeader, 'and its second copy')
})

t.test('the identity of the store is written and read as version 1 has it', async (t) => {
  const { storeId } = extentHeader
  const bytes = Buffer.alloc(identityBytes)
  encodeStoreIdentity({ storeId, secret }, bytes)
  t.ok(bytes.equals(golden('identity.bin')))
  for (const at of [0, 4096]) {
    const copy = golden('identity.bin').subarray(at)
    t.same(decodeStoreIdentity(copy), { storeId, secret })
    let believed = 0
    for (let bit = 0; bit < 4096 * 8; bit += 7) {
      copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      if (decodeStoreIdentity(copy) !== undefined) believed++
      copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    }
    t.equal(believed, 0)
  }
})

t.test('the data record header is written and read as version 1 has it', async (t) => {
  const bytes = Buffer.alloc(4096)
  encodeDataHeader(dataHeader, seal, bytes)
  t.ok(bytes.equals(golden('data-record-header.bin')))
  t.same(decodeRecord(golden('data-record-header.bin'), place, seal), { kind: 'data', ...dataHeader })
})

t.test('the group record is written and read as version 1 has it', async (t) => {
  const bytes = Buffer.alloc(4096)
  bytes.write('hello world', 600)
  encodeGroupHeader(group, seal, bytes)
  bytes.write('hello world', 600)
  t.ok(bytes.equals(golden('group-record.bin')))
  t.same(decodeRecord(golden('group-record.bin'), place, seal), {
    kind: 'group',
    ...place,
    sequence: 43,
    headerBytes: 96 + 104 + 168 + 104 + 32,
    payloadBytes: 11,
    entries,
  })
})

t.test('any other bit, place, generation or secret is refused', async (t) => {
  for (const name of ['data-record-header.bin', 'group-record.bin']) {
    const covered = name === 'group-record.bin' ? 504 : 4096
    let believed = 0
    const bytes = golden(name)
    for (let bit = 0; bit < covered * 8; bit += 7) {
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      if (decodeRecord(bytes, place, seal) !== undefined) believed++
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    }
    t.equal(believed, 0)
    t.equal(decodeRecord(golden(name), { ...place, extent: 8 }, seal), undefined)
    t.equal(decodeRecord(golden(name), { ...place, offset: 0x4000 }, seal), undefined)
    t.equal(decodeRecord(golden(name), { ...place, generation: 2 }, seal), undefined)
    t.equal(decodeRecord(golden(name), place, new HeaderSeal(filled(32, 0x21))), undefined)
  }
})

t.test('a store is rebuilt from an extent of version 1', async (t) => {
  const files = new Map([['/store/extents/00000000.extent', golden('extent.bin')]])
  const store = await openOn(new CrashMachine(seeded(1), { files, rows: new Map() }))
  const pattern = (bytes: number) =>
    Buffer.from(Array.from({ length: bytes }, (_, n) => (n * 7 + (n >> 8)) & 255))
  const sizes: number[] = []
  for await (const info of store.inventory()) {
    sizes.push(info.size)
    const bytes = await get(store, info)
    t.ok(bytes.equals(pattern(info.size)), `${info.size} bytes`)
    t.ok(digestOf(bytes).id.equals(info.id))
  }
  t.same(
    sizes.sort((a, b) => a - b),
    [0, 11, 5000, 70_000],
    'and what was deleted stays deleted',
  )
  await store.close()
})

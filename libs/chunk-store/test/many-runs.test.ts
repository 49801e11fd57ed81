/**
 * A blob that was written beside others is in as many runs as it has records: 200 GiB may be
 * 200,000 of them.
 */

import { silentLog, systemClock } from '@holdfast/kernel'
import { crc32 } from '@node-rs/crc32'
import t from 'tap'
import { type Copy, noHomes, type RowEntry } from '../src/catalogue/rows.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import type { Extent } from '../src/extents/extent.ts'
import { ExtentFiles } from '../src/extents/extent-files.ts'
import { ExtentTable } from '../src/extents/extent-table.ts'
import { blockBytes, decodeRecord, encodeDataHeader, HeaderSeal, type Run } from '../src/format.ts'
import { BlobReader, ExtentClaim } from '../src/reading/reader.ts'
import { CommitIntent } from '../src/writing/commit-intent.ts'
import type { Ledger } from '../src/writing/ledger.ts'
import { Pins } from '../src/writing/pins.ts'
import { Writer } from '../src/writing/writer.ts'

const many = 200_000
const seal = new HeaderSeal(Buffer.alloc(32, 1))
const incarnation = Buffer.alloc(16, 9)
const byteAt = (position: number) => Buffer.from([position & 0xff])

/** A run of one byte, which counts its reads. */
class CountedRun implements Run {
  static looks = 0
  readonly extent = 0
  readonly generation = 1
  readonly offset: number

  constructor(n: number) {
    this.offset = 8192 + n * 2 * blockBytes
  }

  get bytes(): number {
    CountedRun.looks++
    return 1
  }
}

/**
 * An extent in which each record is at its place, made when it is read; of writes it keeps the last
 * one.
 */
class MadeExtent {
  readonly number = 0
  readonly generation = 1
  readonly holders = new Set<object>()
  marks = 0
  scanFrom = 0
  written: Buffer | undefined

  readCached(): boolean {
    return false
  }

  async read(into: Buffer, offset: number): Promise<number> {
    const position = (offset - 8192) / (2 * blockBytes)
    const payload = byteAt(position)
    const checksums = Uint32Array.of(crc32(payload))
    const place = { extent: 0, generation: 1, offset }
    encodeDataHeader({ ...place, uploadId: incarnation, position, payloadBytes: 1, checksums }, seal, into)
    into.set(payload, blockBytes)
    return into.length
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.written = Buffer.from(bytes)
  }

  async sync(): Promise<void> {}
  async ensureSynced(): Promise<void> {}
}

function tableOf(made: MadeExtent): ExtentTable {
  const table = new ExtentTable({ files: new ExtentFiles(new NodeDisk(), '/none') } as never)
  return Object.assign(table, {
    get: () => made as unknown as Extent,
    placeGroup: async () => ({ extent: made as unknown as Extent, offset: 8192 }),
    groupEnded() {},
  })
}

function rowOf(copies: Copy[]): RowEntry {
  return { id: Buffer.alloc(48, 3), copies, deleting: [], users: 1, unwritten: 0 }
}

function writerOver(made: MadeExtent, assertKeepsUp = () => {}): Writer {
  const ledger = {
    info: { nextSequence: 1 },
    assertKeepsUp,
    addCopy(entry: RowEntry, copy: Copy) {
      entry.copies = [...entry.copies, copy]
    },
    touchExtent() {},
    kick() {},
  } as unknown as Ledger
  const clock = systemClock
  return new Writer({ extents: tableOf(made), ledger, pins: new Pins(clock), seal, clock, log: silentLog })
}

t.test('a blob of 200,000 runs is committed as it was written', async (t) => {
  const made = new MadeExtent()
  const runs = Array.from({ length: many }, (_, n) => ({
    extent: 0,
    generation: 1,
    offset: n * 8192,
    bytes: 1,
  }))
  const writer = writerOver(made)
  const row = rowOf([])
  const blob = { incarnation, size: many, crc32: 1, createdMs: 1, placementGroup: 0 }
  const commit = new CommitIntent(writer.deps, row, blob, { runs }, { pinMs: 0, asNew: false, replaced() {} })
  writer.submit(commit)
  t.match(await commit.done, { size: many })
  t.equal(row.copies.length, 1)
  const record = decodeRecord(made.written as Buffer, { extent: 0, generation: 1, offset: 8192 }, seal)
  t.ok(record?.kind === 'group' && record.entries.length === 1)
  const [entry] = record?.kind === 'group' ? record.entries : []
  t.ok(entry?.kind === 'staged')
  if (entry?.kind === 'staged') {
    t.equal(entry.runs.length, many)
    t.same(entry.runs.at(-1), runs.at(-1))
  }
})

t.test('a piece of it is found without walking its runs, at any position', async (t) => {
  const runs = Array.from({ length: many }, (_, n) => new CountedRun(n))
  const copy = {
    incarnation,
    size: many,
    runs,
    quarantined: false,
    earlierHomes: noHomes,
    commitExtent: 0,
    commitGeneration: 1,
  } as unknown as Copy
  const extents = tableOf(new MadeExtent())
  const reader = new BlobReader({ extents, seal, cacheBytes: 0, damaged() {}, assertOpen() {} })
  const entry = rowOf([copy])
  const lease = new ExtentClaim(copy, extents, () => {})
  CountedRun.looks = 0
  const part = 1_000
  for (const start of [0, many / 2, many - part]) {
    let position = start
    let wrong = 0
    for await (const bytes of reader.stream(entry, lease, { start, end: start + part }, undefined))
      for (const byte of bytes) if (byte !== (position++ & 0xff)) wrong++
    t.same({ position, wrong }, { position: start + part, wrong: 0 })
  }
  t.ok(CountedRun.looks <= many + 5 * 3 * part, `${CountedRun.looks} looks at ${many} runs`)
  lease.release()
})

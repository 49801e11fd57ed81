/**
 * The large buffers of the reader: a bounded number, of which none is lost when a read fails or a
 * consumer drops a borrowed one.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { crc32 } from '@node-rs/crc32'
import t from 'tap'
import { type Copy, noHomes, type RowEntry } from '../src/catalogue/rows.ts'
import type { PassOn } from '../src/disk/disk.ts'
import { NodeDisk } from '../src/disk/node-disk.ts'
import type { Extent } from '../src/extents/extent.ts'
import { ExtentFiles } from '../src/extents/extent-files.ts'
import { ExtentTable } from '../src/extents/extent-table.ts'
import { blockBytes, encodeDataHeader, HeaderSeal } from '../src/format.ts'
import { BlobReader, ExtentClaim } from '../src/reading/reader.ts'

const MiB = 1024 * 1024
const seal = new HeaderSeal(Buffer.alloc(32, 1))
const incarnation = Buffer.alloc(16, 9)
const payload = Buffer.alloc(MiB, 3)

/** One record of 1 MiB. */
class OneRecord {
  readonly number = 0
  readonly generation = 1
  readonly holders = new Set<object>()
  readonly #record = Buffer.concat([Buffer.alloc(blockBytes), payload])
  passOn: (request: PassOn) => { count: number; rest: number } | undefined = () => undefined
  /** Bytes that were requested at once. */
  readMost = 0

  constructor() {
    const checksums = new Uint32Array(16).fill(crc32(payload.subarray(0, 65_536)))
    const place = { extent: 0, generation: 1, offset: 8192 }
    const header = { ...place, uploadId: incarnation, position: 0, payloadBytes: MiB, checksums }
    encodeDataHeader(header, seal, this.#record)
  }

  /** Its header alone. */
  readCached(into: Buffer, at: number): boolean {
    if (at !== 8192 || into.length !== blockBytes) return false
    this.#record.copy(into)
    return true
  }

  async read(into: Buffer, at: number): Promise<number> {
    this.readMost = Math.max(this.readMost, into.length)
    return this.#record.copy(into, 0, at - 8192)
  }
}

function readerOver(made: OneRecord) {
  const table = new ExtentTable({ files: new ExtentFiles(new NodeDisk(), '/none') } as never)
  const extents = Object.assign(table, { get: () => made as unknown as Extent })
  const runs = [{ extent: 0, generation: 1, offset: 8192, bytes: MiB }]
  const copy = { incarnation, size: MiB, runs, earlierHomes: noHomes, commitExtent: 0, commitGeneration: 1 }
  const row: RowEntry = { id: Buffer.alloc(48), copies: [], deleting: [], users: 1, unwritten: 0 }
  const reader = new BlobReader({ extents, seal, cacheBytes: 0, damaged() {}, assertOpen() {} })
  const lease = () => new ExtentClaim(copy as unknown as Copy, extents, () => {})
  return {
    sender: reader.sender(row, lease(), () => {}),
    /** The longest read of a reader of everything. */
    async longest(): Promise<number> {
      made.readMost = 0
      const read: Buffer[] = []
      for await (const bytes of reader.stream(row, lease(), { start: 0, end: MiB }, undefined))
        read.push(Buffer.from(bytes))
      t.ok(Buffer.concat(read).equals(payload))
      return made.readMost
    },
  }
}

t.test('a send that throws loses no buffer', async (t) => {
  const made = new OneRecord()
  const { sender, longest } = readerOver(made)
  made.passOn = () => {
    throw new Error('a pipe lost bytes')
  }
  for (let n = 0; n < 40; n++)
    t.throws(() => sender.send({ start: 0, end: MiB }, 1), { message: /lost bytes/ })
  t.ok((await longest()) >= MiB)
})

t.test('a dropped buffer is made again once the garbage collector has it', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const made = new OneRecord()
  const { sender, longest } = readerOver(made)
  made.passOn = () => ({ count: 0, rest: 10 })
  for (let n = 0; n < 40; n++) sender.send({ start: 0, end: MiB }, 1)
  t.ok((await longest()) < MiB, 'no more than the maximum are made')
  for (let tries = 200; (await longest()) < MiB && tries > 0; tries--) {
    collect()
    await new Promise((later) => setTimeout(later, 10))
  }
  t.ok((await longest()) >= MiB)
})

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { blockOf } from '../src/block.ts'
import {
  CompressedTableError,
  contentsOf,
  type KeyRange,
  keyRangeOf,
  type LiveTable,
  salvagedTable,
  tableDamage,
} from '../src/index.ts'
import { storedBlock } from '../src/table.ts'
import {
  blocksOf,
  copyOf,
  differences,
  filesEnding,
  inLevel,
  isLost,
  manifestOf,
  type Rows,
  seeded,
  tablePath,
  variedDatabase,
} from './databases.ts'

const seed = Number(process.env.HOLDFAST_SEED ?? 4242)
const sectorBytes = 4096

interface World {
  path: string
  rows: Rows
  tables: { live: LiveTable; file: Buffer }[]
}

async function world(t: Test): Promise<World> {
  t.comment(`seed ${seed}`)
  const path = join(t.testdir(), 'rows')
  const rows = await variedDatabase(path, seed)
  const tables = manifestOf(path).tables.map((live) => ({ live, file: readFileSync(tablePath(path, live)) }))
  t.ok(tables.length > 3 && new Set(tables.map(({ live }) => live.level)).size > 1, 'several levels')
  return { path, rows, tables }
}

/** @returns the file itself if it is whole */
function salvaged(t: Test, file: Buffer, live: LiveTable): { table: Buffer; lost: KeyRange[] } {
  const options = { bytes: live.bytes, bounds: keyRangeOf(live) }
  const found = salvagedTable(file, options)
  if (found === undefined) return { table: file, lost: [] }
  t.equal(found.table.length, live.bytes)
  t.equal(tableDamage(found.table), undefined)
  t.equal(salvagedTable(found.table, options), undefined)
  return found
}

function sectorLost(file: Buffer, begin: number): Buffer {
  return Buffer.from(file).fill(0, begin, Math.min(file.length, begin + sectorBytes))
}

t.test('a lost sector takes the rows of the blocks that it touches, and no other', async (t) => {
  const { tables } = await world(t)
  const random = seeded(seed)
  for (const { live, file } of tables) {
    const blocks = blocksOf(file)
    const dataEnd = blocks.at(-1)?.end ?? 0
    const sectors = Math.ceil(file.length / sectorBytes)
    const [metaSectors, step] = [20, 1 + random.below(9)]
    for (let sector = 0; sector < sectors; sector += sector < sectors - metaSectors ? step : 1) {
      const begin = sector * sectorBytes
      const end = begin + sectorBytes
      const { lost } = salvaged(t, sectorLost(file, begin), live)
      const touched = blocks.filter((block) => block.begin < end && block.end > begin)
      const own = new Set(touched.flatMap(({ keys }) => keys.map(String)))
      const keys = blocks.flatMap((block) => block.keys.filter((key) => isLost(key, lost)).map(String))
      const excess = keys.filter((key) => !own.has(key))
      t.same(excess, [], `table ${live.number} at ${begin}`)
      if (begin >= dataEnd) t.same(lost, [], `table ${live.number} at ${begin} has no rows`)
    }
  }
})

t.test('LevelDB reads everything of a damaged table that is not lost', { timeout: 240_000 }, async (t) => {
  const { path, rows, tables } = await world(t)
  const random = seeded(seed)
  const damages: Record<string, (file: Buffer) => Buffer> = {
    'a bit flips': (file) => flipped(file, random.below(file.length)),
    'a bit of its last KiB flips': (file) => flipped(file, file.length - 1 - random.below(1024)),
    'a sector is lost': (file) => sectorLost(file, sectorBytes * random.below(file.length / sectorBytes)),
    'its last sectors are lost': (file) => Buffer.from(file).fill(0, random.below(file.length)),
    'its first sectors are lost': (file) => Buffer.from(file).fill(0, 0, random.below(file.length)),
    'several sectors are lost': (file) => {
      let damaged = file
      for (let n = 0; n < 5; n++)
        damaged = sectorLost(damaged, sectorBytes * random.below(file.length / sectorBytes))
      return damaged
    },
    'a sector and its end are other bytes': (file) => {
      const damaged = Buffer.from(file)
      random.bytes(sectorBytes).copy(damaged, random.below(file.length))
      random.bytes(sectorBytes).copy(damaged, Math.max(0, file.length - sectorBytes))
      return damaged
    },
    'it is cut': (file) => file.subarray(0, random.below(file.length)),
    'it is longer': (file) => Buffer.concat([file, random.bytes(100)]),
    'it is missing': () => Buffer.alloc(0),
  }
  let trial = 0
  for (const [name, damage] of Object.entries(damages)) {
    for (let n = 0; n < 2; n++) {
      const { live, file } = tables[random.below(tables.length)] as (typeof tables)[0]
      const { table, lost } = salvaged(t, damage(file), live)
      const copy = copyOf(path, `${path} ${trial++}`, [[live, table.subarray(0, live.bytes)]])
      const wrong = await inLevel(copy, (level) => differences(level, rows, lost))
      t.same(wrong, [], `${name}: table ${live.number} of level ${live.level}`)
    }
  }
})

t.test('rows that are still whole are all there when the index is lost', async (t) => {
  const { path, rows, tables } = await world(t)
  const replaced = tables.map(({ live, file }): [LiveTable, Buffer] => {
    const dataEnd = blocksOf(file).at(-1)?.end ?? 0
    const { table, lost } = salvaged(t, Buffer.from(file).fill(0, dataEnd), live)
    t.same(lost, [])
    return [live, table]
  })
  const copy = copyOf(path, `${path} copy`, replaced)
  t.same(await inLevel(copy, (level) => differences(level, rows, [])), [])
})

t.test('a database with repaired tables is compacted and written', async (t) => {
  const { path, rows, tables } = await world(t)
  const random = seeded(seed)
  const lost: KeyRange[] = []
  const replaced = tables.map(({ live, file }, n): [LiveTable, Buffer] => {
    const damaged = n === 0 ? Buffer.alloc(0) : sectorLost(file, random.below(file.length))
    const found = salvaged(t, damaged, live)
    lost.push(...found.lost)
    return [live, found.table]
  })
  const copy = copyOf(path, `${path} copy`, replaced)
  await inLevel(copy, async (level) => {
    await level.compactRange(Buffer.alloc(0), Buffer.alloc(1, 0xff))
    for (const [key, value] of [...rows].filter((_, n) => n % 3 === 0)) {
      rows.set(key, Buffer.concat([value, Buffer.from('again')]))
      await level.put(Buffer.from(key), rows.get(key) as Buffer)
    }
    t.same(await differences(level, rows, lost), [])
    await level.compactRange(Buffer.alloc(0), Buffer.alloc(1, 0xff))
  })
  t.same(await inLevel(copy, (level) => differences(level, rows, lost)), [])
})

t.test('the contents of a table are those that the manifest has', async (t) => {
  const { tables, path } = await world(t)
  let greatest = 0n
  for (const { live, file } of tables) {
    const contents = contentsOf(file)
    t.same(contents?.smallest, live.smallest)
    t.same(contents?.largest, live.largest)
    if (contents !== undefined && contents.lastSequence > greatest) greatest = contents.lastSequence
    t.equal(contentsOf(salvaged(t, Buffer.alloc(0), live).table), undefined, 'none')
    t.throws(() => contentsOf(flipped(file, 5)), /taken as whole, and the block at 0 is damaged/)
  }
  t.equal(greatest, manifestOf(path).lastSequence)
})

t.test('a block within the value of a damaged one is not taken for one of the table', async (t) => {
  const path = join(t.testdir(), 'rows')
  const foreign = { key: Buffer.from('foreign\x01\0\0\0\0\0\0\0'), value: Buffer.from('not written') }
  const block = storedBlock(blockOf([foreign]))
  await inLevel(path, async (level) => {
    for (const key of ['a', 'f', 'z']) await level.put(Buffer.from(key), Buffer.alloc(5000, key))
    await level.put(
      Buffer.from('f'),
      Buffer.concat([Buffer.alloc(5000, 'f'), block, Buffer.alloc(5000, 'f')]),
    )
  })
  await inLevel(path, async () => {})
  const [live] = manifestOf(path).tables as [LiveTable]
  const file = readFileSync(tablePath(path, live))
  const damaged = flipped(file, file.indexOf(block) + block.length + 1000).fill(0, file.length - 300)
  const { table, lost } = salvaged(t, damaged, live)
  t.ok(isLost(Buffer.from('f'), lost))
  const copy = copyOf(path, `${path} copy`, [[live, table]])
  t.equal(await inLevel(copy, (level) => level.get(Buffer.from('foreign'))), undefined)
})

t.test('a compressed table is repaired if its index is not, and else refused', async (t) => {
  const path = join(t.testdir(), 'rows')
  const compressed = { compression: true }
  await inLevel(
    path,
    async (level) => {
      for (let n = 0; n < 500; n++) await level.put(Buffer.from(`row ${n}`), Buffer.alloc(200, n))
    },
    compressed,
  )
  await inLevel(path, async () => {}, compressed)
  const [name = ''] = filesEnding(path, '.ldb')
  const file = readFileSync(join(path, name))
  const options = { bytes: file.length, bounds: undefined }
  t.equal(salvagedTable(file, options), undefined)
  t.throws(() => contentsOf(file), CompressedTableError)
  t.throws(() => salvagedTable(Buffer.from(file).fill(0, file.length - 100), options), CompressedTableError)
})

t.test('a table with rows of 1 MiB is searched in a time that grows with its length', async (t) => {
  const path = join(t.testdir(), 'rows')
  const options = { writeBufferSize: 128 << 20, maxFileSize: 128 << 20 }
  const random = seeded(seed)
  const rows: Rows = new Map()
  await inLevel(
    path,
    async (level) => {
      for (let n = 0; n < 64; n++) {
        const value = n % 4 === 0 ? Buffer.alloc(1 << 20) : random.bytes(1 << 20)
        rows.set(`row ${n}`, value)
        await level.put(Buffer.from(`row ${n}`), value)
      }
    },
    options,
  )
  await inLevel(path, async () => {}, options)
  const { tables } = manifestOf(path)
  const [live] = tables as [LiveTable]
  t.equal(tables.length, 1)
  const damaged = Buffer.from(readFileSync(tablePath(path, live)))
  for (const { begin } of blocksOf(damaged).slice(1, -2)) damaged.fill(0xaa, begin, begin + 10)
  damaged.fill(0, damaged.length - 5000)

  const looked = performance.now()
  let sum = 0
  for (const byte of damaged) sum += byte
  const began = performance.now()
  const { table, lost } = salvaged(t, damaged, live)
  const ratio = (performance.now() - began) / (began - looked)
  t.ok(sum > 0 && ratio < 20, `${ratio} times as long as to look at each byte`)
  t.equal(lost.length, 1)
  const copy = copyOf(path, `${path} copy`, [[live, table]])
  t.same(await inLevel(copy, (level) => differences(level, rows, lost)), [])
})

function flipped(file: Buffer, at: number): Buffer {
  const damaged = Buffer.from(file)
  damaged[at] = (damaged[at] as number) ^ (1 << (at % 8))
  return damaged
}

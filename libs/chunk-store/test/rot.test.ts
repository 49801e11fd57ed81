/**
 * One flipped bit in each kind of file of a store, found by the next start: reads are correct or
 * refused, and nothing is silently missing. For a closed store catalogue and extents agree; for a
 * killed one the newest commits may be in their extent alone.
 */

import { randomBytes } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BlobFault, BlobInfo, BlobName, LogPosition } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { silentLog } from '@holdfast/kernel'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { type EngineName, engineNames } from '../src/catalogue/engines/engine.ts'
import { isMarkedDamaged, ThreadedCatalogue } from '../src/catalogue/threaded-catalogue.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore } from '../src/index.ts'
import { openCatalogue } from '../src/start/open-catalogue.ts'
import { realOptions } from './support/crash-history.ts'

interface Image {
  path: string
  kept: Map<BlobInfo, Buffer>
  gone: BlobInfo[]
  /** A position in the log, as it was returned before the flip. */
  position: LogPosition
}

let engine: EngineName = 'rocksdb'

function openStore(path: string): Promise<ChunkStore> {
  const hashing = (memory: WebAssembly.Memory) => new InlineHashing(memory)
  return ChunkStore.open({ path, ...realOptions, catalogue: engine }, { hashing, background: false })
}

async function positionOf(store: ChunkStore): Promise<LogPosition> {
  const pulled = await store.pull({ limit: 1 }) // syncs the log
  return pulled.kind === 'unknown position' ? pulled.now : pulled.through
}

async function makeImages(dir: string): Promise<Record<'closed' | 'killed', Image>> {
  const path = join(dir, 'store')
  const kept = new Map<BlobInfo, Buffer>()
  const gone: BlobInfo[] = []
  const load = async (store: ChunkStore) => {
    for (const size of [0, 300, 5_000, 66_000, 1_300_000]) {
      const bytes = randomBytes(size)
      kept.set(await put(store, bytes, { pinMs: 0 }), bytes)
      const dead = await put(store, randomBytes(size + 1), { pinMs: 0 })
      await store.delete(dead)
      gone.push(dead)
    }
    return positionOf(store)
  }
  const copy = (name: string, position: LogPosition): Image => {
    cpSync(path, join(dir, name), { recursive: true })
    return { path: join(dir, name), kept: new Map(kept), gone: [...gone], position }
  }
  let store = await openStore(path)
  await load(store)
  await store.close()
  store = await openStore(path) // its log becomes a table
  const position = await load(store)
  await store.close()
  const closed = copy('closed', position)
  store = await openStore(path)
  const killed = copy('killed', await load(store))
  await store.close()
  return { closed, killed }
}

function filesOf(path: string): string[] {
  const all = readdirSync(path, { recursive: true, encoding: 'utf8' })
  return all.filter((name) => statSync(join(path, name)).isFile() && statSync(join(path, name)).size > 0)
}

/** A copy of the image in which one bit of one file is flipped. */
function flipped(image: Image, into: string, file: string, at: number): Image {
  cpSync(image.path, into, { recursive: true })
  const bytes = readFileSync(join(into, file))
  bytes[at] = (bytes[at] ?? 0) ^ 0x10
  writeFileSync(join(into, file), bytes)
  return { ...image, path: into }
}

interface ReadFindings {
  wrong: string[]
  /** Blobs that are missing, or are back. */
  missing: number
  refused: number
}

const right: ReadFindings = { wrong: [], missing: 0, refused: 0 }

async function lookAt({ path, kept, gone, position }: Image): Promise<ReadFindings> {
  const looked: ReadFindings = { wrong: [], missing: 0, refused: 0 }
  const store = await openStore(path)
  try {
    for (const [info, bytes] of kept)
      try {
        if (!bytes.equals(await get(store, info))) looked.wrong.push(`other bytes of a blob of ${info.size}`)
      } catch (error) {
        const { code } = error as BlobFault
        if (code === 'NOT_FOUND') looked.missing++
        else if (code === 'CORRUPT') looked.refused++
        else looked.wrong.push(`reading: ${(error as Error).stack}`)
      }
    for (const info of gone) if ((await store.stat(info)) !== undefined) looked.missing++
    const news = await put(store, randomBytes(99))
    const pulled = await store.pull({ after: position, limit: 10 })
    const reported =
      pulled.kind === 'unknown position' || pulled.entries.some(({ copy }) => isCopy(copy, news))
    if (!reported) looked.wrong.push('a position of the log was issued twice')
  } finally {
    await store.close()
  }
  return looked
}

function isCopy(one: BlobName, other: BlobName): boolean {
  return Buffer.from(one.incarnation).equals(Buffer.from(other.incarnation))
}

for (const each of engineNames.slice(0, sizeOf('rotEngines')))
  t.test(`a flipped bit in a file of a store over ${each} is noticed or does no harm`, async (t) => {
    engine = each
    const dir = t.testdir()
    const { closed, killed } = await makeImages(dir)
    const into = join(dir, 'flipped')

    for (const [name, image] of Object.entries({ closed, killed }))
      await t.test(
        `in the log of the catalogue, of a store that was ${name}: the extents know`,
        async (t) => {
          const logs = filesOf(image.path).filter((file) => file.endsWith('.log'))
          t.equal(logs.length, 1)
          const [log = ''] = logs
          const { size } = statSync(join(image.path, log))
          for (const share of [0, 0.02, 0.3, 0.7, 0.99]) {
            const at = Math.floor(share * size)
            const looked = await lookAt(flipped(image, into, log, at))
            t.same(looked, right, `byte ${at} of ${size}`)
            rmSync(into, { recursive: true })
          }
        },
      )

    await t.test('in a table of the catalogue: at once, or after the start that follows', async (t) => {
      for (const file of filesOf(closed.path).filter((file) => /\.(sst|ldb)$/.test(file))) {
        const { size } = statSync(join(closed.path, file))
        for (const share of [0.02, 0.4, 0.99]) {
          const at = Math.floor(share * size)
          const rotten = flipped(closed, into, file, at)
          const { refused: _, ...rest } = await lookAt(rotten)
          t.same(rest, { wrong: [], missing: 0 }, `byte ${at} of ${size}`)
          t.same(await lookAt(rotten), right, 'after the next start')
          rmSync(into, { recursive: true })
        }
      }
    })

    await t.test('in any other file', async (t) => {
      for (const file of filesOf(closed.path).filter((file) => !/(log|sst|ldb)$/.test(file))) {
        const { size } = statSync(join(closed.path, file))
        const { wrong, missing } = await lookAt(flipped(closed, into, file, Math.floor(0.3 * size)))
        t.same({ wrong, missing }, { wrong: [], missing: 0 }, file)
        rmSync(into, { recursive: true })
      }
    })
  })

t.test(
  'damage found while reading a row is marked, and the next start replaces that catalogue',
  async (t) => {
    const dir = t.testdir({ 'catalogue-1': {} })
    const path = join(dir, 'catalogue-1')
    const rows = Array.from({ length: 200 }, (_, n) => ({
      key: Buffer.from(`b${1000 + n}`),
      value: randomBytes(60),
    }))
    let catalogue = await ThreadedCatalogue.open(path, 'rocksdb', silentLog)
    await catalogue.apply(rows, { sync: true })
    await catalogue.close()
    // RocksDB's log becomes a table.
    catalogue = await ThreadedCatalogue.open(path, 'rocksdb', silentLog)
    await catalogue.close()
    const [table = ''] = filesOf(path).filter((file) => file.endsWith('.sst'))
    const bytes = readFileSync(join(path, table))
    bytes[1000] = (bytes[1000] ?? 0) ^ 0x10
    writeFileSync(join(path, table), bytes)

    catalogue = await ThreadedCatalogue.open(path, 'rocksdb', silentLog)
    t.same(await catalogue.get([Buffer.from('b1199')]), [rows[199]?.value], 'intact content is read')
    t.equal(catalogue.damage, undefined)
    await t.rejects(catalogue.get([Buffer.from('b1000')]), { code: 'CORRUPT' })
    t.match(catalogue.damage, { code: 'CORRUPT' })
    await t.rejects(
      openCatalogue(dir, silentLog, { engine: 'rocksdb' }),
      { code: 'UNAVAILABLE' },
      'its lock is still the lock of the store',
    )
    await catalogue.close()
    t.ok(await isMarkedDamaged(path))
    const next = await openCatalogue(dir, silentLog, { engine: 'rocksdb' })
    t.same(await next.get([Buffer.from('b1199')]), [undefined], 'to be filled from the extents')
    t.same(readdirSync(dir), ['catalogue-2'])
    await next.close()
  },
)

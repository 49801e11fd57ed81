import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { digestOf } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import { hex } from '@holdfast/kernel'
import t from 'tap'
import { sizeOf } from '../../../test/forms.ts'
import { ChunkStore } from '../src/index.ts'
import { content, realOptions } from './support/crash-history.ts'

const MiB = 1024 * 1024
const rounds = sizeOf('storeKills')

t.test('kill -9 at any moment loses nothing that was acknowledged, and leaves no stages', async (t) => {
  const path = t.testdir()
  const kept = new Map<string, number>()
  const deleted = new Set<string>()
  for (let round = 0; round < rounds; round++) {
    const wanted = 20 + Math.floor(Math.random() * 150)
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL('./support/killed-process.ts', import.meta.url)), path],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    await readUntil(child, wanted, kept, deleted)
    const store = await ChunkStore.open({ path, ...realOptions })
    let lost = 0
    for (const [name, number] of kept) {
      const [id, incarnation] = name.split(' ').map((hex) => Buffer.from(hex, 'hex'))
      const bytes = await get(store, {
        id: id as Buffer,
        incarnation: incarnation as Buffer,
        placementGroup: undefined,
      }).catch(() => undefined)
      if (!bytes?.equals(content(number))) lost++
    }
    t.equal(lost, 0, `round ${round}: ${kept.size} kept, ${store.recovered.commits} found by the scan`)
    let blobs = 0
    let bytes = 0
    let back = 0
    let wrong = 0
    for await (const info of store.inventory()) {
      blobs++
      bytes += info.size
      const id = Buffer.from(info.id)
      if (deleted.has(`${hex(id)} ${hex(info.incarnation)}`)) back++
      if (!digestOf(await get(store, info)).id.equals(id)) wrong++
    }
    t.same(
      { back, wrong },
      { back: 0, wrong: 0 },
      `${deleted.size} deleted stay away, ${blobs} blobs are right`,
    )
    t.match(await store.usage(), { blobs, liveBytes: bytes, openStages: 0, stagedBytes: 0 })
    await store.close()
  }
})

function occupiedBytes(path: string): number {
  let bytes = 0
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).blocks * 512
  return bytes
}

async function readUntil(
  child: ChildProcess,
  wanted: number,
  kept: Map<string, number>,
  deleted: Set<string>,
): Promise<void> {
  const exited = once(child, 'exit')
  let seen = 0
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    const [what, id, incarnation, number] = line.split(' ')
    if (number === undefined) continue // the last line may be incomplete
    if (what === 'kept') kept.set(`${id} ${incarnation}`, Number(number))
    else deleted.add(`${id} ${incarnation}`)
    if (++seen === wanted) child.kill('SIGKILL')
  }
  await exited
}

t.test(
  'bytes on disk are what the files occupy: holes behind the last record of a killed process do not count',
  async (t) => {
    const path = t.testdir()
    const killed = fileURLToPath(new URL('./support/killed-process.ts', import.meta.url))
    const child = spawn(process.execPath, [killed, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    await readUntil(child, 3, new Map(), new Set())
    const extents = join(path, 'extents')
    for (const name of readdirSync(extents)) truncateSync(join(extents, name), 32 * MiB)
    const store = await ChunkStore.open({ path, ...realOptions, extentBytes: 64 * MiB })
    const { diskBytes } = await store.usage()
    const occupied = occupiedBytes(path)
    t.ok(Math.abs(diskBytes - occupied) < MiB, `${diskBytes} for ${occupied}`)
    await put(store, Buffer.alloc(5 * MiB, 7))
    const grown = (await store.usage()).diskBytes - diskBytes
    t.ok(grown >= 5 * MiB, `${grown} more after an upload`)
    await store.close()
  },
)

t.test('a second store in the same directory is refused before it touches anything', async (t) => {
  const path = t.testdir()
  const store = await ChunkStore.open({ path, ...realOptions })
  const info = await put(store, Buffer.from('mine'))
  const before = readdirSync(join(path, 'extents')).map(
    (name) => statSync(join(path, 'extents', name)).mtimeMs,
  )
  await t.rejects(ChunkStore.open({ path, ...realOptions }), { code: 'UNAVAILABLE' })
  t.same(
    readdirSync(join(path, 'extents')).map((name) => statSync(join(path, 'extents', name)).mtimeMs),
    before,
  )
  t.equal((await get(store, info)).toString(), 'mine')
  await store.close()
  const again = await ChunkStore.open({ path, ...realOptions })
  t.equal((await get(again, info)).toString(), 'mine')
  await again.close()
})

t.test('a lost or damaged catalogue is rebuilt from the extents', async (t) => {
  const path = t.testdir()
  const kept = [100, 70_000, 3_000_000].map((size) => Buffer.alloc(size, size % 251))
  let store = await ChunkStore.open({ path, ...realOptions })
  const infos = await Promise.all(kept.map((bytes) => put(store, bytes)))
  const gone = await put(store, Buffer.from('gone'), { pinMs: 0 })
  await store.delete(gone)
  await store.close()
  const breakages = [
    () => rmSync(join(path, catalogueOf(path)), { recursive: true }),
    () => {
      const directory = join(path, catalogueOf(path))
      const manifest = readdirSync(directory).find((name) => name.startsWith('MANIFEST'))
      writeFileSync(join(directory, manifest as string), 'not a manifest')
    },
  ]
  for (const breakIt of breakages) {
    breakIt()
    store = await ChunkStore.open({ path, ...realOptions })
    for (const [n, copy] of infos.entries()) t.ok(kept[n]?.equals(await get(store, copy)))
    t.equal(await store.stat(gone), undefined)
    t.match(await store.usage(), { blobs: 3, liveBytes: 3_070_100 })
    await store.close()
  }
  t.equal(readdirSync(path).filter((name) => name.startsWith('catalogue')).length, 1)
})

t.test('a list of tables whose end is lost is noticed, and hides no blob', async (t) => {
  for (const keep of [0.5, 0.9]) {
    const path = t.testdir()
    const bytes = Buffer.alloc(70_000, 7)
    let store = await ChunkStore.open({ path, ...realOptions })
    const info = await put(store, bytes)
    await store.close()
    // The next start moves the log to a table.
    await (await ChunkStore.open({ path, ...realOptions })).close()
    const directory = join(path, catalogueOf(path))
    const list = join(directory, readFileSync(join(directory, 'CURRENT'), 'latin1').trim())
    truncateSync(list, Math.floor(statSync(list).size * keep))
    store = await ChunkStore.open({ path, ...realOptions })
    t.ok(bytes.equals(await get(store, info)), `${keep} of it`)
    t.match(await store.usage(), { blobs: 1, liveBytes: 70_000 })
    await store.close()
    const before = catalogueOf(path)
    await (await ChunkStore.open({ path, ...realOptions })).close()
    t.equal(catalogueOf(path), before, 'a whole one is not made again')
  }
})

function catalogueOf(path: string): string {
  return readdirSync(path).find((name) => name.startsWith('catalogue')) as string
}

t.test('a start after a clean stop scans nothing and continues in the same extent', async (t) => {
  const path = t.testdir()
  for (let n = 0; n < 4; n++) {
    const store = await ChunkStore.open({ path, ...realOptions })
    t.equal(store.recovered.scannedExtents, 0)
    await put(store, Buffer.from(`start ${n}`))
    await store.close()
  }
  t.equal(readdirSync(join(path, 'extents')).length, 1)
})

t.test('what is written through the page cache is also read by a store with direct writes', async (t) => {
  const path = t.testdir()
  const bytes = content(59)
  const store = await ChunkStore.open({ path, ...realOptions, direct: false })
  const info = await put(store, bytes)
  const large = await put(store, Buffer.alloc(2_500_000, 3))
  t.ok(bytes.equals(await get(store, info)))
  await store.close()
  const again = await ChunkStore.open({ path, ...realOptions, direct: true })
  t.ok(bytes.equals(await get(again, info)))
  t.equal((await get(again, large)).length, 2_500_000)
  await again.close()
})

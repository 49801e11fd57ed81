/** The catalogue's rows in each library, and the change from one to the other. */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { get, put } from '@holdfast/blob-store/testing'
import { silentLog } from '@holdfast/kernel'
import t from 'tap'
import { engineNames } from '../src/catalogue/engines/engine.ts'
import { ThreadedCatalogue } from '../src/catalogue/threaded-catalogue.ts'
import { ChunkStore } from '../src/index.ts'
import { openCatalogue } from '../src/start/open-catalogue.ts'
import { realOptions } from './support/crash-history.ts'

const key = (n: number) => Buffer.from(`b${10_000 + n}`)

for (const engine of engineNames) {
  t.test(`${engine}: a batch is there whole, in order, also after the next opening`, async (t) => {
    const path = join(t.testdir(), 'catalogue')
    let catalogue = await ThreadedCatalogue.open(path, engine, silentLog)
    const rows = Array.from({ length: 3_000 }, (_, n) => ({ key: key(n), value: randomBytes(n % 90) }))
    await catalogue.apply(rows.toReversed(), { sync: true })
    await catalogue.apply([{ key: key(1), value: undefined }], { sync: false })
    const kept = rows.filter((_, n) => n !== 1)
    for (const opening of ['at once', 'after the next opening']) {
      t.same(await catalogue.get([key(2), key(1), key(0)]), [rows[2]?.value, undefined, rows[0]?.value])
      t.same(await catalogue.scan(Buffer.from('b'), { limit: 5_000 }), kept, opening)
      const some = await catalogue.scan(Buffer.from('b1'), { after: key(2_000), limit: 2 })
      t.same(some, rows.slice(2_001, 2_003))
      t.same(await catalogue.scan(Buffer.from('c'), { limit: 2 }), [])
      await catalogue.close()
      catalogue = await ThreadedCatalogue.open(path, engine, silentLog)
    }
    await t.rejects(ThreadedCatalogue.open(path, engine, silentLog), { code: 'UNAVAILABLE' })
    await catalogue.close()
  })
}

t.test('a flipped bit anywhere in the rows of LevelDB is found before it is opened', async (t) => {
  const path = join(t.testdir(), 'catalogue')
  const rows = Array.from({ length: 3_000 }, (_, n) => ({ key: key(n), value: randomBytes(60) }))
  const open = () => ThreadedCatalogue.open(path, 'level', silentLog)
  let catalogue = await open()
  await catalogue.apply(rows, { sync: true })
  await catalogue.close()
  catalogue = await open() // its log becomes a table
  await catalogue.apply(rows.slice(0, 1_000), { sync: true })
  await catalogue.apply(rows.slice(0, 1_000), { sync: true })
  await catalogue.close()
  const files = readdirSync(path).filter((name) => /\.(ldb|log)$/.test(name))
  t.equal(files.length, 2)
  for (const file of files) {
    const whole = readFileSync(join(path, file))
    for (let at = 3; at < whole.length / 2; at += Math.ceil(whole.length / 16)) {
      const rotten = Buffer.from(whole)
      rotten[at] = (rotten[at] as number) ^ 0x04
      writeFileSync(join(path, file), rotten)
      await t.rejects(open(), { code: 'CORRUPT' }, `${file}, byte ${at}`)
    }
    writeFileSync(join(path, file), whole)
  }
  catalogue = await open()
  t.same(await catalogue.scan(Buffer.from('b'), { limit: 5_000 }), rows)
  await catalogue.close()
})

t.test('a store moves from one library to the other and back', async (t) => {
  const path = t.testdir()
  const open = (catalogue: (typeof engineNames)[number]) =>
    ChunkStore.open({ path, ...realOptions, hashThreadsMax: 1, catalogue })
  const kept: [Awaited<ReturnType<typeof put>>, Buffer][] = []
  for (const engine of ['rocksdb', 'level', 'rocksdb', 'level'] as const) {
    const store = await open(engine)
    t.equal(store.health.catalogue, engine)
    for (const [info, bytes] of kept) t.ok(bytes.equals(await get(store, info)))
    for (const size of [100, 200_000]) {
      const bytes = randomBytes(size)
      kept.push([await put(store, bytes, { pinMs: 0 }), bytes])
    }
    await store.close()
    t.equal(readdirSync(path).filter((name) => name.startsWith('catalogue')).length, 1)
  }
})

t.test('a process that uses a store keeps out those with another library', async (t) => {
  for (const [own, other] of [engineNames, engineNames.toReversed()] as const) {
    const path = t.testdir({ own: {} })
    const holder = await holding(path, own as string)
    const before = readdirSync(path)
    await t.rejects(openCatalogue(path, silentLog, { engine: other }), { code: 'UNAVAILABLE' })
    t.same(readdirSync(path), before, 'nothing is left behind')
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    await (await openCatalogue(path, silentLog, { engine: other })).close()
  }
})

async function holding(path: string, engine: string): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('./support/held-catalogue.ts', import.meta.url))
  const child = spawn(process.execPath, [program, path, engine], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

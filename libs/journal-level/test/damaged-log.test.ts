/** A loss that a start found stays known, also when the log is damaged before the next start. */
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import { Rows } from '../src/opening/rows.ts'
import { keys } from '../src/rows/format.ts'
import { testMetadataStore } from '../src/testing.ts'
import { crashImage, directory } from './directories.ts'

const value = Buffer.from('x'.repeat(200))
const accounts = ['a', 'b', 'c'].map((last) => `98261ddd-793b-4346-b418-e7c2227897a${last}`)
const [hit = ''] = accounts

async function session(
  path: string,
  work: (store: LevelMetadataStore) => Promise<unknown> = async () => {},
): Promise<void> {
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  try {
    await work(store)
  } finally {
    await store.close()
  }
}

async function append({ journals }: LevelMetadataStore, account: string): Promise<void> {
  const ownership = await journals.acquire(account, { owner: 'writer' })
  for (let row = 0; row < 20; row++) await journals.append(ownership, value)
  await journals.release(ownership)
}

/** Closed; its rows are in tables. */
async function storeInTables(t: Test): Promise<string> {
  const path = await directory(t)
  await session(path, async ({ lookups }) => {
    for (const kind of ['moderation', 'ref'])
      await lookups.write(Array.from({ length: 200 }, (_, at) => ({ put: `${kind}/${at}`, value })))
  })
  await session(path, async (store) => {
    for (const account of accounts) await append(store, account)
  })
  await session(path)
  return path
}

const namesOf = (path: string, ending: string) =>
  readdirSync(join(path, 'rows'))
    .filter((name) => name.endsWith(ending))
    .sort()

/** One bit of the key in the newest table that has it. */
function flipInTable(path: string, key: string): void {
  for (const name of namesOf(path, '.ldb').reverse()) {
    const file = join(path, 'rows', name)
    const bytes = readFileSync(file)
    const at = bytes.indexOf(key)
    if (at < 0) continue
    bytes[at + 3] = (bytes[at + 3] as number) ^ 4
    writeFileSync(file, bytes)
    return
  }
  throw new Error(`no table has ${key}`)
}

const ways = ['flipped', 'cut', 'emptied'] as const

/** The newest one. */
function damageLog(path: string, how: (typeof ways)[number], key?: string): void {
  const file = join(path, 'rows', namesOf(path, '.log').at(-1) as string)
  const bytes = readFileSync(file)
  const at = key === undefined ? 20 : bytes.indexOf(key)
  if (how !== 'flipped') truncateSync(file, how === 'cut' ? Math.min(100, bytes.length) : 0)
  else if (at < bytes.length) {
    bytes[at] = (bytes[at] as number) ^ 4
    writeFileSync(file, bytes)
  }
}

/** What the store says of all this. */
async function seen(path: string) {
  let found: unknown
  await session(path, async ({ journals, lookups, damage, lostBatches }) => {
    const heads = accounts.map((account) =>
      journals.acquire(account, { owner: 'reader', unwritten: 'leave' }).then(
        ({ head }) => head,
        ({ code }: { code: string }) => code,
      ),
    )
    const blocks = (await Array.fromAsync(lookups.scan('moderation/'))).length
    const { lostRanges, lostKinds } = damage
    found = { heads: await Promise.all(heads), blocks, lostRanges, lostKinds, lostBatches }
  })
  return found
}

/** The same for a store whose log is damaged after a start that wrote nothing but what it found. */
async function isKnownAfterwards(t: Test, path: string, about: string): Promise<unknown> {
  await session(path)
  const expected = await seen(await crashImage(t, path))
  for (const how of ways) {
    const image = await crashImage(t, path)
    damageLog(image, how)
    t.same(await seen(image), expected, `${about}, the log is ${how}`)
  }
  return expected
}

t.test('a loss in a table that a start found is still known after the log is damaged', async (t) => {
  const path = await storeInTables(t)
  for (const key of ['lmoderation/', 'lref/', `j${hit}`]) {
    const image = await crashImage(t, path)
    flipInTable(image, key)
    const found = await isKnownAfterwards(t, image, key)
    t.match(found, { blocks: 200, lostRanges: 1, lostKinds: [], lostBatches: 1 })
  }
})

t.test('a loss in a log that a start found is still known after the next log is damaged', async (t) => {
  const path = await storeInTables(t)
  await session(path, async (store) => {
    await store.lookups.write([{ put: 'moderation/new', value }])
    await append(store, hit)
  })
  damageLog(path, 'flipped', 'moderation/new')
  const found = await isKnownAfterwards(t, path, 'a log')
  t.match(found, { heads: ['CORRUPT', 20, 20], lostKinds: ['moderation'] })
})

t.test('a loss in a table that an open store found is still known after the log is damaged', async (t) => {
  const path = await storeInTables(t)
  const reopened = Promise.withResolvers<void>()
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onReopened: () => reopened.resolve(),
  })
  const alive = setInterval(() => {}, 1_000)
  flipInTable(path, `j${hit}`)
  t.match(await store.scrub({ pace: async () => true }), /table/)
  await reopened.promise
  clearInterval(alive)
  await store.close()
  damageLog(path, 'emptied')
  t.match(await seen(path), { heads: ['CORRUPT', Number, Number], lostBatches: 1 })
})

t.test('copies that a start made are there after a damaged log', async (t) => {
  const path = await storeInTables(t)
  const lookup = keys.lookup('moderation/7')
  const inRows = async <Result>(work: (rows: Rows) => Promise<Result>) => {
    const rows = await Rows.open(join(path, 'rows'))
    try {
      return await work(rows)
    } finally {
      await rows.close()
    }
  }
  await inRows((rows) => rows.commit([{ type: 'del', key: keys.copy(lookup) }]))
  // A release without copies had it.
  writeFileSync(join(path, 'holder'), 'process 1 on a since b\n')
  await session(path)
  damageLog(path, 'emptied')
  await session(path)
  t.ok(await inRows((rows) => rows.get(keys.copy(lookup))))
})

t.test('a new store keeps its name when its first log is damaged', async (t) => {
  for (const how of ways) {
    const path = await directory(t)
    // More than a block of the log.
    await session(path, async ({ lookups }) => {
      for (let at = 0; at < 300; at++) await lookups.write([{ put: `ref/${at}`, value }])
    })
    damageLog(path, how)
    await session(path, async ({ lostBatches }) => t.ok(lostBatches > 0, `the log is ${how}`))
  }
})

t.test('a restored store needs no log', async (t) => {
  const path = await storeInTables(t)
  const restored = await directory(t)
  await session(path, (store) => LevelMetadataStore.restore(restored, store.everything()))
  for (const name of namesOf(restored, '.log')) truncateSync(join(restored, 'rows', name), 0)
  t.match(await seen(restored), { heads: [20, 20, 20], blocks: 200 })
})

t.test('rows are in tables, or the move fails', async (t) => {
  const path = await directory(t)
  const rows = await Rows.open(join(path, 'rows'))
  const put = (key: string) => rows.commit([{ type: 'put', key: keys.lookup(key), value }])
  await put('one')
  await rows.moveToTables()
  for (const name of namesOf(path, '.log')) t.equal(readFileSync(join(path, 'rows', name)).length, 0)
  await put('two')
  const taken = namesOf(path, '.ldb')
  // LevelDB would make its next tables under these names.
  for (let number = 1; number < 30; number++) {
    const name = `${String(number).padStart(6, '0')}.ldb`
    if (!taken.includes(name)) mkdirSync(join(path, 'rows', name))
  }
  await t.rejects(rows.moveToTables(), { code: 'UNAVAILABLE', message: /Is a directory/ })
  await rows.close()
})

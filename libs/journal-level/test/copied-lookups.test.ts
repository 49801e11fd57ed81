/** Lookups that must not be missed have copies. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { applyLoss } from '../src/damage/loss.ts'
import { salvageRows } from '../src/damage/salvage.ts'
import { LevelMetadataStore, type MetadataDamage } from '../src/index.ts'
import { Rows } from '../src/opening/rows.ts'
import { encodeSmall, keys } from '../src/rows/format.ts'
import { copiedKinds } from '../src/rows/kinds-of-rows.ts'
import { numberRow } from '../src/rows/stored-numbers.ts'
import { testMetadataStore } from '../src/testing.ts'
import { encodeEntry, readEntries } from '../src/writing/commit-audit.ts'
import { directory } from './directories.ts'

const decided = copiedKinds.map((kind) => `${kind}/one`)
const value = (key: string) => Buffer.from(`value of ${key}`)

/** Closed, with a row of each kind that has copies and one of a kind that has none. */
async function storeWithLookups(t: Test): Promise<string> {
  const path = await directory(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.lookups.write([...decided, 'ref/one'].map((put) => ({ put, value: value(put) })))
  await store.close()
  return path
}

async function inRows<Result>(path: string, work: (rows: Rows) => Promise<Result>): Promise<Result> {
  const rows = await Rows.open(join(path, 'rows'))
  try {
    return await work(rows)
  } finally {
    await rows.close()
  }
}

async function found(path: string) {
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  const values = await Promise.all(decided.map((key) => store.lookups.get(key)))
  const scanned = await Array.fromAsync(store.lookups.scan('moderation/'))
  await store.close()
  return { values: values.map(String), scanned: scanned.length, ...store.damage }
}

const remove = (rows: Rows, spans: { gte: Uint8Array; lt: Uint8Array }[]) =>
  Promise.all(
    spans.map(async (span) => {
      for await (const [key] of rows.scan(span)) await rows.commit([{ type: 'del', key }])
    }),
  )

const all = keys.lookupsOf('')
const whole = { values: decided.map((key) => String(value(key))), scanned: 1, lostKinds: [] }

t.test('a lost range takes no row that has a copy, and no copy', async (t) => {
  const path = await storeWithLookups(t)
  for (const { gte, lt } of [all, keys.copiesOf(all)]) {
    await inRows(path, async (rows) => {
      await remove(rows, [{ gte, lt }])
      const { lostKinds } = await applyLoss(rows, {
        lost: [{ after: gte, through: lt }],
        isRebuilt: false,
        hasCopies: true,
      })
      t.same(lostKinds, [])
    })
    t.match(await found(path), whole)
  }
  await inRows(path, async (rows) => t.equal(await rows.get(keys.lookup('ref/one')), undefined))
})

t.test('an older row in a lost range gives way to its copy', async (t) => {
  const path = await storeWithLookups(t)
  const key = keys.lookup('moderation/one')
  await inRows(path, async (rows) => {
    const older = await rows.get(keys.lookup('moderation/one'))
    const store = { ...testMetadataStore, path }
    await rows.close()
    const open = await LevelMetadataStore.open(store)
    await open.lookups.write([{ put: 'moderation/one', value: Buffer.from('newer') }])
    await open.close()
    await inRows(path, async (rows) => {
      await rows.commit([{ type: 'put', key, value: older as Uint8Array }])
      await applyLoss(rows, {
        lost: [{ after: keys.lookup('moderation/'), through: key }],
        isRebuilt: false,
        hasCopies: true,
      })
    })
  })
  t.equal((await found(path)).values[decided.indexOf('moderation/one')], 'newer')
})

t.test('kinds that lost both are named, for good, and no others', async (t) => {
  const path = await storeWithLookups(t)
  const span = keys.lookupsOf('moderation/')
  const spans = [span, keys.copiesOf(span)]
  await inRows(path, async (rows) => {
    await remove(rows, spans)
    const lost = spans.map(({ gte, lt }) => ({ after: gte, through: lt }))
    t.same((await applyLoss(rows, { lost, isRebuilt: false, hasCopies: true })).lostKinds, ['moderation'])
  })
  for (let time = 0; time < 2; time++) t.match(await found(path), { lostKinds: ['moderation'], scanned: 0 })
})

t.test('a damaged row is read from its copy', async (t) => {
  const path = await storeWithLookups(t)
  const key = keys.lookup('moderation/one')
  await inRows(path, (rows) => rows.commit([{ type: 'put', key, value: Buffer.from('damaged') }]))
  t.match(await found(path), whole)
})

t.test('a deleted lookup leaves no copy', async (t) => {
  const path = await storeWithLookups(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.lookups.write([{ delete: 'moderation/one' }])
  await store.close()
  await inRows(path, async (rows) =>
    t.equal(await rows.get(keys.copy(keys.lookup('moderation/one'))), undefined),
  )
})

t.test('lookups of a release without copies get them', async (t) => {
  const path = await storeWithLookups(t)
  await inRows(path, async (rows) => {
    await remove(rows, [keys.copiesOf(all)])
    await rows.commit([{ type: 'del', key: keys.meta('copies') }])
  })
  await found(path)
  await inRows(path, async (rows) => {
    const { gte, lt } = all
    await remove(rows, [all])
    await applyLoss(rows, { lost: [{ after: gte, through: lt }], isRebuilt: false, hasCopies: true })
  })
  t.match(await found(path), whole)
})

t.test('damage under an open store is found on the disk, and taken out of use', async (t) => {
  const path = await storeWithLookups(t)
  const reported: MetadataDamage[] = []
  const reopened = Promise.withResolvers<void>()
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onDamage: (damage) => reported.push(damage),
    onReopened: () => reopened.resolve(),
  })
  const alive = setInterval(() => {}, 1_000)
  t.teardown(async () => {
    clearInterval(alive)
    await store.close()
  })
  let tables = 0
  const pace = async () => ++tables > 0
  t.equal(await store.scrub({ pace }), undefined, 'nothing is damaged')
  t.ok(tables > 0)
  const rows = join(path, 'rows')
  const [name = ''] = readdirSync(rows).filter((one) => one.endsWith('.ldb'))
  const bytes = readFileSync(join(rows, name))
  bytes[20] = (bytes[20] as number) ^ 4
  writeFileSync(join(rows, name), bytes)
  t.equal(await store.scrub({ pace: async () => false }), undefined, 'it ends when it shall')
  t.match(await store.scrub({ pace }), /^the table \d+: /)
  await reopened.promise
  t.match(reported, [{ files: [{ name }] }])
  t.equal(await store.scrub({ pace }), undefined, 'it is replaced')
  await store.lookups.write([{ put: 'code/two', value: value('two') }])
  t.equal(String(await store.lookups.get('code/two')), 'value of two')
})

t.test('an old table is compared at each start, however much was written after it', async (t) => {
  const path = await storeWithLookups(t)
  const rows = await Rows.open(join(path, 'rows'))
  const filling = Buffer.alloc(1024 * 1024, 'filling')
  for (let at = 0; at < 300; at++)
    await rows.commit([{ type: 'put', key: keys.lookup(`z${String(at).padStart(4, '0')}`), value: filling }])
  await rows.close()
  const [name = ''] = readdirSync(join(path, 'rows'))
    .filter((one) => one.endsWith('.ldb'))
    .sort()
  const bytes = readFileSync(join(path, 'rows', name))
  bytes[20] = (bytes[20] as number) ^ 4
  writeFileSync(join(path, 'rows', name), bytes)
  const reported: MetadataDamage[] = []
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onDamage: (damage) => reported.push(damage),
  })
  await store.close()
  t.match(reported, [{ files: [{ name }] }])
})

t.test('a lost log is named by its kinds of lookups, and reported', async (t) => {
  const path = await storeWithLookups(t)
  // Its rows become tables; those of this run stay in the log.
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.lookups.write([{ put: 'moderation/two', value: value('two') }])
  await store.lookups.write([{ put: 'ref/two', value: value('two') }])
  await store.close()
  const rows = join(path, 'rows')
  const [log = ''] = readdirSync(rows)
    .filter((one) => one.endsWith('.log'))
    .sort()
    .slice(-1)
  const bytes = readFileSync(join(rows, log))
  const at = bytes.indexOf('moderation/two')
  bytes[at] = (bytes[at] as number) ^ 1
  writeFileSync(join(rows, log), bytes)
  const reported: MetadataDamage[] = []
  const opened = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onDamage: (damage) => reported.push(damage),
  })
  t.equal(await opened.lookups.get('moderation/two'), undefined)
  t.same(opened.damage.lostKinds, ['moderation'])
  t.match(reported, [
    { files: [{ name: log, damage: /record/ }], lost: [], lostKinds: [] },
    { files: [], lost: [/acknowledged writes/], lostKinds: ['moderation'] },
  ])
  t.equal(opened.damage.files, 1)
  const [kept = ''] = readdirSync(join(path, 'damaged'))
  t.ok(readFileSync(join(path, 'damaged', kept)).equals(bytes), 'the original is kept')
  await opened.close()
  t.match(await found(path), { lostKinds: ['moderation'] }, 'for good')
})

t.test('lookups that a release without copies wrote count, and their copies are made again', async (t) => {
  const path = await storeWithLookups(t)
  const [changed, added, removed] = ['moderation/one', 'moderation/new', 'acts/one']
  await inRows(path, async (rows) => {
    const put = (key: string, text: string) => ({
      ...{ type: 'put' as const, key: keys.lookup(key) },
      value: encodeSmall(keys.lookup(key), Buffer.from(text)),
    })
    const del = { type: 'del' as const, key: keys.lookup(removed) }
    await rows.commit([put(changed, 'changed'), put(added, 'added'), del])
  })
  writeFileSync(join(path, 'holder'), 'process 1 on a since b\n')
  const { gte, lt } = all
  const lost = [{ after: gte, through: lt }]
  await inRows(path, async (rows) => {
    const { lostKinds } = await applyLoss(rows, { lost, isRebuilt: false, hasCopies: false })
    t.same([...lostKinds].sort(), [...copiedKinds].sort(), 'copies of that time save nothing')
    t.equal(await rows.get(keys.lookup(removed)), undefined)
  })
  await found(path)
  await inRows(path, async (rows) => {
    await remove(rows, [all])
    await applyLoss(rows, { lost, isRebuilt: false, hasCopies: true })
    const read = async (key: string) => {
      const stored = await rows.get(keys.lookup(key))
      return stored && String(stored.subarray(4))
    }
    t.same(await Promise.all([changed, added, removed].map(read)), ['changed', 'added', undefined])
  })
})

t.test('whether copies count is decided by who had the store last', async (t) => {
  for (const isOlder of [true, false]) {
    const path = await storeWithLookups(t)
    const key = keys.lookup('moderation/one')
    await inRows(path, (rows) => rows.commit([{ type: 'del', key }]))
    if (isOlder) writeFileSync(join(path, 'holder'), 'process 1 on a since b\n')
    const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
    const lost = [[hex(keys.lookup('moderation/')), hex(key)]]
    writeFileSync(
      join(path, 'damage.json'),
      JSON.stringify({ version: 1, files: [], lost, isRebuilt: false }),
    )
    t.match(await found(path), { scanned: isOlder ? 0 : 1, lostKinds: isOlder ? ['moderation'] : [] })
  }
})

t.test('a removed lookup does not come back in a lost range', async (t) => {
  const path = await storeWithLookups(t)
  const key = keys.lookup('reports/one')
  await inRows(path, async (rows) => {
    await rows.commit([{ type: 'del', key: keys.copy(key) }])
    await applyLoss(rows, {
      lost: [{ after: keys.lookup('reports/'), through: key }],
      isRebuilt: false,
      hasCopies: true,
    })
    t.equal(await rows.get(key), undefined)
  })
})

const asOfAnEarlierRelease = (path: string) => writeFileSync(join(path, 'holder'), 'process 1 on a since b\n')
const everyKind = [...copiedKinds].sort()

t.test('rows that an earlier release lost may be of any kind', async (t) => {
  const path = await storeWithLookups(t)
  await inRows(path, (rows) => rows.commit([numberRow(keys.meta('lost'), 1)]))
  t.match(await found(path), { lostKinds: [] }, 'this release had named it')
  asOfAnEarlierRelease(path)
  t.match(await found(path), { lostKinds: [] }, 'so it does not name it again')
  await inRows(path, (rows) => rows.commit([numberRow(keys.meta('lost'), 2)]))
  asOfAnEarlierRelease(path)
  const reported: MetadataDamage[] = []
  const onDamage = (damage: MetadataDamage) => reported.push(damage)
  await (await LevelMetadataStore.open({ ...testMetadataStore, path, onDamage })).close()
  t.match(reported, [{ lost: ['what an earlier release lost'], lostKinds: copiedKinds }])
  for (let time = 0; time < 2; time++) t.match(await found(path), { lostKinds: everyKind }, 'for good')
})

t.test('losses that this release recorded before an upgrade do not count for every kind', async (t) => {
  const path = await storeWithLookups(t)
  const lost = { after: keys.lookup('moderation/'), through: keys.lookup('moderation/one') }
  await inRows(path, (rows) => applyLoss(rows, { lost: [lost], isRebuilt: false, hasCopies: true }))
  asOfAnEarlierRelease(path)
  t.match(await found(path), { lostKinds: [] })
})

t.test('a lost log of an earlier release may have had rows of any kind', async (t) => {
  const path = await storeWithLookups(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.lookups.write([{ put: 'moderation/two', value: value('two') }])
  await store.close()
  // Its audit has no notes of kinds.
  const audit = join(path, 'witness.0')
  const name = readFileSync(audit).subarray(8, 24)
  const entries = (await readEntries(path, name)).map(({ batch }) => encodeEntry(batch, []))
  t.ok(entries.length > 0)
  writeFileSync(audit, Buffer.concat([readFileSync(audit).subarray(0, 24), ...entries]))
  asOfAnEarlierRelease(path)
  const logs = readdirSync(join(path, 'rows')).filter((one) => one.endsWith('.log'))
  writeFileSync(join(path, 'rows', logs.sort().at(-1) as string), '')
  for (let time = 0; time < 2; time++) t.match(await found(path), { lostKinds: everyKind })
})

t.test('a table that memory still has whole is written again where the disk has it damaged', async (t) => {
  const path = await storeWithLookups(t)
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  const rows = join(path, 'rows')
  const tables = readdirSync(rows).filter((one) => one.endsWith('.ldb'))
  const [name = ''] = tables
  const whole = readFileSync(join(rows, name))
  const damagedOnDisk = async () => 'the block at 0 is damaged'
  const { files, lost } = await salvageRows(rows, { all: true, damageOnDisk: damagedOnDisk })
  t.match(files, [{ damage: /memory had it whole/ }])
  t.same(lost, [])
  t.ok(readFileSync(join(rows, name)).equals(whole))
  t.equal(readdirSync(join(path, 'damaged')).length, tables.length)
})

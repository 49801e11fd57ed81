/**
 * One damaged place of the disk takes only what lay on it: nothing is set back silently, and
 * everything else is there.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { applyLoss } from '../src/damage/loss.ts'
import { salvageRows } from '../src/damage/salvage.ts'
import { readInPieces } from '../src/damage/tolerant-read.ts'
import { LevelMetadataStore, type MetadataDamage } from '../src/index.ts'
import { Rows } from '../src/opening/rows.ts'
import { keys } from '../src/rows/format.ts'
import { copiedKinds } from '../src/rows/kinds-of-rows.ts'
import { LostRanges } from '../src/rows/lost-ranges.ts'
import { keptRanges, lostKindsRows } from '../src/rows/stored-numbers.ts'
import { testMetadataStore } from '../src/testing.ts'
import { crashImage, directory } from './directories.ts'
import { type AccountModel, generationsOf, type Model, seeded } from './generations.ts'

const seed = Number(process.env.HOLDFAST_SEED ?? 4242)
const places = Number(process.env.HOLDFAST_PLACES ?? 40)

const kinds = ['flip', 'zero', 'cut', 'delete'] as const

/** One random place of one random file. @returns in words */
function damageOnce(rows: string, random: () => number): string {
  const names = readdirSync(rows).filter((name) => !['LOCK', 'LOG', 'LOG.old'].includes(name))
  const name = names.sort()[Math.floor(random() * names.length)] as string
  const kind = kinds[Math.floor(random() ** 2 * kinds.length)] as (typeof kinds)[number]
  const path = join(rows, name)
  const bytes = readFileSync(path)
  const at = Math.floor(random() * bytes.length)
  if (kind === 'delete') rmSync(path)
  if (kind === 'flip') bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(random() * 8))
  if (kind === 'zero') bytes.fill(0, at - (at % 4096), Math.min(bytes.length, at - (at % 4096) + 4096))
  if (kind !== 'delete') writeFileSync(path, kind === 'cut' ? bytes.subarray(0, at) : bytes)
  return `${kind} ${name} at ${at} of ${bytes.length}`
}

async function faultOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    ({ code }: { code: string }) => code,
  )
}

/**
 * Whether an account is as it was acknowledged; undefined: it is CORRUPT.
 *
 * @param mayLackRoot a log lost the last root, which says the same as the rows before it
 */
async function isAsItWas(
  { journals }: LevelMetadataStore,
  [name, { rows, head, roots }]: [string, AccountModel],
  { mayLackRoot }: { mayLackRoot: boolean },
): Promise<boolean | undefined> {
  try {
    const ownership = await journals.acquire(name, { owner: 'reader', unwritten: 'leave' })
    const root = String(ownership.root ?? '')
    const [, pageName = '', through = '0'] = /(page-\d+) through (\d+)/.exec(root) ?? []
    for await (const { seq, bytes } of journals.rows(ownership, Number(through)))
      if (String(bytes) !== rows.get(seq)) return false
    const page = pageName === '' ? '' : await journals.page(name, pageName)
    // The root has its digest.
    if (page === undefined) return undefined
    const none = { root: '', page: '' }
    const acceptable = mayLackRoot ? [none, ...roots] : [roots.at(-1) ?? none]
    return ownership.head === head && acceptable.some((one) => one.root === root && one.page === String(page))
  } catch (error) {
    if ((error as { code?: string }).code === 'CORRUPT') return undefined
    throw error
  }
}

interface Verdict {
  corrupt: string[]
  damage: MetadataDamage[]
  lost: LostRanges
  lostBatches: number
}

/** Everything that was acknowledged is there, or is reported. */
async function judge(t: Test, path: string, model: Model, about: string): Promise<Verdict> {
  const damage: MetadataDamage[] = []
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onDamage: (one) => damage.push(one),
  })
  const lost = new LostRanges(await rangesIn(store))
  const corrupt: string[] = []
  for (const account of model.accounts) {
    const isRight = await isAsItWas(store, account, { mayLackRoot: about.includes('.log') })
    if (isRight === undefined) corrupt.push(account[0])
    else if (!isRight) t.fail(`${about}: ${account[0]} was set back`)
  }
  for (const [key, value] of model.lookups) {
    const found = await store.lookups.get(key)
    if (String(found) === value) continue
    const isReported = store.lostBatches > 0 && (lost.count === 0 || lost.has(keys.lookup(key)))
    if (!isReported) t.fail(`${about}: ${key} is ${found}`)
  }
  for (const [counter, next] of model.counters) {
    const first = await store.lookups.take(counter, 1).catch((error: { code: string }) => error.code)
    const isRight = first === 'CORRUPT' || Number(first) >= next
    if (!isRight) t.fail(`${about}: ${counter} gives ${first} again, behind ${next}`)
    if (typeof first === 'number') model.counters.set(counter, Math.max(next, first + 1))
  }
  const ownership = await store.journals.acquire('a-new-one', { owner: 'new', unwritten: 'presume' })
  t.equal(await faultOf(store.journals.append(ownership, Buffer.from('row'))), undefined, `${about}: new`)
  const { lostBatches } = store
  await store.close()
  return { corrupt, damage, lost, lostBatches }
}

async function rangesIn(store: LevelMetadataStore) {
  const rows = new Map<string, Uint8Array>()
  for await (const [key, value] of store.everything()) rows.set(Buffer.from(key).toString('latin1'), value)
  const get = async (key: Uint8Array) => rows.get(Buffer.from(key).toString('latin1'))
  return keptRanges({ get } as Rows)
}

t.test('each place may be damaged: an account is as it was or is CORRUPT', async (t) => {
  t.comment(`seed ${seed}`)
  const { path, model } = await generationsOf(t, { seed, accounts: 120, generations: 6 })
  let corrupt = 0
  for (let place = 0; place < places; place++) {
    const random = seeded(seed + place)
    const image = await crashImage(t, path)
    const about = `${place}: ${damageOnce(join(image, 'rows'), random)}`
    const counters = new Map(model.counters)
    const first = await judge(t, image, { ...model, counters }, about)
    const isReported = first.damage.length > 0 || first.lostBatches > 0
    const far = first.corrupt.filter((name) => !first.lost.touches(keys.everythingOf(name)))
    if (!about.includes('.log')) t.same(far, [], `${about}: those far from it are whole`)
    if (first.corrupt.length > 0) t.ok(isReported, `${about}: the damage is reported`)
    const again = await judge(t, image, { ...model, counters }, `${about}, again`)
    t.same([again.corrupt, again.damage], [first.corrupt, []], `${about}: the verdict is kept`)
    corrupt += first.corrupt.length
    await rm(image, { recursive: true })
  }
  t.comment(`${corrupt} accounts in ${places} places`)
  t.ok(corrupt > 0)
})

/** A store, closed, with a damaged table. */
async function damagedStore(t: Test) {
  const { path, model, names } = await generationsOf(t, { seed, accounts: 60, generations: 4 })
  const rows = join(path, 'rows')
  return { path, rows, table: damageTable(rows), model, names }
}

/** @returns its name */
function damageTable(rows: string): string {
  const [table = ''] = readdirSync(rows).filter((name) => name.endsWith('.ldb'))
  const bytes = readFileSync(join(rows, table))
  bytes.fill(0, 8192, 12_288)
  writeFileSync(join(rows, table), bytes)
  return table
}

t.test('an opening that was interrupted between its steps is continued by the next one', async (t) => {
  const { path, model, table } = await damagedStore(t)
  const counters = () => ({ ...model, counters: new Map(model.counters) })
  const straight = await judge(t, await crashImage(t, path), counters(), 'straight')
  t.ok(straight.corrupt.length > 0)

  const replaced = await crashImage(t, path)
  await salvageRows(join(replaced, 'rows'), { all: false, damageOnDisk: undefined })
  const unapplied = await crashImage(t, replaced)
  const second = await judge(t, unapplied, counters(), 'replaced, not applied')
  t.same(second.corrupt, straight.corrupt)
  t.match(second.damage, [{ files: [{ name: table }] }], 'the damage is reported')

  const recorded = await crashImage(t, path)
  cpSync(join(replaced, 'damage.json'), join(recorded, 'damage.json'))
  mkdirSync(join(recorded, 'salvaged'))
  cpSync(join(replaced, 'rows', table), join(recorded, 'salvaged', table))
  const third = await judge(t, recorded, counters(), 'recorded, not replaced')
  t.same(third.corrupt, straight.corrupt)
  t.same(readdirSync(join(recorded, 'damaged')).length, 1)
  t.notOk(readdirSync(recorded).includes('damage.json'))

  const staged = await crashImage(t, path)
  mkdirSync(join(staged, 'salvaged'))
  writeFileSync(join(staged, 'salvaged', table), 'half of a replacement')
  t.same((await judge(t, staged, counters(), 'staged, not recorded')).corrupt, straight.corrupt)

  writeFileSync(join(replaced, 'damage.json'), '{"version":1,"fi')
  const opened = LevelMetadataStore.open({ ...testMetadataStore, path: replaced })
  await t.rejects(opened, { code: 'CORRUPT', message: /damage.json is damaged/ })
})

t.test(
  'a store that opens LevelDB again after an error of the disk replaces damaged files, too',
  async (t) => {
    const { path, names } = await generationsOf(t, { seed, accounts: 60, generations: 4 })
    const reopened = Promise.withResolvers<void>()
    const reported: MetadataDamage[] = []
    let isFailing = true
    const store = await LevelMetadataStore.open({
      ...testMetadataStore,
      path,
      reopenEveryMs: 20,
      commit: async (_changes, commit) => {
        if (isFailing)
          throw Object.assign(new Error('IO error: Input/output error'), { code: 'LEVEL_IO_ERROR' })
        await commit()
      },
      onDamage: (damage) => reported.push(damage),
      onReopened: () => reopened.resolve(),
    })
    const alive = setInterval(() => {}, 1_000)
    t.teardown(async () => {
      clearInterval(alive)
      await store.close()
    })
    const table = damageTable(join(path, 'rows'))
    t.equal(await faultOf(store.lookups.write([{ delete: 'a' }])), 'UNKNOWN')
    isFailing = false
    await reopened.promise
    t.match(reported, [{ files: [{ name: table }], suspectAccounts: Number }])
    const faults = await Promise.all(
      names.map((name) => faultOf(store.journals.acquire(name, { owner: 'a' }))),
    )
    const corrupt = faults.filter((fault) => fault === 'CORRUPT').length
    t.ok(corrupt >= (reported[0]?.suspectAccounts ?? 0), 'also those without any row left')
    t.ok(corrupt > 0 && corrupt < 30, `${corrupt} of 60`)
    t.ok(faults.every((fault) => fault === undefined || fault === 'CORRUPT'))
    t.same(store.damage, { files: 1, lostRanges: 1, lostKinds: [] })
    t.equal(store.lostBatches, 1)
  },
)

t.test('a damaged list of tables loses nothing', async (t) => {
  for (const part of ['CURRENT', 'MANIFEST'])
    for (const how of ['cut', 'gone']) {
      const { path, model } = await generationsOf(t, { seed, accounts: 30, generations: 5 })
      const rows = join(path, 'rows')
      const name = readdirSync(rows).find((one) => one.startsWith(part)) as string
      if (how === 'gone') rmSync(join(rows, name))
      else truncateSync(join(rows, name), 10)
      const { corrupt, lost, lostBatches, damage } = await judge(t, path, model, `${part} is ${how}`)
      t.same(corrupt, [], `${part} is ${how}`)
      t.equal(lost.count, 0)
      t.equal(damage.length, 1)
      t.equal(lostBatches, part === 'MANIFEST' ? 1 : 0)
    }
})

t.test('tables whose numbers say nothing of their age are put in order by their entries', async (t) => {
  const { path, model } = await generationsOf(t, { seed, accounts: 30, generations: 5 })
  const rows = join(path, 'rows')
  const [oldest = ''] = readdirSync(rows).filter((name) => name.endsWith('.ldb'))
  renameSync(join(rows, oldest), join(rows, '009999.ldb'))
  rmSync(join(rows, readdirSync(rows).find((name) => name.startsWith('MANIFEST')) as string))
  t.same((await judge(t, path, model, 'renumbered')).corrupt, [])
})

t.test('a list of tables that lacks its end is made again, before its tables are removed', async (t) => {
  const { path, model } = await generationsOf(t, { seed, accounts: 30, generations: 3 })
  const earlier = await crashImage(t, path)
  // The log becomes a table.
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  const [now, before] = [join(path, 'rows'), join(earlier, 'rows')]
  const lists = (rows: string) => readdirSync(rows).filter((name) => /^(?:MANIFEST|CURRENT)/.test(name))
  for (const name of lists(now)) rmSync(join(now, name))
  for (const name of lists(before)) cpSync(join(before, name), join(now, name))
  const { corrupt, damage } = await judge(t, path, model, 'an older list')
  t.same(corrupt, [])
  t.match(damage, [{ files: [{ damage: 'its end is missing' }, {}, {}] }])
})

t.test('an account of which nothing is left is CORRUPT until it is seized', async (t) => {
  const { path, model, names } = await generationsOf(t, { seed, accounts: 20, generations: 1 })
  // The log becomes a table.
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  for (const name of readdirSync(join(path, 'rows')))
    if (name.endsWith('.ldb')) rmSync(join(path, 'rows', name))
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  const { journals, lookups } = store
  const [name = ''] = names
  for (const unwritten of ['leave', 'begin'] as const)
    t.equal(await faultOf(journals.acquire(name, { owner: 'a', unwritten })), 'CORRUPT')
  t.equal(await faultOf(journals.head(name)), 'CORRUPT')
  t.match(await Array.fromAsync(journals.remains(name)), [{ kind: 'statics', damage: /missing/, lastRow: 0 }])
  const seized = await journals.seize(name, { owner: 'a', aboveEpoch: 0 })
  t.ok(seized.epoch > 2 ** 20)
  await journals.append(seized, Buffer.from('row'))
  await journals.release(seized)
  t.equal((await journals.acquire(name, { owner: 'b', unwritten: 'leave' })).head, 1)
  t.ok(model.counters.has('codes'))
  t.equal(await faultOf(lookups.take('codes', 1)), 'CORRUPT', 'no number is given twice')
})

t.test('a counter continues far above the greatest known number', async (t) => {
  const { path, model } = await generationsOf(t, { seed, accounts: 5, generations: 2 })
  const next = model.counters.get('codes') as number
  const rows = await Rows.open(join(path, 'rows'))
  const key = keys.counter('codes')
  await rows.commit([{ type: 'del', key }])
  await applyLoss(rows, {
    lost: [{ after: keys.counter('c'), through: key }],
    isRebuilt: false,
    hasCopies: true,
  })
  await rows.close()
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  t.equal(await store.lookups.take('codes', 1), next + 2 ** 20)
  t.equal(await store.lookups.take('legacy', 1), model.counters.get('legacy'))
})

t.test('what is known to be missing survives the next damage', async (t) => {
  const { path, names } = await generationsOf(t, { seed, accounts: 20, generations: 1 })
  const [first = '', second = ''] = names
  const rows = await Rows.open(join(path, 'rows'))
  const near = (name: string) => ({ after: keys.journalOf(name), through: keys.fixed(name) })
  await applyLoss(rows, { lost: [near(first)], isRebuilt: false, hasCopies: true })
  for (const span of [keys.suspects, keys.spanOf(keys.lostRanges)])
    for await (const [key] of rows.scan(span)) await rows.commit([{ type: 'del', key }])
  const lost = { after: keys.suspects.gte, through: keys.lostRanges }
  await applyLoss(rows, { lost: [lost], isRebuilt: false, hasCopies: true })
  const ranges = new LostRanges(await keptRanges(rows))
  t.ok(ranges.touches(keys.everythingOf(first)))
  t.notOk(ranges.touches(keys.everythingOf(second)))
  await rows.close()
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  t.equal(await faultOf(store.journals.acquire(first, { owner: 'a' })), 'CORRUPT')
  t.equal(await faultOf(store.journals.acquire(second, { owner: 'a' })), undefined)
  t.equal(store.lostBatches, 2)
})

/** A store with two losses, closed. */
async function storeWithLosses(t: Test): Promise<string> {
  const path = await directory(t)
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  const rows = await Rows.open(join(path, 'rows'))
  const far = [keys.lookup('ref/1'), keys.lookup('ref/3')].map((after) => ({
    after,
    through: Buffer.concat([after, Buffer.of(1)]),
  }))
  await applyLoss(rows, { lost: far, isRebuilt: false, hasCopies: true })
  await rows.commit(lostKindsRows(['moderation']))
  await rows.close()
  return path
}

async function afterLoss(path: string, gone: Uint8Array[]) {
  const rows = await Rows.open(join(path, 'rows'))
  await rows.commit(gone.map((key) => ({ type: 'del', key })))
  // A range with one key only.
  const lost = gone.map((key) => ({ after: key.subarray(0, -1), through: key }))
  const { lostKinds } = await applyLoss(rows, { lost, isRebuilt: false, hasCopies: true })
  await rows.close()
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.close()
  return { lostBatches: store.lostBatches, lostKinds }
}

t.test('the number of losses does not fall when its own row is lost', async (t) => {
  const number = keys.meta('lost')
  for (const gone of [number, keys.copy(number)])
    t.equal((await afterLoss(await storeWithLosses(t), [gone])).lostBatches, 3)
  const { lostBatches } = await afterLoss(await storeWithLosses(t), [number, keys.copy(number)])
  t.ok(lostBatches > 2 ** 20, 'if its copy is lost, too, it is one that was never there')
})

t.test('all kinds of lookups are named when the names themselves are lost', async (t) => {
  const names = keys.lostKinds
  for (const gone of [names, keys.copy(names)])
    t.same((await afterLoss(await storeWithLosses(t), [gone])).lostKinds, [])
  t.same((await afterLoss(await storeWithLosses(t), [names, keys.copy(names)])).lostKinds, copiedKinds)
})

t.test('a file that the disk cannot read counts as zeros where it cannot', async (t) => {
  const content = Buffer.alloc(10_000, 7)
  const read = async (into: Buffer, at: number, length: number, position: number) => {
    if (position === 4096) throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' })
    content.copy(into, at, position, position + length)
  }
  const file = { read, stat: async () => ({ size: content.length }) } as unknown as FileHandle
  const { bytes, unreadable } = await readInPieces(file)
  content.fill(0, 4096, 8192)
  t.ok(bytes.equals(content))
  t.equal(unreadable, 1)
})

t.test('unreadable files are replaced, and what they had is reported', async (t) => {
  for (const ending of ['.ldb', '.log']) {
    const { path, model } = await generationsOf(t, { seed, accounts: 60, generations: 4 })
    const rows = join(path, 'rows')
    const name = readdirSync(rows).find((one) => one.endsWith(ending)) as string
    rmSync(join(rows, name))
    // A read at its start is an I/O error.
    symlinkSync('/proc/self/mem', join(rows, name))
    const { corrupt, damage } = await judge(t, path, model, `unreadable ${ending}`)
    t.match(damage, [{ files: [{ name }] }])
    t.ok(corrupt.length > 0)
    t.ok(lstatSync(join(rows, name), { throwIfNoEntry: false })?.isSymbolicLink() !== true)
  }
})

t.test('a store that another process has is not touched', async (t) => {
  const { path, rows } = await damagedStore(t)
  const script = `import { Level } from 'level'
    const level = new Level(process.argv[1]); await level.open(); console.log('open'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, rows], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  await t.rejects(LevelMetadataStore.open({ ...testMetadataStore, path }), {
    code: 'UNAVAILABLE',
    message: /is held by/,
  })
  t.notOk(readdirSync(path).includes('damage.json'))
  child.kill('SIGKILL')
  await once(child, 'exit')
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  await store.close()
})

t.test('ranges that overlap are one', async (t) => {
  const key = (text: string) => Buffer.from(text)
  const ranges = new LostRanges([
    { after: key('m'), through: undefined },
    { after: key('d'), through: key('f') },
    { after: key('f'), through: key('g') },
    { after: undefined, through: key('b') },
  ])
  t.same(
    [...ranges],
    [
      { after: undefined, through: key('b') },
      { after: key('d'), through: key('g') },
      { after: key('m'), through: undefined },
    ],
  )
  const inside = ['a', 'b', 'e', 'g', 'z'].map((text) => ranges.has(key(text)))
  t.same(inside, [true, true, true, true, true])
  t.same(
    ['c', 'd', 'h', 'm'].map((text) => ranges.has(key(text))),
    [false, false, false, false],
  )
  const many = Array.from({ length: 3000 }, (_, at) => {
    const after = `j${String(at).padStart(5, '0')}`
    return { after: key(after), through: key(`${after}x`) }
  })
  const bounded = new LostRanges(many)
  t.equal(bounded.count, 1000)
  t.ok(many.every(({ through }) => bounded.has(through)))
})

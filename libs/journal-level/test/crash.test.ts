import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { LevelMetadataStore, type MetadataDamage } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'
import { crashImage, directory } from './directories.ts'
import { rowText, rowTexts } from './expected.ts'

const accounts = Array.from({ length: 8 }, (_, at) => `account-${at}`)

/** Runs the child until it has acknowledged this many appends, kills it with signal 9. */
async function killedAfter(path: string, appends: number) {
  const script = new URL('appending-child.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, path, String(accounts.length)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const heads = new Map<string, number>()
  let taken = -1
  let count = 0
  for await (const line of createInterface({ input: child.stdout })) {
    const [what, account = '', seq] = line.split(' ')
    if (what === 'append') heads.set(account, Number(seq))
    else taken = Math.max(taken, Number(account))
    if (++count === appends) child.kill('SIGKILL')
  }
  const [, signal] = await exited
  return { heads, taken, count, signal }
}

t.test('a killed process has lost nothing that it acknowledged', async (t) => {
  const path = await directory(t)
  for (const appends of [1, 40, 150, 300]) {
    const { heads, taken, count, signal } = await killedAfter(path, appends)
    t.equal(signal, 'SIGKILL')
    t.ok(count >= appends, `${count} acknowledged`)
    const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    t.equal(store.lostBatches, 0, 'and no loss is reported')
    for (const account of accounts) {
      const rows = await rowTexts(store.journals, account)
      t.ok(rows.length >= (heads.get(account) ?? 0), `${account}: ${rows.length} rows`)
      t.same(
        rows,
        rows.map((_, at) => rowText(account, at + 1)),
      )
      for (let seq = 1; seq <= rows.length; seq++) {
        const reference = await store.lookups.get(`ref/${account}/${seq}`)
        if (String(reference) !== `${seq}`) t.fail(`${account}: row ${seq} is there, what it needs is not`)
      }
    }
    t.ok((await store.lookups.take('codes', 3)) > taken, 'no number is handed out twice')
    await store.close()
  }
})

/** What the store in the damage tests has acknowledged. */
interface AcknowledgedState {
  rows: Map<string, string[]>
  lookups: Map<string, string>
  numbers: number
}

async function filled(t: Test) {
  const path = await directory(t)
  const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
  t.teardown(() => store.close())
  const acknowledged: AcknowledgedState = { rows: new Map(), lookups: new Map(), numbers: 0 }
  const ownerships = await Promise.all(
    accounts.map((account) => store.journals.acquire(account, { owner: 'writer' })),
  )
  for (let seq = 1; seq <= 25; seq++) {
    for (const ownership of ownerships) {
      const text = rowText(ownership.account, seq)
      const key = `ref/${ownership.account}/${seq}`
      const writes = [store.journals.append(ownership, Buffer.from(text))]
      writes.push(store.lookups.write([{ put: key, value: Buffer.from(text) }]))
      if (seq % 5 === 0) acknowledged.numbers = (await store.lookups.take('codes', 3)) + 3
      await Promise.all(writes)
      acknowledged.rows.set(ownership.account, [...(acknowledged.rows.get(ownership.account) ?? []), text])
      acknowledged.lookups.set(key, text)
    }
  }
  return { path, store, acknowledged }
}

interface Verdict {
  /** Reported as wrong in some way. */
  noticed: number
  /** Accounts that are whole. */
  sound: number
  /** Silently wrong or missing. */
  silent: string[]
}

/** Opens a damaged store and compares everything acknowledged with its content. */
async function judge(path: string, { rows, lookups, numbers }: AcknowledgedState): Promise<Verdict> {
  const verdict: Verdict = { noticed: 0, sound: 0, silent: [] }
  const ask = async <T>(name: string, question: () => Promise<T>, isRight: (answer: T) => boolean) => {
    try {
      const right = isRight(await question())
      if (!right) verdict.silent.push(name)
      return right
    } catch (fault) {
      if ((fault as { code?: string }).code !== 'CORRUPT') throw fault
      verdict.noticed++
      return false
    }
  }
  let store: LevelMetadataStore | undefined
  const opened = await ask(
    'open',
    async () => {
      store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    },
    () => true,
  )
  if (!opened || store === undefined) return verdict
  const { journals, lookups: found, lostBatches } = store
  if (lostBatches > 0) verdict.noticed++
  for (const [account, texts] of rows) {
    const whole = await ask(
      account,
      () => rowTexts(journals, account),
      (now) => now.join() === texts.join(),
    )
    if (whole) verdict.sound++
  }
  for (const [key, text] of lookups) {
    const isRight = (value: Uint8Array | undefined) =>
      value === undefined ? lostBatches > 0 : Buffer.from(value).toString() === text
    await ask(key, () => found.get(key), isRight)
  }
  await ask(
    'codes',
    () => found.take('codes', 1),
    (first) => first >= numbers,
  )
  await store.close()
  return verdict
}

/**
 * Flips one bit at evenly spaced places of a kind of file, each time in a fresh copy of the image,
 * and judges each copy.
 */
async function judgeFlips(
  t: Test,
  image: string,
  { acknowledged, ending, places }: { acknowledged: AcknowledgedState; ending: string; places: number },
): Promise<Verdict> {
  const all: Verdict = { noticed: 0, sound: 0, silent: [] }
  const names = (await readdir(join(image, 'rows'))).filter((name) => name.endsWith(ending))
  for (let place = 0; place < places; place++) {
    const name = names[place % names.length] ?? ''
    const flipped = await readFile(join(image, 'rows', name))
    const at = Math.floor(((place + 0.5) * flipped.length) / places)
    flipped[at] = (flipped[at] ?? 0) ^ (1 << (place % 8))
    const copy = await crashImage(t, image)
    await writeFile(join(copy, 'rows', name), flipped)
    const verdict = await judge(copy, acknowledged)
    all.noticed += Math.min(1, verdict.noticed)
    all.sound += verdict.sound
    all.silent.push(...verdict.silent.map((what) => `${name} at ${at}: ${what}`))
    await rm(copy, { recursive: true })
  }
  return all
}

t.test('a flipped bit in the log is detected, in any place', async (t) => {
  const { path, acknowledged } = await filled(t)
  const image = await crashImage(t, path)
  t.match(await judge(await crashImage(t, image), acknowledged), { noticed: 0, sound: 8, silent: [] })
  const verdict = await judgeFlips(t, image, { acknowledged, ending: '.log', places: 32 })
  t.same(verdict.silent, [])
  t.equal(verdict.noticed, 32)
  t.ok(verdict.sound > 0, `${verdict.sound} times an account is whole beside the damaged ones`)

  await rm(join(image, 'witness.0'))
  const without = await judgeFlips(t, image, { acknowledged, ending: '.log', places: 10 })
  t.ok(without.silent.length > 0, 'without its commit audit the store silently loses the end')
})

t.test('the verdict on a lost end is kept, and numbering continues behind it', async (t) => {
  const { path, acknowledged } = await filled(t)
  const image = await crashImage(t, path)
  const [log] = (await readdir(join(image, 'rows'))).filter((name) => name.endsWith('.log'))
  const bytes = await readFile(join(image, 'rows', log ?? ''))
  await writeFile(join(image, 'rows', log ?? ''), bytes.subarray(0, Math.floor(bytes.length * 0.98)))
  const first = await judge(image, acknowledged)
  const lost = first.noticed
  t.ok(lost > 1 && first.sound > 0, `${lost} signs, ${first.sound} accounts are whole`)
  t.same(first.silent, [])
  for (let time = 0; time < 2; time++) {
    const store = await LevelMetadataStore.open({ ...testMetadataStore, path: image })
    t.ok(store.lostBatches > 0 && store.lostBatches < 30, `${store.lostBatches} lost batches, counted once`)
    await store.close()
    const again = await judge(image, acknowledged)
    t.same([again.sound, again.silent], [first.sound, []])
  }
})

t.test('a flipped bit in a table is detected, and takes only accounts that are near it', async (t) => {
  const { path, store, acknowledged } = await filled(t)
  await store.close()
  await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
  const image = await crashImage(t, path)
  const verdict = await judgeFlips(t, image, { acknowledged, ending: '.ldb', places: 32 })
  t.same(verdict.silent, [])
  // A flip beside the rows, in a filter or an index, leaves everything whole.
  t.ok(verdict.noticed >= 20, `${verdict.noticed} are noticed`)
  t.ok(verdict.sound >= 0.7 * 32 * accounts.length, `${verdict.sound} times an account is whole`)
  const cut = await crashImage(t, path)
  const tables = (await readdir(join(cut, 'rows'))).filter((name) => name.endsWith('.ldb')).sort()
  // The one before has what the first start wrote.
  const table = tables.at(-1) as string
  await truncate(join(cut, 'rows', table), 1_000)
  const reported: MetadataDamage[] = []
  const opened = await LevelMetadataStore.open({
    ...testMetadataStore,
    path: cut,
    onDamage: (one) => reported.push(one),
  })
  t.match(reported, [{ files: [{ name: table, damage: 'its end is missing' }], lost: [/^behind /] }])
  t.match(opened.damage, { files: 1, lostRanges: 1, lostKinds: [] })
  await opened.close()
  t.same(await readdir(join(cut, 'damaged')).then((names) => names.length), 1, 'it is kept')
})

/** A store whose writes fail recovers by itself, after any failure. */

import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, renameSync, rmdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { JournalFault } from '@holdfast/journal'
import t, { type Test } from 'tap'
import { LevelMetadataStore } from '../src/index.ts'
import { Rows } from '../src/opening/rows.ts'
import { testMetadataStore } from '../src/testing.ts'
import { CommitAudit, readEntries } from '../src/writing/commit-audit.ts'
import { directory } from './directories.ts'

const run = promisify(execFile)
const child = fileURLToPath(new URL('no-descriptors-child.ts', import.meta.url))

t.test(
  'without descriptors writes are refused at once and reads continue; with descriptors writes recover',
  async (t) => {
    const path = await directory(t)
    const { stdout } = await run('sh', [
      '-c',
      'ulimit -n 256 && exec "$0" "$@"',
      process.execPath,
      child,
      path,
    ])
    const reported = JSON.parse(stdout)
    t.match(reported.fault, { code: 'UNKNOWN' })
    t.match(reported.reported[0], /Too many open files/)
    t.equal(reported.reported.at(-1), 'reopened')
    t.equal(reported.refusal, 'UNAVAILABLE')
    t.ok(reported.refusedMs < 1_000, `refused after ${reported.refusedMs} ms`)
    t.equal(reported.readDuring, reported.acknowledged, 'reads continue')
    t.ok(reported.failing)
    t.ok(
      reported.head === reported.acknowledged || reported.head === reported.acknowledged + 1,
      'what was unknown is in or not',
    )
    t.equal(reported.after, reported.head + 1, 'everything acknowledged is there')
    t.ok(reported.wellAgain)
    const again = await LevelMetadataStore.open({ ...testMetadataStore, path })
    t.equal(again.lostBatches, 0)
    await again.close()
  },
)

/** A store whose next commits fail as `plant` says. */
async function planted(t: Test) {
  const clock = { nowMs: 0, now: () => clock.nowMs, monotonic: () => clock.nowMs }
  const plan: { fail: (() => Error) | undefined; reopens: number; reopenFails: number } = {
    fail: undefined,
    reopens: 0,
    reopenFails: 0,
  }
  const reopened: (() => void)[] = []
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path: await directory(t),
    reopenEveryMs: 20,
    clock,
    commit: async (_changes, commit) => {
      if (plan.fail !== undefined) throw plan.fail()
      await commit()
    },
    reopen: async (reopen) => {
      plan.reopens++
      if (plan.reopenFails-- > 0) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
      await reopen()
    },
    onReopened: () => reopened.shift()?.(),
  })
  // The store's own timers keep no process alive.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(async () => {
    clearInterval(alive)
    await store.close()
  })
  return { store, plan, clock, nextReopening: () => new Promise<void>((resolve) => reopened.push(resolve)) }
}

for (const code of ['EIO', 'ENOMEM', 'EMFILE', 'ENFILE'])
  t.test(`after ${code} the store reopens, and continues`, async (t) => {
    const { store, plan, nextReopening } = await planted(t)
    const ownership = await store.journals.acquire('one', { owner: 'host' })
    await store.journals.append(ownership, Buffer.from('one'))
    plan.fail = () => Object.assign(new Error(`${code}: planted`), { code })
    plan.reopenFails = 2
    const reopening = nextReopening()
    const fault = await store.journals
      .append(ownership, Buffer.from('two'))
      .catch((error: JournalFault) => error)
    t.match(fault, { code: 'UNKNOWN' })
    await t.rejects(store.lookups.write([{ put: 'a', value: Buffer.from('b') }]), { code: 'UNAVAILABLE' })
    t.match(store.failing, { reason: /planted/ })
    plan.fail = undefined
    await reopening
    t.equal(plan.reopens, 3)
    t.equal((await store.journals.head('one')).head, 1, 'the unknown outcome is known')
    await store.journals.append(ownership, Buffer.from('two'))
    t.equal(store.failing, undefined)
    t.equal(store.lostBatches, 0)
  })

t.test('one that reopens but cannot write keeps the time of its first failure', async (t) => {
  const { store, plan, clock, nextReopening } = await planted(t)
  const write = () => store.lookups.write([{ put: 'a', value: Buffer.from('b') }])
  plan.fail = () => Object.assign(new Error('EIO: planted'), { code: 'EIO' })
  for (let round = 0; round < 5; round++) {
    const reopening = nextReopening()
    await t.rejects(write(), { code: 'UNKNOWN' })
    await reopening
    clock.nowMs += 5_000
  }
  t.equal(store.failing?.sinceMs, 0)
  clock.nowMs += 10_000
  t.equal(store.failing, undefined, 'nothing was tried for long: the state is unknown')
  plan.fail = undefined
  await write()
  t.equal(store.failing, undefined)
})

t.test('batches without an entry in the commit audit are counted, and reported once', async (t) => {
  const reported: unknown[] = []
  const path = await directory(t)
  const store = await LevelMetadataStore.open({
    ...testMetadataStore,
    path,
    onUnaudited: (fault) => reported.push(fault),
  })
  t.teardown(() => store.close())
  const write = () => store.lookups.write([{ put: 'a', value: Buffer.from('b') }])
  const { note } = CommitAudit.prototype
  t.teardown(() => Object.assign(CommitAudit.prototype, { note }))
  const fail = () =>
    Object.assign(CommitAudit.prototype, {
      async note(this: CommitAudit) {
        this.fault = new Error('EIO: planted')
        return false
      },
    })
  for (const series of [1, 2]) {
    fail()
    await write()
    await write()
    Object.assign(CommitAudit.prototype, { note })
    await write()
    t.equal(store.unauditedBatches, 2 * series)
    t.equal(reported.length, series)
  }
})

t.test('an entry that cannot be written is reported, and the next ones go to a new file', async (t) => {
  const path = await directory(t)
  const audit = await CommitAudit.begin(path, Buffer.alloc(16))
  t.teardown(() => audit.close())
  mkdirSync(join(path, 'witness.1'))
  const notes = Array.from({ length: 60_000 }, (_, at) => ({ subject: `s${at}`, epoch: 1, number: 1 }))
  const noted: boolean[] = []
  for (let batch = 1; batch <= 6; batch++) noted.push(await audit.note(batch, notes))
  t.strictSame(noted, [true, true, true, true, false, false], 'the second file cannot be made')
  t.match(audit.fault, { code: 'EISDIR' })
  for (let batch = 7; batch <= 110; batch++) noted.push(await audit.note(batch, []))
  t.equal(noted.at(-1), true, 'after a while it tries the other file')
})

t.test('a file of the audit that the disk cannot read has no entries', async (t) => {
  const path = await directory(t)
  const store = Buffer.alloc(16)
  const audit = await CommitAudit.begin(path, store)
  await audit.note(1, [{ subject: 's', epoch: 1, number: 1 }])
  await audit.close()
  t.equal((await readEntries(path, store)).length, 1)
  // A read at its start is an I/O error.
  symlinkSync('/proc/self/mem', join(path, 'witness.1'))
  t.equal((await readEntries(path, store)).length, 1)
})

t.test('a table that cannot be read leaves no lock behind', async (t) => {
  const path = t.testdir()
  const rows = await Rows.open(path)
  await rows.commit([{ type: 'put', key: Buffer.from('a'), value: Buffer.from('b') }])
  await rows.close()
  await (await Rows.open(path)).close() // the log becomes a table
  const table = join(path, readdirSync(path).find((name) => name.endsWith('.ldb')) as string)
  renameSync(table, `${table}.away`)
  mkdirSync(table)
  await t.rejects(Rows.open(path), { code: 'UNAVAILABLE', message: /EISDIR/ })
  rmdirSync(table)
  renameSync(`${table}.away`, table)
  const again = await Rows.open(path)
  t.equal(String(await again.get(Buffer.from('a'))), 'b')
  await again.close()
})

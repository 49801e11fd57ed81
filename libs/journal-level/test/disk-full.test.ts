/** A real file system that others fill to the last byte. */

import { rm, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { JournalFault, JournalOwnership } from '@holdfast/journal'
import t, { type Test } from 'tap'
import { Filler, onSmallDisk } from '../../../test/support/small-disk.ts'
import { LevelMetadataStore } from '../src/index.ts'
import { testMetadataStore } from '../src/testing.ts'

const MiB = 1024 * 1024
const row = (number: number) => Buffer.alloc(20_000, `row ${number} `)

const disk = await onSmallDisk(t, { file: import.meta.url, bytes: 96 * MiB })
if (disk !== undefined) {
  const filler = new Filler(disk)
  let stores = 0
  const world = async (t: Test, { ballastBytes }: { ballastBytes: number }) => {
    const path = join(disk, `store-${stores++}`)
    const reported: string[] = []
    const store = await LevelMetadataStore.open({
      ...testMetadataStore,
      path,
      ballastBytes,
      reopenEveryMs: 50,
      onFailure: ({ message }) => reported.push(message),
      onReopened: () => reported.push('reopened'),
    })
    t.teardown(async () => {
      await filler.empty()
      await store.close()
      await rm(path, { recursive: true })
    })
    return { path, store, reported }
  }

  t.test('without space writes are refused and reads continue; with space writes recover', async (t) => {
    const { path, store, reported } = await world(t, { ballastBytes: 0 })
    const { journals, lookups } = store
    const ownership = await journals.acquire('one', { owner: 'host' })
    const other = await journals.acquire('two', { owner: 'host' })
    await lookups.write([{ put: 'before', value: row(0).subarray(0, 10) }])
    for (let round = 1; round <= 2; round++) {
      for (let at = 0; at < 20; at++) await journals.append(ownership, row(ownership.head + 1))
      await filler.fill()
      const fault = await appendUntilRefused(ownership, store)
      t.match(fault, { code: 'UNKNOWN', message: /No space left/ })
      for (let at = 0; at < 5; at++) {
        await t.rejects(journals.append(other, row(1)), { code: 'UNAVAILABLE', message: /No space left/ })
        await t.rejects(lookups.take('codes', 5), { code: 'UNAVAILABLE' })
        t.same((await lookups.get('before'))?.toString(), row(0).toString('latin1', 0, 10))
        t.ok((await rowsOf(store, ownership)) >= 20 * round, 'reads continue')
        await pause(20)
      }
      t.match(store.failure, { code: 'UNAVAILABLE' })
      await filler.empty()
      await writable(store)
      // Unknown outcomes are checked, as after a restart.
      const { head, chain } = await journals.head('one')
      t.ok(head === ownership.head || head === ownership.head + 1)
      Object.assign(ownership, { head, chain })
      await journals.append(ownership, row(head + 1))
      await journals.append(other, row(other.head + 1))
      await lookups.write([{ put: `after ${round}`, value: row(0).subarray(0, 10) }])
    }
    t.equal(store.lostBatches, 0)
    t.match(reported, [/No space left/, 'reopened', /No space left/, 'reopened'])
    await store.close()
    const again = await LevelMetadataStore.open({ ...testMetadataStore, path })
    t.teardown(() => again.close())
    t.equal(again.lostBatches, 0)
    const next = await again.journals.acquire('one', { owner: 'host' })
    t.equal(next.head, ownership.head)
    t.equal(await rowsOf(again, next), ownership.head)
    t.equal((await again.journals.acquire('two', { owner: 'host' })).head, 2)
    for (const key of ['before', 'after 1', 'after 2']) t.ok(await again.lookups.get(key), key)
  })

  t.test(
    'the ballast makes room for deletions on a disk that stays full, and is reserved again',
    async (t) => {
      const { path, store, reported } = await world(t, { ballastBytes: 16 * MiB })
      const { journals, lookups } = store
      const ownership = await journals.acquire('one', { owner: 'host' })
      await lookups.write([{ put: 'reference', value: row(0).subarray(0, 10) }])
      const ballast = join(path, 'ballast')
      await eventually(async () => ((await sizeOf(ballast)) === 16 * MiB ? undefined : 'no ballast yet'))
      await filler.fill()
      await appendUntilRefused(ownership, store)
      await writable(store)
      t.match(reported, [/No space left/, 'reopened'])
      t.equal(await sizeOf(ballast), undefined)
      await lookups.write([{ delete: 'reference' }])
      t.equal(await lookups.get('reference'), undefined, 'deleted although no other program made room')
      await filler.empty()
      await store.close()
      const again = await LevelMetadataStore.open({ ...testMetadataStore, path, ballastBytes: 16 * MiB })
      t.teardown(() => again.close())
      t.equal(again.lostBatches, 0)
      t.equal(await again.lookups.get('reference'), undefined)
      await eventually(async () => ((await sizeOf(ballast)) === 16 * MiB ? undefined : 'no ballast yet'))
    },
  )

  t.test('the file that names the holder may be missing', async (t) => {
    const path = join(disk, `store-${stores++}`)
    await (await LevelMetadataStore.open({ ...testMetadataStore, path })).close()
    await rm(join(path, 'holder'))
    await symlink('/dev/full', join(path, 'holder'))
    const store = await LevelMetadataStore.open({ ...testMetadataStore, path })
    t.equal(store.failure, undefined)
    await store.close()
    await rm(path, { recursive: true })
  })

  t.test('a start on a full disk uses the ballast, and returns what was acknowledged', async (t) => {
    const { path, store } = await world(t, { ballastBytes: 16 * MiB })
    const ownership = await store.journals.acquire('one', { owner: 'host' })
    for (let at = 0; at < 50; at++) await store.journals.append(ownership, row(ownership.head + 1))
    await eventually(async () =>
      (await sizeOf(join(path, 'ballast'))) === 16 * MiB ? undefined : 'no ballast yet',
    )
    await store.close()
    await filler.fill()
    const again = await LevelMetadataStore.open({ ...testMetadataStore, path, ballastBytes: 16 * MiB })
    t.teardown(() => again.close())
    t.equal(await rowsOf(again, await again.journals.acquire('one', { owner: 'host' })), 50)
    await again.lookups.write([{ put: 'reference', value: row(0).subarray(0, 10) }])
    t.ok(await again.lookups.get('reference'), 'and there is room for what must be written')
    await again.close()
    await filler.fill()
    await t.rejects(LevelMetadataStore.open({ ...testMetadataStore, path, ballastBytes: 16 * MiB }), {
      message: /No space left/,
    })
  })
}

async function appendUntilRefused(
  ownership: JournalOwnership,
  { journals }: LevelMetadataStore,
): Promise<JournalFault> {
  for (;;) {
    try {
      await journals.append(ownership, row(ownership.head + 1))
    } catch (error) {
      return error as JournalFault
    }
  }
}

/** Rows of the account, each as it was written. */
async function rowsOf({ journals }: LevelMetadataStore, ownership: JournalOwnership): Promise<number> {
  let last = 0
  for await (const { seq, bytes } of journals.rows(ownership, 0)) {
    if (!row(seq).equals(bytes)) throw new Error(`row ${seq} is another one`)
    last = seq
  }
  return last
}

function writable(store: LevelMetadataStore): Promise<void> {
  return eventually(async () => store.failure?.message)
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ size }) => size,
    () => undefined,
  )
}

/** Until there is no reason against it, for a minute. */
async function eventually(whyNot: () => Promise<string | undefined>): Promise<void> {
  const givenUpMs = Date.now() + 60_000
  for (let reason = await whyNot(); reason !== undefined; reason = await whyNot()) {
    if (Date.now() > givenUpMs) throw new Error(reason)
    await pause(20)
  }
}

/**
 * A catalogue that the system gives no descriptors, or no writes, for a while. Limits of this
 * process simulate both.
 */

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { BlobFault } from '@holdfast/blob-store'
import { put } from '@holdfast/blob-store/testing'
import { silentLog } from '@holdfast/kernel'
import t from 'tap'
import { engineNames } from '../src/catalogue/engines/engine.ts'
import { ThreadedCatalogue } from '../src/catalogue/threaded-catalogue.ts'
import { ChunkStore } from '../src/index.ts'
import { openOn, realOptions } from './support/crash-history.ts'
import { CrashMachine, seeded } from './support/crash-machine.ts'

const MiB = 1024 * 1024

/** Changes limits of this process from a shell that was started before them. */
class Limits {
  readonly #shell = spawn('sh', { stdio: ['pipe', 'pipe', 'inherit'] })

  async set(what: 'nofile' | 'fsize', soft: number | 'unlimited'): Promise<void> {
    this.#shell.stdin.write(`prlimit --pid ${process.pid} --${what}=${soft}: && echo set\n`)
    await once(this.#shell.stdout, 'data')
  }

  async end(): Promise<void> {
    this.#shell.stdin.end()
    await once(this.#shell, 'exit')
  }
}

const openFiles = readdirSync('/proc/self/fd').length
const wanting = {
  /** Open files stay open, and no others open. */
  descriptors: (limits: Limits) => limits.set('nofile', 3),
  writes: (limits: Limits) => limits.set('fsize', 64 * 1024),
}

async function relieve(limits: Limits): Promise<void> {
  await limits.set('nofile', 4096)
  await limits.set('fsize', 'unlimited')
}

async function eventually<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 200; ; tries--)
    try {
      return await act()
    } catch (error) {
      if (tries === 0) throw error
      await new Promise((later) => setTimeout(later, 50))
    }
}

const row = (key: string, bytes: number) => ({ key: Buffer.from(key), value: randomBytes(bytes) })
process.on('SIGXFSZ', () => {}) // otherwise a write past the limit would end the process

const kinds = engineNames.flatMap((engine) =>
  Object.entries(wanting).map(([what, take]) => ({ engine, what, take })),
)
for (const { engine, what, take } of kinds)
  t.test(
    `a catalogue in ${engine} without ${what} accepts no more, reports it, and recovers by itself`,
    async (t) => {
      const limits = new Limits()
      const path = join(t.testdir(), 'catalogue')
      const catalogue = await ThreadedCatalogue.open(path, engine, silentLog)
      const taken: { key: Buffer; value: Buffer }[] = []
      const take1 = async (sync: boolean) => {
        const next = row(`b${taken.length}`, MiB)
        await catalogue.apply([next], { sync })
        taken.push(next)
      }
      await take1(true)
      await take1(false)
      await take(limits)
      const more = async () => {
        for (let n = 0; n < 60; n++) await take1(n % 2 === 0)
      }
      await t.rejects(more(), { name: 'BlobFault', code: /^(IO|UNAVAILABLE)$/ })
      t.equal(catalogue.recovering, true)
      t.equal(catalogue.failure, undefined)
      t.equal(catalogue.damage, undefined)
      await t.rejects(take1(true), { name: 'BlobFault' })
      await relieve(limits)
      await eventually(() => take1(true))
      t.equal(catalogue.recovering, false)
      for (const { key, value } of taken) {
        const [found] = await catalogue.get([key])
        t.ok(found?.equals(value), `${key}: accepted rows are there`)
      }
      await catalogue.close()
      await limits.end()
    },
  )

t.test('a failing store reports since when, until a batch is accepted', async (t) => {
  const machine = new CrashMachine(seeded(7))
  const store = await openOn(machine)
  await put(store, randomBytes(1000))
  await store.setNote('a', Buffer.from('b'))
  t.equal(store.failing, undefined)
  const failed = Object.assign(new Error('input/output error'), { code: 'EIO' })
  machine.fault = (operation) => {
    if (operation === 'batch') throw failed
  }
  await t.rejects(store.setNote('a', Buffer.from('c')))
  const { sinceMs } = store.failing ?? {}
  t.match(store.failing, { reason: /input\/output/ })
  await t.rejects(store.setNote('a', Buffer.from('d')))
  t.equal(store.failing?.sinceMs, sinceMs, 'since the first of them')
  t.equal(store.recovering, true)
  t.match(await store.usage(), { writable: false })
  machine.fault = (operation) => {
    if (operation === 'batch') throw new BlobFault('FULL', 'no space left')
  }
  await t.rejects(store.setNote('a', Buffer.from('e')))
  t.equal(store.failing, undefined, 'a restart cures no full disk')
  machine.fault = () => {}
  await store.setNote('a', Buffer.from('f'))
  t.equal(store.failing, undefined)
  t.equal(store.recovering, false)
  await store.close()
})

t.test('a store without descriptors refuses uploads, and accepts them again by itself', async (t) => {
  const limits = new Limits()
  const path = t.testdir()
  const store = await ChunkStore.open({ path, ...realOptions, hashThreadsMax: 1 })
  const bytes = randomBytes(3 * MiB)
  const info = await put(store, bytes)
  t.ok(openFiles > 0)
  await wanting.descriptors(limits)
  const fill = async () => {
    for (let n = 0; n < 40; n++) await put(store, randomBytes(MiB))
  }
  await t.rejects(fill(), { name: 'BlobFault' }, 'the next extent cannot be made')
  t.equal(store.failure, undefined)
  t.match(await store.stat(info), { size: bytes.length })
  await relieve(limits)
  await eventually(fill)
  t.match(store.health, { failure: undefined, recovering: false, quarantined: [], gap: undefined })
  t.equal(store.counters().suspectExtents, 0, 'no extent has failed')
  await store.close()
  await limits.end()
})

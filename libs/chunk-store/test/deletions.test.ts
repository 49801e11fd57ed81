/** An acknowledged deletion stays, a refused one never happens. Each loss of writes is tried. */
import { randomBytes } from 'node:crypto'
import type { BlobInfo } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { ChunkStore } from '../src/index.ts'
import type { DiskState } from './support/crash-machine.ts'
import { eio, fill, flipOnDisk, machineOn, openWith } from './support/faulty-store.ts'

async function drop(store: ChunkStore, blobs: readonly BlobInfo[]): Promise<void> {
  for (const info of blobs) await store.delete(info)
}

t.test(
  'a refused deletion cannot take effect later, for all writes that may have reached the disk',
  async (t) => {
    for (const catalogueLost of [false, true]) {
      const machine = machineOn()
      const store = await openWith(machine)
      const bytes = randomBytes(1000)
      const info = await put(store, bytes, { pinMs: 0 })
      machine.fault = (operation) => {
        if (operation === 'sync') throw eio // the record is written, only its sync fails
      }
      await t.rejects(store.delete(info), { code: 'IO' })
      machine.fault = () => {}
      const again = await put(store, bytes, { pinMs: 60_000 })
      t.ok(Buffer.from(again.incarnation).equals(info.incarnation), 'another upload was promised the copy')
      const state = machine.now()
      if (catalogueLost) state.rows.clear()
      const revived = await openWith(machineOn(state))
      t.ok(bytes.equals(await get(revived, info)))
      await revived.close()
      await store.close()
    }
  },
)

t.test(
  'content deleted before its extent was emptied stays deleted even when the catalogue is lost',
  async (t) => {
    const machine = machineOn()
    const store = await openWith(machine)
    const early = await fill(store, 3) // extent 0 is full
    const later = await fill(store, 1)
    await drop(store, early) // the records of that are in extent 1
    await store.compact() // 0 is free and waits for reuse, with its old records
    await drop(store, [...later, ...(await fill(store, 2))])
    await fill(store, 2)
    await store.compact() // 1 is emptied; it need not carry deletions for free extents
    const state = machine.now()
    state.rows.clear()
    const revived = await openWith(machineOn(state))
    for (const info of early) t.equal(await revived.stat(info), undefined)
    t.equal((await revived.usage()).blobs, (await store.usage()).blobs)
    await revived.close()
    await store.close()
  },
)

t.test(
  'deleted content stays deleted when a crash comes between the freeing of its extent and its new header, and the catalogue is lost later',
  async (t) => {
    const machine = machineOn()
    const store = await openWith(machine)
    const early = await fill(store, 6) // extents 0 and 1 are full
    const later = await fill(store, 1)
    await drop(store, early) // the records of that are in extent 2
    let state: DiskState | undefined
    machine.fault = (operation, path) => {
      if (operation === 'write' && path.endsWith('/00000001.extent')) state ??= machine.now()
    }
    await store.compact()
    await store.close()
    const crashed = machineOn(state as DiskState)
    const again = await openWith(crashed)
    await drop(again, [...later, ...(await fill(again, 2))])
    await fill(again, 2) // in 0
    await again.compact() // 2 is emptied; it need not carry deletions for free extents
    const lost = crashed.now()
    lost.rows.clear()
    const revived = await openWith(machineOn(lost))
    for (const info of early) t.equal(await revived.stat(info), undefined)
    t.equal((await revived.usage()).blobs, (await again.usage()).blobs)
    await revived.close()
    await again.close()
  },
)

t.test('an extent whose new header cannot be written is removed', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const early = await fill(store, 3)
  const [stays] = await fill(store, 1)
  await drop(store, early)
  machine.fault = (operation, path) => {
    if (operation === 'write' && path.endsWith('/00000000.extent')) throw eio
  }
  await store.compact()
  t.notOk(machine.paths().includes('/store/extents/00000000.extent'))
  machine.fault = () => {}
  const state = machine.now()
  state.rows.clear()
  const revived = await openWith(machineOn(state))
  t.same(await revived.usage().then(({ blobs }) => blobs), 1)
  t.equal((await get(revived, stays as BlobInfo)).length, (stays as BlobInfo).size)
  await revived.close()
  await store.close()
})

t.test(
  'a copy that was moved and then deleted stays deleted, whichever of its extents is emptied first',
  async (t) => {
    for (const between of ['nothing', 'a restart', 'a lost catalogue']) {
      let machine = machineOn()
      let store = await openWith(machine)
      const stays = randomBytes(1000)
      const moved = await put(store, randomBytes(1000), { pinMs: 0 })
      await put(store, stays, { pinMs: 0 })
      const filler = await fill(store, 4) // extent 0 is full
      const turn = () => {
        flipOnDisk(machine, stays)
        stays[32] = (stays[32] ?? 0) ^ 0x10 // as it is on the disk
      }
      turn() // it cannot be moved, and keeps extent 0
      await drop(store, filler)
      await store.compact() // `moved` is in extent 1 as well
      if (between !== 'nothing') {
        turn()
        await store.close()
        const state = machine.now()
        if (between === 'a lost catalogue') state.rows.clear()
        machine = machineOn(state)
        store = await openWith(machine)
        turn()
      }
      await store.delete(moved)
      await drop(store, await fill(store, 4))
      await fill(store, 1)
      const { freedBytes } = store.counters()
      await store.compact()
      t.ok(store.counters().freedBytes > freedBytes, 'extent 1 is free')
      const state = machine.now()
      state.rows.clear()
      const revived = await openWith(machineOn(state))
      t.equal(await revived.stat(moved), undefined, `${between} between the move and the deletion`)
      await revived.close()
      await store.close()
    }
  },
)

t.test('a copy that was restored under its name outlives the entries of its deletion', async (t) => {
  const machine = machineOn()
  const store = await openWith(machine)
  const bytes = randomBytes(1000)
  const stays = randomBytes(1000)
  const copy = await put(store, bytes, { pinMs: 0 })
  await put(store, stays, { pinMs: 0 })
  const filler = await fill(store, 4)
  flipOnDisk(machine, stays)
  await store.delete(copy)
  const stage = await store.stage({ uploadId: copy.incarnation })
  await stage.write(bytes)
  await stage.commit({ pinMs: 0, asNew: true })
  await drop(store, [...filler, ...(await fill(store, 3))])
  await store.compact()
  await fill(store, 1)
  for (const lost of [false, true]) {
    const state = machine.now()
    if (lost) state.rows.clear()
    const revived = await openWith(machineOn(state))
    t.ok(await revived.stat(copy), `catalogue ${lost ? 'lost' : 'kept'}`)
    await revived.close()
  }
  t.ok(bytes.equals(await get(store, copy)))
  await store.delete(copy)
  await drop(store, await fill(store, 4))
  await store.compact()
  const state = machine.now()
  state.rows.clear()
  const revived = await openWith(machineOn(state))
  t.equal(await revived.stat(copy), undefined)
  await revived.close()
  await store.close()
})

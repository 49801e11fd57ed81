/** Which store a directory has is known without its catalogue, and without any header. */
import { type BlobInfo, type BlobName, reportsHealth } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { ChunkStore } from '../src/index.ts'
import { openOn as open } from './support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './support/crash-machine.ts'

const identity = '/store/identity'
const first = '/store/extents/00000000.extent'
const second = '/store/extents/00000001.extent'
const bytes = (n: number) => Buffer.alloc(900_000, n)

interface World {
  state: DiskState
  info: BlobInfo
  content: Buffer
}

/** A store of one extent, as a kill leaves it; of more with more blobs. */
async function world(seed: number, { blobs = 1 } = {}): Promise<World> {
  const machine = new CrashMachine(seeded(seed))
  const store = await open(machine)
  const content = bytes(seed)
  const info = await put(store, content, { pinMs: 0 })
  for (let n = 1; n < blobs; n++) await put(store, bytes(100 + n), { pinMs: 0 })
  const state = machine.now()
  await store.close()
  return { state, info, content }
}

function opened(state: DiskState): Promise<ChunkStore> {
  return open(new CrashMachine(seeded(99), state))
}

async function isThere(store: ChunkStore, info: BlobName & BlobInfo, content: Buffer): Promise<boolean> {
  return (await store.stat(info)) !== undefined && content.equals(await get(store, info))
}

const quarantineOf = (store: ChunkStore) =>
  store.health.quarantined.map(({ file, reason }) => `${file} ${reason}`)

t.test('without a catalogue a store knows its only extent beside one of another store', async (t) => {
  const [own, theirs] = [await world(1), await world(2, { blobs: 6 })]
  own.state.rows.clear()
  own.state.files.set(second, theirs.state.files.get(second) as Buffer)
  const store = await opened(own.state)
  t.ok(await isThere(store, own.info, own.content))
  t.same(quarantineOf(store), ['00000001.extent foreign'])
  await store.close()
})

t.test(
  'without a catalogue and any header its blobs are read, and a header that comes back is its own',
  async (t) => {
    const { state, info, content } = await world(1)
    const whole = Buffer.from(state.files.get(first) as Buffer)
    state.rows.clear()
    state.files.get(first)?.fill(0xff, 0, 2 * 4096)
    const machine = new CrashMachine(seeded(99), state)
    const store = await open(machine)
    t.ok(await isThere(store, info, content))
    t.same(quarantineOf(store), ['00000000.extent damaged'])
    await store.close()
    const later = machine.now()
    later.files.set(first, whole)
    const again = await opened(later)
    t.ok(await isThere(again, info, content))
    t.same(quarantineOf(again), [])
    await again.close()
  },
)

t.test('a directory of an earlier release has no identity yet: its first start writes it', async (t) => {
  const { state, info, content } = await world(1)
  const wanted = state.files.get(identity)
  for (const [name, change] of [
    ['with its catalogue', () => {}],
    ['without it, by the headers', () => state.rows.clear()],
  ] as const) {
    state.files.delete(identity)
    change()
    const machine = new CrashMachine(seeded(99), state)
    const store = await open(machine)
    t.ok(await isThere(store, info, content), name)
    t.same(machine.file(identity), wanted, name)
    await store.close()
  }
})

t.test('a start fails with a message if half of the extents are of another store', async (t) => {
  const [own, theirs] = [await world(1), await world(2, { blobs: 6 })]
  own.state.rows.clear()
  own.state.files.delete(identity)
  own.state.files.set(second, theirs.state.files.get(second) as Buffer)
  await t.rejects(opened(own.state), {
    code: 'CORRUPT',
    message: /of one 00000000\.extent; of another 00000001\.extent\. Move those of other stores/,
  })
  own.state.files.delete(second)
  const store = await opened(own.state)
  t.ok(await isThere(store, own.info, own.content), 'without them it starts')
  await store.close()
})

t.test('one rotten copy is enough to be known, and both are written again', async (t) => {
  for (const [at, catalogue] of [
    [100, 'lost'],
    [4096 + 100, 'lost'],
    [undefined, 'kept'],
  ] as const) {
    const { state, info, content } = await world(1)
    const wanted = Buffer.from(state.files.get(identity) as Buffer)
    if (catalogue === 'lost') state.rows.clear()
    if (at === undefined) state.files.set(identity, Buffer.alloc(50, 'nonsense'))
    else state.files.get(identity)?.fill(7, at, at + 1)
    const machine = new CrashMachine(seeded(99), state)
    const store = await open(machine)
    t.ok(await isThere(store, info, content), `${at}`)
    t.ok(machine.file(identity).equals(wanted), `${at}`)
    await store.close()
  }
})

t.test('an identity that cannot be read or written does not prevent the start', async (t) => {
  const { state, info, content } = await world(1)
  state.files.delete(identity)
  for (const [operation, code] of [
    ['write', 'ENOSPC'],
    ['sync', 'EIO'],
    ['read', 'EIO'],
  ] as const) {
    const machine = new CrashMachine(seeded(99), state)
    machine.fault = (done, path) => {
      if (done === operation && path === identity) throw Object.assign(new Error(code), { code })
    }
    const store = await open(machine)
    t.ok(await isThere(store, info, content), operation)
    await store.close()
  }
})

t.test('extents that return after a rebuild undo nothing that was written since', async (t) => {
  const machine = new CrashMachine(seeded(1))
  const store = await open(machine)
  const info = await put(store, bytes(1), { pinMs: 0 })
  for (let n = 2; n < 20; n++) await put(store, bytes(n), { pinMs: 0 })
  await store.delete(info)
  const state = machine.now()
  await store.close()
  const taken = [...state.files].filter(([path]) => path.endsWith('.extent') && path !== first)
  state.rows.clear()
  for (const [path] of taken) state.files.delete(path)
  state.files.delete(first)

  const rebuilt = new CrashMachine(seeded(2), state)
  const since = await open(rebuilt)
  const stage = await since.stage({ uploadId: info.incarnation })
  await stage.write(bytes(1))
  const back = await stage.commit({ pinMs: 0 })
  t.same([back.id, back.incarnation], [info.id, info.incarnation], 'restored under its name')
  const later = rebuilt.now()
  await since.close()
  later.rows.clear()
  for (const [path, of] of taken) later.files.set(path, of)

  const again = await opened(later)
  t.ok(await isThere(again, back, bytes(1)), 'an earlier deletion does not end it')
  t.same(quarantineOf(again), [])
  t.ok(reportsHealth(again))
  await again.close()
})

/**
 * Extents that are foreign, that have lost their header, or for which the disk returns errors: the
 * store opens with what can be read, and never writes to them, reuses them or removes them.
 */
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { BlobFault, type BlobInfo, reportsHealth } from '@holdfast/blob-store'
import { get, put } from '@holdfast/blob-store/testing'
import t from 'tap'
import type { Disk } from '../src/disk/disk.ts'
import { extentFileName } from '../src/extents/extent-files.ts'
import { InlineHashing } from '../src/hashing/hashing.ts'
import { ChunkStore } from '../src/index.ts'
import { crashOptions } from './support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './support/crash-machine.ts'

const eio = Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', errno: -5 })
const large = (n: number) => Buffer.alloc(900_000, n)
const small = (n: number) => {
  const bytes = Buffer.alloc(3_000 + n, n)
  bytes.write(`small ${n}`)
  return bytes
}

interface Line {
  details: { file?: string }
  message: string
}

function openOn(machine: CrashMachine, lines: Line[] = [], disk: Disk = machine.disk): Promise<ChunkStore> {
  const note = (fields: object, message: string) => void lines.push({ details: { ...fields }, message })
  return ChunkStore.open(
    { ...crashOptions, clock: machine.clock, log: { info: note, warn: note, error: note } },
    {
      disk,
      catalogue: async () => machine.catalogue,
      hashing: (memory) => new InlineHashing(memory),
      randomFill: (bytes) => machine.randomFill(bytes),
      after: (run, ms) => machine.after(run, ms),
      background: false,
    },
  )
}

function extentsOf(state: { files: Map<string, Buffer> }): string[] {
  return [...state.files.keys()].filter((path) => path.endsWith('.extent')).sort()
}

interface World {
  /** As it was closed, and as a kill would have left it before. */
  closed: DiskState
  killed: DiskState
  blobs: Map<BlobInfo, Buffer>
}

/** Some extents of large and small blobs. */
async function world(seed: number, blobs = 20): Promise<World> {
  const machine = new CrashMachine(seeded(seed))
  const store = await openOn(machine)
  const made = new Map<BlobInfo, Buffer>()
  for (let n = 1; n <= blobs; n++)
    for (const bytes of [large(n), small(n)]) made.set(await put(store, bytes, { pinMs: 0 }), bytes)
  const killed = machine.now()
  await store.close()
  return { closed: machine.now(), killed, blobs: made }
}

async function readable(store: ChunkStore, blobs: ReadonlyMap<BlobInfo, Buffer>): Promise<number> {
  let right = 0
  for (const [info, bytes] of blobs)
    try {
      if (!bytes.equals(await get(store, info))) throw new Error(`other bytes of a blob of ${info.size}`)
      right++
    } catch (error) {
      const { code } = error as BlobFault
      if (code !== 'CORRUPT' && code !== 'IO' && code !== 'NOT_FOUND') throw error
    }
  return right
}

/** Uploads, deletions and compactions, more than one extent of them. */
async function use(store: ChunkStore): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const made: BlobInfo[] = []
    for (let n = 100; n < 107; n++) made.push(await put(store, large(n), { pinMs: 0 }))
    for (const info of made) await store.delete(info)
    await store.compact()
  }
}

function overwrite(state: DiskState, path: string, from: number, to: number): void {
  state.files.get(path)?.fill(0xff, from, to)
}

const lost = (state: DiskState) => state.rows.clear()

t.test('a rebuild finds the blobs of an extent without header, and never writes to it', async (t) => {
  const { closed, blobs } = await world(7)
  lost(closed)
  const path = extentsOf(closed)[1] as string
  overwrite(closed, path, 0, 100)
  overwrite(closed, path, 4096, 4196)
  const before = Buffer.from(closed.files.get(path) as Buffer)
  const machine = new CrashMachine(seeded(8), closed)
  const lines: Line[] = []
  let store = await openOn(machine, lines)
  t.equal(await readable(store, blobs), blobs.size)
  const [name] = path.split('/').slice(-1)
  t.match(store.health, { gap: undefined, failure: undefined, recovering: false })
  t.match(store.health.quarantined, [{ file: name, reason: 'damaged', bytes: before.length }])
  t.equal(lines.filter(({ details }) => details.file === name).length, 1, 'one line')
  await use(store)
  t.ok(machine.file(path).equals(before), 'not a byte of it is another')
  t.equal(await readable(store, blobs), blobs.size, 'its live data has been moved, or is still there')
  for (const info of blobs.keys()) t.equal(await store.delete(info), 'deleted')
  await use(store)
  await store.close()
  store = await openOn(new CrashMachine(seeded(9), machine.now()))
  t.equal(store.health.quarantined.length, 1, 'also in the next run')
  t.equal(await readable(store, blobs), 0)
  t.ok(machine.file(path).equals(before))
  await store.close()
})

t.test(
  'unidentified content is no free extent: it stays, its number is not reused, and it is a gap',
  async (t) => {
    for (const withCatalogue of [true, false]) {
      const { killed, blobs } = await world(7, 3)
      if (!withCatalogue) lost(killed)
      const path = '/store/extents/00000002.extent'
      killed.files.set(path, Buffer.alloc(100_000, 'somebody else'))
      const machine = new CrashMachine(seeded(8), killed)
      const store = await openOn(machine)
      t.equal(await readable(store, blobs), blobs.size)
      t.match(store.health, {
        gap: /00000002/,
        quarantined: [{ file: '00000002.extent', reason: 'damaged' }],
      })
      await use(store)
      t.ok(machine.file(path).equals(Buffer.alloc(100_000, 'somebody else')))
      await store.close()
    }
  },
)

t.test('a header whose write a power failure interrupted is no damage', async (t) => {
  const { killed, blobs } = await world(7, 3)
  const path = '/store/extents/00000003.extent'
  const torn = Buffer.alloc(1_048_576)
  torn.write('HFEXTENT')
  killed.files.set(path, torn)
  const machine = new CrashMachine(seeded(8), killed)
  const store = await openOn(machine)
  t.equal(await readable(store, blobs), blobs.size)
  t.match(store.health, { gap: undefined, quarantined: [] })
  await store.close()
})

t.test('an extent of another store is not touched', async (t) => {
  const theirs = await world(2)
  const path = extentsOf(theirs.closed)[1] as string
  const foreign = theirs.closed.files.get(path) as Buffer
  for (const withCatalogue of [true, false]) {
    const { closed, blobs } = await world(1, withCatalogue ? 3 : 20)
    // Without catalogue and identity the majority of the files shows which store it is.
    if (!withCatalogue) {
      lost(closed)
      closed.files.delete('/store/identity')
    }
    closed.files.set(path, Buffer.from(foreign))
    const machine = new CrashMachine(seeded(3), closed)
    const store = await openOn(machine)
    t.match(store.health, { gap: undefined, quarantined: [{ reason: 'foreign' }] })
    if (withCatalogue) t.equal(await readable(store, blobs), blobs.size)
    await use(store)
    t.ok(machine.file(path).equals(foreign))
    await store.close()
  }
})

t.test('a file that appears where the next extent is made is not touched', async (t) => {
  const machine = new CrashMachine(seeded(3))
  const store = await openOn(machine)
  const file = await machine.disk.open('/store/extents/00000000.extent', { create: true })
  const bytes = Buffer.from(new WebAssembly.Memory({ initial: 1 }).buffer).fill(7)
  await file.write(bytes, 0)
  const info = await put(store, large(1))
  t.ok(large(1).equals(await get(store, info)))
  t.ok(machine.file('/store/extents/00000000.extent').equals(bytes))
  t.match(store.health.quarantined, [{ file: '00000000.extent', reason: 'foreign' }])
  await store.close()
})

/** Returns errors for blocks of the files, by path and block. */
function badBlocks(machine: CrashMachine, isBad: (path: string, at: number) => boolean): void {
  machine.readFault = (path, from, to) => {
    for (let at = from - (from % 4096); at < to; at += 4096) if (isBad(path, at)) throw eio
  }
}

t.test('an unreadable header does not prevent the start', async (t) => {
  const kinds: [string, (state: DiskState) => void][] = [
    ['closed', () => {}],
    ['closed, catalogue lost', lost],
  ]
  for (const [kind, change] of kinds)
    for (const copies of [[0], [4096], [0, 4096]]) {
      const { closed, blobs } = await world(7, 6)
      change(closed)
      const path = extentsOf(closed)[0] as string
      const before = Buffer.from(closed.files.get(path) as Buffer)
      const machine = new CrashMachine(seeded(8), closed)
      badBlocks(machine, (name, at) => name === path && copies.includes(at))
      const store = await openOn(machine)
      t.equal(await readable(store, blobs), blobs.size, `${kind}, blocks ${copies}`)
      t.match(store.health, { gap: undefined, quarantined: [{ reason: 'unreadable' }] })
      await use(store)
      t.ok(machine.file(path).equals(before))
      await store.close()
    }
})

t.test('unreadable sectors cost only their content', async (t) => {
  for (const lostCatalogue of [false, true]) {
    const { killed, blobs } = await world(7, 6)
    if (lostCatalogue) lost(killed)
    const path = extentsOf(killed)[0] as string
    const file = killed.files.get(path) as Buffer
    const victim = large(2)
    const payloadAt = file.indexOf(victim.subarray(0, 5_000))
    const machine = new CrashMachine(seeded(8), killed)
    badBlocks(machine, (name, at) => name === path && at === payloadAt + 8 * 4096)
    const store = await openOn(machine)
    t.equal(await readable(store, blobs), blobs.size - 1)
    for (const [info, bytes] of blobs) {
      if (!bytes.equals(victim)) continue
      await t.rejects(get(store, info), { code: 'IO' })
      if (lostCatalogue) {
        t.match(await store.stat(info), { damaged: true }, 'it is listed')
        t.match(store.recovered, { damaged: 1 })
      }
    }
    if (lostCatalogue)
      t.match(
        store.health,
        { gap: undefined, quarantined: [{ reason: 'unreadable' }] },
        'it is known what was there',
      )
    const before = Buffer.from(machine.file(path))
    await use(store)
    t.equal(await readable(store, blobs), blobs.size - 1)
    if (lostCatalogue) t.ok(machine.file(path).equals(before))
    await store.close()
  }
})

t.test(
  'where a record may have begun the missing content is unknown, which is reported until the file is gone',
  async (t) => {
    const { killed, blobs } = await world(7, 6)
    lost(killed)
    const path = extentsOf(killed)[0] as string
    const file = killed.files.get(path) as Buffer
    const recordAt = file.indexOf(small(2)) - (file.indexOf(small(2)) % 4096)
    let machine = new CrashMachine(seeded(8), killed)
    badBlocks(machine, (name, at) => name === path && at === recordAt)
    let store = await openOn(machine)
    t.equal(await readable(store, blobs), blobs.size - 1)
    t.match(store.health, { gap: /00000000/, quarantined: [{ reason: 'unreadable' }] })
    t.ok(reportsHealth(store))
    await use(store)
    await store.close()

    machine = new CrashMachine(seeded(9), machine.now())
    store = await openOn(machine)
    t.match(store.health, { gap: /00000000/ }, 'also when the sector can be read again')
    await store.close()
    const state = machine.now()
    state.files.delete(path)
    store = await openOn(new CrashMachine(seeded(10), state))
    t.match(store.health, { gap: undefined, quarantined: [] })
    await store.close()
  },
)

t.test('a whole unreadable extent costs its blobs, and no more', async (t) => {
  for (const [n, base] of [
    ['closed', 0],
    ['killed', 1],
    ['lost', 2],
  ] as const) {
    const made = await world(7)
    const state = base === 0 ? made.closed : made.killed
    if (base === 2) lost(state)
    const path = extentsOf(state)[0] as string
    const machine = new CrashMachine(seeded(8), state)
    badBlocks(machine, (name) => name === path)
    const store = await openOn(machine)
    const right = await readable(store, made.blobs)
    t.ok(right > 20 && right < made.blobs.size, `${n}: ${right} of ${made.blobs.size}`)
    t.match(store.health.quarantined, [{ reason: 'unreadable' }])
    await use(store)
    t.equal(await readable(store, made.blobs), right)
    await store.close()
  }
})

const nobodys = (bytes: number) => Buffer.alloc(bytes, 'not of this store ')

t.test('a short foreign file is never taken for an extent, known to the catalogue or not', async (t) => {
  const path = '/store/extents/00000007.extent'
  for (const bytes of [1, 5_000, 8_192])
    for (const ended of ['closed', 'killed'] as const) {
      const { [ended]: state, blobs } = await world(7, 3)
      state.files.set(path, nobodys(bytes))
      const machine = new CrashMachine(seeded(8), state)
      const store = await openOn(machine)
      t.match(store.health, {
        gap: undefined,
        quarantined: [{ file: '00000007.extent', reason: 'damaged' }],
      })
      await use(store)
      t.ok(machine.file(path).equals(nobodys(bytes)), `${bytes} bytes, ${ended}`)
      t.equal(await readable(store, blobs), blobs.size)
      await store.close()
    }
})

t.test('a file that appears in the place of a free extent is not touched', async (t) => {
  const machine = new CrashMachine(seeded(7))
  let store = await openOn(machine)
  await use(store)
  const state = machine.now()
  const free = [...state.rows].filter(([key, row]) => key.startsWith('e') && row[40] === 2)
  const number = Buffer.from(free[0]?.[0] ?? '', 'latin1').readUInt32BE(1)
  const path = `/store/extents/${extentFileName(number)}`
  t.ok(state.files.has(path))
  state.files.set(path, nobodys(5_000))
  const later = new CrashMachine(seeded(8), state)
  store = await openOn(later)
  t.match(store.health.quarantined, [{ file: extentFileName(number), reason: 'damaged' }])
  await use(store)
  t.ok(later.file(path).equals(nobodys(5_000)))
  await store.close()
})

t.test('unreadable sectors of a header that was being written are no damage, in any position', async (t) => {
  const path = '/store/extents/00000003.extent'
  const { killed } = await world(7, 3)
  const header = Buffer.alloc(8_192)
  killed.files.get(extentsOf(killed)[0] as string)?.copy(header, 0, 0, 8_192)
  for (const at of [8, 4_096 + 8]) header.writeUInt32LE(3, at + 4)
  for (const sectors of [[0], [7], [8], [15], [0, 15], [7, 8], [7, 15]]) {
    const torn = Buffer.alloc(1_048_576)
    for (const n of sectors) header.copy(torn, n * 512, n * 512, n * 512 + 512)
    const files = new Map([...killed.files, [path, torn]])
    const store = await openOn(new CrashMachine(seeded(8), { files, rows: new Map(killed.rows) }))
    t.match(store.health, { gap: undefined, quarantined: [] }, `sectors ${sectors}`)
    await store.close()
  }
})

/** Fails to open some files. */
function closedFiles(machine: CrashMachine, code: string, isClosed: (path: string) => boolean): Disk {
  const { disk } = machine
  const open: Disk['open'] = async (path, options) => {
    if (isClosed(path)) throw Object.assign(new Error(`${code}: open '${path}'`), { code, path })
    return disk.open(path, options)
  }
  return { ...disk, open }
}

t.test('an extent that cannot be opened costs its blobs, and no more', async (t) => {
  for (const code of ['EACCES', 'EPERM', 'EISDIR', 'ELOOP', 'ENOENT', 'EIO'])
    for (const ended of ['closed', 'killed'] as const) {
      const { [ended]: state, blobs } = await world(7, 6)
      const path = extentsOf(state)[0] as string
      const before = Buffer.from(state.files.get(path) as Buffer)
      const machine = new CrashMachine(seeded(8), state)
      const lines: Line[] = []
      const store = await openOn(
        machine,
        lines,
        closedFiles(machine, code, (name) => name === path),
      )
      const right = await readable(store, blobs)
      t.ok(right < blobs.size, `${code}, ${ended}: ${right} of ${blobs.size}`)
      const [name] = path.split('/').slice(-1)
      t.match(store.health.quarantined, [{ file: name, reason: 'unreadable' }])
      t.equal(lines.filter(({ details }) => details.file === name).length, 1, 'one line')
      await use(store)
      t.ok(machine.file(path).equals(before))
      await store.close()
    }
})

t.test('directories and dangling links in the place of extents do not prevent the start', async (t) => {
  const path = t.testdir()
  const extents = join(path, 'extents')
  await mkdir(join(extents, '00000009.extent'), { recursive: true })
  await symlink('/nowhere/at-all', join(extents, '00000000.extent'))
  await symlink('00000001.extent', join(extents, '00000001.extent'))
  const store = await ChunkStore.open({ ...crashOptions, path, hashThreadsMax: 1 })
  const info = await put(store, large(1))
  t.ok(large(1).equals(await get(store, info)))
  t.match(await store.usage(), { blobs: 1 })
  t.same(store.health.quarantined.map(({ file, reason }) => `${file} ${reason}`).sort(), [
    '00000000.extent unreadable',
    '00000001.extent unreadable',
    '00000009.extent unreadable',
  ])
  await store.close()
})

t.test(
  'too few descriptors or too little memory is no damage: the start fails with the reason',
  async (t) => {
    for (const code of ['EMFILE', 'ENFILE', 'ENOMEM', 'EROFS']) {
      const { closed } = await world(7, 3)
      const machine = new CrashMachine(seeded(8), closed)
      const disk = closedFiles(machine, code, () => true)
      const says = code === 'EROFS' ? /looking at the extents/ : /too few descriptors, or too little memory/
      await t.rejects(openOn(machine, [], disk), { name: 'BlobFault', code: 'IO', message: says }, code)
    }
    const { closed } = await world(7, 3)
    const machine = new CrashMachine(seeded(8), closed)
    const open = async () => {
      throw Object.assign(new Error('EACCES: open probe'), { code: 'EACCES', path: '/store/extents/probe' })
    }
    await t.rejects(
      openOn(machine, [], { ...machine.disk, open }),
      { code: 'IO' },
      'nothing can be opened there',
    )
  },
)

t.test('a missing or shortened extent with live blobs is named', async (t) => {
  for (const ended of ['closed', 'killed'] as const)
    for (const bytes of [undefined, 0, 5_000, 1_000_000]) {
      const { [ended]: state, blobs } = await world(7)
      const path = extentsOf(state)[0] as string
      const [name] = path.split('/').slice(-1)
      const whole = state.files.get(path) as Buffer
      if (bytes === undefined) state.files.delete(path)
      else state.files.set(path, whole.subarray(0, bytes))
      const machine = new CrashMachine(seeded(8), state)
      const lines: Line[] = []
      const store = await openOn(machine, lines)
      const reason = bytes === undefined ? 'missing' : 'damaged'
      const how = `${ended}, ${bytes} bytes`
      t.match(store.health, { gap: undefined, quarantined: [{ file: name, reason, bytes: bytes ?? 0 }] }, how)
      t.ok((store.health.quarantined[0]?.liveBytes ?? 0) > 0)
      t.equal(lines.filter(({ details }) => details.file === name).length, 1, 'one line')
      const right = await readable(store, blobs)
      t.ok(right > 0 && right < blobs.size, `${right} of ${blobs.size}`)
      await use(store)
      t.equal(await readable(store, blobs), right)
      if (bytes === undefined) t.notOk(machine.paths().includes(path), 'its number is not used')
      else t.ok(machine.file(path).equals(whole.subarray(0, bytes)))
      if (bytes === undefined) {
        for (const info of blobs.keys()) await store.delete(info)
        t.same(store.health.quarantined, [], 'until nothing of it is missing')
      }
      await store.close()
    }
})

t.test('where new records may have been in a missing or shortened extent, that is reported', async (t) => {
  for (const cut of [false, true]) {
    const { killed } = await world(7)
    const open = [...killed.rows].find(([key, row]) => key.startsWith('e') && row[40] === 0)
    const name = extentFileName(Buffer.from(open?.[0] ?? '', 'latin1').readUInt32BE(1))
    const path = `/store/extents/${name}`
    const whole = killed.files.get(path) as Buffer
    if (cut) killed.files.set(path, whole.subarray(0, 12_288))
    else killed.files.delete(path)
    const store = await openOn(new CrashMachine(seeded(8), killed))
    t.match(store.health, { gap: new RegExp(name), quarantined: [{ reason: cut ? 'damaged' : 'missing' }] })
    await store.close()
  }
})

t.test(
  'a file that a power cut left shorter, without anything that was acknowledged, is whole',
  async (t) => {
    const { killed, blobs } = await world(7)
    for (const [key, row] of killed.rows)
      if (key.startsWith('e') && row[40] === 0) {
        const grown = Buffer.from(row)
        grown.writeBigUInt64LE(2n ** 31n, 8)
        killed.rows.set(key, grown)
      }
    const store = await openOn(new CrashMachine(seeded(8), killed))
    t.match(store.health, { gap: undefined, quarantined: [] })
    t.equal(await readable(store, blobs), blobs.size)
    await store.close()
  },
)

t.test('a catalogue that the disk cannot read is rebuilt while it can read all extents', async (t) => {
  const { closed, blobs } = await world(7)
  lost(closed)
  const open = (machine: CrashMachine) => {
    let opened = 0
    return ChunkStore.open(
      { ...crashOptions, clock: machine.clock },
      {
        disk: machine.disk,
        catalogue: async () => {
          if (opened++ > 0) return machine.catalogue
          throw new BlobFault('IO', 'IO error: While pread offset 0 len 5: x.sst: Input/output error')
        },
        hashing: (memory) => new InlineHashing(memory),
        randomFill: (bytes) => machine.randomFill(bytes),
        background: false,
      },
    )
  }
  const broken = new CrashMachine(seeded(8), closed)
  broken.readFault = (path) => {
    if (path === extentsOf(closed)[1]) throw eio
  }
  await t.rejects(open(broken), { code: 'IO', message: /pread/ }, 'it may be the disk as a whole')
  const store = await open(new CrashMachine(seeded(8), closed))
  t.equal(await readable(store, blobs), blobs.size)
  await store.close()
})

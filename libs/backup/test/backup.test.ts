/**
 * Backups over memory stores: the content of a snapshot, the data that a second backup copies, and
 * the effects of damage.
 */
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type BlobInfo, MemoryBlobStore } from '@holdfast/blob-store'
import { dayMs, hex, sha256, systemClock } from '@holdfast/kernel'
import t from 'tap'
import { BackupDirectory, pruneBackup, restoreBackup, takeBackup, verifyBackup } from '../src/index.ts'

type Row = [Uint8Array, Uint8Array]

async function stored(blobs: MemoryBlobStore, bytes: Uint8Array): Promise<BlobInfo> {
  const stage = await blobs.stage()
  await stage.write(bytes)
  return stage.commit({ pinMs: 0 })
}

const rowFor = (info: BlobInfo, account: string): Row => [
  Buffer.from(`ref/${hex(info.id)}/${hex(info.incarnation)}/${account}`),
  Buffer.alloc(1_000),
]

function referenceOf(key: Uint8Array) {
  const [, id, incarnation, account = ''] = Buffer.from(key).toString().split('/')
  return { copy: `${id}/${incarnation}`, account }
}

async function* asynchronous(rows: Row[]): AsyncGenerator<Row> {
  yield* rows
}

/** Files in the target that a run made. */
function objects(path: string): string[] {
  return readdirSync(join(path, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}

function world(path: string, keyFile?: string) {
  // Names of copies have a random part, and the ends of segments depend on the names. With this
  // random source both are the same in every run.
  let drawn = 0
  const random = (bytes: number) => sha256([Buffer.from(`${drawn++}`)]).subarray(0, bytes)
  const blobs = new MemoryBlobStore({ clock: systemClock, random })
  const rows: Row[] = []
  const open = (make = false) => BackupDirectory.open(path, { keyFile, make })
  const take = async (signal = new AbortController().signal) =>
    takeBackup({
      directory: await open(true),
      rows: () => asynchronous(rows),
      blobs,
      clock: systemClock,
      signal,
    })
  const add = async (bytes: Uint8Array) => {
    const info = await stored(blobs, bytes)
    rows.push(rowFor(info, 'ann'))
    rows.sort(([one], [other]) => Buffer.compare(one, other))
    return info
  }
  return { blobs, rows, open, take, add }
}

for (const encrypted of [false, true])
  t.test(`what was backed up comes back${encrypted ? ', encrypted' : ''}`, async (t) => {
    const dir = t.testdir({ key: hex(randomBytes(32)), target: {} })
    const { rows, open, take, add } = world(join(dir, 'target'), encrypted ? join(dir, 'key') : undefined)
    const large = randomBytes(2_500_000)
    const contents = [large, Buffer.alloc(0), Buffer.from('small and secret'), Buffer.from('a second text')]
    const infos: BlobInfo[] = []
    for (const bytes of contents) infos.push(await add(bytes))
    const taken = await take()
    t.match(taken, { copies: 4, rows: 4, unreadable: [] })

    const directory = await open()
    const restored = new MemoryBlobStore({ clock: systemClock })
    const back: Row[] = []
    const target = {
      blobs: restored,
      putRows: async (all: AsyncIterable<Row>) => {
        for await (const row of all) back.push(row)
      },
    }
    await restoreBackup(directory, await directory.snapshot(), target, (_copy, fault) => {
      throw fault
    })
    t.same(
      back.map(([key]) => String(key)),
      rows.map(([key]) => String(key)),
    )
    for (const [at, one] of infos.entries()) {
      // a piece is valid until the next one is asked for
      const bytes: Buffer[] = []
      for await (const piece of restored.read(one, { start: 0, end: one.size }))
        bytes.push(Buffer.from(piece))
      t.ok(Buffer.concat(bytes).equals(contents[at] as Buffer), 'the same bytes under the same name')
    }
    const onDisk = objects(directory.path).some((file) => readFileSync(file).includes('small and secret'))
    t.equal(onDisk, !encrypted)
  })

t.test('a second backup writes only new data, and the first snapshot stays', async (t) => {
  const { open, take, add } = world(join(t.testdir(), 'target'))
  for (let n = 0; n < 600; n++) await add(Buffer.from(`text ${n}`))
  const first = await take()
  t.equal((await take()).writtenBytes, 0, 'nothing changed, nothing is copied')
  await add(Buffer.from('one more'))
  const { writtenBytes } = await take()
  t.ok(writtenBytes < first.writtenBytes / 1.5, `${writtenBytes} of ${first.writtenBytes} bytes`)
  t.equal((await (await open()).snapshots()).length, 3)
  const before = await (await open()).snapshot(first.snapshot)
  t.equal(before.figures.copies, 600)
})

for (const encrypted of [false, true])
  t.test(`old backups are removed, and the others stay whole${encrypted ? ', encrypted' : ''}`, async (t) => {
    const dir = t.testdir({ key: hex(randomBytes(32)), target: {} })
    const { rows, blobs, open, take, add } = world(
      join(dir, 'target'),
      encrypted ? join(dir, 'key') : undefined,
    )
    const gone = await add(randomBytes(50_000))
    await add(Buffer.from('in all of them'))
    const first = await take()
    rows.splice(
      rows.findIndex(([key]) => String(key).includes(hex(gone.id))),
      1,
    )
    await blobs.delete(gone)
    await add(Buffer.from('in the others'))
    const second = await take()
    const third = await take()
    const directory = await open()
    const nowMs = third.takenMs
    const all = { keep: 1, withinMs: dayMs, nowMs }
    t.match(await pruneBackup(directory, all), { snapshots: [], objects: 0 }, 'all are of today')
    const pruned = await pruneBackup(directory, { keep: 2, withinMs: 0, nowMs: nowMs + dayMs })
    t.same(pruned.snapshots, [first.snapshot])
    t.ok(pruned.bytes > 50_000 && pruned.objects >= 2, 'the content that only the first one had')
    t.equal(objects(directory.path).filter((file) => readFileSync(file).length >= 50_000).length, 0)
    for (const { snapshot } of [second, third])
      t.match(await verifyBackup(directory, await directory.snapshot(snapshot), referenceOf), {
        copies: 2,
        damaged: 0,
        missing: 0,
      })
    const last = await pruneBackup(directory, { keep: 0, withinMs: 0, nowMs: nowMs + dayMs })
    t.same(last.snapshots, [second.snapshot], 'the newest always stays')
    writeFileSync(join(directory.path, 'snapshots', third.snapshot), 'damaged')
    const before = objects(directory.path).length
    await t.rejects(pruneBackup(directory, { keep: 1, withinMs: 0, nowMs }), { code: 'DAMAGED' })
    t.equal(objects(directory.path).length, before, 'then nothing is removed')
  })

t.test('an interrupted run leaves no snapshot, and the next one continues', async (t) => {
  const { open, take, add, blobs } = world(join(t.testdir(), 'target'))
  for (let n = 0; n < 600; n++) await add(Buffer.from(`text ${n}`))
  const stop = new AbortController()
  const read = blobs.read.bind(blobs)
  let reads = 0
  blobs.read = (...asked) => {
    if (++reads === 300) stop.abort()
    return read(...asked)
  }
  await t.rejects(take(stop.signal))
  await t.rejects((await open()).snapshot(), { code: 'UNUSABLE' })
  const readBefore = reads
  t.match(await take(), { copies: 600 })
  t.ok(reads - readBefore <= 310, `what was copied is not read again (${reads - readBefore})`)
})

t.test('damage in a backup is found, and its owner is named', async (t) => {
  const dir = t.testdir({ key: hex(randomBytes(32)), other: hex(randomBytes(32)) })
  for (const keyFile of [undefined, join(dir, 'key')]) {
    const target = join(dir, `target-${keyFile === undefined}`)
    const { open, take, add } = world(target, keyFile)
    const info = await add(randomBytes(300_000))
    await add(Buffer.from('whole'))
    await take()
    const directory = await open()
    t.match(await verifyBackup(directory, await directory.snapshot(), referenceOf), { damaged: 0, copies: 2 })
    const file = objects(target).find((one) => readFileSync(one).length >= 300_000) as string
    renameSync(file, join(dir, 'whole'))
    mkdirSync(file)
    t.match(await verifyBackup(directory, await directory.snapshot(), referenceOf), { damaged: 1 })
    rmdirSync(file)
    t.notOk(existsSync(join(target, 'damaged')), 'what could not be read is not set aside')
    renameSync(join(dir, 'whole'), file)
    const bytes = readFileSync(file)
    bytes[200_000] = (bytes[200_000] as number) ^ 1
    writeFileSync(file, bytes)
    const copy = `${hex(info.id)}/${hex(info.incarnation)}`
    t.match(await verifyBackup(directory, await directory.snapshot(), referenceOf), {
      damaged: 1,
      missing: 0,
      broken: [{ copy, why: 'damaged', accounts: ['ann'] }],
    })
    t.match(await take(), { writtenBytes: 300_000 }, 'the next backup writes it again')
    t.match(await verifyBackup(directory, await directory.snapshot(), referenceOf), { damaged: 0, copies: 2 })

    const { rows: segments } = await directory.snapshot()
    const segment = join(
      target,
      'objects',
      directory.nameOf(segments[0] as string).slice(0, 2),
      directory.nameOf(segments[0] as string),
    )
    writeFileSync(segment, 'rotten')
    await t.rejects(verifyBackup(directory, await directory.snapshot(), referenceOf), { code: 'DAMAGED' })
    await take()
    t.match(await verifyBackup(directory, await directory.snapshot(), referenceOf), { damaged: 0, copies: 2 })
  }
  await t.rejects(BackupDirectory.open(join(dir, 'target-false')), { code: 'UNUSABLE' }, 'no key')
  await t.rejects(BackupDirectory.open(join(dir, 'target-false'), { keyFile: join(dir, 'other') }), {
    code: 'UNUSABLE',
  })
  await t.rejects(BackupDirectory.open(dir, { make: true }), { code: 'UNUSABLE' }, 'not empty')
  writeFileSync(join(dir, 'file'), '')
  await t.rejects(BackupDirectory.open(join(dir, 'file', 'target'), { make: true }), {
    code: 'UNUSABLE',
    message: /cannot write to .*\/file\/target .*ReadWritePaths=/,
  })
})

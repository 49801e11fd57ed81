/**
 * A random load on a store over a crash machine, with its answers and their times; and the check of
 * a state against them.
 */

import {
  type BlobFault,
  type BlobInfo,
  type BlobStore,
  copyKey,
  digestOf,
  type NodeStore,
  type PlacedStage,
  type StageOptions,
} from '@holdfast/blob-store'
import { get } from '@holdfast/blob-store/testing'
import { latin1 } from '@holdfast/kernel'
import { blobPrefix, decodeCopies } from '../../src/catalogue/rows.ts'
import { extentFileName } from '../../src/extents/extent-files.ts'
import { InlineHashing } from '../../src/hashing/hashing.ts'
import { ChunkStore } from '../../src/index.ts'
import { testChunkStore } from '../../src/testing.ts'
import { CrashMachine, type DiskState, seeded } from './crash-machine.ts'

const MiB = 1024 * 1024

export interface PromisedBlob {
  info: BlobInfo
  /** Event at which the commit was answered. */
  committed: number
  /** Events at which its deletion was asked for and answered. */
  deleteAsked: number
  deleteAnswered: number
  /**
   * Event at which its restoration under its name began; another promise when that was answered.
   */
  reborn: number
  /** The number of its content. */
  number: number
}

export interface History {
  machine: CrashMachine
  promises: PromisedBlob[]
  /** Wrong data that readers got while the load ran. */
  misread: string[]
}

/** Contents of these numbers and above are large. */
const largeFrom = 2000
/** Made once: the same few are uploaded and compared all the time. */
const contents = new Map(
  [...range(0, 60), ...range(largeFrom, largeFrom + 21)].map((number) => [number, newContent(number)]),
)
/** By blob id. */
const expected = new Map([...contents.values()].map((bytes) => [latin1(digestOf(bytes).id), bytes]))
const never = Number.POSITIVE_INFINITY
const alive = { deleteAsked: never, deleteAnswered: never, reborn: never }
const amplyFree = 1e12

export const crashOptions = {
  ...testChunkStore,
  path: '/store',
  extentBytes: 4 * MiB,
  extentStepBytes: MiB,
  uploadMemoryBytes: 8 * MiB,
  lowWaterBytes: MiB,
  freeExtentsMax: 1,
  ballastBytes: 0,
}

/** For stores on the real file system. */
export const realOptions = {
  ...testChunkStore,
  extentBytes: 16 * MiB,
  extentStepBytes: 4 * MiB,
  uploadMemoryBytes: 8 * MiB,
  lowWaterBytes: MiB,
  ballastBytes: MiB,
}

export function openOn(machine: CrashMachine): Promise<ChunkStore> {
  return ChunkStore.open(
    { ...crashOptions, clock: machine.clock },
    {
      disk: machine.disk,
      catalogue: async () => machine.catalogue,
      hashing: (memory) => new InlineHashing(memory),
      randomFill: (bytes) => machine.randomFill(bytes),
      after: (run, ms) => machine.after(run, ms),
      background: false,
    },
  )
}

/** Content by number: the same number gives the same bytes. */
export function content(number: number): Buffer {
  return contents.get(number) ?? newContent(number)
}

function newContent(number: number): Buffer {
  const random = seeded(number)
  const kind = random()
  const size =
    number >= largeFrom
      ? 1.2 * MiB + Math.floor(random() * 20_000)
      : kind < 0.05
        ? 0
        : kind < 0.75
          ? Math.floor(random() * 20_000)
          : kind < 0.95
            ? 65_537 + Math.floor(random() * 300_000)
            : MiB + Math.floor(random() * 1.5 * MiB)
  const bytes = Buffer.alloc(size)
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE((number * 2654435761 + at * 40503) >>> 0, at)
  return bytes
}

/** Usually there are fewer reads than operations. */
const readsPerOperationMax = 20

/**
 * Four clients at once upload, delete, abort and compact; one of them aborts during a write; two
 * readers compare.
 */
export async function makeHistory(
  seed: number,
  operations: number,
  options: {
    base?: DiskState
    promises?: PromisedBlob[]
    /** Instead of the machine itself: a planted fault's variant of it. */
    machine?: (random: () => number, base?: DiskState) => CrashMachine
  } = {},
): Promise<History> {
  const random = seeded(seed)
  const machine = options.machine?.(random, options.base) ?? new CrashMachine(random, options.base)
  const store = await openOn(machine)
  const promises: PromisedBlob[] = (options.promises ?? []).map((promise) => ({ ...promise }))
  const misread: string[] = []
  let left = operations
  let busy = 4
  const client = async (lingersAt: number) => {
    while (left-- > 0)
      if (left <= lingersAt) {
        lingersAt = Number.NEGATIVE_INFINITY
        await linger(store, machine, { promises, misread }, random)
      } else await step(store, machine, promises, random)
    busy--
  }
  let reads = 0
  const reader = async () => {
    while (busy > 0 && reads++ < readsPerOperationMax * operations)
      await readSlowly(store, promises, random, misread)
  }
  const none = Number.NEGATIVE_INFINITY
  const lingersAt = Math.floor(random() * operations)
  const clients = Promise.all([client(lingersAt), client(none), client(none), client(none)])
  const readers = Promise.all([reader(), reader()])
  // Readers that end before the clients have waited long enough for them.
  await Promise.race([clients, readers])
  if (busy > 0) return { machine, promises, misread: [...misread, 'a client waits without end'] }
  await Promise.all([clients, readers])
  await store.close()
  return { machine, promises, misread }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, n) => from + n)
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

/**
 * An upload is aborted while the device still writes for it. Meanwhile its extent is filled, its
 * content is deleted, it is compacted, and others may fill it again. Only then the write lands.
 */
async function linger(
  store: ChunkStore,
  machine: CrashMachine,
  { promises, misread }: Pick<History, 'promises' | 'misread'>,
  random: () => number,
): Promise<void> {
  const stage = await stageUnlessFull(store)
  if (stage === undefined) return
  const uploadId = Buffer.from(stage.uploadId)
  const hold = Promise.withResolvers<void>()
  let held = 0
  let landed = 0
  machine.holdWrite = (_, bytes) => {
    if (!bytes.subarray(0, 4096).includes(uploadId)) return undefined
    held++
    return hold.promise.then(() => {
      landed++
    })
  }
  try {
    await stage.write(content(largeFrom))
    for (let turns = 0; held === 0 && turns < 200; turns++) await turn()
    await stage.abort()
    const large = async () => {
      const live = new Set(
        promises.flatMap((promise) => (promise.deleteAsked === never ? [promise.number] : [])),
      )
      const free = range(largeFrom + 1, largeFrom + 21).filter((number) => !live.has(number))
      const number = free[Math.floor(random() * free.length)] ?? largeFrom + 1
      const before = promises.length
      await upload(store, machine, promises, random, number)
      return promises.slice(before).filter((promise) => promise.number === number)
    }
    const filled = [await large(), await large(), await large()].flat()
    for (const promise of filled) await removePromised(store, machine, promise)
    for (let n = 0; n < 8; n++) await remove(store, machine, promises, random)
    await store.compact()
    for (let n = 0; n < 4; n++) await large()
  } finally {
    hold.resolve()
    while (landed < held) await turn()
    machine.holdWrite = () => undefined
  }
  for (const promise of promises.filter(isLive)) await compare(store, promise, misread, async () => {})
}

function isLive({ deleteAsked }: PromisedBlob): boolean {
  return deleteAsked === never
}

/**
 * A blob that should exist, a piece at a time, each compared when the next one is about to be
 * requested.
 */
async function readSlowly(
  store: ChunkStore,
  promises: readonly PromisedBlob[],
  random: () => number,
  misread: string[],
): Promise<void> {
  const live = promises.filter(isLive)
  const promise = live[Math.floor(random() * live.length)]
  await turn()
  const slowly = async () => {
    for (let turns = Math.floor(random() * 12); turns > 0; turns--) await turn()
  }
  if (promise !== undefined) await compare(store, promise, misread, slowly)
}

/** @param rest while the reader holds a piece */
async function compare(
  store: ChunkStore,
  { info, number }: PromisedBlob,
  misread: string[],
  rest: () => Promise<void>,
): Promise<void> {
  const bytes = content(number)
  let at = 0
  try {
    for await (const piece of store.read(info, { start: 0, end: info.size })) {
      await rest()
      if (!bytes.subarray(at, at + piece.length).equals(piece))
        misread.push(`a reader got wrong bytes at ${at} of ${info.size}`)
      at += piece.length
    }
    if (at !== info.size) misread.push(`a reader got ${at} of ${info.size} bytes`)
  } catch (error) {
    if ((error as BlobFault).code !== 'NOT_FOUND' || at > 0)
      misread.push(`a reader failed at ${at} of ${info.size}: ${(error as Error).message}`)
  }
}

async function step(
  store: ChunkStore,
  machine: CrashMachine,
  promises: PromisedBlob[],
  random: () => number,
): Promise<void> {
  const dice = random()
  if (dice < 0.68) return upload(store, machine, promises, random)
  if (dice < 0.74) {
    const stage = await stageUnlessFull(store)
    await stage?.write(content(Math.floor(random() * 60)))
    return stage?.abort()
  }
  if (dice < 0.96) return remove(store, machine, promises, random)
  // On a nearly full disk, every other time.
  if (random() < 0.5) machine.freeBytes = 1.2 * MiB
  await store.compact()
  machine.freeBytes = amplyFree
  await store.usage()
}

async function upload(
  store: NodeStore,
  machine: CrashMachine,
  promises: PromisedBlob[],
  random: () => number,
  wanted?: number,
): Promise<void> {
  const back = wanted === undefined && random() < 0.15 ? goneFor(promises, random) : undefined
  const number = wanted ?? back?.number ?? Math.floor(random() * 60)
  const bytes = content(number)
  if (back !== undefined) back.reborn = ++machine.events
  let info: BlobInfo
  let stage: PlacedStage | undefined
  try {
    const uploadId = back && { uploadId: back.info.incarnation }
    stage = await store.stage({ expectedBytes: bytes.length, ...uploadId })
    for (let at = 0; at < bytes.length; at += 100_000) await stage.write(bytes.subarray(at, at + 100_000))
    info = await stage.commit({ pinMs: 0 })
  } catch (error) {
    if ((error as BlobFault).code !== 'FULL') throw error
    await stage?.abort()
    if (back !== undefined) back.reborn = never
    return
  }
  const committed = ++machine.events
  const isBack = back !== undefined && same(back.info, info)
  if (isBack || promises.every((promise) => !same(promise.info, info)))
    promises.push({ ...alive, info, number, committed })
  // The commit pinned for no time, so a concurrent deletion may have come after it: then nothing is
  // promised.
}

async function stageUnlessFull(
  store: NodeStore,
  options: StageOptions = {},
): Promise<PlacedStage | undefined> {
  try {
    return await store.stage(options)
  } catch (error) {
    if ((error as BlobFault).code !== 'FULL') throw error
    return undefined
  }
}

/** A deleted one that is to be restored under its name. */
function goneFor(promises: readonly PromisedBlob[], random: () => number): PromisedBlob | undefined {
  const gone = promises.filter(({ deleteAnswered, reborn }) => deleteAnswered < never && reborn === never)
  return gone[Math.floor(random() * gone.length)]
}

async function remove(
  store: BlobStore,
  machine: CrashMachine,
  promises: PromisedBlob[],
  random: () => number,
): Promise<void> {
  const live = promises.filter(({ deleteAsked }) => deleteAsked === never)
  const promise = live[Math.floor(random() * live.length)]
  if (promise !== undefined) await removePromised(store, machine, promise)
}

async function removePromised(store: BlobStore, machine: CrashMachine, promise: PromisedBlob): Promise<void> {
  if (promise.deleteAsked !== never) return
  promise.deleteAsked = ++machine.events
  if ((await store.delete(promise.info)) === 'deleted') promise.deleteAnswered = ++machine.events
  else promise.deleteAsked = never
}

function same(a: BlobInfo, b: BlobInfo): boolean {
  return Buffer.compare(a.id, b.id) === 0 && Buffer.compare(a.incarnation, b.incarnation) === 0
}

/**
 * What still holds for a run that begins with the state after this event; operations under way are
 * left out.
 */
export function promisesAfter({ promises }: History, event: number): PromisedBlob[] {
  const held: PromisedBlob[] = []
  for (const promise of promises) {
    if (promise.reborn <= event) continue // after that it has a separate promise, or is unknown
    if (promise.deleteAnswered <= event)
      held.push({ ...promise, committed: 0, deleteAsked: 0, deleteAnswered: 0, reborn: never })
    else if (promise.committed <= event && promise.deleteAsked > event)
      held.push({ ...promise, ...alive, committed: 0 })
  }
  return held
}

/** Opens the state and compares it with what was promised by then. @returns the violations. */
export async function violations(
  state: DiskState,
  promises: readonly PromisedBlob[],
  event: number,
  options: {
    deletionsHold: boolean
    /**
     * Deleted copies may be back: the record of their deletion was removed with their extent. They
     * are damaged, unless nothing of them can be missing: they have no bytes, or have them in
     * another extent than their commit.
     */
    ghosts?: boolean
    /**
     * The catalogue, or its last part, is lost after an earlier crash. A group that it interrupted
     * looks like one that was damaged later: what was never acknowledged may be listed as damaged.
     */
    leftovers?: boolean
    /** Only headers say which generation an extent has. */
    withoutCatalogue?: boolean
    random: () => number
    machine?: (random: () => number, base?: DiskState) => CrashMachine
  },
): Promise<string[]> {
  const broken: string[] = []
  const bytesApart = options.ghosts === true ? copiesWithBytesApart(state) : new Set<string>()
  const promised = { promises, event, ...options, bytesApart }
  const machine = options.machine?.(options.random, state) ?? new CrashMachine(options.random, state)
  const store = await openOn(machine)
  try {
    // A power cut damages nothing. Without the catalogue of its moment the effect on a header that
    // was being written looks like damage.
    if (options.ghosts !== true && options.withoutCatalogue !== true)
      for (const { file, reason } of store.health.quarantined) broken.push(`${file} is set aside: ${reason}`)
    await check(store, promised, broken)
    // And it continues: something new is kept, and all of it survives a clean stop.
    const stage = await store.stage()
    const bytes = content(1000 + Math.floor(options.random() * 40))
    await stage.write(bytes)
    const info = await stage.commit({ pinMs: 0 })
    await store.compact()
    await store.close()
    const again = await openOn(machine)
    await check(again, promised, broken)
    if (!bytes.equals(await get(again, info))) broken.push('data written after the crash is gone')
    await again.close()
  } catch (error) {
    broken.push(`fault: ${(error as Error).stack}`)
    await store.close().catch(() => {})
  }
  return broken
}

/** Copies of the catalogue whose commit was in an extent that is gone, and no byte of theirs. */
function copiesWithBytesApart({ rows, files }: DiskState): Set<string> {
  const apart = new Set<string>()
  for (const [row, value] of rows) {
    const key = Buffer.from(row, 'latin1')
    if (!key.subarray(0, 1).equals(blobPrefix)) continue
    for (const { incarnation, inlineOffset, commitExtent } of decodeCopies(value))
      if (inlineOffset === undefined && !files.has(`/store/extents/${extentFileName(commitExtent)}`))
        apart.add(copyKey({ id: key.subarray(1), incarnation }))
  }
  return apart
}

async function check(
  store: BlobStore,
  {
    promises,
    event,
    deletionsHold,
    ghosts = false,
    leftovers = false,
    bytesApart,
  }: {
    promises: readonly PromisedBlob[]
    event: number
    deletionsHold: boolean
    ghosts?: boolean
    leftovers?: boolean
    bytesApart: ReadonlySet<string>
  },
  broken: string[],
): Promise<void> {
  let bytes = 0
  let blobs = 0
  const isGhost = (info: BlobInfo) =>
    ghosts && promises.some((promise) => same(promise.info, info) && promise.deleteAsked <= event)
  const isLeftover = (info: BlobInfo) => leftovers && promises.every((promise) => !same(promise.info, info))
  for await (const info of store.inventory()) {
    const whole = await get(store, info).catch((error: Error) => Buffer.from(error.message))
    if ((isGhost(info) || isLeftover(info)) && (await store.stat(info))?.damaged) {
      bytes += info.size
      blobs++
      continue
    }
    // Comparing costs a tenth of hashing, which is done only on differences.
    if (!expected.get(latin1(info.id))?.equals(whole)) {
      const digest = digestOf(whole)
      if (!digest.id.equals(info.id))
        broken.push(
          `a blob of ${info.size} bytes is not what its id says: ${whole.length < 300 ? whole : ''}`,
        )
      if (digest.crc32 !== info.crc32) broken.push('a crc32 is wrong')
    }
    bytes += info.size
    blobs++
  }
  for (const { info, committed, deleteAsked, deleteAnswered, reborn } of promises) {
    const found = await store.stat(info)
    if (committed <= event && deleteAsked > event && found === undefined)
      broken.push(`acknowledged at ${committed}, gone at ${event}: ${info.size} bytes`)
    const ghost = ghosts && (found?.damaged || info.size === 0 || bytesApart.has(copyKey(info)))
    if (deletionsHold && deleteAnswered <= event && found !== undefined && reborn > event && !ghost)
      broken.push(`deleted at ${deleteAnswered}, back at ${event}`)
  }
  const usage = await store.usage()
  if (usage.blobs !== blobs) broken.push(`usage says ${usage.blobs} blobs, there are ${blobs}`)
  if (usage.liveBytes !== bytes) broken.push(`usage says ${usage.liveBytes} bytes, there are ${bytes}`)
  if (usage.stagedBytes !== 0 || usage.openStages !== 0) broken.push('stages are left')
}

/**
 * The chunk store over a disk that records every write and sync: a random load, then the possible
 * states after power cuts, each opened and compared with what had been acknowledged. The load, the
 * machine and the checks are those of the chunk store's own crash tests; here they run under the
 * seeds of the simulation, with faults planted in the disk.
 */
import { createHash } from 'node:crypto'
import type { Disk, DiskFile } from '../../libs/chunk-store/src/disk/disk.ts'
import { windowBytes } from '../../libs/chunk-store/src/extents/scan.ts'
import { firstRecordOffset } from '../../libs/chunk-store/src/format.ts'
import { type History, makeHistory, violations } from '../../libs/chunk-store/test/support/crash-history.ts'
import { CrashMachine, type DiskState, seeded } from '../../libs/chunk-store/test/support/crash-machine.ts'

export type MakeMachine = (random: () => number, base?: DiskState) => CrashMachine

export interface DiskPlants {
  /** Under the load; the crash states are its. */
  load?: (random: () => number, base?: DiskState) => WatchedMachine
  /** Under the start after a crash. */
  recovery?: MakeMachine
}

const operations = 120
const states = 16
const blockBytes = 4096

export async function crashStates(
  seed: number,
  plants: DiskPlants = {},
): Promise<{ violations: string[]; digest: string; states: number }> {
  let machine: WatchedMachine | undefined
  const history = await makeHistory(seed, operations, {
    machine: (random, base) => {
      machine = plants.load?.(random, base) ?? new WatchedMachine(random, base)
      return machine
    },
  })
  const windows = machine?.recycled ?? []
  const random = seeded(seed * 7)
  const digest = createHash('sha256')
  const broken: string[] = []
  let tried = 0
  for (; tried < states && broken.length === 0; tried++) {
    const event = eventFor(tried, { history, windows, random })
    const state = history.machine.crashAt(event, random, [0, 0.5, 0.9, 0, 1][tried % 5] as number)
    for (const [path, bytes] of [...state.files].sort()) digest.update(path).update(bytes)
    const options = { deletionsHold: true, random, ...(plants.recovery && { machine: plants.recovery }) }
    const found = await violations(state, history.promises, event, options)
    broken.push(...found.map((what) => `disk, after event ${event} of ${history.machine.events}: ${what}`))
  }
  return { violations: broken, digest: digest.digest('hex').slice(0, 16), states: tried }
}

/**
 * At critical points: while an extent is emptied and used again, as an upload is acknowledged, and
 * anywhere.
 */
function eventFor(
  n: number,
  {
    history,
    windows,
    random,
  }: { history: History; windows: readonly RecycledExtent[]; random: () => number },
): number {
  const any = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]
  const window = n % 4 === 0 ? any(windows) : undefined
  if (window !== undefined)
    return window.readAt + Math.floor(random() * (window.writtenAt - window.readAt + 1))
  const promise = n % 4 < 3 ? any(history.promises) : undefined
  return promise?.committed ?? Math.floor(random() * history.machine.events) + 1
}

interface RecycledExtent {
  path: string
  /** Event of the last read: its live data was being moved. */
  readAt: number
  /** Event of the write of its new header. */
  writtenAt: number
  header: Buffer
}

/** Records when an extent that was read for compaction got the header of its next generation. */
class WatchedMachine extends CrashMachine {
  readonly recycled: RecycledExtent[] = []
  readonly #readAt = new Map<string, number>()

  override get disk(): Disk {
    return withFiles(super.disk, (path, file) => {
      const read = async (into: Uint8Array, position: number) => {
        this.#readAt.set(path, this.events)
        return file.read(into, position)
      }
      const write = (bytes: Uint8Array, position: number) => {
        const readAt = this.#readAt.get(path)
        if (position === 0 && readAt !== undefined) {
          this.#readAt.delete(path)
          const header = Buffer.from(bytes)
          this.recycled.push({ path, readAt, writtenAt: this.events, header })
        }
        return file.write(bytes, position)
      }
      return { ...file, read, readUncached: read, write }
    })
  }
}

/**
 * Planted: an extent gets its next generation when its copies have been read, not when copies and
 * catalogue are synced.
 */
export class HastyMachine extends WatchedMachine {
  override crashAt(event: number, random: () => number, mood: number): DiskState {
    const state = super.crashAt(event, random, mood)
    for (const { path, readAt, writtenAt, header } of this.recycled)
      if (readAt <= event && event <= writtenAt) {
        const file = state.files.get(path)
        if (file !== undefined) header.copy(file, 0)
      }
    return state
  }
}

/** Planted: a scan ends at the first block where a record is due and none is. */
export class ShortSightedMachine extends CrashMachine {
  override get disk(): Disk {
    return withFiles(super.disk, (_, file) => {
      let due = firstRecordOffset
      let end = Number.POSITIVE_INFINITY
      const readUncached = async (into: Uint8Array, position: number) => {
        const count = await file.readUncached(into, position)
        const bytes = Buffer.from(into.buffer, into.byteOffset, count)
        if (into.length !== windowBytes) return count // not a scan
        for (due = position; due < end && due + blockBytes <= position + count; ) {
          const length = recordLength(bytes, due - position)
          if (length === 0) end = due
          else due += length
        }
        if (end < position + count) bytes.fill(0, Math.max(0, end - position))
        return count
      }
      return { ...file, readUncached }
    })
  }
}

/** As in the header; 0: there is none. Offsets are those of libs/chunk-store/FORMAT.md. */
function recordLength(bytes: Buffer, at: number): number {
  const startsHere = bytes.readUInt32LE(at) !== 0 && bytes.readUInt16LE(at + 4) === 1
  if (!startsHere) return 0
  const payloadBytes = bytes.readUInt32LE(at + 32)
  const headerBytes = bytes.readUInt32LE(at + 12)
  return Math.ceil((headerBytes + payloadBytes) / blockBytes) * blockBytes
}

function withFiles(disk: Disk, around: (path: string, file: DiskFile) => DiskFile): Disk {
  return { ...disk, open: async (path, options) => around(path, await disk.open(path, options)) }
}

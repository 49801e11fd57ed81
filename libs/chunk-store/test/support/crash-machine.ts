/**
 * A disk and a catalogue in memory that record every operation and its time. From that the possible
 * states after a power cut are made: everything synced is there; each other write may be there, be
 * missing, or be torn into any of its sectors, independently of its order; the catalogue has lost
 * any tail behind its last synced batch.
 */
import type { Clock } from '@holdfast/kernel'
import type { Catalogue, CatalogueChange } from '../../src/catalogue/catalogue.ts'
import { MemoryCatalogue } from '../../src/catalogue/catalogue.ts'
import type { Disk, DiskFile } from '../../src/disk/disk.ts'

const sectorBytes = 512
/** Unix time at which runs begin. */
const startMs = Date.UTC(2030, 0, 1)

interface Change {
  /** Events count every beginning and end of an operation. */
  begun: number
  ended: number
  kind: 'write' | 'resize' | 'create' | 'remove'
  path: string
  /** A later file of the same path is another one. */
  file: MemoryFile
  position: number
  bytes: Buffer
  /** The file had been removed by then. */
  missed: boolean
}

type Operation = Pick<Change, 'kind' | 'path' | 'file' | 'position' | 'bytes'>

interface Sync {
  begun: number
  ended: number
  path: string
}

interface Batch {
  begun: number
  ended: number
  sync: boolean
  changes: { key: string; value: Buffer | undefined }[]
}

export interface DiskState {
  files: Map<string, Buffer>
  rows: Map<string, Buffer>
}

export class CrashMachine {
  events = 0
  /** Events at which the start of a file was written: an extent begins, or is freed. */
  readonly starts: number[] = []
  readonly #files = new Map<string, MemoryFile>()
  readonly #initial: ReadonlyMap<string, MemoryFile>
  readonly #changes: Change[] = []
  readonly #syncs: Sync[] = []
  readonly #batches: Batch[] = []
  readonly #rows: Map<string, Buffer>
  readonly #random: () => number
  /** The disk's initial state. */
  readonly #base: DiskState
  /**
   * Set by tests: fails or passes an operation; a thrown error is the operation's. `bytes`: new
   * length of a file.
   */
  fault: (
    operation: 'write' | 'sync' | 'read' | 'reserve' | 'resize' | 'batch',
    path: string,
    bytes: number,
  ) => void = () => {}
  /** Set by tests: fails a read of these bytes. */
  readFault: (path: string, from: number, to: number) => void = () => {}
  /** Set by tests: an operation ends no sooner than this. */
  hold: (operation: 'sync' | 'batch', path: string) => Promise<void> | undefined = () => undefined
  /**
   * Set by tests: a write of these bytes ends no sooner than this. Only then its bytes are in the
   * file, over what was written meanwhile.
   */
  holdWrite: (path: string, bytes: Buffer) => Promise<void> | undefined = () => undefined
  freeBytes = 1e12
  /** Reports a sync that it did not do: the effect of acknowledging before the sync. */
  liesAboutSync = false

  constructor(random: () => number, base: DiskState = { files: new Map(), rows: new Map() }) {
    this.#random = random
    this.#base = base
    this.#rows = new Map(base.rows)
    for (const [path, bytes] of base.files) this.#files.set(path, new MemoryFile(bytes))
    this.#initial = new Map(this.#files)
  }

  /**
   * The options of a store over it: everything of the machine that would differ from run to run.
   */
  get clock(): Clock {
    return { now: () => startMs + this.events, monotonic: () => this.events }
  }

  /** A draw for each byte, so that the following draws do not depend on the sizes of requests. */
  randomFill(bytes: Buffer): Buffer {
    for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(this.#random() * 256)
    return bytes
  }

  /** Time is turns of the loop. */
  async after(run: () => void, ms: number): Promise<void> {
    for (let turns = ms; turns > 0; turns--) await new Promise(setImmediate)
    run()
  }

  get disk(): Disk {
    return {
      makeDirectory: async () => {},
      list: async (path) =>
        [...this.#files.keys()]
          .filter((name) => name.startsWith(`${path}/`))
          .map((name) => name.slice(path.length + 1)),
      open: async (path, { create, exclusive = false }) => {
        if (exclusive && this.#files.has(path))
          throw Object.assign(new Error(`EEXIST ${path}`), { code: 'EEXIST' })
        return this.#open(path, create)
      },
      remove: async (path) => {
        const file = this.#files.get(path)
        if (file === undefined) {
          this.events += 2
          return this.#delay()
        }
        await this.#change({ kind: 'remove', path, file, position: 0, bytes: Buffer.alloc(0) })
        file.removed = true
        this.#files.delete(path)
      },
      allocatedBytes: async (path) => this.#files.get(path)?.bytes.length ?? 0,
      syncDirectory: (path) => this.#sync(path),
      space: async () => ({ freeBytes: this.freeBytes, totalBytes: 1e12 }),
    }
  }

  get catalogue(): Catalogue {
    const memory = new MemoryCatalogue(this.#rows)
    return {
      get: async (keys) => {
        await this.#delay()
        return memory.get(keys)
      },
      apply: (changes, options) => this.#apply(changes, options.sync),
      scan: (prefix, options) => memory.scan(prefix, options),
      diskBytes: async () => 0,
      close: async () => {},
    }
  }

  /** Files as they are now, for flipping bits. */
  file(path: string): Buffer {
    return (this.#files.get(path) as MemoryFile).bytes
  }

  paths(): string[] {
    return [...this.#files.keys()]
  }

  /** The current state, nothing lost: what a killed process leaves. */
  now(): DiskState {
    return {
      files: new Map([...this.#files].map(([path, { bytes }]) => [path, Buffer.from(bytes)])),
      rows: new Map(this.#rows),
    }
  }

  /**
   * A possible state after a power cut right after this event.
   * @param mood how likely something not synced survives, 0..1; in between, writes are torn as
   *   well.
   * @param options.logRots the catalogue's log is damaged somewhere: synced batches are lost too,
   *   from any one on.
   */
  crashAt(
    event: number,
    random: () => number,
    mood: number,
    { logRots = false }: { logRots?: boolean } = {},
  ): DiskState {
    const files = new Map(
      [...this.#initial].map(([path, file]) => [path, { file, bytes: Buffer.from(file.initial) }]),
    )
    const unsynced: Change[] = []
    const durable: Change[] = []
    for (const change of this.#changes) {
      if (change.begun > event || change.missed) continue
      if (this.#isDurable(change, event)) durable.push(change)
      else unsynced.push(change)
    }
    // A write that took long covers what was written meanwhile.
    durable.sort((one, other) => one.ended - other.ended)
    for (const change of durable) applyTo(files, change, random, 1)
    for (let n = unsynced.length - 1; n > 0; n--) {
      const other = Math.floor(random() * (n + 1))
      const [a, b] = [unsynced[n] as Change, unsynced[other] as Change]
      unsynced[n] = b
      unsynced[other] = a
    }
    for (const change of unsynced) if (change.kind === 'resize') applyTo(files, change, random, mood)
    for (const change of unsynced) if (change.kind !== 'resize') applyTo(files, change, random, mood)
    const bytes = new Map([...files].map(([path, found]) => [path, found.bytes]))
    return { files: bytes, rows: this.#rowsAt(event, random, logRots) }
  }

  #rowsAt(event: number, random: () => number, logRots: boolean): Map<string, Buffer> {
    const begun = this.#batches.filter((batch) => batch.begun <= event)
    let count = logRots ? 0 : begun.findLastIndex(({ sync, ended }) => sync && ended <= event) + 1
    count += Math.floor(random() * (begun.length - count + 1))
    const rows = new Map(this.#base.rows)
    for (const { changes } of begun.slice(0, count))
      for (const { key, value } of changes) {
        if (value === undefined) rows.delete(key)
        else rows.set(key, value)
      }
    return rows
  }

  #isDurable(change: Change, event: number): boolean {
    const directory = change.path.slice(0, change.path.lastIndexOf('/'))
    const scope = change.kind === 'create' || change.kind === 'remove' ? directory : change.path
    return this.#syncs.some(
      ({ path, begun, ended }) => path === scope && begun > change.ended && ended <= event,
    )
  }

  async #open(path: string, create: boolean): Promise<DiskFile> {
    if (!this.#files.has(path)) {
      if (!create) throw Object.assign(new Error(`ENOENT ${path}`), { code: 'ENOENT' })
      const file = new MemoryFile(Buffer.alloc(0))
      await this.#change({ kind: 'create', path, file, position: 0, bytes: Buffer.alloc(0) })
      this.#files.set(path, file)
    }
    const file = this.#files.get(path) as MemoryFile
    const read = async (into: Uint8Array, position: number) => {
      await this.#delay()
      this.fault('read', path, file.bytes.length)
      this.readFault(path, position, position + into.length)
      const from = file.bytes.subarray(position, position + into.length)
      into.set(from)
      return from.length
    }
    const resize = async (size: number) => {
      await this.#change({ kind: 'resize', path, file, position: size, bytes: Buffer.alloc(0) })
      file.resize(size)
    }
    return {
      read,
      readUncached: read,
      write: async (bytes, position) => {
        this.fault('write', path, file.bytes.length)
        assertAligned(bytes, position)
        const written = Buffer.from(bytes)
        const change = this.#begin({ kind: 'write', path, file, position, bytes: written })
        if (position === 0) this.starts.push(change.begun)
        await this.#delay()
        await this.holdWrite(path, written)
        change.ended = ++this.events
        change.missed = file.removed
        file.write(written, position)
      },
      reserve: async ({ to }) => {
        this.fault('reserve', path, to)
        if (to > file.bytes.length) await resize(to)
        return true
      },
      // Any part of it may be zeros after a power cut, like a write.
      discard: async ({ from, to }) => {
        const zeros = Buffer.alloc(to - from)
        await this.#change({ kind: 'write', path, file, position: from, bytes: zeros })
        file.write(zeros, from)
        return 'done'
      },
      truncate: async (size) => {
        this.fault('resize', path, size)
        await resize(size)
      },
      sync: async () => {
        this.fault('sync', path, file.bytes.length)
        await this.#sync(path)
      },
      size: async () => file.bytes.length,
      close: async () => {},
    }
  }

  #begin(details: Operation): Change {
    const change = { ...details, begun: ++this.events, ended: Number.POSITIVE_INFINITY, missed: false }
    this.#changes.push(change)
    return change
  }

  async #change(details: Operation): Promise<void> {
    const change = this.#begin(details)
    await this.#delay()
    change.ended = ++this.events
  }

  async #sync(path: string): Promise<void> {
    const sync = { path, begun: ++this.events, ended: Number.POSITIVE_INFINITY }
    if (!this.liesAboutSync) this.#syncs.push(sync)
    await this.#delay()
    await this.hold('sync', path)
    sync.ended = ++this.events
  }

  async #apply(changes: readonly CatalogueChange[], sync: boolean): Promise<void> {
    this.fault('batch', '', 0)
    const copies = changes.map(({ key, value }) => ({
      key: key.toString('latin1'),
      value: value && Buffer.from(value),
    }))
    const batch: Batch = { begun: ++this.events, ended: Number.POSITIVE_INFINITY, sync, changes: copies }
    this.#batches.push(batch)
    await this.#delay()
    await this.hold('batch', '')
    for (const { key, value } of copies) {
      if (value === undefined) this.#rows.delete(key)
      else this.#rows.set(key, value)
    }
    batch.ended = ++this.events
  }

  /** A few turns of the loop, so that operations overlap in varying ways. */
  async #delay(): Promise<void> {
    for (let turns = Math.floor(this.#random() * 4); turns >= 0; turns--) await new Promise(setImmediate)
  }
}

class MemoryFile {
  readonly initial: Buffer
  bytes: Buffer
  removed = false
  constructor(bytes: Buffer) {
    this.initial = bytes
    this.bytes = Buffer.from(bytes)
  }

  write(bytes: Uint8Array, position: number): void {
    if (position + bytes.length > this.bytes.length) this.resize(position + bytes.length)
    this.bytes.set(bytes, position)
  }

  resize(size: number): void {
    const grown = Buffer.alloc(size)
    this.bytes.copy(grown)
    this.bytes = grown
  }
}

function assertAligned(bytes: Uint8Array, position: number): void {
  if (position % 4096 !== 0 || bytes.length % 4096 !== 0 || bytes.byteOffset % 4096 !== 0)
    throw Object.assign(new Error('not aligned'), { code: 'EINVAL' })
}

/** The file of each path after a crash. */
type Survivors = Map<string, { file: MemoryFile; bytes: Buffer }>

/** What was written to a file that is removed is not in the next one of its path. */
function applyTo(files: Survivors, change: Change, random: () => number, chance: number): void {
  const { file, path } = change
  const found = files.get(path)
  const isThere = found?.file === file
  switch (change.kind) {
    case 'create':
      if (!isThere && random() < chance) files.set(path, { file, bytes: Buffer.alloc(0) })
      return
    case 'remove':
      if (isThere && random() < chance) files.delete(path)
      return
    case 'resize':
      if (isThere && random() < chance) found.bytes = resized(found.bytes, change.position)
      return
    case 'write': {
      if (!isThere) return
      const whole = random() < chance
      const torn = !whole && chance > 0 && random() < 0.7
      if (!whole && !torn) return
      const end = change.position + change.bytes.length
      if (end > found.bytes.length) found.bytes = resized(found.bytes, end)
      for (let at = 0; at < change.bytes.length; at += sectorBytes)
        if (whole || random() < 0.6)
          change.bytes.copy(found.bytes, change.position + at, at, at + sectorBytes)
    }
  }
}

function resized(file: Buffer, size: number): Buffer {
  const grown = Buffer.alloc(size)
  file.copy(grown)
  return grown
}

/** Mulberry32: small, seeded, good enough to shuffle with. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

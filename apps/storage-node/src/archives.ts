/**
 * Folders as ZIP archives that can be resumed.
 *
 * The account says what is in the folder now; the layout follows from it. Whoever was cut off continues the archive he began, although the folder changed
 * meanwhile: layouts handed out are kept for some hours, and one is used again as long as everything in it is still in the folder.
 * If something went, what is gone is not given out any more: the client gets the whole new archive instead of a range, never a mixture.
 */

import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises'
import type { BlobStore } from '@holdfast/blob-store'
import { Refusal } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { Manifest } from '@holdfast/wire'
import { layOutInSlices, type ZipLayout } from '@holdfast/zip-layout'
import type { ByteRange } from './ranges.ts'
import { type Representation, validatorsOf } from './representation.ts'
import { fileHeaders } from './safe-headers.ts'
import { storedBytes } from './stored-bytes.ts'

const keptMs = 6 * 60 * 60 * 1000
/** A folder of a million items has a layout of about 150 MB. */
const keptBytesMax = 256 * 1024 * 1024
/** Layouts of running responses; past it new ones are refused. */
const runningBytesMax = 1024 * 1024 * 1024
/** Who began which archive: some 200 bytes each. */
const viewersMax = 10_000
/** Layouts being made at a time … */
const makingMax = 4
/** … and entries of all manifests that are held for that, about 500 bytes each. */
const heldEntriesMax = 2_000_000
/** Blobs of a running response are kept from deletion so long, and again before it is over. */
const pinMs = 10 * 60 * 1000
/** Entries looked at between two turns of the loop. */
const sliceEntries = 4_096
/** Headers and small files are sent together in blocks. */
const blockBytes = 128 * 1024
const smallBytes = 32 * 1024
/** md5, BLAKE3, incarnation, placement group. */
const nameBytes = 68

export interface ArchiveRequest {
  /** Names the link. */
  link: string
  /** Who asks: his address. */
  viewer: string
  range: string | undefined
  ifRange: string | string[] | undefined
}

export interface Archive extends Representation {
  /** Its first byte is being sent. */
  begun(): void
}

interface Kept {
  layout: ZipLayout
  /** 64 bytes for each entry of the tree; zeros for folders. */
  blobNames: Buffer
  name: string
  /** Monotonic time at which it was begun last. */
  keptMs: number
}

export class Archives {
  readonly #blobs: BlobStore
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()
  readonly #begunBy = new Map<string, string>()
  readonly #waiting: (() => void)[] = []
  /** Layouts that responses are being read from, and by how many. */
  readonly #running = new Map<Kept, number>()
  #keptBytes = 0
  #runningBytes = 0
  #heldEntries = 0
  #making = 0

  constructor({ blobs, clock }: { blobs: BlobStore; clock: Clock }) {
    this.#blobs = blobs
    this.#clock = clock
  }

  /** @throws Refusal error-unavailable while too much is being made or sent. */
  async open(manifest: Manifest, request: ArchiveRequest): Promise<Archive> {
    const current = this.#known(await this.#make(manifest), request)
    const begunBefore = this.#continued(request)
    if (begunBefore === undefined || begunBefore.layout.digest === current.layout.digest) {
      return this.#archive(current, request)
    }
    const still = await contains(current.blobNames, begunBefore)
    return still ? this.#archive(begunBefore, request) : this.#archive(current, request, { whole: true })
  }

  /** The layout this request means to continue, if it was kept. */
  #continued({ link, viewer, range, ifRange }: ArchiveRequest): Kept | undefined {
    if (range === undefined || /^\s*bytes\s*=\s*0*-?\s*$/.test(range)) return undefined
    const named = typeof ifRange === 'string' ? /^"zip-([0-9a-f]+)"$/.exec(ifRange.trim())?.[1] : undefined
    const digest = ifRange === undefined ? this.#begunBy.get(`${link} ${viewer}`) : named
    const kept = digest === undefined ? undefined : this.#kept.get(`${link} ${digest}`)
    return kept === undefined || this.#clock.monotonic() - kept.keptMs > keptMs ? undefined : kept
  }

  #archive(kept: Kept, request: ArchiveRequest, { whole = false } = {}): Archive {
    const { layout, name } = kept
    const current = { etag: `"zip-${layout.digest}"`, modifiedSeconds: undefined }
    return {
      ...current,
      size: layout.size,
      validators: validatorsOf(current),
      headers: fileHeaders(`${name}.zip`, 'application/zip'),
      ...(whole ? { ignoresRange: true } : {}),
      begun: () => this.#keep(kept, request),
      read: (range, signal) => this.#read(kept, range, signal),
    }
  }

  /** The kept one when it is the same, so that a folder many fetch is held once. */
  #known(made: Kept, { link }: ArchiveRequest): Kept {
    const known = this.#kept.get(`${link} ${made.layout.digest}`) ?? made
    if (
      this.#runningBytes + bytesOf(known) > runningBytesMax &&
      this.#running.size > 0 &&
      !this.#running.has(known)
    ) {
      throw new Refusal('error-unavailable', { retryAfter: 10 })
    }
    return known
  }

  async #make(manifest: Manifest): Promise<Kept> {
    const { entries } = manifest
    if (this.#heldEntries > 0 && this.#heldEntries + entries.length > heldEntriesMax) {
      throw new Refusal('error-unavailable', { retryAfter: 2 })
    }
    this.#heldEntries += entries.length
    await this.#enter()
    try {
      const steps = layOutInSlices(entries)
      let step = steps.next()
      for (; !step.done; step = steps.next()) await immediate()
      const blobNames = Buffer.alloc(entries.length * nameBytes)
      for (const [index, { blob }] of entries.entries()) {
        if (index % sliceEntries === sliceEntries - 1) await immediate()
        if (blob === undefined) continue
        blobNames.set(blob.id, index * nameBytes)
        blobNames.set(blob.incarnation, index * nameBytes + 48)
        blobNames.writeUInt32LE(blob.placementGroup, index * nameBytes + 64)
      }
      return { layout: step.value, blobNames, name: entries[0]?.name ?? 'archive', keptMs: 0 }
    } finally {
      this.#heldEntries -= entries.length
      this.#leave()
    }
  }

  async #enter(): Promise<void> {
    if (this.#making < makingMax) this.#making += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** The place goes straight to who waits longest. */
  #leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#making -= 1
    else next()
  }

  #keep(kept: Kept, { link, viewer }: ArchiveRequest): void {
    this.#begunBy.delete(`${link} ${viewer}`)
    this.#begunBy.set(`${link} ${viewer}`, kept.layout.digest)
    for (const [oldest] of this.#begunBy) {
      if (this.#begunBy.size <= viewersMax) break
      this.#begunBy.delete(oldest)
    }
    const key = `${link} ${kept.layout.digest}`
    this.#drop(key)
    kept.keptMs = this.#clock.monotonic()
    this.#kept.set(key, kept)
    this.#keptBytes += bytesOf(kept)
    for (const [oldest] of this.#kept) {
      if (this.#keptBytes <= keptBytesMax) break
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key)
    if (kept === undefined) return
    this.#kept.delete(key)
    this.#keptBytes -= bytesOf(kept)
  }

  async *#read(kept: Kept, range: ByteRange, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const running = new AbortController()
    this.#hold(kept)
    const progress = { at: range.start }
    void this.#keepPinned(kept, { progress, end: range.end, signal: running.signal }).catch(() => undefined)
    try {
      for await (const bytes of inBlocks(this.#pieces(kept, range, signal))) {
        yield bytes
        progress.at += bytes.length
      }
    } finally {
      running.abort()
      this.#release(kept)
    }
  }

  #hold(kept: Kept): void {
    const readers = this.#running.get(kept) ?? 0
    this.#running.set(kept, readers + 1)
    if (readers === 0) this.#runningBytes += bytesOf(kept)
  }

  #release(kept: Kept): void {
    const readers = (this.#running.get(kept) ?? 1) - 1
    if (readers > 0) {
      this.#running.set(kept, readers)
      return
    }
    this.#running.delete(kept)
    this.#runningBytes -= bytesOf(kept)
  }

  async *#pieces(
    { layout, blobNames }: Kept,
    range: ByteRange,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    for (const piece of layout.pieces(range.start, range.end)) {
      if ('bytes' in piece) yield piece.bytes
      else yield* storedBytes(this.#blobs, blobNameOf(blobNames, piece.file), piece, signal)
    }
  }

  /** Pins what is still to be sent, again and again while the response runs. A blob that is gone makes its read fail, which cuts the response. */
  async #keepPinned(
    { layout, blobNames }: Kept,
    { progress, end, signal }: { progress: { at: number }; end: number; signal: AbortSignal },
  ): Promise<void> {
    while (!signal.aborted) {
      for (const file of layout.files(progress.at, end)) {
        if (signal.aborted) return
        // One that fails is tried again in the next turn, while its last pin still holds, and ends none of the others'.
        await this.#blobs.pin(blobNameOf(blobNames, file), { ttlMs: pinMs }).catch(() => false)
      }
      await delay(pinMs / 2, undefined, { signal, ref: false })
    }
  }
}

function blobNameOf(blobNames: Buffer, entry: number) {
  const at = entry * nameBytes
  return {
    id: blobNames.subarray(at, at + 48),
    incarnation: blobNames.subarray(at + 48, at + 64),
    placementGroup: blobNames.readUInt32LE(at + 64),
  }
}

function bytesOf({ layout, blobNames }: Kept): number {
  return layout.bytes + blobNames.length
}

/** Is every content of the kept archive among these? */
async function contains(current: Buffer, { layout, blobNames }: Kept): Promise<boolean> {
  const there = new Set<string>()
  for (let at = 0; at < current.length; at += nameBytes) {
    if (at % (sliceEntries * nameBytes) === (sliceEntries - 1) * nameBytes) await immediate()
    there.add(current.toString('latin1', at, at + nameBytes))
  }
  let looked = 0
  for (const file of layout.files()) {
    if (++looked % sliceEntries === 0) await immediate()
    if (!there.has(blobNames.toString('latin1', file * nameBytes, (file + 1) * nameBytes))) return false
  }
  return true
}

/** Small pieces copied together, so that thousands of small files are not thousands of writes; large ones as they are. */
async function* inBlocks(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const block = Buffer.allocUnsafeSlow(blockBytes)
  let used = 0
  for await (const piece of pieces) {
    if (used > 0 && (piece.length > smallBytes || used + piece.length > blockBytes)) {
      yield block.subarray(0, used)
      used = 0
    }
    if (piece.length > smallBytes) {
      yield piece
    } else {
      block.set(piece, used)
      used += piece.length
    }
  }
  if (used > 0) yield block.subarray(0, used)
}

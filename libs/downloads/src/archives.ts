/**
 * Folders as ZIP archives that can be resumed.
 *
 * The account reports the folder's current content, and the layout follows from it. An interrupted
 * client continues the archive that it began, even if the folder changed since. For this, used
 * layouts are kept for some hours, and one is used again while all its content is still in the
 * folder. Removed content is not sent any more: the client then gets the whole new archive instead
 * of a range, never a mixture.
 */

import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises'
import type { BlobStore } from '@holdfast/blob-store'
import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { BlockChecks } from '@holdfast/moderation'
import { blobNameBytes, bytesOf, type FolderLayout, FolderLayouts, type FolderNow } from './folder-layouts.ts'
import { type ByteRange, isFromStart } from './ranges.ts'
import { type Representation, validatorsOf } from './representation.ts'
import { fileHeaders } from './safe-headers.ts'
import { storedBytes } from './stored-bytes.ts'

const keptMs = 6 * 60 * 60 * 1000
/** A folder of a million items has a layout of about 150 MB. */
const keptBytesMax = 256 * 1024 * 1024
/** Layouts of running responses; beyond it new ones are refused. */
const runningBytesMax = 1024 * 1024 * 1024
/** Which client began which archive: some 200 bytes each. */
const viewersMax = 10_000
/** Blobs of a running response are pinned for this long, and again before the pin ends. */
const pinMs = 10 * 60 * 1000
/** A failed pin is retried after this time. */
const pinRetryMs = 500
/**
 * Pinned in a turn of the loop, of all responses together: an archive may have ten thousand files,
 * and a hundred may begin at a time. A blob that is no longer referred to stays for longer than the
 * last of these pins waits.
 */
const pinsPerTurn = 64
/** Entries examined between two turns of the loop. */
const sliceEntries = 4_096
/** Headers and small files are sent together in blocks. */
const blockBytes = 128 * 1024
const smallBytes = 32 * 1024
/** Of a block: a thousand tiny files would be read in one go. */
const blockPiecesMax = 64

export interface ArchiveRequest {
  /** Names the link. */
  link: string
  /** The client's address. */
  viewer: string
  range: string | undefined
  ifRange: string | string[] | undefined
}

export interface Archive extends Representation {
  /** Its first byte is being sent. */
  begun(): void
}

interface KeptLayout {
  laid: FolderLayout
  /** Monotonic time of its last start. */
  keptMs: number
}

export class Archives {
  readonly #blobs: BlobStore
  readonly #blocked: BlockChecks
  readonly #clock: Clock
  readonly #layouts: FolderLayouts
  readonly #kept = new Map<string, KeptLayout>()
  readonly #begunBy = new Map<string, string>()
  /** Layouts in use by responses, and by how many. */
  readonly #running = new Map<FolderLayout, number>()
  /** The version of the operator's lists at which nothing in the layout was blocked. */
  readonly #openAt = new WeakMap<FolderLayout, number>()
  /** Responses that wait to pin their next files. */
  readonly #pinning: (() => void)[] = []
  #keptBytes = 0
  #runningBytes = 0

  constructor({ blobs, blocked, clock }: { blobs: BlobStore; blocked: BlockChecks; clock: Clock }) {
    this.#blobs = blobs
    this.#blocked = blocked
    this.#clock = clock
    this.#layouts = new FolderLayouts(clock)
  }

  /**
   * @throws RefusalError error-blocked when the operator took anything in it down,
   *   error-unavailable while too much is being made or sent; and what the request for the manifest
   * throws.
   */
  async open(now: FolderNow, request: ArchiveRequest): Promise<Archive> {
    const current = this.#known(await this.#layouts.of(now), request)
    const begunBefore = this.#continued(request)
    if (begunBefore === undefined || begunBefore.layout.digest === current.layout.digest) {
      return await this.#archive(current, request)
    }
    const still = await contains(current.blobNames, begunBefore)
    return still ? this.#archive(begunBefore, request) : this.#archive(current, request, { whole: true })
  }

  /** The layout that this request continues, if it was kept. */
  #continued({ link, viewer, range, ifRange }: ArchiveRequest): FolderLayout | undefined {
    if (range === undefined || isFromStart(range)) return undefined
    const named = typeof ifRange === 'string' ? /^"zip-([0-9a-f]+)"$/.exec(ifRange.trim())?.[1] : undefined
    const digest = ifRange === undefined ? this.#begunBy.get(`${link} ${viewer}`) : named
    const kept = digest === undefined ? undefined : this.#kept.get(`${link} ${digest}`)
    return kept === undefined || this.#clock.monotonic() - kept.keptMs > keptMs ? undefined : kept.laid
  }

  async #archive(laid: FolderLayout, request: ArchiveRequest, { whole = false } = {}): Promise<Archive> {
    await this.#refuseBlocked(laid)
    const { layout, name } = laid
    const current = { etag: `"zip-${layout.digest}"`, modifiedSeconds: undefined }
    return {
      ...current,
      size: layout.size,
      validators: validatorsOf(current),
      headers: fileHeaders(`${name}.zip`, 'application/zip', { inPlace: false }),
      ...(whole ? { ignoresRange: true } : {}),
      begun: () => this.#keep(laid, request),
      read: (range, signal) => this.#read(laid, range, signal),
    }
  }

  async #refuseBlocked(laid: FolderLayout): Promise<void> {
    const { version } = this.#blocked
    if (this.#openAt.get(laid) === version) return
    let looked = 0
    for (const file of laid.layout.files()) {
      if (++looked % sliceEntries === 0) await immediate()
      if (this.#blocked.blocksBlob(blobNameOf(laid.blobNames, file).id))
        throw new RefusalError('error-blocked')
    }
    this.#openAt.set(laid, version)
  }

  /** The kept one when it is equal, so that a folder with many readers is held once. */
  #known(current: FolderLayout, { link }: ArchiveRequest): FolderLayout {
    const kept = this.#kept.get(`${link} ${current.layout.digest}`)?.laid
    const known = kept?.blobNames.equals(current.blobNames) ? kept : current
    if (
      this.#runningBytes + bytesOf(known) > runningBytesMax &&
      this.#running.size > 0 &&
      !this.#running.has(known)
    ) {
      throw new RefusalError('error-unavailable', { retryAfter: 10 })
    }
    return known
  }

  #keep(laid: FolderLayout, { link, viewer }: ArchiveRequest): void {
    this.#begunBy.delete(`${link} ${viewer}`)
    this.#begunBy.set(`${link} ${viewer}`, laid.layout.digest)
    for (const [oldest] of this.#begunBy) {
      if (this.#begunBy.size <= viewersMax) break
      this.#begunBy.delete(oldest)
    }
    const key = `${link} ${laid.layout.digest}`
    this.#drop(key)
    this.#kept.set(key, { laid, keptMs: this.#clock.monotonic() })
    this.#keptBytes += bytesOf(laid)
    for (const [oldest] of this.#kept) {
      if (this.#keptBytes <= keptBytesMax) break
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key)
    if (kept === undefined) return
    this.#kept.delete(key)
    this.#keptBytes -= bytesOf(kept.laid)
  }

  async *#read(laid: FolderLayout, range: ByteRange, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const running = new AbortController()
    this.#hold(laid)
    const progress = { at: range.start }
    // Ends only by the abort: a failed pin is retried there.
    void this.#keepPinned(laid, { progress, end: range.end, signal: running.signal }).catch(() => undefined)
    try {
      for await (const bytes of inBlocks(this.#pieces(laid, range, signal))) {
        yield bytes
        progress.at += bytes.length
      }
    } finally {
      running.abort()
      this.#release(laid)
    }
  }

  #hold(laid: FolderLayout): void {
    const readers = this.#running.get(laid) ?? 0
    this.#running.set(laid, readers + 1)
    if (readers === 0) this.#runningBytes += bytesOf(laid)
  }

  #release(laid: FolderLayout): void {
    const readers = (this.#running.get(laid) ?? 1) - 1
    if (readers > 0) {
      this.#running.set(laid, readers)
      return
    }
    this.#running.delete(laid)
    this.#runningBytes -= bytesOf(laid)
  }

  async *#pieces(
    { layout, blobNames }: FolderLayout,
    range: ByteRange,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    for (const piece of layout.pieces(range.start, range.end)) {
      if ('bytes' in piece) yield piece.bytes
      else yield* storedBytes(this.#blobs, blobNameOf(blobNames, piece.file), piece, signal)
    }
  }

  /**
   * Pins what is still to be sent, repeatedly while the response runs. If a blob is gone its read
   * fails, which cuts the response.
   */
  async #keepPinned(
    { layout, blobNames }: FolderLayout,
    { progress, end, signal }: { progress: { at: number }; end: number; signal: AbortSignal },
  ): Promise<void> {
    while (!signal.aborted) {
      const againMs = this.#clock.monotonic() + pinMs / 2
      let failed = await this.#pin(layout.files(progress.at, end), blobNames, signal)
      while (failed.length > 0 && this.#clock.monotonic() < againMs) {
        await delay(pinRetryMs, undefined, { signal, ref: false })
        failed = await this.#pin(failed, blobNames, signal)
      }
      await delay(Math.max(0, againMs - this.#clock.monotonic()), undefined, { signal, ref: false })
    }
  }

  /** @returns those whose pin failed; they do not affect the others. */
  async #pin(files: Iterable<number>, blobNames: Buffer, signal: AbortSignal): Promise<number[]> {
    const failed: number[] = []
    let pinned = 0
    for (const file of files) {
      if (pinned++ % pinsPerTurn === 0) await this.#pinTurn()
      if (signal.aborted) break
      await this.#blobs.pin(blobNameOf(blobNames, file), { ttlMs: pinMs }).catch(() => failed.push(file))
    }
    return failed
  }

  /** One response in each turn of the loop, in order of arrival. */
  #pinTurn(): Promise<void> {
    return new Promise((resolve) => {
      this.#pinning.push(resolve)
      if (this.#pinning.length === 1) setImmediate(() => this.#nextPins())
    })
  }

  #nextPins(): void {
    this.#pinning.shift()?.()
    if (this.#pinning.length > 0) setImmediate(() => this.#nextPins())
  }
}

function blobNameOf(blobNames: Buffer, entry: number) {
  const at = entry * blobNameBytes
  return {
    id: blobNames.subarray(at, at + 48),
    incarnation: blobNames.subarray(at + 48, at + 64),
    placementGroup: blobNames.readUInt32LE(at + 64),
  }
}

/** Is every content of the kept archive among these? */
async function contains(current: Buffer, { layout, blobNames }: FolderLayout): Promise<boolean> {
  const there = new Set<string>()
  for (let at = 0; at < current.length; at += blobNameBytes) {
    if (at % (sliceEntries * blobNameBytes) === (sliceEntries - 1) * blobNameBytes) await immediate()
    there.add(current.toString('latin1', at, at + blobNameBytes))
  }
  let looked = 0
  for (const file of layout.files()) {
    if (++looked % sliceEntries === 0) await immediate()
    if (!there.has(blobNames.toString('latin1', file * blobNameBytes, (file + 1) * blobNameBytes)))
      return false
  }
  return true
}

/**
 * Small pieces are copied together, so that thousands of small files are not thousands of writes;
 * large ones stay as they are.
 */
async function* inBlocks(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const block = Buffer.allocUnsafeSlow(blockBytes)
  let used = 0
  let count = 0
  for await (const piece of pieces) {
    const isFull = piece.length > smallBytes || used + piece.length > blockBytes || count === blockPiecesMax
    if (used > 0 && isFull) {
      yield block.subarray(0, used)
      used = 0
      count = 0
    }
    count++
    if (piece.length > smallBytes) {
      yield piece
    } else {
      block.set(piece, used)
      used += piece.length
    }
  }
  if (used > 0) yield block.subarray(0, used)
}

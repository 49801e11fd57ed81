/**
 * Folders as ZIP archives that can be resumed.
 *
 * The account reports the folder's current content, and the layout follows from it. An interrupted
 * client continues the archive that it began, even if the folder changed since. For this, used
 * layouts are kept for some hours, and one is used again while all its content is still in the
 * folder. Removed content is not sent any more: the client then gets the whole new archive instead
 * of a range, never a mixture.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { type BlobStore, pinMsMax } from '@holdfast/blob-store'
import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { BlockChecks } from '@holdfast/moderation'
import { type ByteRange, isFromStart } from '../bytes/ranges.ts'
import { type Representation, validatorsOf } from '../bytes/representation.ts'
import { fileHeaders } from '../bytes/safe-headers.ts'
import { storedBytes } from '../bytes/stored-bytes.ts'
import {
  blobNameBytes,
  type FolderLayout,
  FolderLayouts,
  type FolderNow,
  layoutBytes,
  type Slices,
} from './folder-layouts.ts'
import { LayoutBudget } from './layout-budget.ts'

const keptMs = 6 * 60 * 60 * 1000
/** Which client began which archive: some 200 bytes each. */
const viewersMax = 10_000
/** A failed pin is retried after this time. */
const pinRetryMs = 500
/**
 * Pins in one turn of the loop, for all responses together: an archive may have ten thousand files,
 * and a hundred archives may begin at a time. A blob that has lost its references stays for longer
 * than the last of these pins waits.
 */
const pinsPerTurn = 64
/** Entries examined in one piece of work: less than a millisecond. */
const sliceEntries = 1_024
/** Headers and small files are sent together in blocks. */
const blockBytes = 128 * 1024
const smallBytes = 32 * 1024
/** Pieces of a block: a thousand tiny files would be read in one go. */
const blockPiecesMax = 64

export interface ArchiveRequest {
  /** Names the link. */
  link: string
  /** The client's address. */
  viewer: string
  /** The network of the client. */
  network: string
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
  /** No longer keeps it. */
  release: () => void
}

export class Archives {
  readonly #blobs: BlobStore
  readonly #blocked: BlockChecks
  readonly #clock: Clock
  readonly #slices: Slices
  readonly #budget: LayoutBudget
  readonly #layouts: FolderLayouts
  readonly #kept = new Map<string, KeptLayout>()
  readonly #begunBy = new Map<string, string>()
  /** Whether something in a layout is blocked, as of this version of the operator's lists. */
  readonly #looked = new WeakMap<FolderLayout, { version: number; isBlocked: Promise<boolean> }>()
  /** Responses that wait to pin their next files. */
  readonly #pinning: (() => void)[] = []
  constructor({
    blobs,
    blocked,
    clock,
    slices,
    budget = new LayoutBudget(),
  }: {
    blobs: BlobStore
    blocked: BlockChecks
    clock: Clock
    slices: Slices
    budget?: LayoutBudget
  }) {
    this.#blobs = blobs
    this.#blocked = blocked
    this.#clock = clock
    this.#slices = slices
    this.#budget = budget
    this.#layouts = new FolderLayouts({ clock, budget, slices })
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
    const still =
      (await this.#inPieces(request.network, contains(current.blobNames, begunBefore))) &&
      !(await this.#isBlocked(begunBefore, request))
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
    if (await this.#isBlocked(laid, request)) throw new RefusalError('error-blocked')
    this.#budget.admit(laid, { bytes: layoutBytes(laid), network: request.network })
    const { layout, name } = laid
    const current = { etag: `"zip-${layout.digest}"`, modifiedSeconds: undefined }
    return {
      ...current,
      size: layout.size,
      validators: validatorsOf(current),
      headers: fileHeaders(`${name}.zip`, 'application/zip', { inPlace: false }),
      ignoresRange: whole,
      begun: () => this.#keep(laid, request),
      read: (range, signal) => this.#read(laid, range, { network: request.network, signal }),
    }
  }

  /** Concurrent requests for a layout share one check. */
  async #isBlocked(laid: FolderLayout, { network }: ArchiveRequest): Promise<boolean> {
    const { version } = this.#blocked
    const known = this.#looked.get(laid)
    if (known?.version === version) return await known.isBlocked
    const isBlocked = this.#inPieces(network, this.#looking(laid))
    this.#looked.set(laid, { version, isBlocked })
    return await isBlocked
  }

  *#looking({ layout, blobNames }: FolderLayout): Generator<void, boolean> {
    let looked = 0
    for (const file of layout.files()) {
      if (++looked % sliceEntries === 0) yield
      if (this.#blocked.blocksBlob(blobNameOf(blobNames, file).id)) return true
    }
    return false
  }

  /**
   * Work of all archives together takes some milliseconds of a turn of the loop. A slice of each in
   * every turn would make a turn of seconds when hundreds begin.
   */
  async #inPieces<T>(network: string, steps: Generator<void, T>): Promise<T> {
    let step = await this.#slices.take(network, () => steps.next())
    while (!step.done) step = await this.#slices.take(network, () => steps.next())
    return step.value
  }

  /** The kept one when it is equal, so that a folder with many readers is held once. */
  #known(current: FolderLayout, { link }: ArchiveRequest): FolderLayout {
    const kept = this.#kept.get(`${link} ${current.layout.digest}`)?.laid
    return kept?.blobNames.equals(current.blobNames) ? kept : current
  }

  #keep(laid: FolderLayout, { link, viewer, network }: ArchiveRequest): void {
    this.#begunBy.delete(`${link} ${viewer}`)
    this.#begunBy.set(`${link} ${viewer}`, laid.layout.digest)
    for (const [oldest] of this.#begunBy) {
      if (this.#begunBy.size <= viewersMax) break
      this.#begunBy.delete(oldest)
    }
    const key = `${link} ${laid.layout.digest}`
    const before = this.#kept.get(key)
    const kept: KeptLayout = { laid, keptMs: this.#clock.monotonic(), release: () => {} }
    this.#kept.set(key, kept)
    kept.release = this.#budget.keep(laid, { bytes: layoutBytes(laid), network }, () => {
      if (this.#kept.get(key) === kept) this.#kept.delete(key)
    })
    before?.release()
  }

  async *#read(
    laid: FolderLayout,
    range: ByteRange,
    { network, signal }: { network: string; signal: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    const running = new AbortController()
    const release = this.#budget.use(laid, { bytes: layoutBytes(laid), network })
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
      release()
    }
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
      const againMs = this.#clock.monotonic() + pinMsMax / 2
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
      await this.#blobs.pin(blobNameOf(blobNames, file), { ttlMs: pinMsMax }).catch(() => failed.push(file))
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
function* contains(current: Buffer, { layout, blobNames }: FolderLayout): Generator<void, boolean> {
  const there = new Set<string>()
  for (let at = 0; at < current.length; at += blobNameBytes) {
    if (at % (sliceEntries * blobNameBytes) === (sliceEntries - 1) * blobNameBytes) yield
    there.add(current.toString('latin1', at, at + blobNameBytes))
  }
  let looked = 0
  for (const file of layout.files()) {
    if (++looked % sliceEntries === 0) yield
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

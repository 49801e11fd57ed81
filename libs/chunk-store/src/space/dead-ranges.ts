/**
 * Ranges of an extent that no copy and no reader needs. Only payloads of whole headers; headers
 * themselves stay: a rebuild needs their entries to know what was deleted, and a scan needs them to
 * continue.
 */

import { BlobFault } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'
import type { Copy, RowCache, RowEntry } from '../catalogue/rows.ts'
import type { FileRange } from '../disk/blocks.ts'
import type { Extent } from '../extents/extent.ts'
import { UnreadBlocks, walk } from '../extents/scan.ts'
import {
  blockBytes,
  type DataHeader,
  firstRecordOffset,
  type GroupHeader,
  type HeaderSeal,
  recordBytes,
} from '../format.ts'
import { alignUp } from '../numbers.ts'
import { bytesOfRun } from '../writing/ledger.ts'

export interface DeadRangesDeps {
  rows: RowCache
  seal: HeaderSeal
  /** As for `walk`. */
  window: Buffer
  /** The blob that an upload became, if it is live. */
  blobOf(incarnation: Buffer): Promise<Buffer | undefined>
  /** Lets others use the device; called once per MiB. @returns false to end. */
  goOn(): Promise<boolean>
}

/**
 * @param extent sealed, and no upload that may still be committed has written to it.
 * @returns multiples of 4 KiB, in order. Their content is permanently dead: no new reader reads a
 *   deleted copy, and a copy restored under its name is at another place. Undefined when it was
 *   stopped, or so much was deleted meanwhile that another look is needed.
 * @throws BlobFault `CORRUPT` when less was found alive than there is: then records that look dead
 *   may be the missing ones.
 */
export async function deadRanges(extent: Extent, deps: DeadRangesDeps): Promise<FileRange[] | undefined> {
  const { liveBytes } = extent
  const found = new DeadRangeScan(extent, deps)
  if (!(await findAll(extent, found, deps))) return undefined
  // Nothing new becomes live in it. Deletions before the look also reduce the count: then missing
  // records cannot be distinguished from them.
  if (found.liveBytes >= liveBytes) return found.dead.sort((a, b) => a.from - b.from)
  if (extent.liveBytes < liveBytes) return undefined
  throw new BlobFault(
    'CORRUPT',
    `extent ${extent.number}: ${found.liveBytes} of ${liveBytes} live bytes were found`,
  )
}

/** @returns false when it was stopped. */
async function findAll(extent: Extent, found: DeadRangeScan, deps: DeadRangesDeps): Promise<boolean> {
  let restsAt = 0
  // Many at once, so that the catalogue is read once for all their blobs.
  let groups: Promise<void>[] = []
  try {
    const missed = new UnreadBlocks()
    for await (const record of walk(extent, firstRecordOffset, { ...deps, missed })) {
      if (record.kind === 'data') await found.data(record)
      else {
        const looked = found.group(record)
        looked.catch(() => {}) // thrown below
        groups.push(looked)
      }
      if (record.offset < restsAt) continue
      restsAt = record.offset + deps.window.length
      await Promise.all(groups)
      groups = []
      if (!(await deps.goOn())) return false
    }
    await Promise.all(groups)
    if (missed.blocks > 0)
      throw new BlobFault('CORRUPT', `extent ${extent.number}: ${missed.blocks} blocks cannot be read`)
    return true
  } finally {
    await Promise.allSettled(groups)
  }
}

interface UploadRanges {
  live: readonly FileRange[]
  held: readonly FileRange[]
}

class DeadRangeScan {
  readonly dead: FileRange[] = []
  /** As the ledger counts them. */
  liveBytes = 0
  readonly #extent: Extent
  readonly #deps: DeadRangesDeps
  readonly #uploads = new Map<string, UploadRanges>()

  constructor(extent: Extent, deps: DeadRangesDeps) {
    this.#extent = extent
    this.#deps = deps
  }

  async data(record: DataHeader): Promise<void> {
    const name = hex(record.uploadId)
    const needed = this.#uploads.get(name) ?? (await this.#neededOf(record.uploadId))
    this.#uploads.set(name, needed)
    const holds = ({ from, to }: FileRange) => from <= record.offset && record.offset < to
    const bytes = recordBytes(record)
    if (needed.live.some(holds)) this.liveBytes += bytes
    else if (!needed.held.some(holds))
      this.dead.push({ from: record.offset + blockBytes, to: record.offset + bytes })
  }

  async group(group: GroupHeader): Promise<void> {
    const end = group.offset + group.headerBytes + group.payloadBytes
    const dead: FileRange[] = []
    const { rows } = this.#deps
    await Promise.all(
      group.entries.map(async (found) => {
        if (found.kind !== 'inline' && found.kind !== 'staged') return
        const entry = await rows.acquire(found.id)
        const from = found.kind === 'inline' ? group.offset + found.payloadOffset : undefined
        const stands = (copy: Copy) =>
          copy.commitExtent === this.#extent.number &&
          copy.commitGeneration === this.#extent.generation &&
          copy.sequence === group.sequence &&
          copy.incarnation.equals(found.incarnation) &&
          copy.inlineOffset === from
        const live = entry.copies.find(stands)
        const held = this.#held().some(stands)
        rows.release(entry)
        if (live !== undefined) this.liveBytes += live.entryBytes + (from === undefined ? 0 : live.size)
        if (live !== undefined || held || from === undefined) return
        const to = from + found.size
        // Behind the last one there are only the zeros up to the end of the record.
        dead.push({ from, to: to === end ? alignUp(to, blockBytes) : to })
      }),
    )
    for (const range of wholeBlocks(joinRanges(dead))) this.dead.push(range)
  }

  async #neededOf(uploadId: Buffer): Promise<UploadRanges> {
    const { rows, blobOf } = this.#deps
    const id = await blobOf(uploadId)
    let entry: RowEntry | undefined
    if (id !== undefined) entry = await rows.acquire(id)
    // From here to the end in one turn: a reader holds its range before that can be deleted.
    const ofUpload = ({ incarnation }: Copy) => incarnation.equals(uploadId)
    const live = (entry?.copies ?? []).filter(ofUpload).flatMap((copy) => this.#runsOf(copy))
    const held = this.#held()
      .filter(ofUpload)
      .flatMap((copy) => this.#runsOf(copy))
    if (entry !== undefined) rows.release(entry)
    return { live, held }
  }

  /** What readers of the extent read, or will. */
  #held(): Copy[] {
    const held: Copy[] = []
    for (const holder of this.#extent.holders)
      if ('copy' in holder && 'target' in holder) held.push(holder.copy as Copy, holder.target as Copy)
    return held
  }

  #runsOf(copy: Copy): FileRange[] {
    const { number, generation } = this.#extent
    return copy.runs
      .filter((run) => run.extent === number && run.generation === generation)
      .map((run) => ({ from: run.offset, to: run.offset + bytesOfRun(run) }))
  }
}

function joinRanges(ranges: FileRange[]): FileRange[] {
  const result: FileRange[] = []
  for (const { from, to } of ranges.sort((a, b) => a.from - b.from)) {
    const last = result.at(-1)
    if (last !== undefined && last.to === from) last.to = to
    else result.push({ from, to })
  }
  return result
}

function wholeBlocks(ranges: readonly FileRange[]): FileRange[] {
  return ranges
    .map(({ from, to }) => ({ from: alignUp(from, blockBytes), to: to - (to % blockBytes) }))
    .filter(({ from, to }) => from < to)
}

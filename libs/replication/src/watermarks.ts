/**
 * How far this node has followed each of the others: a vector over sources, kept in the notes of
 * the store that holds the copies, so that both are lost or kept together. A mark is saved after
 * everything it covers is synced: after a crash it is too low at worst.
 */
import type { BlobInfo, LogPosition, StoreNotes } from '@holdfast/blob-store'
import { hex } from '@holdfast/kernel'

export interface Watermark {
  /** This node has every copy up to this position, except those in `owed`. */
  position: LogPosition
  /** The groups for which this is true. */
  groups: readonly number[]
  /** Unix milliseconds of the source's clock: this node has what the source had at that time. */
  coveredMs: number
  /** When inventories were last compared, Unix milliseconds of this node's clock. */
  comparedMs: number
  /** Copies that no node could give whole: tried again each round. At most `owedMax`. */
  owed: readonly BlobInfo[]
}

/** More than this many missing copies stop a source's progress instead. */
export const owedMax = 200

export class Watermarks {
  readonly #notes: StoreNotes
  readonly #bySource = new Map<string, Watermark | undefined>()

  constructor(notes: StoreNotes) {
    this.#notes = notes
  }

  async of(source: string): Promise<Watermark | undefined> {
    if (!this.#bySource.has(source)) {
      const note = await this.#notes.note(noteName(source))
      this.#bySource.set(source, note && decodeWatermark(note))
    }
    return this.#bySource.get(source)
  }

  /**
   * Durable when it resolves; everything the mark covers must be durable before. If only the time
   * has changed, nothing is written: after a restart the mark then has an earlier time.
   */
  async save(source: string, mark: Watermark): Promise<void> {
    const before = this.#bySource.get(source)
    const encodedMark = encodeWatermark(mark)
    if (
      before === undefined ||
      !encodedMark.equals(encodeWatermark({ ...before, coveredMs: mark.coveredMs }))
    )
      await this.#notes.setNote(noteName(source), encodedMark)
    this.#bySource.set(source, mark)
  }

  /** The sources followed since the start, for heartbeats and metrics. */
  known(): [source: string, mark: Watermark][] {
    return [...this.#bySource].filter((entry): entry is [string, Watermark] => entry[1] !== undefined)
  }
}

function noteName(source: string): string {
  return `watermark/${source}`
}

const noteVersion = 1

/** JSON with bytes in hex: a few hundred bytes, written once a round. */
function encodeWatermark({ position, groups, coveredMs, comparedMs, owed }: Watermark): Buffer {
  return Buffer.from(
    JSON.stringify({
      version: noteVersion,
      store: hex(position.store),
      sequence: position.sequence,
      groups,
      coveredMs,
      comparedMs,
      owed: owed.map((copy) => ({ ...copy, id: hex(copy.id), incarnation: hex(copy.incarnation) })),
    }),
  )
}

/** Undefined when it cannot be read: the source is then followed from an inventory. */
function decodeWatermark(note: Uint8Array): Watermark | undefined {
  try {
    const { version, store, sequence, groups, coveredMs, comparedMs, owed } = JSON.parse(
      Buffer.from(note).toString('utf8'),
    )
    if (version !== noteVersion) return undefined
    return {
      position: { store: Buffer.from(store, 'hex'), sequence },
      groups,
      coveredMs,
      comparedMs,
      owed: owed.map((copy: { id: string; incarnation: string }) => ({
        ...copy,
        id: Buffer.from(copy.id, 'hex'),
        incarnation: Buffer.from(copy.incarnation, 'hex'),
      })),
    }
  } catch {
    return undefined
  }
}

/**
 * Copies whose bytes are damaged: they are set aside, counted, and replaced by the next upload of
 * the same content.
 */

import { type BlobFault, type BlobName, copyKey, type NodeStore, restoreCopy } from '@holdfast/blob-store'
import { blobIdBytes, hex } from '@holdfast/kernel'
import { type Copy, neverVerified, noHomes, type RowEntry } from '../catalogue/rows.ts'
import type { Run } from '../format.ts'
import type { Log } from '../log.ts'
import type { Reads } from '../reading/reads.ts'
import { infoOfCopy, type Ledger } from './ledger.ts'

/** Counted damaged copies, 150 bytes each. A store with more has lost its disk. */
const damagedKnownMax = 100_000

/** A sealed upload: small ones are in memory. */
export type UploadBody = { bytes: Uint8Array } | { runs: Run[] }

export interface DamagedCopiesDeps {
  store: Pick<NodeStore, 'stage'>
  reads: Reads
  ledger: Ledger
  log: Log
}

export class DamagedCopies {
  readonly #deps: DamagedCopiesDeps
  /** Names of the known ones: all of them once the inventory was walked. */
  readonly #names = new Set<string>()
  /** Those that an upload is replacing, by name. */
  readonly #replacing = new Map<string, Promise<void>>()
  #replaced = 0

  constructor(deps: DamagedCopiesDeps) {
    this.#deps = deps
  }

  get count(): number {
    return this.#names.size
  }

  /** How many were replaced since the start. */
  get replaced(): number {
    return this.#replaced
  }

  setAside(entry: RowEntry, copy: Copy, fault: BlobFault): void {
    if (copy.quarantined || !entry.copies.includes(copy)) return
    const { ledger, log } = this.#deps
    copy.quarantined = true
    this.add(entry.id, copy)
    ledger.touchRow(entry)
    ledger.kick()
    log.error({ blob: hex(entry.id), error: fault.message }, 'a blob is damaged')
  }

  add(id: Uint8Array, { incarnation }: Copy): void {
    if (this.#names.size < damagedKnownMax) this.#names.add(copyKey({ id, incarnation }))
  }

  forget(entry: RowEntry, copy: Copy): void {
    this.#names.delete(copyKey({ id: entry.id, incarnation: copy.incarnation }))
  }

  wasReplaced(entry: RowEntry, old: Copy): void {
    this.forget(entry, old)
    this.#replaced++
    this.#deps.log.warn({ blob: hex(entry.id) }, 'a damaged blob was replaced by a whole one')
  }

  /**
   * Writes the bytes of an upload under the name of the damaged copy, so that all references to
   * that copy get them. Data records name their upload, so the staged bytes are read back and
   * written once more. If that fails the upload becomes its own copy.
   */
  async replace(
    entry: RowEntry,
    damaged: Copy,
    upload: { incarnation: Buffer; body: UploadBody; pinMs: number },
  ): Promise<void> {
    const name = copyKey({ id: entry.id, incarnation: damaged.incarnation })
    const running = this.#replacing.get(name)
    if (running !== undefined) return running
    const { store, log } = this.#deps
    const info = infoOfCopy(entry.id, damaged)
    const { pinMs } = upload
    const bytes = this.#staged(entry, damaged, upload)
    const replacing = restoreCopy(store, info, bytes, { pinMs, source: 'an upload' })
      .then(
        () => {},
        (error: BlobFault) =>
          log.error(
            { blob: hex(entry.id), code: error.code, error: error.message },
            'a damaged blob could not be replaced by an upload',
          ),
      )
      .finally(() => this.#replacing.delete(name))
    this.#replacing.set(name, replacing)
    return replacing
  }

  /** The bytes of a sealed upload. */
  async *#staged(
    entry: RowEntry,
    { size, crc32 }: Copy,
    { incarnation, body }: { incarnation: Buffer; body: UploadBody },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if ('bytes' in body) {
      yield body.bytes
      return
    }
    yield* this.#deps.reads.readCopy(entry, {
      incarnation,
      size,
      crc32,
      runs: body.runs,
      createdMs: 0,
      placementGroup: 0,
      quarantined: false,
      sequence: 0,
      commitExtent: 0,
      commitGeneration: 0,
      earlierHomes: noHomes,
      entryBytes: 0,
      inlineOffset: undefined,
      verifiedAt: neverVerified,
    })
  }
}

/** The blob of a `copyKey`. */
export function parseBlobName(name: string): BlobName {
  const bytes = Buffer.from(name, 'latin1')
  return {
    id: bytes.subarray(0, blobIdBytes),
    incarnation: bytes.subarray(blobIdBytes),
    placementGroup: undefined,
  }
}

/**
 * What callers change: uploads become copies, copies are pinned and deleted. Each change is an
 * intent of the one writer, which decides it in its turn.
 */
import type { BlobFault, BlobInfo, BlobName, PlacedCommit } from '@holdfast/blob-store'
import { latin1, RecentMap } from '@holdfast/kernel'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { type RowCache, type RowEntry, uploadKey } from '../catalogue/rows.ts'
import type { Inventory } from '../reading/inventory.ts'
import type { BlobReader } from '../reading/reader.ts'
import { copyNamed } from '../reading/reads.ts'
import type { Space } from '../space/space.ts'
import { CommitIntent } from './commit-intent.ts'
import { type DamagedCopies, parseBlobName, type UploadBody } from './damaged-copies.ts'
import { DeleteIntent } from './delete-intent.ts'
import type { WriterDeps } from './group.ts'
import type { KnownCopies } from './known-copies.ts'
import { PinIntent } from './pin-intent.ts'
import type { ChunkStage } from './stage.ts'
import type { Writer } from './writer.ts'

/** Results of uploads that are remembered beyond their copies' rows, 250 bytes each. */
const outcomesMax = 16_384

export interface WritesDeps {
  /** What the writer and its intents act on. */
  writing: WriterDeps
  writer: Writer
  rows: RowCache
  catalogue: Catalogue
  inventory: Inventory
  known: KnownCopies
  damaged: DamagedCopies
  /** It remembers places of copies that are gone now. */
  reader: BlobReader
  space: Space
  /** Bytes of a copy are dead now. */
  released: () => void
  /** @throws BlobFault `CLOSED`. */
  assertOpen: () => void
}

export class Writes {
  readonly #deps: WritesDeps
  /** Results of the latest uploads, blob id ‖ incarnation, by upload id; all in latin1. */
  readonly #outcomes = new RecentMap<string, string>({ max: outcomesMax })

  constructor(deps: WritesDeps) {
    this.#deps = deps
  }

  async commit(
    stage: ChunkStage,
    { id, crc32 }: { id: Buffer; crc32: number },
    body: UploadBody,
    { pinMs, asNew, createdMs }: PlacedCommit,
  ): Promise<BlobInfo> {
    const { writing, writer, rows, known, damaged: damagedCopies } = this.#deps
    const found = rows.acquire(id)
    const entry = found instanceof Promise ? await found : found
    try {
      const { size, placementGroup } = stage
      const endedAt = writing.clock.monotonic()
      const looked = asNew ? undefined : known.look(entry, { size, placementGroup, endedAt })
      const damaged = looked instanceof Promise ? await looked : looked
      if (damaged !== undefined && damaged !== 'unsure')
        await damagedCopies.replace(entry, damaged, { incarnation: stage.uploadId, body, pinMs })
      const blob = {
        incarnation: stage.uploadId,
        size,
        crc32,
        createdMs: createdMs ?? writing.clock.now(),
        placementGroup,
      }
      const intent = new CommitIntent(writing, entry, blob, body, {
        pinMs,
        asNew: asNew || damaged === 'unsure',
        replaced: (old) => {
          this.#deps.reader.forget(old)
          damagedCopies.wasReplaced(entry, old)
          this.#deps.released()
        },
      })
      writer.submit(intent)
      const info = await intent.done
      this.#outcomes.set(latin1(stage.uploadId), latin1(info.id) + latin1(info.incarnation))
      return info
    } finally {
      rows.release(entry)
    }
  }

  /** The copy that an upload became, or that it was dropped for. */
  async committed(uploadId: Uint8Array): Promise<BlobInfo | undefined> {
    const { inventory } = this.#deps
    this.#deps.assertOpen()
    const outcome = this.#outcomes.get(latin1(uploadId))
    if (outcome !== undefined) return inventory.stat(parseBlobName(outcome))
    const id = await this.blobOf(Buffer.from(uploadId))
    return id && inventory.stat({ id, incarnation: uploadId, placementGroup: undefined })
  }

  /** The blob that an upload became, if it is live. */
  async blobOf(incarnation: Buffer): Promise<Buffer | undefined> {
    const { writing, catalogue } = this.#deps
    const key = uploadKey(incarnation)
    const noted = writing.ledger.noted(key)
    if (noted !== undefined) return noted.value
    const [id] = await catalogue.get([key])
    return id
  }

  async pin(blob: BlobName, { ttlMs, whole }: { ttlMs: number; whole: boolean }): Promise<boolean> {
    const { writing, writer, rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    try {
      if (whole && !(await this.#isReadable(entry, blob))) return false
      const intent = new PinIntent(writing, entry, blob.incarnation, { ttlMs, whole })
      writer.submit(intent)
      return await intent.done
    } finally {
      rows.release(entry)
    }
  }

  /** It is read for this. @throws BlobFault `IO` when it cannot be read. */
  async #isReadable(entry: RowEntry, { incarnation }: BlobName): Promise<boolean> {
    const { known } = this.#deps
    const copy = copyNamed(entry, incarnation)
    if (copy === undefined || copy.quarantined) return false
    try {
      await known.verify(entry, copy)
      return true
    } catch (error) {
      if ((error as BlobFault).code === 'CORRUPT') return false
      throw error
    }
  }

  async delete(blob: BlobName): Promise<'deleted' | 'pinned'> {
    const { rows, space } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    try {
      return await this.#delete(entry, blob.incarnation)
    } catch (error) {
      if ((error as BlobFault).code !== 'FULL') throw error
      // The disk is full to the last byte. Space reserved for this case lets the deletion be
      // written.
      await space.ballast.release()
      return await this.#delete(entry, blob.incarnation)
    } finally {
      rows.release(entry)
    }
  }

  #delete(entry: RowEntry, incarnation: Uint8Array): Promise<'deleted' | 'pinned'> {
    const { writing, writer, damaged, reader } = this.#deps
    const intent = new DeleteIntent(writing, entry, incarnation, (copy) => {
      reader.forget(copy)
      if (copy.quarantined) damaged.forget(entry, copy)
      this.#deps.released()
    })
    writer.submit(intent)
    return intent.done
  }
}

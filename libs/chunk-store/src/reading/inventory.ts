/** Which copies the store has: one by its name, those of one content, or all of them. */
import type { BlobInfo, BlobName } from '@holdfast/blob-store'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { blobPrefix, decodeCopies, type RowCache } from '../catalogue/rows.ts'
import type { DamagedCopies } from '../writing/damaged-copies.ts'
import { infoOfCopy, type Ledger } from '../writing/ledger.ts'
import { copyNamed } from './reads.ts'

const batchRows = 1000

export interface InventoryDeps {
  rows: RowCache
  catalogue: Catalogue
  ledger: Ledger
  damaged: DamagedCopies
  /** @throws BlobFault `CLOSED`. */
  assertOpen: () => void
}

export class Inventory {
  readonly #deps: InventoryDeps

  constructor(deps: InventoryDeps) {
    this.#deps = deps
  }

  async stat(blob: BlobName): Promise<BlobInfo | undefined> {
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(blob.id)
    try {
      const copy = copyNamed(entry, blob.incarnation)
      return copy && infoOfCopy(entry.id, copy)
    } finally {
      rows.release(entry)
    }
  }

  /** Whole copies of a content that are not being deleted. */
  async find(id: Uint8Array): Promise<BlobInfo[]> {
    const { rows } = this.#deps
    this.#deps.assertOpen()
    const entry = await rows.acquire(id)
    try {
      return entry.copies
        .filter((copy) => !copy.quarantined && !entry.deleting.includes(copy))
        .map((copy) => infoOfCopy(entry.id, copy))
    } finally {
      rows.release(entry)
    }
  }

  /** All copies, those of some placement groups when these are given. Damaged ones are noted. */
  async *all(groups: readonly number[] | undefined): AsyncGenerator<BlobInfo, void, undefined> {
    const { catalogue, damaged, ledger } = this.#deps
    this.#deps.assertOpen()
    await ledger.flush()
    let after: Buffer | undefined
    for (;;) {
      this.#deps.assertOpen()
      const rows = await catalogue.scan(blobPrefix, { after, limit: batchRows })
      for (const { key, value } of rows)
        for (const copy of decodeCopies(value)) {
          if (copy.quarantined) damaged.add(key.subarray(1), copy)
          if (groups?.includes(copy.placementGroup) !== false) yield infoOfCopy(key.subarray(1), copy)
        }
      after = rows.at(-1)?.key
      if (after === undefined) return
    }
  }
}

/** Small values that other parts keep by name, as rows of the catalogue. */
import { BlobFault, type StoreNotes } from '@holdfast/blob-store'
import type { Catalogue } from '../catalogue/catalogue.ts'
import { noteKey } from '../catalogue/rows.ts'
import type { Ledger } from './ledger.ts'

const noteBytesMax = 64 * 1024

export interface CatalogueNotesDeps {
  catalogue: Catalogue
  ledger: Ledger
  /** @throws BlobFault `CLOSED`. */
  assertOpen: () => void
}

export class CatalogueNotes implements StoreNotes {
  readonly #deps: CatalogueNotesDeps

  constructor(deps: CatalogueNotesDeps) {
    this.#deps = deps
  }

  async note(name: string): Promise<Uint8Array | undefined> {
    const { catalogue, ledger } = this.#deps
    this.#deps.assertOpen()
    const key = noteKey(name)
    const noted = ledger.noted(key)
    if (noted !== undefined) return noted.value
    const [value] = await catalogue.get([key])
    return value
  }

  /** @throws BlobFault `INVALID` beyond 64 KiB. */
  async setNote(name: string, value: Uint8Array | undefined): Promise<void> {
    const { ledger } = this.#deps
    this.#deps.assertOpen()
    if ((value?.length ?? 0) > noteBytesMax)
      throw new BlobFault('INVALID', `a note of ${value?.length} bytes, at most ${noteBytesMax}`)
    ledger.note(noteKey(name), value && Buffer.from(value))
    await ledger.flush()
  }
}

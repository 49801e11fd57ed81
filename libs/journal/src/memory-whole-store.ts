/** Journals and lookups in memory as one store that is copied as a whole. */
import type { MemoryJournalStore } from './memory-journal-store.ts'
import type { MemoryLookupStore } from './memory-lookup-store.ts'
import type { EntryWriter, StoredEntry, WholeStore } from './whole-store.ts'

export class MemoryWholeStore implements WholeStore {
  readonly #journals: MemoryJournalStore | undefined
  readonly #lookups: MemoryLookupStore

  /** @param stores.journals undefined: there are only lookups. */
  constructor({
    journals,
    lookups,
  }: {
    journals: MemoryJournalStore | undefined
    lookups: MemoryLookupStore
  }) {
    this.#journals = journals
    this.#lookups = lookups
  }

  async *accounts({ onDamaged }: Parameters<WholeStore['accounts']>[0]) {
    yield* this.#journals?.entries(onDamaged) ?? []
  }

  async *lookups() {
    yield* this.#lookups.entries()
  }

  async *counters() {
    yield* this.#lookups.counterEntries()
  }

  restoring(): EntryWriter {
    return {
      add: async (entry: StoredEntry) => {
        if (entry.kind === 'lookup' || entry.kind === 'counter') this.#lookups.putEntry(entry)
        else this.#journals?.putEntry(entry)
      },
      end: async () => {},
    }
  }
}

/** Journals and lookups in memory as one store that is copied as a whole. */
import type { MemoryJournalStore } from './memory-journal-store.ts'
import type { MemoryLookupStore } from './memory-lookup-store.ts'
import type { FactWriter, StoredFact, WholeStore } from './whole-store.ts'

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
    yield* this.#journals?.facts(onDamaged) ?? []
  }

  async *lookups() {
    yield* this.#lookups.facts()
  }

  async *counters() {
    yield* this.#lookups.counterFacts()
  }

  restoring(): FactWriter {
    return {
      add: async (fact: StoredFact) => {
        if (fact.kind === 'lookup' || fact.kind === 'counter') this.#lookups.putFact(fact)
        else this.#journals?.putFact(fact)
      },
      end: async () => {},
    }
  }
}

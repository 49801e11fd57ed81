import { type CassandraOptions, Connection } from './connection.ts'
import { CassandraJournalStore } from './journal-store.ts'
import { CassandraLookupStore } from './lookup-store.ts'

export type { CassandraOptions } from './connection.ts'

/** Journals and lookups of one region's data centre. */
export class CassandraMetadataStore {
  readonly journals: CassandraJournalStore
  readonly lookups: CassandraLookupStore
  readonly #connection: Connection

  private constructor(
    connection: Connection,
    termOf: (account: string) => number,
    claimed?: readonly string[],
  ) {
    this.#connection = connection
    this.journals = new CassandraJournalStore(connection, termOf)
    this.lookups = new CassandraLookupStore(connection, claimed)
  }

  /** Connects, makes keyspace and tables where they are missing. @throws JournalFault */
  static async open(
    options: CassandraOptions & {
      termOf?: (account: string) => number
      /** First segments of lookup keys that are ever claimed. */
      claimed?: readonly string[]
    },
  ): Promise<CassandraMetadataStore> {
    return new CassandraMetadataStore(
      await Connection.open(options),
      options.termOf ?? (() => 1),
      options.claimed,
    )
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}

import { JournalFault } from '@holdfast/journal'
import { CassandraConnection } from './connection.ts'
import { CassandraJournalStore } from './journal-store.ts'
import { CassandraLookupStore } from './lookup-store.ts'
import type { CassandraOptions, CassandraTuning } from './options.ts'
import { CassandraWholeStore } from './whole-store.ts'

export { isRefused } from './driver-faults.ts'
export { type LoginsOptions, makeLogins, replicateLogins } from './logins.ts'
export type { CassandraOptions, CassandraTuning } from './options.ts'
export type { PassStep, TakeFailure, TakenJournal } from './region-terms.ts'

export interface MetadataStoreOptions {
  /** The home term of an account. */
  termOf: (account: string) => number
  /** First segments of lookup keys that are ever claimed. */
  claimed: readonly string[]
  /**
   * The same keyspace in the data centre that would take over; undefined while it is unreachable.
   * What it needs is not deleted before the replacement has arrived there. Undefined: there is
   * no other data centre.
   */
  backup: (() => CassandraMetadataStore | undefined) | undefined
  /**
   * Whether the backup served the account in the previous term and is alive. Then everything is
   * read from it too, and it acknowledges nothing more. Otherwise only what has arrived here
   * counts.
   */
  handedOver: (account: string) => boolean
}

/** Journals and lookups of one region's data centre. */
export class CassandraMetadataStore {
  readonly journals: CassandraJournalStore
  readonly lookups: CassandraLookupStore
  /** All of it, for backups. */
  readonly whole: CassandraWholeStore
  readonly #connection: CassandraConnection

  private constructor(
    connection: CassandraConnection,
    { termOf, claimed, backup, handedOver }: MetadataStoreOptions,
  ) {
    this.#connection = connection
    const backedUpBy = () => {
      const other = backup?.()
      if (other === undefined) throw new JournalFault('UNAVAILABLE', 'the backup cannot be reached')
      return other.#connection
    }
    this.journals = new CassandraJournalStore(connection, {
      termOf,
      backup: backup && backedUpBy,
      handedOver,
    })
    this.lookups = new CassandraLookupStore(connection, claimed)
    this.whole = new CassandraWholeStore(connection)
  }

  /** Connects, and makes missing keyspaces and tables. @throws JournalFault */
  static async open(
    options: CassandraOptions & MetadataStoreOptions,
    tuning: CassandraTuning = {},
  ): Promise<CassandraMetadataStore> {
    return new CassandraMetadataStore(await CassandraConnection.open(options, tuning), options)
  }

  /** Data centres that have replicas of the keyspace. @throws JournalFault */
  dataCentres(): Promise<string[]> {
    return this.#connection.dataCentres()
  }

  /**
   * Replicas of a keyspace by data centre, also of another one than its own. Undefined: there is no
   * such keyspace. @throws JournalFault
   */
  replicasOf(keyspace: string): Promise<Record<string, number> | undefined> {
    return this.#connection.replicasOf(keyspace)
  }

  /**
   * Adds replicas in data centres that the keyspace lacks; no data centre loses its replicas. The
   * new replicas lack earlier rows until `nodetool rebuild`.
   * @returns those that it lacked. @throws JournalFault
   */
  addDataCentres(replication: Record<string, number>): Promise<string[]> {
    return this.#connection.addDataCentres(replication)
  }

  /** Nodes of its data centre, and those that this process has a connection to. */
  nodes(): { known: number; connected: number } {
    return this.#connection.nodes()
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}

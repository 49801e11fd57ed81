/**
 * One region's connection: local quorum for data, local serial for fences, everything prepared,
 * idempotence declared correctly.
 */

import { JournalFault } from '@holdfast/journal'
import cassandra from 'cassandra-driver'
import { faultOfDriver } from './driver-faults.ts'
import { migrations as ownMigrations } from './migrations.ts'
import { newClient } from './new-client.ts'
import type { CassandraOptions, CassandraTuning } from './options.ts'
import { addDataCentres, isCurrent, makeKeyspace, migrate, replicasOf, type SchemaOptions } from './schema.ts'

const { consistencies } = cassandra.types

export type CassandraRow = cassandra.types.Row
export interface Statement {
  query: string
  params: unknown[]
}

export class CassandraConnection {
  readonly #client: cassandra.Client
  readonly #dataCentre: string
  readonly #keyspace: string
  readonly #onRequest: CassandraOptions['onRequest']

  private constructor(client: cassandra.Client, { dataCentre, keyspace, onRequest }: CassandraOptions) {
    this.#client = client
    this.#dataCentre = dataCentre
    this.#keyspace = keyspace
    this.#onRequest = onRequest
  }

  /** Nodes of the data centre that are known, and those that this process has a connection to. */
  nodes(): { known: number; connected: number } {
    const state = this.#client.getState()
    const local = this.#client.hosts.values().filter(({ datacenter }) => datacenter === this.#dataCentre)
    const connected = local.filter((host) => state.getOpenConnections(host) > 0)
    return { known: local.length, connected: connected.length }
  }

  /** Data centres that have replicas of the keyspace. */
  async dataCentres(): Promise<string[]> {
    return Object.keys((await this.replicasOf(this.#keyspace)) ?? {})
  }

  /** Of any keyspace. See `replicasOf` of the schema. */
  async replicasOf(keyspace: string): Promise<Record<string, number> | undefined> {
    try {
      return await replicasOf(this.#client, keyspace)
    } catch (error) {
      throw faultOfDriver(error)
    }
  }

  /** See `addDataCentres` of the schema. */
  async addDataCentres(replication: Record<string, number>): Promise<string[]> {
    return addDataCentres(this.#client, { keyspace: this.#keyspace, replication })
  }

  static async open(
    options: CassandraOptions,
    { migrations = ownMigrations }: CassandraTuning = {},
  ): Promise<CassandraConnection> {
    const schema = { ...options, migrations }
    const current = await openCurrent(schema)
    if (current !== undefined) return new CassandraConnection(current, options)
    const unbound = newClient(options)
    try {
      await unbound.connect()
      await makeKeyspace(unbound, schema)
      const kept = Object.keys((await replicasOf(unbound, options.keyspace)) ?? {})
      if (kept.length > 0 && !kept.includes(options.dataCentre))
        throw new JournalFault(
          'UNAVAILABLE',
          `the keyspace ${options.keyspace} is in ${kept.join()} and not in ${options.dataCentre}, which was not added`,
        )
    } catch (error) {
      throw faultOfDriver(error)
    } finally {
      await unbound.shutdown()
    }
    const client = newClient(options, options)
    try {
      await client.connect()
      await migrate(client, schema)
    } catch (error) {
      await client.shutdown()
      throw faultOfDriver(error)
    }
    return new CassandraConnection(client, options)
  }

  /** A statement that may be repeated: reads, and writes of equal values. */
  async run(query: string, params: unknown[]): Promise<CassandraRow[]> {
    return this.#settled(this.#client.execute(query, params, { isIdempotent: true }))
  }

  /** A linearizable read: completes interrupted transactions in the partition. */
  async serialRead(query: string, params: unknown[]): Promise<CassandraRow[]> {
    return this.#settled(
      this.#client.execute(query, params, { isIdempotent: true, consistency: consistencies.localSerial }),
    )
  }

  /** All rows of a long read, `fetchSize` per round trip. */
  async *pages(query: string, params: unknown[], fetchSize: number): AsyncIterable<CassandraRow> {
    let pageState: string | undefined
    do {
      const result = await this.#client
        .execute(query, params, {
          isIdempotent: true,
          fetchSize,
          ...(pageState === undefined ? {} : { pageState }),
        })
        .catch((error) => {
          throw faultOfDriver(error)
        })
      yield* result.rows
      pageState = result.pageState ?? undefined
    } while (pageState !== undefined)
  }

  /**
   * A conditional statement, or several of one partition, never repeated by the driver.
   * @returns undefined when it was applied, else the row that prevented it.
   */
  async conditional(statements: Statement[]): Promise<CassandraRow | undefined> {
    const [only] = statements
    if (only === undefined) return undefined
    const done =
      statements.length === 1
        ? this.#client.execute(only.query, only.params, { isIdempotent: false })
        : this.#client.batch(statements, { prepare: true, logged: false, isIdempotent: false })
    const [row] = await this.#settled(done)
    return row === undefined || row['[applied]'] === true ? undefined : row
  }

  /** Repeatable writes in one round trip: not atomic; best used for one partition. */
  async batch(statements: Statement[]): Promise<void> {
    const [only] = statements
    if (statements.length === 1 && only !== undefined) await this.run(only.query, only.params)
    else
      await this.#settled(
        this.#client.batch(statements, { prepare: true, logged: false, isIdempotent: true }),
      )
  }

  /** Writes of several partitions in parallel. */
  async runAll(statements: Statement[]): Promise<void> {
    const slices = 64
    for (let at = 0; at < statements.length; at += slices)
      await Promise.all(statements.slice(at, at + slices).map(({ query, params }) => this.run(query, params)))
  }

  async close(): Promise<void> {
    await this.#client.shutdown()
  }

  async #settled(work: Promise<cassandra.types.ResultSet>): Promise<CassandraRow[]> {
    const startedMs = performance.now()
    let failed = true
    try {
      const { rows } = await work
      failed = false
      return rows ?? []
    } catch (error) {
      throw faultOfDriver(error)
    } finally {
      this.#onRequest?.({ ms: performance.now() - startedMs, failed })
    }
  }
}

/** Where the schema exists nothing is changed, so a start needs only its own data centre. */
async function openCurrent(options: CassandraOptions & SchemaOptions): Promise<cassandra.Client | undefined> {
  const client = newClient(options, options)
  try {
    await client.connect()
    if (await isCurrent(client, options)) return client
  } catch {
    // The attempt to make the tables shows the cause.
  }
  await client.shutdown()
  return undefined
}

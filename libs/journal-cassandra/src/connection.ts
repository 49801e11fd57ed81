/** One region's connection: local quorum for data, local serial for fences, everything prepared, idempotence said truly. */
import { JournalFault } from '@holdfast/journal'
import cassandra from 'cassandra-driver'
import { migrations } from './migrations.ts'

const { consistencies } = cassandra.types

export interface CassandraOptions {
  contactPoints: string[]
  port?: number
  /** The region's data centre. */
  dataCentre: string
  keyspace: string
  /** Replicas by data centre, for the keyspace when it is made. */
  replication: Record<string, number>
  /** Milliseconds a request may take before its outcome counts as unknown. */
  requestTimeoutMs?: number
}

export type Row = cassandra.types.Row
export interface Statement {
  query: string
  params: unknown[]
}

export class Connection {
  readonly #client: cassandra.Client

  private constructor(client: cassandra.Client) {
    this.#client = client
  }

  static async open(options: CassandraOptions): Promise<Connection> {
    const current = await openCurrent(options)
    if (current !== undefined) return new Connection(current)
    await makeKeyspace(options)
    const client = newClient(options, options.keyspace)
    try {
      await client.connect()
      await migrate(client)
    } catch (error) {
      await client.shutdown()
      throw faultOf(error)
    }
    return new Connection(client)
  }

  /** A statement that may be repeated: reads, and writes of equal values. */
  async run(query: string, params: unknown[]): Promise<Row[]> {
    return this.#settled(this.#client.execute(query, params, { isIdempotent: true }))
  }

  /** A linearizable read: finishes what was left half done in the partition. */
  async serialRead(query: string, params: unknown[]): Promise<Row[]> {
    return this.#settled(
      this.#client.execute(query, params, { isIdempotent: true, consistency: consistencies.localSerial }),
    )
  }

  /** All rows of a long read, `fetchSize` a round trip. */
  async *pages(query: string, params: unknown[], fetchSize: number): AsyncIterable<Row> {
    let pageState: string | undefined
    do {
      const result = await this.#client
        .execute(query, params, {
          isIdempotent: true,
          fetchSize,
          ...(pageState === undefined ? {} : { pageState }),
        })
        .catch((error) => {
          throw faultOf(error)
        })
      yield* result.rows
      pageState = result.pageState ?? undefined
    } while (pageState !== undefined)
  }

  /**
   * A conditional statement, or several of one partition, never repeated by the driver.
   * @returns undefined when it was applied, else the row that stood against it.
   */
  async conditional(statements: Statement[]): Promise<Row | undefined> {
    const [only] = statements
    if (only === undefined) return undefined
    const done =
      statements.length === 1
        ? this.#client.execute(only.query, only.params, { isIdempotent: false })
        : this.#client.batch(statements, { prepare: true, logged: false, isIdempotent: false })
    const [row] = await this.#settled(done)
    return row === undefined || row['[applied]'] === true ? undefined : row
  }

  /** Writes of several partitions side by side. */
  async runAll(statements: Statement[]): Promise<void> {
    const slices = 64
    for (let at = 0; at < statements.length; at += slices)
      await Promise.all(statements.slice(at, at + slices).map(({ query, params }) => this.run(query, params)))
  }

  async close(): Promise<void> {
    await this.#client.shutdown()
  }

  async #settled(work: Promise<cassandra.types.ResultSet>): Promise<Row[]> {
    try {
      return (await work).rows ?? []
    } catch (error) {
      throw faultOf(error)
    }
  }
}

function newClient(options: CassandraOptions, keyspace?: string): cassandra.Client {
  return new cassandra.Client({
    contactPoints: options.contactPoints,
    localDataCenter: options.dataCentre,
    ...(keyspace === undefined ? {} : { keyspace }),
    protocolOptions: { port: options.port ?? 9042 },
    pooling: { heartBeatInterval: 5_000, coreConnectionsPerHost: { [cassandra.types.distance.local]: 2 } },
    socketOptions: { connectTimeout: 3_000, readTimeout: options.requestTimeoutMs ?? 4_000, keepAlive: true },
    encoding: { useBigIntAsLong: true, useUndefinedAsUnset: true },
    queryOptions: {
      prepare: true,
      consistency: consistencies.localQuorum,
      serialConsistency: consistencies.localSerial,
    },
    policies: {
      reconnection: new cassandra.policies.reconnection.ExponentialReconnectionPolicy(100, 5_000, false),
    },
  })
}

/** Where everything is made already nothing is changed, so a start needs nobody outside of its own data centre. */
async function openCurrent(options: CassandraOptions): Promise<cassandra.Client | undefined> {
  const client = newClient(options, options.keyspace)
  try {
    await client.connect()
    if ((await schemaVersion(client)) >= migrations.length) return client
  } catch {
    // Whatever it was, the way through the making of the tables tells.
  }
  await client.shutdown()
  return undefined
}

async function makeKeyspace(options: CassandraOptions): Promise<void> {
  const client = newClient(options)
  const replication = Object.entries(options.replication)
    .map(([dataCentre, replicas]) => `'${dataCentre}': ${replicas}`)
    .join(', ')
  try {
    await client.connect()
    await client.execute(
      `CREATE KEYSPACE IF NOT EXISTS ${options.keyspace} WITH replication = {'class': 'NetworkTopologyStrategy', ${replication}}`,
      [],
      { prepare: false },
    )
    await client.execute(
      `CREATE TABLE IF NOT EXISTS ${options.keyspace}.schema_state (key text PRIMARY KEY, value text)`,
      [],
      { prepare: false },
    )
  } catch (error) {
    throw faultOf(error)
  } finally {
    await client.shutdown()
  }
}

/** Runs what is missing, as the one leader; everybody else waits for it. */
async function migrate(client: cassandra.Client): Promise<void> {
  const me = String(cassandra.types.TimeUuid.now())
  for (;;) {
    const version = await schemaVersion(client)
    if (version >= migrations.length) return
    const claimed = await client.execute(
      `INSERT INTO schema_state (key, value) VALUES ('migration-leader', ?) IF NOT EXISTS USING TTL 60`,
      [me],
    )
    if (!claimed.wasApplied()) {
      await new Promise((resolve) => setTimeout(resolve, 250))
      continue
    }
    for (let next = await schemaVersion(client); next < migrations.length; next++) {
      for (const statement of migrations[next] ?? []) await client.execute(statement, [], { prepare: false })
      await client.execute(`INSERT INTO schema_state (key, value) VALUES ('version', ?)`, [String(next + 1)])
    }
    await client.execute(`DELETE FROM schema_state WHERE key = 'migration-leader' IF value = ?`, [me])
  }
}

async function schemaVersion(client: cassandra.Client): Promise<number> {
  const row = (await client.execute(`SELECT value FROM schema_state WHERE key = 'version'`)).first()
  return row === null ? 0 : Number(row.value)
}

/**
 * What a driver error leaves open. A coordinator that had too few replicas wrote nothing; everything after a request was sent — a
 * time-out, a broken connection — may have happened.
 */
export function faultOf(error: unknown): Error {
  if (error instanceof JournalFault || error instanceof RangeError) return error
  const { message } = error as Error
  const { responseErrorCodes } = cassandra.types
  if (error instanceof cassandra.errors.ResponseError) {
    const untouched: number[] = [
      responseErrorCodes.unavailableException,
      responseErrorCodes.overloaded,
      responseErrorCodes.isBootstrapping,
      responseErrorCodes.readTimeout,
    ]
    if (untouched.includes(error.code)) return new JournalFault('UNAVAILABLE', message, { cause: error })
  }
  if (error instanceof cassandra.errors.NoHostAvailableError && neverSent(error))
    return new JournalFault('UNAVAILABLE', message, { cause: error })
  return new JournalFault('UNKNOWN', message, { cause: error })
}

function neverSent(error: cassandra.errors.NoHostAvailableError): boolean {
  return Object.values(
    (error.innerErrors ?? {}) as Record<string, Error & { requestNotWritten?: boolean; code?: string }>,
  ).every(
    (inner) =>
      inner.requestNotWritten === true || inner.code === 'ECONNREFUSED' || inner.code === 'ETIMEDOUT',
  )
}

/**
 * Makes the schema of a keyspace and changes it by the numbered migrations: one leader among the
 * processes of all data centres.
 *
 * Cassandra spreads its schema by gossip. A table that two coordinators make at once has two ids,
 * and the rows of one of them are lost. So one leader makes the tables, and he holds the row
 * `migration-leader` of `schema_state`, taken by a transaction over the replicas of all data
 * centres (`SERIAL`): with one that is local there would be a leader in each.
 *
 * - The row is gone after a minute. It is renewed before each statement, which may take half of
 *   that: whoever comes after a leader that died, was paused, or cannot tell whether a statement
 *   happened, finds none of his statements under way.
 * - The version is raised by a transaction too, from the one before: a leader of the past raises
 *   nothing.
 * - The table of these rows is made by everybody. Its id follows from its name, so it is the same
 *   whoever makes it; keyspaces have no ids.
 *
 * The price: a start that has to change the schema needs more than half of the keyspace's replicas,
 * wherever they are. One that finds it made asks its own data centre alone.
 */
import { createHash } from 'node:crypto'
import cassandra from 'cassandra-driver'
import { faultOf } from './driver-faults.ts'

const { consistencies } = cassandra.types

export interface SchemaOptions {
  keyspace: string
  /** Replicas by data centre, for the keyspace when it is made. */
  replication: Record<string, number>
  /** The statements of each version. */
  migrations: readonly (readonly string[])[]
}

const leaderSeconds = 60
const statementMs = 30_000
/**
 * Data centres that start together come up one after the other, and each hears of tables after a
 * while.
 */
const patienceMs = 60_000
const waitMs = { least: 200, most: 600 }

const versionRow = 'version'
const leaderRow = 'migration-leader'

/**
 * Whether every migration was made, as the own data centre knows. @throws what the driver throws,
 * also where there is no such keyspace
 */
export async function isCurrent(client: cassandra.Client, { migrations }: SchemaOptions): Promise<boolean> {
  return Number((await stateOf(client, versionRow)) ?? 0) >= migrations.length
}

/** Safe to repeat and to race. @param client of no keyspace. @throws what the driver throws */
export async function makeKeyspace(client: cassandra.Client, options: SchemaOptions): Promise<void> {
  const { keyspace } = options
  const replicas = Object.entries(options.replication).map(
    ([dataCentre, count]) => `'${dataCentre}': ${count}`,
  )
  const replication = `{'class': 'NetworkTopologyStrategy', ${replicas.join(', ')}}`
  await define(client, `CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = ${replication}`)
  const table = `${keyspace}.schema_state`
  await define(
    client,
    `CREATE TABLE IF NOT EXISTS ${table} (key text PRIMARY KEY, value text) WITH id = ${idOf(table)}`,
  )
}

/** Resolves when every migration was made, here or by another. @throws JournalFault */
export async function migrate(client: cassandra.Client, options: SchemaOptions): Promise<void> {
  const leader = new Leader(client)
  for (;;) {
    if (await patiently(() => isCurrent(client, options))) return
    if ((await patiently(() => stateOf(client, leaderRow))) === undefined && (await leader.claim())) {
      await leader.run(options.migrations)
      await leader.resign()
    } else await aWhile()
  }
}

class Leader {
  readonly #client: cassandra.Client
  readonly #id = String(cassandra.types.TimeUuid.now())

  constructor(client: cassandra.Client) {
    this.#client = client
  }

  /** @returns whether it leads. */
  claim(): Promise<boolean> {
    return this.#lead(null)
  }

  /**
   * Makes what is missing, for as long as it leads.
   * @throws what the driver throws. Whether the statement happened is open then: it does not
   *   resign, so that nobody follows at once.
   */
  async run(migrations: SchemaOptions['migrations']): Promise<void> {
    const made = await patiently(() => stateOf(this.#client, versionRow, consistencies.serial))
    for (let version = Number(made ?? 0); version < migrations.length; version++) {
      for (const statement of migrations[version] ?? []) {
        if (!(await this.#lead(this.#id))) return
        await define(this.#client, statement)
      }
      if (!(await this.#raise(version))) return
    }
  }

  async resign(): Promise<void> {
    await this.#holds(undefined, 'DELETE FROM schema_state WHERE key = ? IF value = ?', [leaderRow, this.#id])
  }

  /** @param before who leads until then. */
  #lead(before: string | null): Promise<boolean> {
    const lead = `UPDATE schema_state USING TTL ${leaderSeconds} SET value = ? WHERE key = ? IF value = ?`
    return this.#holds(this.#id, lead, [this.#id, leaderRow, before])
  }

  /** From one version to the next. */
  #raise(version: number): Promise<boolean> {
    const next = String(version + 1)
    const raise = 'UPDATE schema_state SET value = ? WHERE key = ? IF value = ?'
    return this.#holds(next, raise, [next, versionRow, version === 0 ? null : String(version)])
  }

  /**
   * Repeated until it is known how it ended. @returns whether the row holds the value then, by this
   * attempt or one before.
   */
  #holds(value: string | undefined, query: string, params: (string | null)[]): Promise<boolean> {
    return patiently(async () => {
      const answer = await this.#client.execute(query, params, {
        isIdempotent: false,
        serialConsistency: consistencies.serial,
      })
      return answer.wasApplied() || answer.first()?.value === value
    })
  }
}

async function stateOf(
  client: cassandra.Client,
  key: string,
  consistency = consistencies.localQuorum,
): Promise<string | undefined> {
  const query = 'SELECT value FROM schema_state WHERE key = ?'
  const answer = await client.execute(query, [key], { isIdempotent: true, consistency })
  return answer.first()?.value ?? undefined
}

/**
 * Changes the schema, and waits until all nodes know it; for ten seconds at most, for one that is
 * down never does. A node that did not hear of a table by then refuses its rows until it does.
 */
async function define(client: cassandra.Client, statement: string): Promise<void> {
  await client.execute(statement, [], { prepare: false, isIdempotent: false, readTimeout: statementMs })
}

/** @throws JournalFault when time is up. */
async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  const deadlineMs = performance.now() + patienceMs
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > deadlineMs) throw faultOf(error)
      await aWhile()
    }
  }
}

function aWhile(): Promise<void> {
  const { least, most } = waitMs
  return new Promise((resolve) => setTimeout(resolve, least + Math.random() * (most - least)))
}

/** A UUID that follows from a name: RFC 9562, version 8. */
function idOf(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

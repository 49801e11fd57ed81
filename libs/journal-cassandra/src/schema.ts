/**
 * Makes the schema of a keyspace and changes it by the numbered migrations: one leader among the
 * processes of all data centres.
 *
 * Cassandra spreads its schema by gossip. A table that two coordinators make at once has two ids,
 * and the rows of one of them are lost. So one leader makes the tables. It holds the row
 * `migration-leader` of `schema_state`, taken by a transaction over the replicas of all data
 * centres (`SERIAL`): with a local one there would be a leader in each.
 *
 * - The row expires after a minute. It is renewed before each statement, which may take half of
 *   that. So when a leader died, was paused, or does not know whether a statement took effect, its
 *   successor finds none of its statements running.
 * - The version is raised by a transaction too, from the one before: a former leader raises
 *   nothing.
 * - Every process makes the table of these rows. Its id follows from its name, so it is the same
 *   for all; keyspaces have no ids.
 * - A keyspace gets further data centres only when `addDataCentres` is called, also under the
 *   leader: two changes of a keyspace at once would lose one of them. None is ever taken away.
 *
 * The price: a start that must change the schema needs more than half of the keyspace's replicas,
 * in all data centres. A start that finds it made asks only its own data centre.
 */

import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { uuidOfBytes } from '@holdfast/kernel'
import cassandra from 'cassandra-driver'
import { faultOfDriver } from './driver-faults.ts'

const { consistencies } = cassandra.types

export interface SchemaOptions {
  keyspace: string
  /** Replicas by data centre, for the keyspace when it is made or gets further data centres. */
  replication: Record<string, number>
  /** The statements of each version. */
  migrations: readonly (readonly string[])[]
}

const leaderSeconds = 60
const statementMs = 30_000
/** Data centres that start together come up in sequence, and each hears of tables after a while. */
const patienceMs = 60_000
/** How long a node that has just joined may need to hear of all tables. */
const joinedMs = 10_000
const waitMs = { least: 200, most: 600 }

const versionRow = 'version'
const leaderRow = 'migration-leader'

/**
 * Whether every migration was made, as far as the own data centre knows. @throws what the driver
 * throws, also where there is no such keyspace
 */
export async function isCurrent(client: cassandra.Client, { migrations }: SchemaOptions): Promise<boolean> {
  return Number((await stateOf(client, versionRow)) ?? 0) >= migrations.length
}

/** Safe to repeat and to race. @param client of no keyspace. @throws what the driver throws */
export async function makeKeyspace(client: cassandra.Client, options: SchemaOptions): Promise<void> {
  const { keyspace } = options
  if ((await replicasOf(client, keyspace)) === undefined) await heardOfTables(client)
  const replication = replicationText(options.replication)
  await define(client, `CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = ${replication}`)
  const table = `${keyspace}.schema_state`
  await define(
    client,
    `CREATE TABLE IF NOT EXISTS ${table} (key text PRIMARY KEY, value text) WITH id = ${idOf(table)}`,
  )
}

/**
 * Resolves when all nodes have the same schema; after ten seconds at most, because a node that is
 * down never has. A node that has just joined knows the others before it has their tables: what it
 * makes then replaces what they have, as the later definition.
 */
async function heardOfTables(client: cassandra.Client): Promise<void> {
  const deadlineMs = performance.now() + joinedMs
  while (performance.now() < deadlineMs && !(await agrees(client))) await aWhile()
}

/** Whether a node and all others that it knows have the same schema. */
async function agrees(client: cassandra.Client): Promise<boolean> {
  const versions = await Promise.all(
    ['local', 'peers'].map((table) =>
      client.execute(`SELECT schema_version FROM system.${table}`, [], { isIdempotent: true }),
    ),
  )
  return new Set(versions.flatMap(({ rows }) => rows.map((row) => String(row.schema_version)))).size === 1
}

/** Resolves when every migration was made, here or by another process. @throws JournalFault */
export async function migrate(client: cassandra.Client, options: SchemaOptions): Promise<void> {
  const leader = new Leader(client)
  for (;;) {
    if (await patiently(() => isCurrent(client, options))) return
    if (await leader.claimVacant()) {
      const made = await leader.run(options.migrations)
      await leader.resign()
      // A data centre that was just added does not have the version's row, but all tables.
      if (made) return
    } else await aWhile()
  }
}

/** Replicas of a keyspace by data centre; undefined: there is no such keyspace. */
export async function replicasOf(
  client: cassandra.Client,
  keyspace: string,
): Promise<Record<string, number> | undefined> {
  const query = 'SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?'
  const found = (await client.execute(query, [keyspace], { isIdempotent: true })).first()?.replication
  if (found === undefined) return undefined
  const { class: _, ...counts } = found as Record<string, string>
  return Object.fromEntries(Object.entries(counts).map(([dataCentre, count]) => [dataCentre, Number(count)]))
}

/**
 * The keyspace gets replicas in the data centres that it lacks. The new replicas lack earlier rows
 * until each of their nodes is rebuilt (`nodetool rebuild`). Other data centres keep their
 * replicas.
 * @param client of the keyspace, which has its tables.
 * @returns those that it lacked. @throws JournalFault
 */
export async function addDataCentres(
  client: cassandra.Client,
  { keyspace, replication }: Pick<SchemaOptions, 'keyspace' | 'replication'>,
): Promise<string[]> {
  const leader = new Leader(client)
  const lacking = async () => {
    const had = (await patiently(() => replicasOf(client, keyspace))) ?? {}
    return { had, lacks: Object.keys(replication).filter((dataCentre) => had[dataCentre] === undefined) }
  }
  for (;;) {
    if ((await lacking()).lacks.length === 0) return []
    if (!(await leader.claimVacant())) {
      await aWhile()
      continue
    }
    const { had, lacks } = await lacking()
    if (lacks.length > 0) {
      const all = replicationText({ ...replication, ...had })
      try {
        await define(client, `ALTER KEYSPACE ${keyspace} WITH replication = ${all}`)
      } catch (error) {
        // Refused, for instance while no node of the new data centre is known: nothing runs.
        if (isRefusedStatement(error)) await leader.resign()
        throw faultOfDriver(error)
      }
    }
    await leader.resign()
    return lacks
  }
}

function replicationText(replication: Record<string, number>): string {
  const replicas = Object.entries(replication).map(([dataCentre, count]) => `'${dataCentre}': ${count}`)
  return `{'class': 'NetworkTopologyStrategy', ${replicas.join(', ')}}`
}

function isRefusedStatement(error: unknown): boolean {
  const { configError, invalid } = cassandra.types.responseErrorCodes
  return [configError, invalid].includes((error as { code?: number }).code ?? -1)
}

class Leader {
  readonly #client: cassandra.Client
  readonly #id = String(cassandra.types.TimeUuid.now())

  constructor(client: cassandra.Client) {
    this.#client = client
  }

  /** @returns whether it leads, where no other did. */
  async claimVacant(): Promise<boolean> {
    if ((await patiently(() => stateOf(this.#client, leaderRow))) !== undefined) return false
    return this.#lead(null)
  }

  /**
   * Makes what is missing while it leads.
   * @returns whether all is made.
   * @throws what the driver throws. It is unknown then whether the statement took effect: it does
   *   not resign, so that no successor starts at once.
   */
  async run(migrations: SchemaOptions['migrations']): Promise<boolean> {
    const made = await patiently(() => stateOf(this.#client, versionRow, consistencies.serial))
    for (let version = Number(made ?? 0); version < migrations.length; version++) {
      for (const statement of migrations[version] ?? []) {
        if (!(await this.#lead(this.#id))) return false
        await define(this.#client, statement)
      }
      if (!(await this.#raise(version))) return false
    }
    return true
  }

  async resign(): Promise<void> {
    await this.#holds(undefined, 'DELETE FROM schema_state WHERE key = ? IF value = ?', [leaderRow, this.#id])
  }

  /** @param before the current leader. */
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
   * Repeated until the outcome is known. @returns whether the row holds the value then, by this
   * attempt or an earlier one.
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
 * Changes the schema, and waits until all nodes know it; for ten seconds at most, because a node
 * that is down never does. A node that has not heard of a table by then refuses its rows until it
 * has.
 */
async function define(client: cassandra.Client, statement: string): Promise<void> {
  await client.execute(statement, [], { prepare: false, isIdempotent: false, readTimeout: statementMs })
}

/** @throws JournalFault after the time limit. */
async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  const deadlineMs = performance.now() + patienceMs
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > deadlineMs) throw faultOfDriver(error)
      await aWhile()
    }
  }
}

function aWhile(): Promise<void> {
  const { least, most } = waitMs
  return delay(least + Math.random() * (most - least))
}

/** A UUID that follows from a name: RFC 9562, version 8. */
function idOf(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  return uuidOfBytes(bytes)
}

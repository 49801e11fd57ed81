/**
 * Cassandra's own users, before the first Holdfast process logs in.
 *
 * Cassandra keeps them in the keyspace `system_auth`, which it makes with one replica in all: the
 * loss of that node would end all logins. `replicateLogins` gives each data centre its replicas;
 * after it a repair brings them the rows that exist. `makeLogins` then makes the user of the
 * service and takes the well-known password from the first one.
 *
 * Each connection logs in. Cassandra's own hashes take a core for a tenth of a second; after a
 * restart of nodes, hundreds of connections then keep them busy with logins that have timed out
 * already, and are tried again. Hashes of long passwords, which cannot be guessed, are cheap here.
 */
import { setTimeout as delay } from 'node:timers/promises'
import bcrypt from 'bcryptjs'
import cassandra from 'cassandra-driver'
import { isRefused } from './driver-faults.ts'
import { newClient } from './new-client.ts'
import type { CassandraOptions } from './options.ts'

export interface LoginsOptions
  extends Pick<CassandraOptions, 'contactPoints' | 'port' | 'dataCentre' | 'tls'> {
  /** Replicas of users and rights, by data centre. */
  replication: Record<string, number>
  /** The password of the user `cassandra`, which may do everything. */
  operatorPassword: string
  /** The service's. */
  user: string
  password: string
  /** Milliseconds until a cluster that just started must answer. */
  patienceMs: number
}

const operator = 'cassandra'
/** That of a new cluster. */
const firstPassword = 'cassandra'
const name = /^[a-z][a-z0-9_]{0,47}$/
const retryMs = 1_000
/** Characters. 24 random hexadecimal digits have 96 bits. */
const longPassword = 24
/** The least: 2^4 rounds, where Cassandra's own hashes have 2^10. */
const hashCost = 4
/** That of hashes which Cassandra knows. */
const hashPrefix = `$2a$${String(hashCost).padStart(2, '0')}$`
const statementMs = 60_000
const { responseErrorCodes } = cassandra.types
const notReady: unknown[] = [
  responseErrorCodes.unavailableException,
  responseErrorCodes.overloaded,
  responseErrorCodes.isBootstrapping,
  responseErrorCodes.readTimeout,
  responseErrorCodes.writeTimeout,
]

/**
 * No data centre has fewer replicas than before.
 * @returns whether there are more now: then `system_auth` needs a repair
 */
export async function replicateLogins(options: LoginsOptions): Promise<boolean> {
  const { client } = await asOperator(options)
  try {
    const { rows } = await run(
      client,
      "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'system_auth'",
    )
    const had = (rows[0]?.replication ?? {}) as Record<string, string>
    const by = had.class?.endsWith('NetworkTopologyStrategy') ? had : {}
    const wanted = Object.entries(options.replication).map(([dataCentre, count]): [string, number] => [
      dataCentre,
      Math.max(count, Number(by[dataCentre] ?? 0)),
    ])
    if (wanted.every(([dataCentre, count]) => Number(by[dataCentre]) === count)) return false
    const replicas = wanted.map(([dataCentre, count]) => `${quoteText(dataCentre)}: ${count}`).join(', ')
    await run(
      client,
      `ALTER KEYSPACE system_auth WITH replication = {'class': 'NetworkTopologyStrategy', ${replicas}}`,
    )
    return true
  } finally {
    await client.shutdown()
  }
}

/** May be repeated. @returns what was changed, in words */
export async function makeLogins(options: LoginsOptions): Promise<string[]> {
  const { user, password } = options
  if (!name.test(user)) throw new Error(`${user} is no name of a user`)
  const { client, isNew } = await asOperator(options)
  const changed: string[] = []
  try {
    const { rows } = await run(client, 'LIST ROLES')
    const known = rows.some(({ role }) => role === user)
    if (!known) {
      await run(client, `CREATE ROLE IF NOT EXISTS ${user} WITH ${await hashed(password)} AND LOGIN = true`)
      changed.push(`the user ${user} was made`)
    } else if (!(await canLogIn(options, { user, password }))) {
      await run(client, `ALTER ROLE ${user} WITH ${await hashed(password)} AND LOGIN = true`)
      await untilAccepted(options, { user, password })
      changed.push(`the user ${user} has another password`)
    } else if (password.length >= longPassword && !(await hasCheapHash(client, user))) {
      await run(client, `ALTER ROLE ${user} WITH ${await hashed(password)}`)
      changed.push(`logins of the user ${user} need less CPU`)
    }
    // The user that makes a keyspace may do everything in it.
    await run(client, `GRANT CREATE ON ALL KEYSPACES TO ${user}`)
    if (isNew) {
      await run(client, `ALTER ROLE ${operator} WITH ${await hashed(options.operatorPassword)}`)
      changed.push(`the user ${operator} has another password`)
      await untilAccepted(options, { user: operator, password: options.operatorPassword })
    }
    return changed
  } finally {
    await client.shutdown()
  }
}

/** Part of a statement. */
async function hashed(password: string): Promise<string> {
  if (password.length < longPassword) return `PASSWORD = ${quoteText(password)}`
  const salt = await bcrypt.genSalt(hashCost)
  return `HASHED PASSWORD = '${await bcrypt.hash(password, hashPrefix + salt.slice(hashPrefix.length))}'`
}

async function hasCheapHash(client: cassandra.Client, user: string): Promise<boolean> {
  const query = `SELECT salted_hash FROM system_auth.roles WHERE role = ${quoteText(user)}`
  const [row] = (await run(client, query)).rows
  return String(row?.salted_hash).startsWith(hashPrefix)
}

/** A new cluster makes its first user some seconds after it began to answer. */
async function asOperator(options: LoginsOptions): Promise<{ client: cassandra.Client; isNew: boolean }> {
  const until = performance.now() + options.patienceMs
  for (;;) {
    for (const [password, isNew] of [
      [options.operatorPassword, false],
      [firstPassword, true],
    ] as const) {
      const client = clientOf(options, { user: operator, password })
      try {
        await client.connect()
        return { client, isNew }
      } catch (error) {
        await client.shutdown()
        if (performance.now() > until) throw error
      }
    }
    await delay(retryMs)
  }
}

interface Credentials {
  user: string
  password: string
}

/**
 * Each node remembers the earlier password for some seconds. One that does not answer is not waited
 * for.
 */
async function untilAccepted(options: LoginsOptions, credentials: Credentials): Promise<void> {
  const latestMs = performance.now() + options.patienceMs
  for (const node of options.contactPoints) {
    const at = { ...options, contactPoints: [node] }
    while (!(await canLogIn(at, credentials).catch(() => true))) {
      if (performance.now() > latestMs)
        throw new Error(`the new password of ${credentials.user} is not accepted by ${node}`)
      await delay(retryMs)
    }
  }
}

async function canLogIn(options: LoginsOptions, credentials: Credentials): Promise<boolean> {
  const client = clientOf(options, credentials)
  try {
    await client.connect()
    return true
  } catch (error) {
    if (isRefused(error)) return false
    throw error
  } finally {
    await client.shutdown()
  }
}

function clientOf(options: LoginsOptions, credentials: Credentials): cassandra.Client {
  const { contactPoints, port, dataCentre, tls } = options
  return newClient(
    { contactPoints, port, dataCentre, tls, credentials: () => credentials },
    { timeoutMs: 30_000 },
  )
}

/**
 * What changes users and keyspaces is not prepared. Each statement may be repeated: replicas of a
 * cluster that just started are not all ready.
 */
async function run(client: cassandra.Client, query: string): Promise<cassandra.types.ResultSet> {
  const until = performance.now() + statementMs
  for (;;) {
    try {
      return await client.execute(query, [], { prepare: false })
    } catch (error) {
      if (performance.now() > until || !notReady.includes((error as { code?: unknown }).code)) throw error
      await delay(retryMs)
    }
  }
}

function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

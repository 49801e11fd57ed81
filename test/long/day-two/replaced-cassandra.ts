/** A node of Cassandra that an empty one replaces, and what the data centres have of each other. */
import { createHash } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import cassandra from 'cassandra-driver'
import { type ConfiguredCassandra, startConfiguredCassandra } from '../../../infra/servers/cassandra.ts'
import type { Office } from './office.ts'

/**
 * The only node of the home region, by the steps of "Nodes of Cassandra" in `infra/OPERATING.md`.
 * Serves when it resolves.
 */
export async function replaceOnlyNode(office: Office): Promise<void> {
  const { cluster, home, other } = office
  const name = `${home.code}-cassandra`
  const planned = home.processes.find((process) => process.name === name)
  const directory = join(cluster.dataDir, name)
  const files = (await cluster.filesOf(name)) as ConfiguredCassandra['files']
  const addresses = await cluster.cassandraAddresses()
  const [host = '', port = ''] = (addresses.get(home.code) ?? '').split(':')
  const [seed = ''] = (addresses.get(other.code) ?? '').split(':')
  const pid = await cluster.pidOf(name)
  await cluster.nodetool(home.code, 'drain')
  process.kill(pid, 'SIGKILL')
  await office.until('it has ended', async () => !existsSync(`/proc/${pid}`))
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
  await office.until('the others see that it is down', async () =>
    /^DN /m.test(await cluster.nodetool(other.code, 'status')),
  )
  office.keep(
    name,
    await startConfiguredCassandra({
      directory,
      address: { host, port: Number(port) },
      files: {
        ...files,
        // A seed streams nothing when it joins, and the cluster of tests has no other kind.
        'cassandra.yaml': files['cassandra.yaml']
          .replace(/^auto_bootstrap: false$/m, 'auto_bootstrap: true')
          .replace(/seeds: .*/, `seeds: '${seed}'`),
      },
      jmxPort: planned?.jmx,
      more: [`-Dcassandra.replace_address_first_boot=${host}`],
    }),
  )
}

/** Rows that only one of the two data centres has, or has in another state, by table. */
export async function differences({ cluster, regions }: Office): Promise<string[]> {
  const addresses = await cluster.cassandraAddresses()
  const of = await Promise.all(regions.map(({ code }) => rowsOf(addresses.get(code) ?? '', code)))
  const [here, there] = of as [Rows, Rows]
  return [...here].flatMap(([table, rows]) => {
    const others = there.get(table) ?? new Set()
    const count = rows.symmetricDifference(others).size
    return count === 0 ? [] : [`${table}: ${count} of ${rows.size + others.size}`]
  })
}

type Rows = Map<string, Set<string>>

/** Digests of all rows of our tables, by table. */
async function rowsOf(contact: string, localDataCenter: string): Promise<Rows> {
  const client = new cassandra.Client({ contactPoints: [contact], localDataCenter })
  const read = async (query: string) => {
    const { localOne: consistency } = cassandra.types.consistencies
    const found: Record<string, unknown>[] = []
    for await (const row of await client.execute(query, [], { consistency, prepare: true })) found.push(row)
    return found
  }
  try {
    const rows: Rows = new Map()
    for (const { keyspace_name, table_name } of await read('SELECT * FROM system_schema.tables')) {
      if (!String(keyspace_name).startsWith('holdfast')) continue
      const table = `${keyspace_name}.${table_name}`
      const all = await read(`SELECT * FROM ${table}`)
      rows.set(table, new Set(all.map(digestOf)))
    }
    return rows
  } finally {
    await client.shutdown()
  }
}

function digestOf(row: Record<string, unknown>): string {
  return createHash('sha256').update(JSON.stringify(row)).digest('base64')
}

/** Damaged accounts and their repair on a real Cassandra, in a separate keyspace. */
import cassandra from 'cassandra-driver'
import type { Test } from 'tap'
import { type OfflineStores, repairCases } from '../../../test/support/damaged-accounts.ts'
import { CassandraMetadataStore } from '../src/index.ts'
import { plainConnection, plainStore } from '../src/testing.ts'

export async function repairsInCassandra(t: Test, host: string): Promise<void> {
  const options = { ...plainConnection, ...plainStore, contactPoints: [host], keyspace: 'repair' }
  const store = await CassandraMetadataStore.open(options)
  t.teardown(() => store.close())
  const raw = new cassandra.Client({
    contactPoints: [host],
    localDataCenter: 'eu-par',
    keyspace: 'repair',
  })
  t.teardown(() => raw.shutdown())

  async function damage(...[account, what, how]: Parameters<OfflineStores['damage']>): Promise<void> {
    const run = (query: string, params: unknown[]) => raw.execute(query, params, { prepare: true })
    const spoilt = Buffer.from('spoilt')
    if (typeof what === 'string') throw new Error(`${what} is not damaged here`)
    if ('page' in what && how === 'spoil')
      await run('UPDATE pages SET bytes = ? WHERE account = ? AND name = ?', [spoilt, account, what.page])
    else if ('page' in what)
      await run('DELETE FROM pages WHERE account = ? AND name = ?', [account, what.page])
    else if (how === 'spoil')
      await run('UPDATE journal SET bytes = ? WHERE account = ? AND term = 1 AND seq = ?', [
        spoilt,
        account,
        what.row,
      ])
    else await run('DELETE FROM journal WHERE account = ? AND term = 1 AND seq = ?', [account, what.row])
  }

  repairCases(t, async () => ({ journal: store.journals, lookups: store.lookups, damage }))
}

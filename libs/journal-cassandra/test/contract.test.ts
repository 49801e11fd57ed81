import { journalStoreContract, lookupStoreContract } from '@holdfast/journal/testing'
import t, { type Test } from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'
import { CassandraMetadataStore } from '../src/index.ts'

const host = '127.0.0.21'
const server = await startCassandra({ directory: t.testdir(), host, seeds: [host], dataCentre: 'eu-par' })
t.teardown(() => server.stop('SIGKILL'))

function connect(): Promise<CassandraMetadataStore> {
  return CassandraMetadataStore.open({
    contactPoints: [host],
    dataCentre: 'eu-par',
    keyspace: 'holdfast',
    replication: { 'eu-par': 1 },
    claimed: ['suite'],
  })
}

t.test('processes that start together make the schema once', async (t) => {
  const stores = await Promise.all([connect(), connect(), connect()])
  for (const store of stores) await store.close()
  t.pass()
})

const shared = await connect()
t.teardown(() => shared.close())

async function open(t: Test) {
  const reopen = async () => {
    const again = await connect()
    t.teardown(() => again.close())
    return again
  }
  return { store: shared, reopen }
}

t.test('journals in Cassandra', async (t) => {
  journalStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { journals: store.journals, reopen: async () => (await reopen()).journals }
    },
  })
})

t.test('lookups in Cassandra', async (t) => {
  lookupStoreContract({
    test: t.test,
    open: async (t: Test) => {
      const { store, reopen } = await open(t)
      return { lookups: store.lookups, reopen: async () => (await reopen()).lookups }
    },
  })
})

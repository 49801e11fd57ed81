/** What `up` asks of the rows that exist before it starts processes. */
import t from 'tap'
import { assertReplicas } from '../src/regions/adding-regions.ts'

t.test('a higher number of replicas is refused, with the statement that makes the next one', async (t) => {
  const kept: Record<string, Record<string, number>> = {
    holdfast_lookups: { 'eu-par': 1, 'na-nyc': 3 },
    holdfast_eu_par: { 'eu-par': 3, 'na-nyc': 3 },
  }
  const store = { replicasOf: async (keyspace: string) => kept[keyspace] }
  const assert = (replicas: number) =>
    assertReplicas(store, { regions: ['eu-par', 'na-nyc'], cassandra: { replicas } })
  await assert(1)
  await t.rejects(assert(3), {
    name: 'SettingsFault',
    faults: [
      "replicas are 3, but holdfast_lookups has 1 in eu-par: ALTER KEYSPACE holdfast_lookups WITH replication = {'class': 'NetworkTopologyStrategy', 'eu-par': 2, 'na-nyc': 3}",
      /repair every node/,
    ],
  })
})

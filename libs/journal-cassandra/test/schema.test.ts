/**
 * The tables that a node makes after it joined, and when. The test sets the order of its events.
 */
import type cassandra from 'cassandra-driver'
import t from 'tap'
import { makeKeyspace } from '../src/schema.ts'

const options = { keyspace: 'grown', replication: { 'eu-par': 1, 'na-nyc': 1 }, migrations: [] }

/** A client of a node that gets the tables of another one with the third look at its schema. */
function joining() {
  let looks = 0
  const made: string[] = []
  const answers: [begin: string, answer: () => object][] = [
    ['SELECT replication', () => ({ first: () => (looks < 3 ? undefined : { replication: { class: '' } }) })],
    [
      'SELECT schema_version FROM system.local',
      () => ({ rows: [{ schema_version: ++looks < 3 ? 'a' : 'b' }] }),
    ],
    ['SELECT schema_version FROM system.peers', () => ({ rows: [{ schema_version: 'b' }] })],
    ['CREATE', () => ({ afterLooks: made.push(`after ${looks} looks`) })],
  ]
  const execute = async (query: string) => answers.find(([begin]) => query.startsWith(begin))?.[1]()
  return { client: { execute } as unknown as cassandra.Client, made }
}

t.test('a node makes a keyspace when it has the tables of all others', async (t) => {
  const { client, made } = joining()
  await makeKeyspace(client, options)
  t.strictSame(made, ['after 3 looks', 'after 3 looks'])
  await makeKeyspace(client, options)
  t.strictSame(made.slice(2), ['after 3 looks', 'after 3 looks'], 'one that knows it looks no further')
})

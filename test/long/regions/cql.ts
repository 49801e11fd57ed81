/**
 * Statements to Cassandra as its user `cassandra`, from a host of a deployment, as `cqlsh` sends
 * them: `cql.ts <data centre> <address> <statement>…` prints the rows of each as a line of JSON.
 */
import { readFileSync } from 'node:fs'
import cassandra from 'cassandra-driver'

const [localDataCenter = '', address = '', ...statements] = process.argv.slice(2)
const read = (name: string) => readFileSync(`/etc/holdfast/${name}`, 'utf8')
const client = new cassandra.Client({
  contactPoints: [address],
  localDataCenter,
  credentials: { username: 'cassandra', password: read('secrets/cassandra-admin-password').trim() },
  sslOptions: {
    ca: [read('tls/ca.pem')],
    cert: read('tls/node.pem'),
    key: read('tls/node.key'),
    rejectUnauthorized: true,
  },
  socketOptions: { readTimeout: 60_000 },
})
for (const statement of statements) {
  // Undefined for a statement that has none.
  const { rows } = await client.execute(statement)
  console.log(JSON.stringify(rows ?? []))
}
await client.shutdown()
process.exit()

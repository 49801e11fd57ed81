/** Cassandra's users, over two data centres that ask for a login. */
import { setTimeout as delay } from 'node:timers/promises'
import cassandra from 'cassandra-driver'
import t from 'tap'
import { startCassandra } from '../../../infra/servers/cassandra.ts'
import { CassandraMetadataStore, isRefused, makeLogins, replicateLogins } from '../src/index.ts'
import { plainConnection, plainStore } from '../src/testing.ts'

const [hereHost, thereHost] = ['127.0.0.41', '127.0.0.42']
const directory = t.testdir({ here: {}, there: {} })
const start = (host: string, dataCentre: string, name: string) =>
  startCassandra({
    directory: `${directory}/${name}`,
    host,
    seeds: [hereHost],
    dataCentre,
    heapMiB: 384,
    login: true,
  })
const here = await start(hereHost, 'eu-par', 'here')
const there = await start(thereHost, 'na-nyc', 'there')
t.teardown(async () => {
  await Promise.all([here.stop('SIGKILL'), there.stop('SIGKILL')])
  // The driver continues after a refused login.
  setTimeout(() => process.exit(), 1_000).unref()
})

const options = {
  contactPoints: [hereHost],
  port: 9042,
  dataCentre: 'eu-par',
  tls: undefined,
  replication: { 'eu-par': 1, 'na-nyc': 1 },
  operatorPassword: "an operator's own, which is long",
  user: 'holdfast',
  password: "it's the service's: 30 characters",
  patienceMs: 60_000,
}

function open(password: string, [host, dataCentre]: [string, string] = [hereHost, 'eu-par']) {
  return CassandraMetadataStore.open({
    ...plainConnection,
    ...plainStore,
    contactPoints: [host],
    dataCentre,
    keyspace: 'of_the_service',
    replication: options.replication,
    credentials: () => ({ user: 'holdfast', password }),
  })
}

async function replication(): Promise<Record<string, string>> {
  const client = new cassandra.Client({
    contactPoints: [hereHost],
    localDataCenter: 'eu-par',
    credentials: { username: 'cassandra', password: options.operatorPassword },
  })
  const { rows } = await client.execute(
    "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'system_auth'",
  )
  await client.shutdown()
  return rows[0]?.replication
}

t.test('users get a replica in every data centre, once, and never fewer', async (t) => {
  // A data centre that just started is known to the other a moment later.
  let more: boolean | undefined
  for (let tries = 0; more === undefined && tries < 60; tries++)
    more = await replicateLogins(options).catch(() => delay(500, undefined))
  t.equal(more, true)
  t.equal(await replicateLogins(options), false)
  t.equal(await replicateLogins({ ...options, replication: { 'eu-par': 1, 'na-nyc': 0 } }), false)
})

t.test('the user of the service is made, and the well-known password ends', async (t) => {
  t.same(await makeLogins(options), ['the user holdfast was made', 'the user cassandra has another password'])
  t.same(await makeLogins(options), [], 'a second time there is nothing to do')
  t.match(await replication(), { class: /NetworkTopologyStrategy/, 'eu-par': '1', 'na-nyc': '1' })
  const first = new cassandra.Client({
    contactPoints: [hereHost],
    localDataCenter: 'eu-par',
    credentials: { username: 'cassandra', password: 'cassandra' },
  })
  await t.rejects(first.connect())
  await first.shutdown()
  const store = await open(options.password)
  t.match(store.nodes(), { known: 1 }, 'it makes its keyspace and tables')
  await store.close()
})

t.test('logins need little CPU, also of a user that was made otherwise', async (t) => {
  const operator = new cassandra.Client({
    contactPoints: [hereHost],
    localDataCenter: 'eu-par',
    credentials: { username: 'cassandra', password: options.operatorPassword },
  })
  const hashes = async () => {
    const { rows } = await operator.execute('SELECT role, salted_hash FROM system_auth.roles')
    return Object.fromEntries(rows.map(({ role, salted_hash }) => [role, salted_hash]))
  }
  t.match(await hashes(), { holdfast: /^\$2a\$04\$/, cassandra: /^\$2a\$04\$/ })
  await operator.execute(`ALTER ROLE holdfast WITH PASSWORD = '${options.password.replaceAll("'", "''")}'`)
  t.match(await hashes(), { holdfast: /^\$2a\$10\$/ })
  t.same(await makeLogins(options), ['logins of the user holdfast need less CPU'])
  t.same(await makeLogins(options), [])
  t.match(await hashes(), { holdfast: /^\$2a\$04\$/ })
  await operator.shutdown()
  await (await open(options.password)).close()
})

t.test('a changed password of the service is brought there', async (t) => {
  const changed = { ...options, password: 'another one' }
  // Cassandra remembers passwords for two seconds after a login.
  await (await open(options.password)).close()
  t.same(await makeLogins(changed), ['the user holdfast has another password'])
  await (await open(changed.password)).close()
  let refused = false
  for (let tries = 0; !refused && tries < 20; tries++)
    refused = await open(options.password).then(
      (store) => store.close().then(() => delay(500, false)),
      (error: unknown) => isRefused(error),
    )
  t.ok(refused)
  await (await open(changed.password)).close()
})

t.test('a short password keeps an expensive hash', async (t) => {
  const operator = new cassandra.Client({
    contactPoints: [hereHost],
    localDataCenter: 'eu-par',
    credentials: { username: 'cassandra', password: options.operatorPassword },
  })
  const { rows } = await operator.execute("SELECT salted_hash FROM system_auth.roles WHERE role = 'holdfast'")
  await operator.shutdown()
  t.match(rows[0]?.salted_hash, /^\$2a\$10\$/)
  t.same(await makeLogins({ ...options, password: 'another one' }), [])
})

t.test('where a data centre is lost, the others still let users in', async (t) => {
  await here.stop('SIGKILL')
  await (await open('another one', [thereHost, 'na-nyc'])).close()
  t.pass()
})

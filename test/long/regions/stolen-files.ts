/**
 * What the files of this host open, as somebody would try who has them: `stolen-files.ts <JSON of
 * Door[]>` prints a line of JSON for each, in their order: whether it opened. Certificates of
 * servers are not verified.
 */
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { connect as tlsConnect } from 'node:tls'
import cassandra from 'cassandra-driver'
import { connect as natsConnect } from 'nats'

export interface Door {
  /**
   * `certificate`: a port with TLS that asks for one (`own` names the files). `nats`, `cassandra`:
   * a login. `admin`: a call with the admin token.
   */
  kind: 'certificate' | 'nats' | 'cassandra' | 'admin'
  /** Of `certificate`: with gRPC. */
  grpc: boolean
  host: string
  port: number
  /** Names of the certificate and the key, or the user. */
  own: readonly string[]
  /** A data centre of Cassandra. */
  region: string
}

const patienceMs = 10_000
/** A server that refuses a certificate says so at once. */
const quietMs = 1_000
const read = (name: string) => readFileSync(`/etc/holdfast/${name}`, 'utf8')
const own = { cert: read('tls/node.pem'), key: read('tls/node.key'), rejectUnauthorized: false }
const [given = '[]'] = process.argv.slice(2)
for (const door of JSON.parse(given) as Door[]) console.log(JSON.stringify(await opens(door)))
process.exit()

function opens(door: Door): Promise<boolean> {
  return { certificate, nats, cassandra: cassandraLogin, admin }[door.kind](door)
}

function certificate({ host, port, grpc, own: [cert = '', key = cert] }: Door): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = tlsConnect({
      host,
      port,
      cert: read(`tls/${cert}`),
      key: read(`tls/${key}`),
      rejectUnauthorized: false,
      ...(grpc ? { ALPNProtocols: ['h2'] } : {}),
    })
    const ended = (is: boolean) => {
      socket.destroy()
      resolve(is)
    }
    socket.once('error', () => ended(false)).once('close', () => ended(false))
    socket.once('secureConnect', () => setTimeout(() => ended(true), quietMs))
    socket.setTimeout(patienceMs, () => ended(false)).resume()
  })
}

async function nats({ host, port, own: [user = ''] }: Door): Promise<boolean> {
  const name = user === 'holdfast' ? 'HOLDFAST_PASSWORD' : 'SYSTEM_PASSWORD'
  const pass = new RegExp(`^${name}: "(.*)"`, 'm').exec(read('secrets/nats-users.conf'))?.[1] ?? ''
  try {
    const client = await natsConnect({
      servers: `${host}:${port}`,
      user,
      pass,
      tls: own as object,
      timeout: patienceMs,
      reconnect: false,
    })
    await client.close()
    return true
  } catch {
    return false
  }
}

async function cassandraLogin({ host, port, region, own: [username = ''] }: Door): Promise<boolean> {
  const file = username === 'holdfast' ? 'cassandra-password' : 'cassandra-admin-password'
  const client = new cassandra.Client({
    contactPoints: [`${host}:${port}`],
    localDataCenter: region,
    credentials: { username, password: read(`secrets/${file}`).trim() },
    sslOptions: own,
  })
  try {
    await client.execute('SELECT release_version FROM system.local')
    return true
  } catch {
    return false
  } finally {
    await client.shutdown()
  }
}

function admin({ host, port }: Door): Promise<boolean> {
  const headers = { authorization: `Bearer ${read('secrets/admin-token').trim()}` }
  return new Promise((resolve) => {
    request(
      { host, port, path: '/admin/status', headers, rejectUnauthorized: false, timeout: patienceMs },
      (answer) => {
        answer.resume()
        resolve(answer.statusCode === 200)
      },
    )
      .once('error', () => resolve(false))
      .end()
  })
}

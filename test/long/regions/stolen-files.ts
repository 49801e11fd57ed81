/**
 * What files open, as somebody would try who has them: `stolen-files.ts <folder of certificates>
 * <folder of secrets> <JSON of Door[]>` prints a line of JSON for each, in their order: `opens`,
 * `unreached`, or how it was refused. Certificates of servers are not verified.
 */
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { connect } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { RemoteBlobStore } from '@holdfast/blob-store-grpc'
import { systemClock } from '@holdfast/kernel'
import { TlsFiles } from '@holdfast/trust'
import cassandra from 'cassandra-driver'
import { connect as natsConnect } from 'nats'
import { type Door, opens, unreached } from './doors.ts'

const patienceMs = 10_000
/** A server that refuses a certificate says so at once. */
const quietMs = 500
const [tls = '', secrets = '', given = '[]'] = process.argv.slice(2)
const certificateOf = (name: string) => readFileSync(`${tls}/${name}`, 'utf8')
const secretOf = (name: string) => readFileSync(`${secrets}/${name}`, 'utf8').trim()
const own = { cert: certificateOf('node.pem'), key: certificateOf('node.key'), rejectUnauthorized: false }
for (const door of JSON.parse(given) as Door[]) console.log(JSON.stringify(await answerOf(door)))
process.exit()

async function answerOf(door: Door): Promise<string> {
  if (!(await connects(door))) return unreached
  try {
    await { certificate, nats, cassandra: cassandraLogin, admin, metrics: admin, cluster }[door.kind](door)
    return opens
  } catch (error) {
    return reasonOf(error)
  }
}

function connects({ host, port }: Door): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: patienceMs })
    const ended = (is: boolean) => {
      socket.destroy()
      resolve(is)
    }
    socket.once('connect', () => ended(true)).once('error', () => ended(false))
    socket.once('timeout', () => ended(false))
  })
}

/** Of the driver of Cassandra: what the node said. */
function reasonOf(error: unknown): string {
  const { innerErrors = {} } = error as { innerErrors?: Record<string, Error> }
  const { name, message, code, details } = (Object.values(innerErrors)[0] ?? error) as Error & {
    code?: unknown
    details?: unknown
  }
  return [name, code, message, details].filter((word) => word !== undefined).join(' ')
}

function certificate({ host, port, grpc, own: [cert = '', key = cert] }: Door): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = tlsConnect({
      host,
      port,
      cert: certificateOf(cert),
      key: certificateOf(key),
      rejectUnauthorized: false,
      ...(grpc ? { ALPNProtocols: ['h2'] } : {}),
    })
    socket.once('error', reject).once('close', () => reject(new Error('closed')))
    socket.once('secureConnect', () =>
      setTimeout(() => {
        resolve()
        socket.destroy()
      }, quietMs),
    )
    socket.setTimeout(patienceMs, () => socket.destroy(new Error('timed out'))).resume()
  })
}

async function nats({ host, port, own: [user = ''] }: Door): Promise<void> {
  const name = user === 'holdfast' ? 'HOLDFAST_PASSWORD' : 'SYSTEM_PASSWORD'
  const pass = new RegExp(`^${name}: "(.*)"`, 'm').exec(secretOf('nats-users.conf'))?.[1] ?? ''
  const servers = `${host}:${port}`
  const client = await natsConnect({
    servers,
    user,
    pass,
    tls: own as object,
    timeout: patienceMs,
    reconnect: false,
  })
  await client.close()
}

async function cassandraLogin({ host, port, region, own: [username = ''] }: Door): Promise<void> {
  const file = username === 'holdfast' ? 'cassandra-password' : 'cassandra-admin-password'
  const client = new cassandra.Client({
    contactPoints: [`${host}:${port}`],
    localDataCenter: region,
    credentials: { username, password: secretOf(file) },
    sslOptions: own,
  })
  try {
    await client.execute('SELECT release_version FROM system.local')
  } finally {
    await client.shutdown()
  }
}

function admin({ kind, host, port }: Door): Promise<void> {
  const [path, token] = kind === 'admin' ? ['/admin/status', 'admin-token'] : ['/metrics', 'metrics-token']
  const headers = { authorization: `Bearer ${secretOf(token)}` }
  return new Promise((resolve, reject) => {
    request({ host, port, path, headers, rejectUnauthorized: false, timeout: patienceMs }, (answer) => {
      answer.resume()
      if (answer.statusCode === 200) resolve()
      else reject(new Error(String(answer.statusCode)))
    })
      .once('error', reject)
      .end()
  })
}

async function cluster({ host, port }: Door): Promise<void> {
  const store = new RemoteBlobStore({
    node: host,
    control: `${host}:${port}`,
    bytes: `https://${host}:${port}`,
    secret: secretOf('cluster-secret').split(/\s+/)[0] ?? '',
    tls: TlsFiles.open(
      { ca: `${tls}/ca.pem`, own: { cert: `${tls}/node.pem`, key: `${tls}/node.key` } },
      { read: (path) => readFileSync(path, 'utf8'), onReload: undefined, onFault: undefined },
    ),
    clock: systemClock,
  })
  try {
    await store.usage()
  } finally {
    await store.close()
  }
}

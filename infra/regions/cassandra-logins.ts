/**
 * Cassandra's users, made from a host of the deployment: `up` starts this there, after Cassandra
 * and before the processes.
 *
 *   infra/launch.sh infra/regions/cassandra-logins.ts replicate|make < <JSON of LoginsWork>
 *
 * `replicate` prints a line when users have more replicas than before and need a repair.
 */
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { makeLogins, replicateLogins } from '@holdfast/journal-cassandra'
import { TlsFiles } from '@holdfast/trust'

export interface LoginsWork {
  /** Nodes of the data centre of this host. */
  contactPoints: string[]
  port: number
  dataCentre: string
  replication: Record<string, number>
  user: string
  /** Files of both passwords, and of the certificates. */
  passwordFile: string
  operatorPasswordFile: string
  ca: string
  cert: string
  key: string
}

const patienceMs = 180_000
const [step] = process.argv.slice(2)
const work = JSON.parse(await text(process.stdin)) as LoginsWork
const secret = (path: string) => readFileSync(path, 'utf8').trim()
const tls = TlsFiles.open(
  { ca: work.ca, own: { cert: work.cert, key: work.key } },
  { read: (path) => readFileSync(path, 'utf8'), onReload: undefined, onFault: undefined },
)
const options = {
  ...work,
  tls,
  operatorPassword: secret(work.operatorPasswordFile),
  password: secret(work.passwordFile),
  patienceMs,
}
if (step === 'replicate') {
  if (await replicateLogins(options)) console.log('changed system_auth')
} else for (const line of await makeLogins(options)) console.log(`changed ${line}`)
// The driver continues after a refused login.
process.exit()

/**
 * Cassandra's part of adding regions, from a host of the deployment: `up` starts this there, before
 * the processes.
 *
 *   infra/launch.sh infra/regions/cassandra-regions.ts add|join < <JSON of RegionsWork>
 *
 * `add` prints a line for each region that has not joined: its code, the region that has the rows
 * that it lacks, and their keyspaces.
 */
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { type AddingConfig, addRegions, joinRegion } from '@holdfast/cluster'
import type { RegionCode } from '@holdfast/kernel'
import { TlsFiles } from '@holdfast/trust'

export interface RegionsWork extends Pick<AddingConfig, 'regions'> {
  cassandra: Pick<AddingConfig['cassandra'], 'nodes' | 'replicas'>
  /** Which one `join` is about. */
  joining?: RegionCode
  user: string
  /** Files of the password and the certificates. */
  passwordFile: string
  ca: string
  cert: string
  key: string
}

const [step] = process.argv.slice(2)
const work = JSON.parse(await text(process.stdin)) as RegionsWork
const { regions, cassandra, user, joining } = work
const config: AddingConfig = { regions, cassandra: { ...cassandra, tlsCa: work.ca } }
const password = readFileSync(work.passwordFile, 'utf8').trim()
const access = {
  credentials: () => ({ user, password }),
  tls: TlsFiles.open(
    { ca: work.ca, own: { cert: work.cert, key: work.key } },
    { read: (path) => readFileSync(path, 'utf8'), onReload: undefined, onFault: undefined },
  ),
}
try {
  if (step === 'add')
    for (const { region, from, keyspaces } of await addRegions(config, access))
      console.log(`joining ${region} ${from} ${keyspaces.join()}`)
  else if (joining !== undefined) {
    await joinRegion(config, joining, access)
    console.log(`joined ${joining}`)
  }
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
// The driver continues after a refused login.
process.exit()

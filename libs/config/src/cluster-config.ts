/** The settings of a process of a cluster: those of every process and those of its part in it. */
import { X509Certificate } from 'node:crypto'
import {
  type Config,
  configOf,
  deepFreeze,
  type Secrets,
  type SettingValues,
  secretsOf,
  settings,
} from './config.ts'
import { type Environment, readSettings, type ValuesOf } from './setting-kinds.ts'
import { lifetimesFit } from './topics/accounts.ts'
import { type ClusterPartConfig, clusterPart, clusterSettings } from './topics/cluster.ts'
import { portsDiffer, tokensDiffer } from './topics/hosts.ts'

/** The active settings of a process of a cluster. */
export interface ClusterConfig extends Config, ClusterPartConfig {}

export interface ClusterSecrets extends Secrets {
  /** The first proves calls, all are accepted: a new one is added before it is used. */
  clusterSecret: readonly string[]
  /** Undefined: clients need no credentials. */
  nats: Credentials | undefined
  cassandra: Credentials | undefined
}

export interface Credentials {
  user: string
  password: string
}

/**
 * As `readConfig`, for a process of a cluster.
 * @throws SettingsFault naming every fault at once.
 */
export function readClusterConfig(
  env: Environment,
  { readSecret }: { readSecret: (path: string) => string },
): { config: ClusterConfig; secrets: ClusterSecrets } {
  const values = readSettings({ ...settings, ...clusterSettings }, env, {
    prefix: 'HOLDFAST_',
    readSecret,
    check: (read) => [
      ...clusterFits(read),
      ...tokensDiffer(read),
      ...lifetimesFit(read),
      ...authorityNames.flatMap((name) => {
        try {
          if (read[name]) new X509Certificate(readSecret(read[name]))
          return []
        } catch (error) {
          return [`${name}=${read[name]} is no file of certificates: ${(error as Error).message}`]
        }
      }),
    ],
  })
  const config: ClusterConfig = {
    ...configOf(values),
    ...clusterPart(values),
    serverName: values.HOLDFAST_NODE_NAME,
  }
  const secrets: ClusterSecrets = {
    ...secretsOf(values),
    clusterSecret: Object.freeze(values.HOLDFAST_CLUSTER_SECRET?.split(/\s+/) ?? []),
    nats: credentialsOf(values.HOLDFAST_NATS_USER, values.HOLDFAST_NATS_PASSWORD),
    cassandra: credentialsOf(values.HOLDFAST_CASSANDRA_USER, values.HOLDFAST_CASSANDRA_PASSWORD),
  }
  return { config: deepFreeze(config), secrets: Object.freeze(secrets) }
}

type ClusterValues = SettingValues & ValuesOf<typeof clusterSettings>

function clusterFits(values: Partial<ClusterValues>): string[] {
  const faults: string[] = []
  const { HOLDFAST_REGION: own, HOLDFAST_REGIONS: all = [], HOLDFAST_CASSANDRA: nodes = {} } = values
  if (own !== undefined && !all.includes(own))
    faults.push(`HOLDFAST_REGION is ${own}, which HOLDFAST_REGIONS lacks`)
  for (const region of all)
    if (!nodes[region]) faults.push(`HOLDFAST_CASSANDRA names no node of the region ${region}`)
  if (values.HOLDFAST_CLUSTER_SECRET === undefined) faults.push('HOLDFAST_CLUSTER_SECRET is not set')
  for (const server of ['NATS', 'CASSANDRA'] as const) {
    const [user, password] = [`HOLDFAST_${server}_USER`, `HOLDFAST_${server}_PASSWORD`] as const
    if (values[user] && values[password] === undefined) faults.push(`${user} is set, ${password} is not`)
    if (values[user] === '' && values[password] !== undefined)
      faults.push(`${password} is set, ${user} is not`)
  }
  const missing = identityNames.filter((name) => values[name] === '')
  if (missing.length > 0 && missing.length < identityNames.length)
    faults.push(`${missing.join(' and ')} must be set too: ${identityNames.join(', ')} count together`)
  for (const name of ['HOLDFAST_FRONTEND_TLS', 'HOLDFAST_ADMIN_TLS'] as const)
    if ((values[name] ?? 'off') !== 'off' && values.HOLDFAST_TLS_CA === '')
      faults.push(`${name} is ${values[name]}, HOLDFAST_TLS_CA is not set`)
  const ofUploads = values.HOLDFAST_UPLOAD_STORES ? uploadPortNames : []
  return [...faults, ...portsDiffer(values, [...ofUploads, ...storagePortNames])]
}

const authorityNames = [
  'HOLDFAST_NATS_TLS_CA',
  'HOLDFAST_CASSANDRA_TLS_CA',
  'HOLDFAST_TLS_CA',
  'HOLDFAST_TLS_CERT',
] as const
const identityNames = ['HOLDFAST_TLS_CA', 'HOLDFAST_TLS_CERT', 'HOLDFAST_TLS_KEY'] as const

function credentialsOf(user: string, password: string | undefined): Credentials | undefined {
  return password === undefined ? undefined : Object.freeze({ user, password })
}

const storagePortNames = ['HOLDFAST_CONTROL_PORT', 'HOLDFAST_BYTES_PORT'] as const
/** Further ports of an upload frontend. */
const uploadPortNames = ['HOLDFAST_UPLOAD_PORT', 'HOLDFAST_DOWNLOAD_PORT', 'HOLDFAST_ADMIN_PORT'] as const

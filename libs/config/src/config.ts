/**
 * What an operator may set, in one schema: name, default with unit and reason, meaning. Reading it
 * is pure.
 */
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { accountContentsMax } from '@holdfast/actor-runtime'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import {
  baseUrl,
  bytes,
  bytesOrNone,
  choice,
  type Environment,
  integer,
  onOff,
  readSettings,
  type Setting,
  seconds,
  secret,
  text,
  type ValuesOf,
} from './setting-kinds.ts'

const plainBytes = bytes({ fallback: '', meaning: '' })

export const settings = {
  HOLDFAST_API_PORT: port('8080', 'Port of the JSON API and the pages; 0 takes a free one.'),
  HOLDFAST_UPLOAD_PORT: port('8081', 'Port of the upload host.'),
  HOLDFAST_DOWNLOAD_PORT: port(
    '8082',
    'Port of the download host: its own origin, so that uploaded scripts cannot act on the pages.',
  ),
  HOLDFAST_ADMIN_PORT: port('8090', 'Port of metrics, health and operator calls.'),
  HOLDFAST_BIND: address('127.0.0.1', 'Address that every host listens on; `0.0.0.0` or `::` for all.'),
  HOLDFAST_ADMIN_BIND: address('', 'Address of the admin host, when it differs from HOLDFAST_BIND.'),
  HOLDFAST_DATA_DIR: text({
    fallback: './data',
    meaning: 'Directory that holds everything; relative to where the process starts. One process at a time.',
  }),
  HOLDFAST_PUBLIC_API_URL: baseUrl({
    meaning: 'What links to the API say. Without it: `http://<bind>:<port>`.',
  }),
  HOLDFAST_PUBLIC_UPLOAD_URL: baseUrl({ meaning: 'What links to the upload host say.' }),
  HOLDFAST_PUBLIC_DOWNLOAD_URL: baseUrl({ meaning: 'What download links and direct links say.' }),
  HOLDFAST_PUBLIC_WEB_URL: baseUrl({ meaning: 'What links to the pages say. Without it: the API’s.' }),
  HOLDFAST_REGION: choice(regionCodes, {
    fallback: 'eu-par',
    meaning:
      'Home region of accounts that are made here. It is part of their ids, so it never changes for them.',
  }),
  HOLDFAST_SERVER_NAME: pattern(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a name of letters, digits and -', {
    fallback: 'store1',
    meaning: 'Name of this storage server in the `servers` of a file.',
  }),
  HOLDFAST_TRUST_PROXY: {
    fallback: 'off',
    meaning:
      'Proxies whose X-Forwarded-For counts: a number of hops, or addresses, CIDRs, `loopback`; comma-separated.',
    secret: false,
    parse: trustedProxies,
  } as Setting<string[] | number | false>,
  HOLDFAST_RATE_LIMITS: choice(['default', 'off'], {
    fallback: 'default',
    meaning: '`off` lifts every rate limit, ban and budget of guesses: for tests and closed networks.',
  }),
  HOLDFAST_OPEN_LISTING: onOff({
    fallback: 'off',
    meaning: '`on` opens GET /contents/{id} and search to every tier, also without a website token.',
  }),
  HOLDFAST_DIRECT_LINKS_PREMIUM: onOff({
    fallback: 'off',
    meaning: '`on` lets premium accounts alone make direct links.',
  }),
  HOLDFAST_EXPIRY_SWEEP_SECONDS: seconds({
    fallback: '1',
    min: 0.05,
    max: 3600,
    meaning:
      'How often the service looks for due expiries, seconds. For visitors an expiry always holds at its second.',
  }),
  HOLDFAST_GUEST_CONTENTS: contents('10000', 'guest'),
  HOLDFAST_STANDARD_CONTENTS: contents('10000', 'standard'),
  HOLDFAST_PREMIUM_CONTENTS: contents(String(accountContentsMax), 'premium'),
  HOLDFAST_GUEST_STORAGE: storage('guest'),
  HOLDFAST_STANDARD_STORAGE: storage('standard'),
  HOLDFAST_PREMIUM_STORAGE: storage('premium'),
  HOLDFAST_GUEST_TRAFFIC: traffic('guest'),
  HOLDFAST_STANDARD_TRAFFIC: traffic('standard'),
  HOLDFAST_PREMIUM_TRAFFIC: traffic('premium'),
  HOLDFAST_SMTP_URL: secret({
    meaning:
      'Where mails go, like `smtps://user:password@mail.example.org`. Without it: files in `<data dir>/outbox/`.',
    check: smtpUrl,
  }),
  HOLDFAST_MAIL_FROM: pattern(/^[^\r\n]*@[^\r\n]*$/, 'a mail address, or `Name <address>`', {
    fallback: 'Holdfast <no-reply@localhost>',
    meaning: 'Sender of sign-in mails.',
  }),
  HOLDFAST_ADMIN_TOKEN: secret({
    meaning:
      'Opens the admin host to callers that are not on this machine; without it they are refused. 16 characters or more.',
    check: adminToken,
  }),
  HOLDFAST_GC_GRACE_SECONDS: integer({
    fallback: '3600',
    min: 0,
    max: 30 * 86_400,
    meaning:
      'How long bytes stay on disk after their last reference was removed, seconds. Must be longer than any upload takes. Bytes of the last ten minutes always stay.',
  }),
  HOLDFAST_COLLECT_SECONDS: integer({
    fallback: '600',
    min: 1,
    max: 7 * 86_400,
    meaning: 'How often the service looks for unreferenced bytes, seconds.',
  }),
  HOLDFAST_RECONCILE_SECONDS: integer({
    fallback: '86400',
    min: 1,
    max: 30 * 86_400,
    meaning:
      'How often the references of files are compared with all accounts, seconds. While deleted bytes wait for it, the comparison runs every HOLDFAST_COLLECT_SECONDS.',
  }),
  HOLDFAST_RECONCILE_RATE: integer({
    fallback: '100',
    min: 1,
    max: 100_000,
    meaning:
      'Questions a second that this comparison asks, in a cluster per region: one per account, and one more per thousand of its files.',
  }),
  HOLDFAST_SCRUB_RATE: bytes({
    fallback: '20MiB',
    meaning:
      'Bytes a second that are read from the disk to find damaged files; 0 turns it off. 20 MiB is a tenth of what a hard disk reads: 10 TB in six days.',
  }),
  HOLDFAST_SCRUB_SECONDS: integer({
    fallback: '86400',
    min: 1,
    max: 90 * 86_400,
    meaning: 'Pause between two such passes over all files, seconds. Sectors decay within months.',
  }),
  HOLDFAST_ACCOUNT_MEMORY: bytes({
    fallback: '256MiB',
    meaning: 'Memory for loaded accounts. Above it the accounts that were idle longest are unloaded.',
  }),
  HOLDFAST_UPLOAD_MEMORY: bytes({
    fallback: '32MiB',
    min: 8 * 1024 ** 2,
    meaning:
      'Memory that all running uploads share; 8 MiB or more. More helps when many large uploads run at a time.',
  }),
  HOLDFAST_CACHE_MEMORY: bytes({
    fallback: '32MiB',
    meaning: 'Memory for the bytes of small files that are read often.',
  }),
  HOLDFAST_RESERVE: {
    fallback: 'auto',
    meaning:
      'Disk space kept free, bytes: below it uploads are refused. `auto`: 3 GiB, or 5 % of a smaller disk.',
    secret: false,
    parse: (value) => (value === 'auto' ? undefined : plainBytes.parse(value)),
  } as Setting<number | undefined>,
  HOLDFAST_CONNECTIONS_MAX: countOrAuto({
    min: 3,
    max: 1_000_000,
    meaning:
      'Connections that the public hosts of a process take together, each the same part. `auto`: what the limit of open files leaves, at most 4,096 each.',
  }),
  HOLDFAST_CONNECTIONS_PER_NETWORK_MAX: countOrAuto({
    min: 1,
    max: 1_000_000,
    meaning:
      'Connections to one host from one address (IPv6: /64), and requests under way of one behind a trusted proxy. `auto`: a quarter of the host’s, at most 1,024. `HOLDFAST_RATE_LIMITS=off` lifts it.',
  }),
  HOLDFAST_DRAIN_SECONDS: seconds({
    fallback: '25',
    min: 0,
    max: 3600,
    meaning:
      'How long running requests may take after SIGTERM; less than the 30 s after which orchestrators kill.',
  }),
  HOLDFAST_LOG_LEVEL: choice(['debug', 'info', 'warn', 'error', 'silent'], {
    fallback: 'warn',
    meaning: 'Least severe log line that is written (JSON lines on stderr); debug shows every request.',
  }),
}

/** What a process of a cluster takes besides. */
export const clusterSettings = {
  HOLDFAST_NODE_NAME: pattern(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a name of letters, digits and -', {
    fallback: '',
    meaning: 'Name of this process, unique in the cluster and the same after a restart.',
  }),
  HOLDFAST_REGIONS: {
    fallback: 'eu-par',
    meaning:
      'Regions of this cluster, comma-separated. Their order never changes and is the same in every process: the first keeps the settings.',
    secret: false,
    parse: regionList,
  } as Setting<RegionCode[]>,
  HOLDFAST_NATS_SERVERS: {
    fallback: '127.0.0.1:4222',
    meaning: 'NATS servers of this region, `host:port`, comma-separated.',
    secret: false,
    parse: endpoints,
  } as Setting<Endpoint[]>,
  HOLDFAST_NATS_USER: text({ fallback: '', meaning: 'User at the NATS servers, when they ask for one.' }),
  HOLDFAST_NATS_PASSWORD: secret({ meaning: 'Password of HOLDFAST_NATS_USER.' }),
  HOLDFAST_NATS_TLS_CA: text({
    fallback: '',
    meaning:
      'PEM file of the authority that the NATS servers have certificates of; with it connections are encrypted, and other servers are refused.',
  }),
  HOLDFAST_CASSANDRA: {
    fallback: 'eu-par=127.0.0.1:9042',
    meaning:
      'Cassandra nodes of every region: `eu-par=host:port,host:port;na-nyc=…`. The data centres have the names of the regions.',
    secret: false,
    parse: endpointsByRegion,
  } as Setting<Partial<Record<RegionCode, Endpoint[]>>>,
  HOLDFAST_CASSANDRA_USER: text({
    fallback: '',
    meaning: 'User at Cassandra, when it asks for one (PasswordAuthenticator).',
  }),
  HOLDFAST_CASSANDRA_PASSWORD: secret({ meaning: 'Password of HOLDFAST_CASSANDRA_USER.' }),
  HOLDFAST_CASSANDRA_TLS_CA: text({
    fallback: '',
    meaning:
      'PEM file of the authority that the Cassandra nodes have certificates of; with it connections are encrypted, and other servers are refused.',
  }),
  HOLDFAST_CASSANDRA_REPLICAS: integer({
    fallback: '3',
    min: 1,
    max: 9,
    meaning: 'Replicas of every row in each data centre that keeps it; counts when the tables are made.',
  }),
  HOLDFAST_CLUSTER_SECRET: secret({
    meaning: 'Proves to the processes of a cluster that a caller is one of them; 16 characters or more.',
    check: adminToken,
  }),
  HOLDFAST_NODE_LOST_SECONDS: integer({
    fallback: '900',
    min: 5,
    max: 30 * 86_400,
    meaning: 'After this silence a storage node counts as lost, and other nodes copy what it held, seconds.',
  }),
  HOLDFAST_REPLICA_READS_SECONDS: integer({
    fallback: '86400',
    min: 0,
    max: 30 * 86_400,
    meaning:
      'How long the second region answers downloads for a lost region, seconds; 0: never. It does not learn of content that becomes private in the lost region.',
  }),
  HOLDFAST_UPLOAD_STORES: onOff({
    fallback: 'off',
    meaning:
      '`on` makes an upload frontend a storage node too: the first copy of an upload is on its own disk.',
  }),
  HOLDFAST_INTERNAL_BIND: address(
    '127.0.0.1',
    'Address of the listeners between nodes; peers reach them under it. On the cluster’s own network.',
  ),
  HOLDFAST_CONTROL_PORT: port('8091', 'Port of a storage node’s gRPC service; 0 takes a free one.'),
  HOLDFAST_BYTES_PORT: port('8092', 'Port of a storage node’s bytes for other nodes; 0 takes a free one.'),
}

/** `host:port`. */
export interface Endpoint {
  host: string
  port: number
}

/** The active settings of a process of a cluster. */
export interface ClusterConfig extends Config {
  nodeName: string
  /** Its order is part of the data. */
  regions: readonly RegionCode[]
  natsServers: readonly Endpoint[]
  /** PEM. Undefined: encryption is not required. */
  natsTlsCa: string | undefined
  cassandra: {
    nodes: Partial<Record<RegionCode, Endpoint[]>>
    replicas: number
    /** As `natsTlsCa`. */
    tlsCa: string | undefined
  }
  nodeLostMs: number
  /** How long copies of journals answer downloads for a lost region. */
  replicaReadsMs: number
  /** An upload frontend has the storage role too. */
  uploadStores: boolean
  internal: { host: string; control: number; bytes: number }
}

export interface ClusterSecrets extends Secrets {
  clusterSecret: string
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
  const authorities: Partial<Record<AuthorityName, string>> = {}
  const values = readSettings({ ...settings, ...clusterSettings }, env, {
    prefix: 'HOLDFAST_',
    readSecret,
    check: (read) => [
      ...clusterFits(read),
      ...authorityNames.flatMap((name) => {
        try {
          if (read[name]) authorities[name] = authorityOf(readSecret(read[name]))
          return []
        } catch (error) {
          return [`${name}=${read[name]} is no file of certificates: ${(error as Error).message}`]
        }
      }),
    ],
  })
  const config: ClusterConfig = {
    ...configOf(values),
    nodeName: values.HOLDFAST_NODE_NAME,
    serverName: values.HOLDFAST_NODE_NAME,
    regions: values.HOLDFAST_REGIONS,
    natsServers: values.HOLDFAST_NATS_SERVERS,
    natsTlsCa: authorities.HOLDFAST_NATS_TLS_CA,
    cassandra: {
      nodes: values.HOLDFAST_CASSANDRA,
      replicas: values.HOLDFAST_CASSANDRA_REPLICAS,
      tlsCa: authorities.HOLDFAST_CASSANDRA_TLS_CA,
    },
    nodeLostMs: values.HOLDFAST_NODE_LOST_SECONDS * 1000,
    replicaReadsMs: values.HOLDFAST_REPLICA_READS_SECONDS * 1000,
    uploadStores: values.HOLDFAST_UPLOAD_STORES,
    internal: {
      host: values.HOLDFAST_INTERNAL_BIND,
      control: values.HOLDFAST_CONTROL_PORT,
      bytes: values.HOLDFAST_BYTES_PORT,
    },
  }
  const secrets: ClusterSecrets = {
    ...secretsOf(values),
    clusterSecret: values.HOLDFAST_CLUSTER_SECRET ?? '',
    nats: credentialsOf(values.HOLDFAST_NATS_USER, values.HOLDFAST_NATS_PASSWORD),
    cassandra: credentialsOf(values.HOLDFAST_CASSANDRA_USER, values.HOLDFAST_CASSANDRA_PASSWORD),
  }
  return { config: deepFreeze(config), secrets: Object.freeze(secrets) }
}

type ClusterValues = Values & ValuesOf<typeof clusterSettings>

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
  const ofUploads = values.HOLDFAST_UPLOAD_STORES ? uploadPortNames : []
  return [...faults, ...portsDiffer(values, [...ofUploads, ...storagePortNames])]
}

const authorityNames = ['HOLDFAST_NATS_TLS_CA', 'HOLDFAST_CASSANDRA_TLS_CA'] as const
type AuthorityName = (typeof authorityNames)[number]

/** @throws Error when it is no certificate */
function authorityOf(pem: string): string {
  new X509Certificate(pem)
  return pem
}

function credentialsOf(user: string, password: string | undefined): Credentials | undefined {
  return password === undefined ? undefined : Object.freeze({ user, password })
}

const storagePortNames = ['HOLDFAST_CONTROL_PORT', 'HOLDFAST_BYTES_PORT'] as const
/** Further ports of an upload frontend. */
const uploadPortNames = ['HOLDFAST_UPLOAD_PORT', 'HOLDFAST_DOWNLOAD_PORT', 'HOLDFAST_ADMIN_PORT'] as const

/** The environment as one frozen value. Nothing in it is secret. */
export interface Config {
  dataDir: string
  region: RegionCode
  serverName: string
  listen: { host: string; adminHost: string; api: number; upload: number; download: number; admin: number }
  /** Undefined: derived from the bound address. */
  publicUrls: {
    api: string | undefined
    upload: string | undefined
    download: string | undefined
    web: string | undefined
  }
  trustProxy: string[] | number | false
  rateLimits: 'default' | 'off'
  openListing: boolean
  directLinksPremium: boolean
  expirySweepMs: number
  tiers: Record<'guest' | 'standard' | 'premium', TierSettings>
  mailFrom: string
  collect: { graceMs: number; everyMs: number }
  reconcile: { everyMs: number; wantedMs: number; perSecond: number }
  /** 0 bytes a second: no scrubbing. */
  scrub: { bytesPerSecond: number; restMs: number }
  accountMemoryBytes: number
  store: {
    uploadMemoryBytes: number
    cacheBytes: number
    /** Undefined: by the size of the disk. */
    reserveBytes: number | undefined
  }
  /** Undefined: by the limit of open files. */
  connections: { max: number | undefined; perNetworkMax: number | undefined }
  drainMs: number
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

/** Bytes, undefined: no limit. */
export interface TierSettings {
  contents: number
  storage: number | undefined
  traffic: number | undefined
}

/** Never logged, never printed. */
export interface Secrets {
  smtpUrl: string | undefined
  adminToken: string | undefined
}

/**
 * Reads the environment.
 * @throws SettingsFault naming every fault at once, unknown HOLDFAST_ names included.
 */
export function readConfig(
  env: Environment,
  { readSecret }: { readSecret: (path: string) => string },
): { config: Config; secrets: Secrets } {
  const values = readSettings(settings, env, {
    prefix: 'HOLDFAST_',
    readSecret,
    check: (read) => portsDiffer(read, portNames),
  })
  return { config: deepFreeze(configOf(values)), secrets: Object.freeze(secretsOf(values)) }
}

/** One line a setting, for `npm run config` and the operator's `ctl config`: secrets masked. */
export function describeSettings(
  env: Environment,
  schema: Record<string, Setting<unknown>> = settings,
): SettingDescription[] {
  return Object.entries(schema).map(([name, setting]) => {
    const value = env[name]?.trim() || (setting.secret && env[`${name}_FILE`] ? '(from file)' : '')
    return {
      name,
      value: setting.secret ? (value === '' ? '' : '(set)') : value || setting.fallback,
      fallback: setting.fallback,
      meaning: setting.meaning,
    }
  })
}

export interface SettingDescription {
  name: string
  /** Active value; empty: none. */
  value: string
  fallback: string
  meaning: string
}

type Values = ValuesOf<typeof settings>

const portNames = [
  'HOLDFAST_API_PORT',
  'HOLDFAST_UPLOAD_PORT',
  'HOLDFAST_DOWNLOAD_PORT',
  'HOLDFAST_ADMIN_PORT',
] as const

function portsDiffer<Name extends string>(
  values: Partial<Record<Name, unknown>>,
  names: readonly Name[],
): string[] {
  return names.flatMap((name, index) => {
    const earlier = names.slice(0, index).find((other) => values[other] === values[name])
    return earlier !== undefined && values[name] ? [`${name} is ${values[name]}, which ${earlier} takes`] : []
  })
}

function configOf(values: Values): Config {
  return {
    dataDir: resolve(values.HOLDFAST_DATA_DIR),
    region: values.HOLDFAST_REGION,
    serverName: values.HOLDFAST_SERVER_NAME,
    listen: {
      host: values.HOLDFAST_BIND,
      adminHost: values.HOLDFAST_ADMIN_BIND || values.HOLDFAST_BIND,
      api: values.HOLDFAST_API_PORT,
      upload: values.HOLDFAST_UPLOAD_PORT,
      download: values.HOLDFAST_DOWNLOAD_PORT,
      admin: values.HOLDFAST_ADMIN_PORT,
    },
    publicUrls: {
      api: values.HOLDFAST_PUBLIC_API_URL,
      upload: values.HOLDFAST_PUBLIC_UPLOAD_URL,
      download: values.HOLDFAST_PUBLIC_DOWNLOAD_URL,
      web: values.HOLDFAST_PUBLIC_WEB_URL,
    },
    trustProxy: values.HOLDFAST_TRUST_PROXY,
    rateLimits: values.HOLDFAST_RATE_LIMITS,
    openListing: values.HOLDFAST_OPEN_LISTING,
    directLinksPremium: values.HOLDFAST_DIRECT_LINKS_PREMIUM,
    expirySweepMs: values.HOLDFAST_EXPIRY_SWEEP_SECONDS * 1000,
    tiers: tiersOf(values),
    mailFrom: values.HOLDFAST_MAIL_FROM,
    collect: {
      graceMs: values.HOLDFAST_GC_GRACE_SECONDS * 1000,
      everyMs: values.HOLDFAST_COLLECT_SECONDS * 1000,
    },
    reconcile: {
      everyMs: values.HOLDFAST_RECONCILE_SECONDS * 1000,
      wantedMs: values.HOLDFAST_COLLECT_SECONDS * 1000,
      perSecond: values.HOLDFAST_RECONCILE_RATE,
    },
    scrub: {
      bytesPerSecond: values.HOLDFAST_SCRUB_RATE,
      restMs: values.HOLDFAST_SCRUB_SECONDS * 1000,
    },
    accountMemoryBytes: values.HOLDFAST_ACCOUNT_MEMORY,
    store: {
      uploadMemoryBytes: values.HOLDFAST_UPLOAD_MEMORY,
      cacheBytes: values.HOLDFAST_CACHE_MEMORY,
      reserveBytes: values.HOLDFAST_RESERVE,
    },
    connections: {
      max: values.HOLDFAST_CONNECTIONS_MAX,
      perNetworkMax: values.HOLDFAST_CONNECTIONS_PER_NETWORK_MAX,
    },
    drainMs: values.HOLDFAST_DRAIN_SECONDS * 1000,
    logLevel: values.HOLDFAST_LOG_LEVEL,
  }
}

function tiersOf(values: Values): Config['tiers'] {
  return {
    guest: {
      contents: values.HOLDFAST_GUEST_CONTENTS,
      storage: values.HOLDFAST_GUEST_STORAGE,
      traffic: values.HOLDFAST_GUEST_TRAFFIC,
    },
    standard: {
      contents: values.HOLDFAST_STANDARD_CONTENTS,
      storage: values.HOLDFAST_STANDARD_STORAGE,
      traffic: values.HOLDFAST_STANDARD_TRAFFIC,
    },
    premium: {
      contents: values.HOLDFAST_PREMIUM_CONTENTS,
      storage: values.HOLDFAST_PREMIUM_STORAGE,
      traffic: values.HOLDFAST_PREMIUM_TRAFFIC,
    },
  }
}

function secretsOf(values: Values): Secrets {
  return { smtpUrl: values.HOLDFAST_SMTP_URL, adminToken: values.HOLDFAST_ADMIN_TOKEN }
}

// ---- settings with several parts

function port(fallback: string, meaning: string): Setting<number> {
  return integer({ fallback, meaning, min: 0, max: 65_535 })
}

function contents(fallback: string, tier: string): Setting<number> {
  return integer({
    fallback,
    min: 0,
    max: accountContentsMax,
    meaning: `Files and folders a ${tier} account may hold; at most ${accountContentsMax}, which one account can carry.`,
  })
}

function storage(tier: string): Setting<number | undefined> {
  return bytesOrNone({ fallback: 'none', meaning: `Bytes a ${tier} account may hold, or \`none\`.` })
}

function countOrAuto({
  meaning,
  ...range
}: {
  meaning: string
  min: number
  max: number
}): Setting<number | undefined> {
  const number = integer({ fallback: '', meaning, ...range })
  return {
    fallback: 'auto',
    meaning,
    secret: false,
    parse: (value) => (value === 'auto' ? undefined : number.parse(value)),
  }
}

function traffic(tier: string): Setting<number | undefined> {
  return bytesOrNone({
    fallback: 'none',
    meaning: `Direct traffic shown as a ${tier} account’s limit, bytes, or \`none\`.`,
  })
}

function address(fallback: string, meaning: string): Setting<string> {
  return {
    fallback,
    meaning,
    secret: false,
    parse: (value) => {
      if (value !== '' && value !== 'localhost' && isIP(value) === 0)
        throw new Error(`is "${value}", but must be an IP address or localhost`)
      return value
    },
  }
}

function pattern(
  form: RegExp,
  described: string,
  { fallback, meaning }: { fallback: string; meaning: string },
): Setting<string> {
  return {
    fallback,
    meaning,
    secret: false,
    parse: (value) => {
      if (!form.test(value)) throw new Error(`is "${value}", but must be ${described}`)
      return value
    },
  }
}

function regionList(value: string): RegionCode[] {
  const codes = value.split(',').map((code) => code.trim())
  for (const code of codes)
    if (!(regionCodes as readonly string[]).includes(code))
      throw new Error(`names "${code}", but the regions are ${regionCodes.join(', ')}`)
  if (new Set(codes).size < codes.length) throw new Error('names a region twice')
  return codes as RegionCode[]
}

function endpoints(value: string): Endpoint[] {
  return value.split(',').map((one) => {
    const [, host, port] = /^\s*(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):(\d{1,5})\s*$/i.exec(one) ?? []
    if (host === undefined || !(Number(port) > 0 && Number(port) <= 65_535))
      throw new Error(`names "${one}", but must name hosts like 10.0.0.1:4222`)
    return { host, port: Number(port) }
  })
}

function endpointsByRegion(value: string): Partial<Record<RegionCode, Endpoint[]>> {
  const pairs = value.split(';').map((one): [RegionCode, Endpoint[]] => {
    const [name = '', list = ''] = one.split('=')
    const [region] = regionList(name)
    return [region as RegionCode, endpoints(list)]
  })
  return Object.fromEntries(pairs)
}

function trustedProxies(value: string): string[] | number | false {
  if (value === 'off' || value === '0') return false
  if (/^[1-9]$/.test(value)) return Number(value)
  const names = value.split(',').map((name) => name.trim())
  if (names.every(isNetwork)) return names
  throw new Error(
    `is "${value}", but must be off, a number of hops from 1 to 9, or addresses like 10.0.0.0/8,::1`,
  )
}

const namedNetworks = ['loopback', 'linklocal', 'uniquelocal']

function isNetwork(value: string): boolean {
  if (namedNetworks.includes(value)) return true
  const [ip = '', bits, ...rest] = value.split('/')
  const version = isIP(ip)
  if (version === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

function smtpUrl(value: string): void {
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || !/^smtps?:$/.test(url.protocol) || url.hostname === '')
    throw new Error(
      'must be a URL like smtp://mail.example.org:587 or smtps://user:password@mail.example.org',
    )
}

function adminToken(value: string): void {
  if (!/^[\x21-\x7e]{16,512}$/.test(value))
    throw new Error('must be 16 to 512 printable characters without spaces')
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFreeze(part)
  return Object.freeze(value)
}

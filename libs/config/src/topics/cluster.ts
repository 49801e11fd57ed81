/** Additional settings of a process of a cluster: its name, regions, servers and peers. */
import type { RegionCode } from '@holdfast/kernel'
import { address, type Endpoint, endpoints, endpointsByRegion, port, regionList } from '../network-kinds.ts'
import {
  choice,
  integer,
  onOff,
  pattern,
  type Setting,
  secret,
  text,
  type ValuesOf,
} from '../setting-kinds.ts'
import { token, tokenForm } from '../token.ts'

/** How a listener changes to TLS while others call it. */
const tlsModes = ['off', 'offered', 'preferred', 'required'] as const
export type TlsMode = (typeof tlsModes)[number]

export const clusterSettings = {
  HOLDFAST_NODE_NAME: pattern(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a name of letters, digits and -', {
    fallback: '',
    meaning: 'Name of this process, unique in the cluster and the same after a restart.',
  }),
  HOLDFAST_REGIONS: {
    fallback: 'eu-par',
    meaning:
      'Regions of this cluster, comma-separated. Their order never changes and is the same in every process: the first keeps the settings. New ones are appended.',
    form: 'names of regions, comma-separated',
    secret: false,
    parse: regionList,
  } as Setting<RegionCode[]>,
  HOLDFAST_NATS_SERVERS: {
    fallback: '127.0.0.1:4222',
    meaning: 'NATS servers of this region, `host:port`, comma-separated.',
    form: 'hosts like 10.0.0.1:4222, comma-separated',
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
    form: 'hosts of each region, like eu-par=10.0.0.1:9042',
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
  HOLDFAST_TLS_CA: text({
    fallback: '',
    meaning:
      'PEM file of the cluster’s own authority (`ctl certs`), one or several. With it, HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY, calls between nodes are encrypted and both sides show certificates.',
  }),
  HOLDFAST_TLS_CERT: text({
    fallback: '',
    meaning:
      'PEM file of this process’s certificate, with the address of HOLDFAST_INTERNAL_BIND. It is also shown to NATS and Cassandra. The files are read again when they change.',
  }),
  HOLDFAST_TLS_KEY: text({ fallback: '', meaning: 'PEM file of the key of HOLDFAST_TLS_CERT.' }),
  HOLDFAST_FRONTEND_TLS: choice(tlsModes, {
    fallback: 'off',
    meaning:
      '`required`: the API, upload and download hosts of this process answer only proxies, by TLS with certificates of HOLDFAST_TLS_CA on both sides. A proxy’s has the name proxy.holdfast.internal, the process’s has frontend.holdfast.internal. `offered` and `preferred` also answer requests without TLS; rendered proxies use TLS from `preferred` on.',
  }),
  HOLDFAST_ADMIN_TLS: choice(tlsModes, {
    fallback: 'off',
    meaning:
      '`required`: the admin host of this process answers by TLS alone, with its certificate of HOLDFAST_TLS_CERT; callers show none, but their token as before. `offered` and `preferred` also answer requests without TLS; a rendered Prometheus uses TLS from `preferred` on. `ctl` uses it where HOLDFAST_TLS_CA is set, unless this is set to `off`.',
  }),
  HOLDFAST_CASSANDRA_REPLICAS: integer({
    fallback: '3',
    min: 1,
    max: 9,
    meaning:
      'Replicas of every row in each data centre that keeps it; counts when the tables are made, or a region is added.',
  }),
  HOLDFAST_CLUSTER_SECRET: secret({
    meaning:
      'Proves to the processes of a cluster that a caller is one of them. Several, with spaces or lines between: the first is used, all are accepted.',
    form: `${tokenForm}, or several`,
    check: (value) => value.split(/\s+/).forEach(token),
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

/** The part of a process in its cluster. */
export interface ClusterPartConfig {
  nodeName: string
  /** Its order is part of the data. */
  regions: readonly RegionCode[]
  natsServers: readonly Endpoint[]
  /** A file. Undefined: encryption is not required. */
  natsTlsCa: string | undefined
  /** Files between nodes. Undefined: no encryption. */
  tls: { ca: string; own: { cert: string; key: string } } | undefined
  /** Of the public hosts. Not `off`: with `tls`. */
  frontendTls: TlsMode
  /** Of the admin host, likewise. */
  adminTls: TlsMode
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

export function clusterPart(values: ValuesOf<typeof clusterSettings>): ClusterPartConfig {
  const { HOLDFAST_TLS_CA: ca, HOLDFAST_TLS_CERT: cert, HOLDFAST_TLS_KEY: key } = values
  return {
    nodeName: values.HOLDFAST_NODE_NAME,
    regions: values.HOLDFAST_REGIONS,
    natsServers: values.HOLDFAST_NATS_SERVERS,
    natsTlsCa: values.HOLDFAST_NATS_TLS_CA || undefined,
    tls: ca === '' ? undefined : { ca, own: { cert, key } },
    frontendTls: values.HOLDFAST_FRONTEND_TLS,
    adminTls: values.HOLDFAST_ADMIN_TLS,
    cassandra: {
      nodes: values.HOLDFAST_CASSANDRA,
      replicas: values.HOLDFAST_CASSANDRA_REPLICAS,
      tlsCa: values.HOLDFAST_CASSANDRA_TLS_CA || undefined,
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
}

/**
 * What a deployment runs on. Usually these are `machines`, one a host, with fixed places and ports,
 * certificates and logins. A cluster on one machine has another platform; the plan and the
 * renderers are the same.
 */
import type { Deployment, Host, HostProcess, Region, Settings } from './deployment.ts'
import { namesOf } from './names.ts'
import { firstPorts, type OurRole, type PortName, portStep, serverPorts, shortNames } from './roles.ts'

/** One of the processes of a role on a host. */
export interface PlacedProcess {
  deployment: Deployment
  region: Region
  host: Host
  process: HostProcess
  role: OurRole
  /** Its place among the processes of its role on the host, from 0. */
  at: number
}

export interface Platform {
  /** Ports of the servers, the same on every host. Without a port for it NATS has no monitor. */
  serverPorts: {
    nats: { client: number; cluster: number; gateway: number; monitor: number | undefined }
    cassandra: { client: number; storage: number }
  }
  /** The folder of a host's certificates. Undefined: connections are not encrypted. */
  tls: string | undefined
  /** Cassandra asks for a login. */
  cassandraLogin: boolean
  /** Folder of Cassandra's data on a host. */
  cassandraData(host: Pick<Host, 'name'>): string
  /** Values of `cassandra.yaml` over those of the renderer. */
  cassandra: Readonly<Record<string, unknown>>
  /**
   * Where servers listen for other regions. It is not the internal address where something between
   * the regions answers there for them.
   */
  listenOf(host: Pick<Host, 'internal'>): string
  nameOf(placed: PlacedProcess): string
  dataDirOf(placed: PlacedProcess): string
  portsOf(placed: PlacedProcess): Partial<Record<PortName, number>>
  urlsOf(deployment: Deployment, code: Region['code']): Record<'api' | 'upload' | 'download' | 'web', string>
  /** Settings of the addresses of a process in a cluster. */
  addressesOf(placed: PlacedProcess): Settings
  /** The setting that gives a process this secret; none where it gets the secret in another way. */
  secret(name: SecretName): Settings
}

export type SecretName =
  | 'ADMIN_TOKEN'
  | 'METRICS_TOKEN'
  | 'SMTP_URL'
  | 'NATS_PASSWORD'
  | 'CASSANDRA_PASSWORD'
  | 'CLUSTER_SECRET'

/** Where things are on a machine. */
export const places = {
  code: '/opt/holdfast',
  etc: '/etc/holdfast',
  tls: '/etc/holdfast/tls',
  secrets: '/etc/holdfast/secrets',
  data: '/var/lib/holdfast',
} as const

/** A certificate and its key for each user that servers run as. No other user reads the key. */
export const certificates = {
  authority: `${places.tls}/ca.pem`,
  /** For Prometheus and alertmanager, which the distribution runs as the same user. */
  prometheus: { certificate: `${places.tls}/prometheus.pem`, key: `${places.tls}/prometheus.key` },
  /** For a proxy on the cluster's own network. */
  proxy: { certificate: `${places.tls}/proxy.pem`, key: `${places.tls}/proxy.key` },
  /** For a proxy, with the names that users call. */
  public: { certificate: `${places.tls}/public.pem`, key: `${places.tls}/public.key` },
} as const

/** The password of Cassandra's superuser. */
export const operatorPasswordFile = `${places.secrets}/cassandra-admin-password`

export const machines: Platform = {
  serverPorts,
  tls: places.tls,
  cassandraLogin: true,
  cassandraData: () => '/var/lib/cassandra',
  cassandra: {},
  listenOf: ({ internal }) => internal,
  nameOf: ({ role, host, at }) =>
    role === 'standalone' ? `${host.name}-holdfast` : `${shortNames[role]}-${at + 1}-${host.name}`,
  dataDirOf: (placed) => placed.process.data[placed.at] ?? `${places.data}/${machines.nameOf(placed)}`,
  portsOf: ({ role, at }) =>
    Object.fromEntries(
      Object.entries(firstPorts[role]).map(([port, first]) => [port, first + at * portStep]),
    ),
  urlsOf(deployment, code) {
    const names = namesOf(deployment, code)
    const download = deployment.regions.length === 1 ? names.download : names.regionalDownload
    return {
      api: `https://${names.api}`,
      upload: `https://${names.upload}`,
      download: `https://${download}`,
      web: `https://${names.web}`,
    }
  },
  addressesOf: ({ region, host: { internal } }) => ({
    HOLDFAST_BIND: internal,
    HOLDFAST_ADMIN_BIND: internal,
    HOLDFAST_INTERNAL_BIND: internal,
    HOLDFAST_TRUST_PROXY: region.hosts
      .filter(({ roles }) => roles.some(({ role }) => role === 'proxy'))
      .map((proxy) => proxy.internal)
      .join(','),
  }),
  secret: (name) => ({
    [`HOLDFAST_${name}_FILE`]: `${places.secrets}/${name.toLowerCase().replaceAll('_', '-')}`,
  }),
}

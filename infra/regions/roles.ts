/** The roles of a host of a deployment. */
export const ourRoles = ['standalone', 'api', 'upload', 'storage-node', 'actor-host'] as const
export type OurRole = (typeof ourRoles)[number]

export const hostRoles = [...ourRoles, 'nats', 'cassandra', 'proxy', 'prometheus', 'alertmanager'] as const
export type HostRole = (typeof hostRoles)[number]

export function isOurs(role: HostRole): role is OurRole {
  return (ourRoles as readonly string[]).includes(role)
}

export type PortName = 'api' | 'upload' | 'download' | 'admin' | 'control' | 'bytes'

/**
 * Ports of the first process of a role on a host; those of each further one are `portStep` higher.
 */
export const firstPorts: Record<OurRole, Partial<Record<PortName, number>>> = {
  standalone: { api: 8080, upload: 8081, download: 8082, admin: 8090 },
  api: { api: 8080, admin: 8089 },
  upload: { upload: 8281, download: 8282, admin: 8289 },
  'storage-node': { download: 8382, control: 8383, bytes: 8384, admin: 8389 },
  'actor-host': { admin: 8489 },
}
export const portStep = 10

/** Names of processes and their units: `storage-2-par1`. */
export const shortNames: Record<OurRole, string> = {
  standalone: 'holdfast',
  api: 'api',
  upload: 'upload',
  'storage-node': 'storage',
  'actor-host': 'actor',
}

export const programs: Record<OurRole, string> = {
  standalone: 'apps/standalone/src/main.ts',
  api: 'apps/api/src/main.ts',
  upload: 'apps/upload/src/main.ts',
  'storage-node': 'apps/storage-node/src/main.ts',
  'actor-host': 'apps/actor-host/src/main.ts',
}

/** Ports of the servers beside ours. */
export const serverPorts = {
  nats: { client: 4222, cluster: 6222, gateway: 7222, monitor: 8222 },
  cassandra: { client: 9042, storage: 7000 },
  prometheus: 9090,
  alertmanager: 9093,
  alertmanagerCluster: 9094,
  /** A proxy's metrics. */
  proxyMetrics: 2020,
} as const

/**
 * NATS and Cassandra have no metrics that Prometheus can read. Their exporters are separate
 * programs, which an operator may install.
 */
export const exporters = ['nats', 'cassandra'] as const
export type Exporter = (typeof exporters)[number]

/** The usual ports of the exporters. */
export const exporterPorts: Record<Exporter, number> = { nats: 7777, cassandra: 7070 }

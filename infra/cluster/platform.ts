/**
 * A cluster on this machine as a deployment: a host per region. Each has a loopback address for its
 * servers and storage nodes, folders below the data directory and free ports. Nothing is encrypted,
 * and Cassandra asks for no login.
 */
import { join } from 'node:path'
import { urlOf } from '@holdfast/bootstrap'
import type { RegionCode } from '@holdfast/kernel'
import type { Deployment, HostProcess } from '../regions/deployment.ts'
import type { PlacedProcess, Platform } from '../regions/platform.ts'
import { type PortName, serverPorts, shortNames } from '../regions/roles.ts'
import { smallCassandra } from '../servers/cassandra.ts'
import type { Choices, ProcessRole } from './planned-processes.ts'

/** Processes of each kind in a region. */
export const counts: Readonly<Record<ProcessRole, number>> = {
  api: 1,
  upload: 1,
  'storage-node': 2,
  'actor-host': 2,
}

/** Upload frontends are storage nodes too where HOLDFAST_UPLOAD_STORES says so. */
export const portNames: Readonly<Record<ProcessRole, readonly PortName[]>> = {
  api: ['api', 'admin'],
  upload: ['upload', 'download', 'control', 'bytes', 'admin'],
  'storage-node': ['download', 'control', 'bytes', 'admin'],
  'actor-host': ['admin'],
}

/** All regions as one host each. Everything that only machines have is empty. */
export function deploymentOf(codes: readonly RegionCode[], network: number): Deployment {
  const roles = ['cassandra', 'nats', ...(Object.keys(counts) as ProcessRole[])] as const
  const processes = roles.map((role): HostProcess => {
    const count = role === 'cassandra' || role === 'nats' ? 1 : counts[role]
    return { role, count, data: [], settings: {} }
  })
  return {
    // Cassandra's data has this name too.
    name: 'holdfast',
    domain: 'localhost',
    downloads: 'localhost',
    contact: '',
    proxy: 'caddy',
    exporters: [],
    mail: undefined,
    nameservers: [],
    serial: 1,
    image: '',
    replicas: 1,
    settings: {},
    alerts: { page: undefined, ticket: undefined, watchdog: undefined },
    regions: codes.map((code, at) => ({
      code,
      healthCheck: undefined,
      settings: {},
      hosts: [
        {
          name: code,
          address: undefined,
          address6: undefined,
          internal: addressOf(network, at),
          rack: 'r1',
          settings: {},
          roles: processes,
        },
      ],
    })),
  }
}

/** The address of a region, by its place in the order. All of 127.0.0.0/8 work without set-up. */
export function addressOf(network: number, at: number): string {
  return `127.0.${network}.${at + 1}`
}

/**
 * Cassandra and gateways of NATS listen here to other regions. Those find them at the address of
 * the region, where the link to it listens.
 */
export function listenAddressOf(address: string): string {
  return address.replace(/\d+$/, (last) => String(Number(last) + 100))
}

export function processName(code: string, role: ProcessRole, at: number): string {
  return `${code}-${shortNames[role]}-${at + 1}`
}

/** The names of ports in `Choices`. */
export const natsPorts = { client: 'nats client', cluster: 'nats cluster', gateway: 'nats gateway' } as const

export function portKey(process: string, port: PortName): string {
  return `${process} ${port}`
}

export function platformOf({
  dataDir,
  env,
  hosts,
  choices,
}: {
  dataDir: string
  /** The operator's settings; addresses apply to the first region. */
  env: Record<string, string>
  /** Where processes listen. */
  hosts: { any: string; admin: string }
  choices: Choices
}): Platform {
  const port = (key: string) => {
    const number = choices.ports[key]
    if (number === undefined) throw new Error(`no port was planned for ${key}`)
    return number
  }
  const nameOf = ({ region, role, at }: PlacedProcess) => processName(region.code, role as ProcessRole, at)
  const keeps = ({ role }: PlacedProcess) => portNames[role as ProcessRole].includes('control')
  return {
    serverPorts: {
      nats: {
        client: port(natsPorts.client),
        cluster: port(natsPorts.cluster),
        gateway: port(natsPorts.gateway),
        monitor: undefined,
      },
      cassandra: serverPorts.cassandra,
    },
    tls: undefined,
    cassandraLogin: false,
    cassandraData: ({ name }) => join(dataDir, `${name}-cassandra`, 'data'),
    cassandra: smallCassandra,
    listenOf: ({ internal }) => listenAddressOf(internal),
    nameOf,
    dataDirOf: (placed) => (keeps(placed) ? join(dataDir, nameOf(placed)) : dataDir),
    portsOf: (placed) =>
      Object.fromEntries(
        portNames[placed.role as ProcessRole].map((name) => [name, port(portKey(nameOf(placed), name))]),
      ),
    urlsOf({ regions: [first] }, code) {
      const own = (name: 'API' | 'UPLOAD' | 'DOWNLOAD', role: ProcessRole, of: PortName) =>
        (code === first?.code && env[`HOLDFAST_PUBLIC_${name}_URL`]) ||
        urlOf(hosts.any, port(portKey(processName(code, role, 0), of)))
      const api = own('API', 'api', 'api')
      return {
        api,
        upload: own('UPLOAD', 'upload', 'upload'),
        download: own('DOWNLOAD', 'upload', 'download'),
        web: env.HOLDFAST_PUBLIC_WEB_URL || api,
      }
    },
    addressesOf: ({ host }) => ({
      HOLDFAST_BIND: hosts.any,
      HOLDFAST_ADMIN_BIND: hosts.admin,
      HOLDFAST_INTERNAL_BIND: host.internal,
    }),
    secret(name) {
      if (name === 'NATS_PASSWORD') return { HOLDFAST_NATS_PASSWORD: choices.secrets.nats }
      if (name === 'CLUSTER_SECRET') return { HOLDFAST_CLUSTER_SECRET: choices.secrets.cluster }
      // The operator's settings have the token, if there is one.
      return {}
    },
  }
}

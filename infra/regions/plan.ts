/**
 * What runs where: names, ports and settings of every process of a deployment. All renderers work
 * from it.
 */
import { regionalUploadUrl } from '../../apps/api/src/region-hosts.ts'
import type { Deployment, Host, HostProcess, Region, Settings } from './deployment.ts'
import {
  firstPorts,
  type HostRole,
  isOurs,
  type OurRole,
  portStep,
  programs,
  serverPorts,
  shortNames,
} from './roles.ts'

export interface Plan {
  deployment: Deployment
  regions: PlannedRegion[]
}

export interface PlannedRegion {
  code: Region['code']
  names: PublicNames
  hosts: PlannedHost[]
}

/** Domain names of the public hosts. */
export interface PublicNames {
  web: string
  api: string
  upload: string
  /** `upload-<region>`: pins the region. */
  regionalUpload: string
  download: string
  /** `download-<region>`. */
  regionalDownload: string
}

export interface PlannedHost extends Omit<Host, 'roles' | 'settings'> {
  region: Region['code']
  roles: HostRole[]
  processes: PlannedProcess[]
}

/** A Holdfast process. */
export interface PlannedProcess {
  name: string
  role: OurRole
  program: string
  dataDir: string
  ports: Record<string, number>
  settings: Settings
}

/** Where things are on a host. */
export const places = {
  code: '/opt/holdfast',
  etc: '/etc/holdfast',
  tls: '/etc/holdfast/tls',
  secrets: '/etc/holdfast/secrets',
  data: '/var/lib/holdfast',
} as const

/** Of Cassandra's users. */
export const operatorPasswordFile = `${places.secrets}/cassandra-admin-password`

export function planOf(deployment: Deployment): Plan {
  return {
    deployment,
    regions: deployment.regions.map((region) => ({
      code: region.code,
      names: namesOf(deployment, region.code),
      hosts: region.hosts.map((host) => plannedHost(deployment, region, host)),
    })),
  }
}

export function namesOf({ domain, downloads }: Deployment, code: Region['code']): PublicNames {
  return {
    web: domain,
    api: `api.${domain}`,
    upload: `upload.${domain}`,
    // The API tells clients this name by the same function.
    regionalUpload: new URL(regionalUploadUrl(`https://upload.${domain}`, code)).hostname,
    download: `download.${downloads}`,
    regionalDownload: `download-${code}.${downloads}`,
  }
}

/** Hosts of a region that have a role. */
export function hostsWith<H extends { roles: readonly HostRole[] }>(
  hosts: readonly H[],
  role: HostRole,
): H[] {
  return hosts.filter(({ roles }) => roles.includes(role))
}

function plannedHost(deployment: Deployment, region: Region, host: Host): PlannedHost {
  const { roles, settings: _, ...rest } = host
  return {
    ...rest,
    region: region.code,
    roles: roles.map(({ role }) => role),
    processes: roles.flatMap((process) =>
      isOurs(process.role)
        ? Array.from({ length: process.count }, (_, at) =>
            plannedProcess({ deployment, region, host, process, role: process.role as OurRole, at }),
          )
        : [],
    ),
  }
}

interface Placed {
  deployment: Deployment
  region: Region
  host: Host
  process: HostProcess
  role: OurRole
  /** Of its role on the host. */
  at: number
}

function plannedProcess(placed: Placed): PlannedProcess {
  const { deployment, region, host, process, role, at } = placed
  // The planner makes pairs of neighbours in the order of names: their copies are on two hosts.
  const name = role === 'standalone' ? `${host.name}-holdfast` : `${shortNames[role]}-${at + 1}-${host.name}`
  const dataDir = process.data[at] ?? `${places.data}/${name}`
  const ports = Object.fromEntries(
    Object.entries(firstPorts[role]).map(([port, first]) => [port, first + at * portStep]),
  )
  const names = namesOf(deployment, region.code)
  const download = deployment.regions.length === 1 ? names.download : names.regionalDownload
  const derived = {
    HOLDFAST_DATA_DIR: dataDir,
    HOLDFAST_REGION: region.code,
    HOLDFAST_PUBLIC_API_URL: `https://${names.api}`,
    HOLDFAST_PUBLIC_UPLOAD_URL: `https://${names.upload}`,
    HOLDFAST_PUBLIC_DOWNLOAD_URL: `https://${download}`,
    HOLDFAST_PUBLIC_WEB_URL: `https://${names.web}`,
    HOLDFAST_ADMIN_TOKEN_FILE: `${places.secrets}/admin-token`,
    ...Object.fromEntries(
      Object.entries(ports).map(([port, number]) => [`HOLDFAST_${port.toUpperCase()}_PORT`, String(number)]),
    ),
  }
  return {
    name,
    role,
    program: programs[role],
    dataDir,
    ports,
    settings: {
      ...derived,
      ...(role === 'standalone' ? aloneSettings(placed) : clusterSettings(placed, name)),
      ...deployment.settings,
      ...region.settings,
      ...host.settings,
      ...process.settings,
    },
  }
}

/** Only this machine reaches it, by its proxy. */
function aloneSettings({ host, region }: Placed): Settings {
  const proxies = region.hosts.filter(({ roles }) => roles.some(({ role }) => role === 'proxy'))
  const near = proxies.every(({ name }) => name === host.name)
  return {
    HOLDFAST_BIND: near ? '127.0.0.1' : host.internal,
    HOLDFAST_ADMIN_BIND: '127.0.0.1',
    HOLDFAST_TRUST_PROXY: near ? 'loopback' : proxies.map(({ internal }) => internal).join(','),
  }
}

function clusterSettings({ deployment, region, host }: Placed, name: string): Settings {
  const addresses = (hosts: readonly Host[], role: HostRole, port: number) =>
    hosts
      .filter(({ roles }) => roles.some((one) => one.role === role))
      .map(({ internal }) => `${internal}:${port}`)
      .join(',')
  return {
    HOLDFAST_NODE_NAME: name,
    HOLDFAST_REGIONS: deployment.regions.map(({ code }) => code).join(','),
    HOLDFAST_BIND: host.internal,
    HOLDFAST_ADMIN_BIND: host.internal,
    HOLDFAST_INTERNAL_BIND: host.internal,
    HOLDFAST_TRUST_PROXY: region.hosts
      .filter(({ roles }) => roles.some(({ role }) => role === 'proxy'))
      .map(({ internal }) => internal)
      .join(','),
    HOLDFAST_NATS_SERVERS: addresses(region.hosts, 'nats', serverPorts.nats.client),
    HOLDFAST_NATS_USER: 'holdfast',
    HOLDFAST_NATS_PASSWORD_FILE: `${places.secrets}/nats-password`,
    HOLDFAST_NATS_TLS_CA: `${places.tls}/ca.pem`,
    HOLDFAST_CASSANDRA: deployment.regions
      .map(({ code, hosts }) => `${code}=${addresses(hosts, 'cassandra', serverPorts.cassandra.client)}`)
      .join(';'),
    HOLDFAST_CASSANDRA_USER: 'holdfast',
    HOLDFAST_CASSANDRA_PASSWORD_FILE: `${places.secrets}/cassandra-password`,
    HOLDFAST_CASSANDRA_TLS_CA: `${places.tls}/ca.pem`,
    HOLDFAST_TLS_CA: `${places.tls}/ca.pem`,
    HOLDFAST_TLS_CERT: `${places.tls}/node.pem`,
    HOLDFAST_TLS_KEY: `${places.tls}/node.key`,
    HOLDFAST_CASSANDRA_REPLICAS: String(deployment.replicas),
    HOLDFAST_CLUSTER_SECRET_FILE: `${places.secrets}/cluster-secret`,
  }
}

/**
 * What runs where: names, ports and settings of every process of a deployment. All renderers work
 * from it.
 */
import type { Deployment, Host, Region, Settings } from './deployment.ts'
import { namesOf, type PublicNames } from './names.ts'
import { machines, type PlacedProcess, type Platform } from './platform.ts'
import { type HostRole, isOurs, type OurRole, type PortName, programs, serverPorts } from './roles.ts'

export interface Plan {
  deployment: Deployment
  platform: Platform
  regions: PlannedRegion[]
}

export interface PlannedRegion {
  code: Region['code']
  healthCheck: Region['healthCheck']
  names: PublicNames
  hosts: PlannedHost[]
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
  ports: Partial<Record<PortName, number>>
  settings: Settings
}

export function planOf(deployment: Deployment, platform: Platform = machines): Plan {
  return {
    deployment,
    platform,
    regions: deployment.regions.map((region) => ({
      code: region.code,
      healthCheck: region.healthCheck,
      names: namesOf(deployment, region.code),
      hosts: region.hosts.map((host) => plannedHost(platform, { deployment, region, host })),
    })),
  }
}

export function allHosts({ regions }: Plan): PlannedHost[] {
  return regions.flatMap(({ hosts }) => hosts)
}

/** Others call its admin host by TLS. While a region changes to it, some may not have it yet. */
export function isAdminByTls({ settings }: Pick<PlannedProcess, 'settings'>): boolean {
  return isPreferred(settings.HOLDFAST_ADMIN_TLS)
}

/** The proxies call its public hosts by TLS, likewise. */
export function isFrontendByTls({ settings }: Pick<PlannedProcess, 'settings'>): boolean {
  return isPreferred(settings.HOLDFAST_FRONTEND_TLS)
}

function isPreferred(mode = ''): boolean {
  return mode === 'preferred' || mode === 'required'
}

/** One host: its servers reach each other by loopback, and no certificate is needed. */
export function isAlone({ deployment }: Plan): boolean {
  return isOneHost(deployment)
}

function isOneHost({ regions }: Deployment): boolean {
  return regions.flatMap(({ hosts }) => hosts).length === 1
}

/** Hosts that have a role. */
export function hostsWith<H extends { roles: readonly HostRole[] }>(
  hosts: readonly H[],
  role: HostRole,
): H[] {
  return hosts.filter(({ roles }) => roles.includes(role))
}

function plannedHost(
  platform: Platform,
  place: Pick<PlacedProcess, 'deployment' | 'region' | 'host'>,
): PlannedHost {
  const { roles, settings: _, ...rest } = place.host
  return {
    ...rest,
    region: place.region.code,
    roles: roles.map(({ role }) => role),
    processes: roles.flatMap((process) =>
      isOurs(process.role)
        ? Array.from({ length: process.count }, (_, at) =>
            plannedProcess(platform, { ...place, process, role: process.role as OurRole, at }),
          )
        : [],
    ),
  }
}

function plannedProcess(platform: Platform, placed: PlacedProcess): PlannedProcess {
  const { deployment, region, host, process, role } = placed
  const [name, dataDir, ports] = [
    platform.nameOf(placed),
    platform.dataDirOf(placed),
    platform.portsOf(placed),
  ]
  const urls = platform.urlsOf(deployment, region.code)
  const derived = {
    HOLDFAST_DATA_DIR: dataDir,
    HOLDFAST_REGION: region.code,
    HOLDFAST_PUBLIC_API_URL: urls.api,
    HOLDFAST_PUBLIC_UPLOAD_URL: urls.upload,
    HOLDFAST_PUBLIC_DOWNLOAD_URL: urls.download,
    HOLDFAST_PUBLIC_WEB_URL: urls.web,
    ...platform.secret('ADMIN_TOKEN'),
    ...platform.secret('METRICS_TOKEN'),
    ...(deployment.mail === 'relay' && mailRoles.includes(role) ? platform.secret('SMTP_URL') : {}),
    ...shownCertificates(platform, placed),
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
      ...(role === 'standalone' ? aloneSettings(placed) : clusterSettings(platform, placed)),
      ...deployment.settings,
      ...region.settings,
      ...host.settings,
      ...process.settings,
    },
  }
}

/**
 * One process of a region reads the certificates that its proxies show to users, and those of its
 * servers.
 */
function shownCertificates(
  platform: Platform,
  { deployment, region, host, role, at }: PlacedProcess,
): Settings {
  if (platform.tls === undefined || at > 0 || !frontRoles.includes(role)) return {}
  const first = region.hosts.find(({ roles }) => roles.some((one) => frontRoles.includes(one.role)))
  if (first !== host) return {}
  const names = new Set(Object.values(namesOf(deployment, region.code)))
  const servers = serversWithTls(platform, { deployment, region })
  return {
    HOLDFAST_CERTIFICATE_HOSTS: [...names].join(','),
    ...(servers.length === 0 ? {} : { HOLDFAST_CERTIFICATE_SERVERS: servers.join(',') }),
  }
}

/** Servers that show certificates, some a different one on each port. */
function serversWithTls(
  platform: Platform,
  { deployment, region }: Pick<PlacedProcess, 'deployment' | 'region'>,
): string[] {
  const { nats, cassandra } = platform.serverPorts
  const having = (role: HostRole, scheme: 'nats' | 'cassandra' | 'tls', ...ports: number[]) =>
    hostsOf(region, role).flatMap(({ internal }) => ports.map((port) => `${scheme}://${internal}:${port}`))
  const ofAll = [
    ...having('nats', 'nats', nats.client),
    ...having('cassandra', 'cassandra', cassandra.client, cassandra.storage),
  ]
  // On a single host the others listen on loopback, without TLS.
  if (isOneHost(deployment)) return ofAll
  const clustered = deployment.regions.flatMap((one) => hostsOf(one, 'alertmanager')).length > 1
  return [
    ...ofAll,
    ...having('proxy', 'tls', serverPorts.proxyMetrics),
    ...having(
      'alertmanager',
      'tls',
      serverPorts.alertmanager,
      ...(clustered ? [serverPorts.alertmanagerCluster] : []),
    ),
  ]
}

function hostsOf({ hosts }: Region, wanted: HostRole): Host[] {
  return hosts.filter(({ roles }) => roles.some(({ role }) => role === wanted))
}

const frontRoles: readonly HostRole[] = ['api', 'standalone']
/** Accounts send mails. */
const mailRoles: readonly HostRole[] = ['actor-host', 'standalone']

/** It listens for this machine alone, unless its proxy or its Prometheus is on another one. */
function aloneSettings({ host, region }: PlacedProcess): Settings {
  const bindFor = (others: readonly Host[]) =>
    others.every(({ name }) => name === host.name) ? '127.0.0.1' : host.internal
  const proxies = hostsOf(region, 'proxy')
  const bind = bindFor(proxies)
  return {
    HOLDFAST_BIND: bind,
    HOLDFAST_ADMIN_BIND: bindFor(hostsOf(region, 'prometheus')),
    HOLDFAST_TRUST_PROXY:
      bind === '127.0.0.1' ? 'loopback' : proxies.map(({ internal }) => internal).join(','),
  }
}

function clusterSettings(platform: Platform, placed: PlacedProcess): Settings {
  const { deployment, region } = placed
  const { nats, cassandra } = platform.serverPorts
  const addresses = (of: Region, role: HostRole, port: number) =>
    hostsOf(of, role)
      .map(({ internal }) => `${internal}:${port}`)
      .join(',')
  const ca = `${platform.tls}/ca.pem`
  const secured = (settings: Settings): Settings => (platform.tls === undefined ? {} : settings)
  return {
    HOLDFAST_NODE_NAME: platform.nameOf(placed),
    HOLDFAST_REGIONS: deployment.regions.map(({ code }) => code).join(','),
    ...platform.addressesOf(placed),
    HOLDFAST_NATS_SERVERS: addresses(region, 'nats', nats.client),
    HOLDFAST_NATS_USER: 'holdfast',
    ...platform.secret('NATS_PASSWORD'),
    ...secured({ HOLDFAST_NATS_TLS_CA: ca }),
    HOLDFAST_CASSANDRA: deployment.regions
      .map((one) => `${one.code}=${addresses(one, 'cassandra', cassandra.client)}`)
      .join(';'),
    ...(platform.cassandraLogin
      ? { HOLDFAST_CASSANDRA_USER: 'holdfast', ...platform.secret('CASSANDRA_PASSWORD') }
      : {}),
    ...secured({
      HOLDFAST_CASSANDRA_TLS_CA: ca,
      HOLDFAST_TLS_CA: ca,
      HOLDFAST_TLS_CERT: `${platform.tls}/node.pem`,
      HOLDFAST_TLS_KEY: `${platform.tls}/node.key`,
    }),
    ...secured({ HOLDFAST_ADMIN_TLS: 'required' }),
    ...(platform.tls === undefined || isOneHost(deployment) || placed.role === 'actor-host'
      ? {}
      : { HOLDFAST_FRONTEND_TLS: 'required' }),
    HOLDFAST_CASSANDRA_REPLICAS: String(deployment.replicas),
    ...platform.secret('CLUSTER_SECRET'),
  }
}

/** A deployment as an operator writes it down (`infra/regions/*.yaml`), read and checked. */
import { BlockList, isIP } from 'node:net'
import { clusterSettings, settings as commonSettings } from '@holdfast/config'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { type Exporter, exporters, type HostRole, hostRoles, isOurs } from './roles.ts'
import { DeploymentFault, readSource, type Value } from './source.ts'

export interface Deployment {
  name: string
  /** Zone of the pages, the API and the upload hosts. */
  domain: string
  /** Zone of the download hosts: another origin, best another registered domain. */
  downloads: string
  /** Mail address for certificates and the zone. */
  contact: string
  proxy: 'caddy' | 'nginx'
  /** Servers with an exporter for Prometheus beside each of them. */
  exporters: Exporter[]
  /** Names of the servers that answer for the zones. */
  nameservers: string[]
  /** The serial number of the zones. It grows with each change that is published. */
  serial: number
  /** The image of containers. */
  image: string
  /** Where mails go: to a relay, whose URL is a secret of the hosts, or into files. */
  mail: 'relay' | 'outbox' | undefined
  /** Replicas of every row in each data centre. */
  replicas: number
  settings: Settings
  /** Addresses of webhooks. `watchdog` is asked each minute (HoldfastWatchdog). */
  alerts: Record<'page' | 'ticket' | 'watchdog', string | undefined>
  regions: Region[]
}

export type Settings = Record<string, string>

export interface Region {
  code: RegionCode
  /** Route 53's id of the check of this region. Its account gives it when the check is made. */
  healthCheck: string | undefined
  settings: Settings
  hosts: Host[]
}

export interface Host {
  name: string
  /** Public addresses; where users and the authority of certificates reach a proxy. */
  address: string | undefined
  address6: string | undefined
  /** On the cluster's own network. */
  internal: string
  rack: string
  settings: Settings
  roles: HostProcess[]
}

/** Processes of one role on a host. */
export interface HostProcess {
  role: HostRole
  count: number
  /** Directories of the processes, when each has a disk of its own. */
  data: string[]
  settings: Settings
}

const hostsMax = 512
const processesMax = 10
const name = /^[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?$/
const nameWords = 'a name of small letters, digits and, between them, -'
const domainName = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$/
const isMailAddress = (text: string) =>
  /^[\w+-]+(\.[\w+-]+)*@/.test(text) && domainName.test(text.slice(text.indexOf('@') + 1))
/** With the longest name in it a zone still has a domain name. */
const isZone = (text: string) => domainName.test(`download-${regionCodes[0]}.${text}`)
const zoneWords = 'a domain name in small letters, with at most 237 signs'
const path = /^(\/[A-Za-z0-9._-]+)+$/
const healthCheckId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const regionFields = ['code', 'health-check', 'settings', 'hosts'] as const

/**
 * systemd, containers and kustomize read files of environments, each by other rules. They agree on
 * lines without these signs.
 */
const plainValue = /^[^\s"'\\$`#](?:[^\n\r\t"'\\$`#]*[^\s"'\\$`#])?$/

const known = { ...commonSettings, ...clusterSettings } as Record<
  string,
  { secret: boolean; parse(text: string): unknown }
>

/** Each is derived from the file: hosts, addresses, names, secrets. */
const derivedSettings =
  /^HOLDFAST_(BIND|ADMIN_BIND|INTERNAL_BIND|DATA_DIR|REGION|REGIONS|SERVER_NAME|NODE_NAME|TRUST_PROXY|UPLOAD_STORES|.*_PORT|PUBLIC_.*_URL|NATS_.*|CASSANDRA.*|TLS_.*|CLUSTER_SECRET|ADMIN_TOKEN|METRICS_TOKEN)$/

/** @throws DeploymentFault naming line and field of every fault. */
export function readDeployment(text: string, file: string): Deployment {
  const { root, faults } = readSource(text)
  if (faults.length > 0) throw new DeploymentFault(file, faults)
  const deployment = deploymentOf(root)
  if (faults.length > 0) throw new DeploymentFault(file, faults)
  return deployment as Deployment
}

function deploymentOf(root: Value): Deployment | undefined {
  const fields = root.fields([
    ...(['deployment', 'domain', 'downloads', 'contact', 'nameservers', 'serial'] as const),
    ...(['proxy', 'exporters', 'image', 'mail', 'replicas', 'settings', 'alerts', 'regions'] as const),
  ])
  const domain = root.required(fields, 'domain')?.text(zoneWords, isZone)
  const alerts = fields.alerts?.fields(['page', 'ticket', 'watchdog'])
  const regions = root.required(fields, 'regions')?.list()?.map(regionOf)
  if (regions !== undefined && (regions.length < 1 || regions.length > regionCodes.length))
    fields.regions?.fault(`must name one to ${regionCodes.length} regions, but names ${regions.length}`)
  const deployment: Deployment = {
    name: root.required(fields, 'deployment')?.text(nameWords, name) ?? '',
    domain: domain ?? '',
    downloads: fields.downloads?.text(zoneWords, isZone) ?? domain ?? '',
    contact: fields.contact?.text('a mail address', isMailAddress) ?? `hostmaster@${domain}`,
    proxy: fields.proxy?.choice(['caddy', 'nginx']) ?? 'caddy',
    exporters: [...new Set(fields.exporters?.list()?.flatMap((one) => one.choice(exporters) ?? []))],
    image: fields.image?.text('the name of an image', /^[a-z0-9][\w./:@-]*$/) ?? 'holdfast:latest',
    mail: fields.mail?.choice(['relay', 'outbox']),
    nameservers:
      root
        .required(fields, 'nameservers')
        ?.list()
        ?.map((one) => one.text('a domain name in small letters', domainName) ?? '') ?? [],
    serial: fields.serial?.integer({ min: 1, max: 2 ** 32 - 1 }) ?? 1,
    replicas: fields.replicas?.integer({ min: 1, max: 9 }) ?? 3,
    settings: settingsOf(fields.settings),
    alerts: {
      page: urlOf(alerts?.page),
      ticket: urlOf(alerts?.ticket),
      watchdog: urlOf(alerts?.watchdog),
    },
    regions: regions ?? [],
  }
  if (fields.nameservers !== undefined && deployment.nameservers.length === 0)
    fields.nameservers.fault('must name a server at least')
  checkNames(fields.regions, deployment)
  checkNameservers(fields.nameservers, deployment)
  checkInternal(fields.regions, deployment)
  checkRoles(fields.regions, deployment)
  return deployment
}

function regionOf(value: Value): Region {
  const fields = value.fields(regionFields)
  const hosts = value.required(fields, 'hosts')?.list()
  if (hosts !== undefined && (hosts.length < 1 || hosts.length > hostsMax))
    fields.hosts?.fault(`must name one to ${hostsMax} hosts, but names ${hosts.length}`)
  return {
    code: value.required(fields, 'code')?.choice(regionCodes) ?? 'eu-par',
    healthCheck: fields['health-check']?.text('the id of a health check of Route 53', healthCheckId),
    settings: settingsOf(fields.settings),
    hosts: hosts?.slice(0, hostsMax).map(hostOf) ?? [],
  }
}

function hostOf(value: Value): Host {
  const fields = value.fields(['name', 'address', 'address6', 'internal', 'rack', 'settings', 'roles'])
  const roles = value.required(fields, 'roles')?.list()?.map(processesOf) ?? []
  for (const [at, { role }] of roles.entries())
    if (roles.findIndex((other) => other.role === role) !== at)
      fields.roles?.fault(
        isOurs(role) && role !== 'standalone'
          ? `names ${role} twice; write {role: ${role}, count: 2}`
          : `names ${role} twice, but a host runs one`,
      )
  checkFolders(fields.roles, roles)
  const host = value.required(fields, 'name')?.text(nameWords, name) ?? ''
  if (regionCodes.some((code) => host === code || host === `client-${code}`))
    fields.name?.fault(`is ${host}, like a region or its users (--only, --namespaces)`)
  return {
    name: host,
    address: fields.address?.text(
      'the IPv4 address at which users reach the host',
      (text) => isIP(text) === 4 && !unreachable.check(text),
    ),
    address6: plainAddress6(
      fields.address6?.text(
        'the IPv6 address at which users reach the host',
        (text) => plainAddress6(text) !== undefined && !unreachable6.check(text, 'ipv6'),
      ),
    ),
    internal: value.required(fields, 'internal')?.text('an IPv4 address', (text) => isIP(text) === 4) ?? '',
    rack: fields.rack?.text(nameWords, name) ?? 'r1',
    settings: settingsOf(fields.settings),
    roles,
  }
}

/** Unspecified, loopback, of a link, multicast, reserved; of IPv6 also those with IPv4 inside. */
const unreachable = networksOf('ipv4', ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'])
const unreachable6 = networksOf('ipv6', ['::/64', 'fe80::/10', 'ff00::/8'])

function networksOf(version: 'ipv4' | 'ipv6', networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits] = network.split('/')
    list.addSubnet(address, Number(bits), version)
  }
  return list
}

/** One spelling for each address: two hosts with one are found. */
function plainAddress6(text: string | undefined): string | undefined {
  if (text === undefined || isIP(text) !== 6 || !URL.canParse(`http://[${text}]`)) return undefined
  return new URL(`http://[${text}]`).hostname.slice(1, -1)
}

/** Folders in the root that belong to the system, with all below them. */
const systemFolders = new Set([
  ...['bin', 'boot', 'dev', 'etc', 'home', 'lib', 'lib32', 'lib64', 'libx32', 'lost+found', 'opt', 'proc'],
  ...['root', 'run', 'sbin', 'snap', 'sys', 'tmp', 'usr', 'var'],
])
/** What is directly below them may be a place for data. They themselves are shared. */
const sharedFolders = ['srv', 'mnt', 'media']

/**
 * `up` gives the folder of a store to the service's user alone, so it must be no folder of others
 * and have none of theirs. A store inside of another one would be taken for its files.
 */
function checkFolders(value: Value | undefined, roles: readonly HostProcess[]): void {
  const isIn = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`)
  const all = roles.flatMap(({ data }) => data).filter((path) => path !== '')
  for (const [at, path] of all.entries()) {
    const [, first = '', ...below] = path.split('/')
    const isOthers = systemFolders.has(first) || (sharedFolders.includes(first) && below.length === 0)
    if (path.split('/').some((part) => part === '.' || part === '..'))
      value?.fault(`have the directory ${path}; write it without . and ..`)
    else if (isOthers)
      value?.fault(
        `have the directory ${path}, a folder of the system; data goes below /srv, /mnt or /media, or into a folder of its own like /disk1`,
      )
    const other = all.find((one, place) => place !== at && isIn(path, one))
    if (other === path && all.indexOf(path) < at) value?.fault(`have the directory ${path} twice`)
    else if (other !== undefined && other !== path)
      value?.fault(`have the directory ${path} inside of ${other}`)
  }
}

function processesOf(value: Value): HostProcess {
  if (!value.isMap) return { role: value.choice(hostRoles) ?? 'api', count: 1, data: [], settings: {} }
  const fields = value.fields(['role', 'count', 'data', 'settings'])
  const role = value.required(fields, 'role')?.choice(hostRoles) ?? 'api'
  const data =
    fields.data?.list()?.map((one) => one.text('an absolute path without spaces', path) ?? '') ?? []
  const count = fields.count?.integer({ min: 1, max: processesMax }) ?? Math.max(data.length, 1)
  if (count > 1 && !isOurs(role)) fields.count?.fault(`is ${count}, but a host runs one ${role}`)
  if (!isOurs(role))
    for (const field of [fields.data, fields.settings])
      field?.fault(`does not apply to ${role}; processes of Holdfast have it`)
  if (count > 1 && role === 'standalone') fields.count?.fault('must be 1: it holds all accounts')
  if (data.length > processesMax || (data.length > 0 && data.length !== count))
    fields.data?.fault(`names ${data.length} directories for ${count} processes`)
  if (new Set(data).size < data.length) fields.data?.fault('names a directory twice')
  return { role, count, data, settings: settingsOf(fields.settings) }
}

function settingsOf(value: Value | undefined): Settings {
  const settings: Settings = {}
  for (const [setting, given] of value?.entries() ?? []) {
    const schema = known[setting]
    const secret = setting.replace(/_FILE$/, '')
    if (secret === 'HOLDFAST_SMTP_URL')
      given.fault('is a secret; write mail: relay, and the URL into the secret smtp-url of the hosts')
    else if (known[secret]?.secret) given.fault('is a secret; it belongs into a file on the hosts')
    else if (schema === undefined) given.fault('is no setting; infra/SETTINGS.md has all of them')
    else if (derivedSettings.test(setting)) given.fault('follows from the hosts of this file')
    else {
      const text = given.textOrNumber('one line without quotes, $, # and \\', plainValue)
      if (text === undefined) continue
      settings[setting] = text
      try {
        schema.parse(text)
      } catch (error) {
        given.fault((error as Error).message)
      }
    }
  }
  return settings
}

function urlOf(value: Value | undefined): string | undefined {
  return value?.text(
    'an http or https address',
    (text) => /^https?:\/\/\S+$/.test(text) && URL.canParse(text),
  )
}

function checkNames(value: Value | undefined, { regions }: Deployment): void {
  const hosts = regions.flatMap((region) => region.hosts)
  const unique: [what: string, of: (string | undefined)[]][] = [
    ['the region', regions.map(({ code }) => code)],
    ['the host', hosts.map((host) => host.name)],
    ['the internal address', hosts.map(({ internal }) => internal)],
    ['the address', hosts.map(({ address }) => address)],
    ['the address', hosts.map(({ address6 }) => address6)],
  ]
  for (const [what, all] of unique) {
    const given = all.filter((one) => one !== undefined && one !== '')
    const twice = new Set(given.filter((one, at) => given.indexOf(one) !== at))
    for (const one of twice) value?.fault(`name ${what} ${one} twice`)
  }
}

/** The zones have no address of their servers, so a server inside of one could not be found. */
function checkNameservers(value: Value | undefined, { nameservers, domain, downloads }: Deployment): void {
  for (const [at, server] of nameservers.entries()) {
    const zone = [domain, downloads].find((one) => one !== '' && `.${server}`.endsWith(`.${one}`))
    if (zone !== undefined)
      value
        ?.list()
        ?.[at]?.fault(`is ${server}, inside of the zone ${zone}, which has no address of it; name others`)
  }
}

/** RFC 1918, RFC 6598 (shared, also of overlay networks), RFC 2544. */
const ownNetworks = networksOf('ipv4', [
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'],
  ...['100.64.0.0/10', '198.18.0.0/15'],
])

/** Servers and admin hosts listen there: it has to be an address of the cluster's own network. */
function checkInternal(value: Value | undefined, { regions }: Deployment): void {
  const alone = regions.flatMap(({ hosts }) => hosts).length === 1
  for (const [at, { hosts }] of regions.entries())
    for (const [which, { name: host, internal, address, roles }] of hosts.entries()) {
      const field = value?.list()?.[at]?.fields(regionFields).hosts?.list()?.[which]
      const isLoopback = internal.startsWith('127.')
      if (isLoopback && !alone)
        field?.fault(`${host} has the internal address ${internal}, where no other host reaches it`)
      // The role standalone of a single host listens on loopback alone.
      const isUnused = alone && roles.some(({ role }) => role === 'standalone')
      const isOwn = isUnused || isLoopback || internal === '' || ownNetworks.check(internal)
      if (internal === '0.0.0.0' || internal === address || !isOwn)
        field?.fault(
          `${host} has the internal address ${internal}, on which everybody would reach its servers`,
        )
    }
}

/**
 * The first node that Cassandra refuses, and the number of racks before it. Nodes join in the order
 * of the file and get ranges by racks. A further node of a rack joins if the region has a single
 * rack, or one at least for each replica (`TokenAllocation` of Cassandra).
 */
function refusedNode(hosts: readonly Host[], replicas: number): [node: Host, racks: number] | undefined {
  const racks = new Set<string>()
  for (const host of hosts.filter(({ roles }) => roles.some(({ role }) => role === 'cassandra'))) {
    if (racks.has(host.rack) && racks.size > 1 && racks.size < replicas) return [host, racks.size]
    racks.add(host.rack)
  }
  return undefined
}

/** Each region of a cluster has everything that a region needs. */
function checkRoles(value: Value | undefined, deployment: Deployment): void {
  const { regions, replicas } = deployment
  const all = regions.flatMap(({ hosts }) => hosts.flatMap(({ roles }) => roles.map(({ role }) => role)))
  if (all.includes('standalone')) {
    const others = all.filter((role) => role !== 'standalone' && isOurs(role))
    const servers = all.filter((role) => role === 'nats' || role === 'cassandra')
    if (all.filter((role) => role === 'standalone').length > 1 || others.length + servers.length > 0)
      value?.fault('have the role standalone, which runs everything alone')
    else if (regions.length > 1) value?.fault(`are ${regions.length}, but the role standalone serves one`)
    const ofClusters = settingsIn(deployment).filter((name) => !(name in commonSettings))
    if (ofClusters.length > 0)
      value?.fault(`have the role standalone, which has no setting ${ofClusters.join(', ')}`)
  } else
    for (const [at, { code, hosts }] of regions.entries()) {
      const region = value?.list()?.[at]
      const count = (role: HostRole) =>
        hosts.flatMap(({ roles }) => roles).filter((one) => one.role === role).length
      const missing = (['nats', 'cassandra', 'actor-host', 'storage-node', 'upload', 'api'] as const).filter(
        (role) => count(role) === 0,
      )
      if (missing.length > 0) region?.fault(`has no host with the role ${missing.join(', ')} (${code})`)
      if (count('cassandra') > 0 && count('cassandra') < replicas)
        region?.fault(
          `has ${count('cassandra')} Cassandra nodes for ${replicas} replicas of every row (${code}); set replicas`,
        )
      for (const role of ['api', 'upload'] as const) {
        const modes = frontendModes(deployment, code, role)
        if (modes.includes('required') && (modes.includes('off') || modes.includes('offered')))
          region?.fault(
            `has processes of the role ${role} with HOLDFAST_FRONTEND_TLS ${modes.join(' and ')}: proxies call all of them in one way (${code})`,
          )
      }
      const [node, racks] = refusedNode(hosts, replicas) ?? []
      if (node !== undefined)
        region?.fault(
          `has the Cassandra node ${node.name}, which does not join: there are ${racks} racks before it for ${replicas} replicas (${code}); give all nodes one rack, or each of the first ${replicas} a rack of its own`,
        )
    }
  for (const [at, { code, hosts }] of regions.entries()) {
    const region = value?.list()?.[at]
    const proxies = hosts.filter(({ roles }) => roles.some(({ role }) => role === 'proxy'))
    if (proxies.length === 0) region?.fault(`has no host with the role proxy (${code})`)
    for (const { name: host, address, address6 } of proxies)
      if (address === undefined && address6 === undefined)
        region?.fault(`has the proxy ${host} without a public address (${code})`)
  }
}

/** Names of all settings of a file. */
function settingsIn({ settings, regions }: Deployment): string[] {
  const all = regions.flatMap((region) => [
    region.settings,
    ...region.hosts.flatMap((host) => [host.settings, ...host.roles.map((role) => role.settings)]),
  ])
  return [...new Set([settings, ...all].flatMap((some) => Object.keys(some)))]
}

/** How the processes of a role in a region answer proxies: each mode once. */
function frontendModes({ settings, regions }: Deployment, code: Region['code'], role: HostRole): string[] {
  const usual = regions.flatMap(({ hosts }) => hosts).length === 1 ? 'off' : 'required'
  const modes = regions
    .filter((region) => region.code === code)
    .flatMap((region) =>
      region.hosts.flatMap((host) =>
        host.roles
          .filter((process) => process.role === role)
          .map(
            (process) =>
              ({ ...settings, ...region.settings, ...host.settings, ...process.settings })
                .HOLDFAST_FRONTEND_TLS ?? usual,
          ),
      ),
    )
  return [...new Set(modes)]
}

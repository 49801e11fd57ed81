/**
 * DNS. `<zone>.zone` is plain: each public name has the addresses of all proxies that serve it.
 * `<zone>.closest.zone` is the same for PowerDNS with LUA records: the names that every region
 * serves lead to the nearest region that answers. `<zone>.latency.json` is a change batch of Route
 * 53 with routing by latency. `<region>.health-check.json` is the check of a region: Route 53 gives
 * it an id, which the operator writes into the deployment's file, and the region's records name it.
 */
import { healthPath } from '@holdfast/http-kit'
import type { RegionCode } from '@holdfast/kernel'
import { hostsWith, type Plan, type PlannedHost, type PlannedRegion } from '../plan.ts'

type Type = 'A' | 'AAAA'

interface Name {
  name: string
  /** Proxies of each region that serves it. */
  regions: { code: RegionCode; healthCheck: string | undefined; proxies: PlannedHost[] }[]
}

/** Seconds. After this time clients no longer use the address of a lost region. */
const ttl = 60

/** The nearest region of Route 53 to each Holdfast region. */
const nearestAws: Record<RegionCode, string> = {
  'eu-par': 'eu-west-3',
  'na-phx': 'us-west-2',
  'na-nyc': 'us-east-1',
  'ap-sgp': 'ap-southeast-1',
  'ap-hkg': 'ap-east-1',
  'ap-tyo': 'ap-northeast-1',
  'ap-syd': 'ap-southeast-2',
  'sa-sao': 'sa-east-1',
}

export function dnsFiles(plan: Plan): [path: string, text: string][] {
  const { domain, downloads } = plan.deployment
  const zones = [...new Set([domain, downloads])].flatMap((zone): [string, string][] => {
    const names = namesIn(plan, zone)
    return [
      [`dns/${zone}.zone`, zoneFile(plan, zone, names.flatMap(plainRecords))],
      [`dns/${zone}.closest.zone`, zoneFile(plan, zone, names.flatMap(closestRecords))],
      [`dns/${zone}.latency.json`, latencyBatch(names)],
    ]
  })
  return [...zones, ...healthChecks(plan)]
}

/** Public names below a zone; a name belongs to the longest zone that it ends with. */
function namesIn({ deployment, regions }: Plan, zone: string): Name[] {
  const zones = [deployment.domain, deployment.downloads]
  const zoneOf = (name: string) =>
    zones.filter((one) => name === one || name.endsWith(`.${one}`)).sort((a, b) => b.length - a.length)[0]
  const served = (of: (region: PlannedRegion) => string[]) => {
    const names = new Map<string, Name>()
    for (const region of regions)
      for (const name of of(region)) {
        const known = names.get(name) ?? { name, regions: [] }
        const { code, healthCheck, hosts } = region
        known.regions.push({ code, healthCheck, proxies: hostsWith(hosts, 'proxy') })
        names.set(name, known)
      }
    return [...names.values()]
  }
  const everywhere = served(({ names }) => [names.web, names.api, names.upload, names.download])
  const regional = served(({ names }) => [names.regionalUpload, names.regionalDownload])
  return [...everywhere, ...regional].filter(({ name }) => zoneOf(name) === zone)
}

function zoneFile({ deployment }: Plan, zone: string, records: string[]): string {
  const { nameservers, serial, contact } = deployment
  const [primary = ''] = nameservers
  const [mailbox = '', ...host] = contact.split('@')
  const mail = `${mailbox.replaceAll('.', '\\.')}.${host.join('')}.`
  return [
    `$ORIGIN ${zone}.`,
    `$TTL ${ttl}`,
    `@ 3600 IN SOA ${primary}. ${mail} ( ${serial} 3600 900 1209600 60 )`,
    ...nameservers.map((server) => `@ 3600 IN NS ${server}.`),
    ...records,
    '',
  ].join('\n')
}

function plainRecords({ name, regions }: Name): string[] {
  return addresses(regions.flatMap(({ proxies }) => proxies)).map(
    ([type, address]) => `${name}. IN ${type} ${address}`,
  )
}

function closestRecords(name: Name): string[] {
  if (name.regions.length < 2) return plainRecords(name)
  return (['A', 'AAAA'] as const).flatMap((type) => {
    const all = addresses(name.regions.flatMap(({ proxies }) => proxies)).filter(([of]) => of === type)
    const list = all.map(([, address]) => `'${address}'`).join(',')
    return all.length === 0
      ? []
      : [`${name.name}. IN LUA ${type} "ifportup(443, {${list}}, {selector='pickclosest'})"`]
  })
}

function latencyBatch(names: Name[]): string {
  const changes = names.flatMap(({ name, regions }) =>
    regions.flatMap(({ code, healthCheck, proxies }) =>
      (['A', 'AAAA'] as const).flatMap((type) => {
        const values = addresses(proxies).filter(([of]) => of === type)
        if (values.length === 0) return []
        const check = healthCheck === undefined ? {} : { HealthCheckId: healthCheck }
        const routing = regions.length > 1 ? { SetIdentifier: code, Region: nearestAws[code], ...check } : {}
        return {
          Action: 'UPSERT',
          ResourceRecordSet: {
            Name: `${name}.`,
            Type: type,
            ...routing,
            TTL: ttl,
            ResourceRecords: values.map(([, Value]) => ({ Value })),
          },
        }
      }),
    ),
  )
  return `${JSON.stringify({ Changes: changes }, null, 2)}\n`
}

/**
 * What Route 53 asks a region for, from several places: whether it takes requests, by the name of
 * its own upload host. With one region there is nothing to lead to instead.
 */
function healthChecks({ regions }: Plan): [path: string, text: string][] {
  if (regions.length < 2) return []
  return regions.map(({ code, names }): [string, string] => {
    const config = {
      Type: 'HTTPS',
      FullyQualifiedDomainName: names.regionalUpload,
      Port: 443,
      ResourcePath: healthPath,
      EnableSNI: true,
      RequestInterval: 10,
      FailureThreshold: 3,
    }
    return [`dns/${code}.health-check.json`, `${JSON.stringify(config, null, 2)}\n`]
  })
}

function addresses(hosts: readonly PlannedHost[]): [Type, string][] {
  return [
    ...hosts.flatMap(({ address }): [Type, string][] => (address === undefined ? [] : [['A', address]])),
    ...hosts.flatMap(({ address6 }): [Type, string][] =>
      address6 === undefined ? [] : [['AAAA', address6]],
    ),
  ]
}

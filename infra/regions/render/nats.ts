/**
 * nats-server: a cluster of the region's servers, a gateway to every other region, an account for
 * the service and one for the system. Peers and clients prove themselves by certificates and
 * passwords: a proxy and Prometheus have certificates of the same authority. Without certificates
 * all of them use passwords.
 */
import { hostsWith, type Plan, type PlannedHost, type PlannedRegion } from '../plan.ts'

/** Defines both passwords. It is a secret and not rendered. */
export const natsPasswords = 'nats-users.conf'
export const natsUser = 'holdfast'

/**
 * Defines the addresses of the region's servers, for routes between them. An address contains the
 * password that a server sends to the other one, so this file is a secret, too. The list may
 * contain the server that reads it.
 */
export const natsRoutes = 'nats-routes.conf'

/** The content of the first one. */
export function natsPasswordsText({ own, system }: { own: string; system: string }): string {
  return `HOLDFAST_PASSWORD: ${inline(own)}\nSYSTEM_PASSWORD: ${inline(system)}\n`
}

/** Values of nats-server's format: text is quoted, a reference is not. */
type Conf = string | number | boolean | Reference | Conf[] | { [key: string]: Conf }

class Reference {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

export function natsConfig({ platform, regions }: Plan, region: PlannedRegion, host: PlannedHost): string {
  const { client, cluster, gateway, monitor } = platform.serverPorts.nats
  const others = hostsWith(region.hosts, 'nats').filter(({ name }) => name !== host.name)
  const listen = platform.listenOf(host)
  const own = { user: natsUser, password: new Reference('HOLDFAST_PASSWORD') }
  const tls = platform.tls !== undefined && {
    cert_file: `${platform.tls}/node.pem`,
    key_file: `${platform.tls}/node.key`,
    ca_file: `${platform.tls}/ca.pem`,
    verify: true,
  }
  const system = { user: 'system', password: new Reference('SYSTEM_PASSWORD') }
  /** What servers ask each other for. */
  const between = (authorization: Conf): Record<string, Conf> => ({ ...(tls ? { tls } : {}), authorization })
  const config: Record<string, Conf> = {
    server_name: `${host.name}-nats`,
    listen: `${host.internal}:${client}`,
    ...(monitor === undefined ? {} : { http: `127.0.0.1:${monitor}` }),
    max_payload: 1_048_576,
    ping_interval: '5s',
    ping_max: 2,
    ...(tls ? { tls } : {}),
    system_account: 'SYSTEM',
    accounts: {
      HOLDFAST: { users: [own] },
      SYSTEM: { users: [system] },
    },
    cluster: {
      name: region.code,
      listen: `${host.internal}:${cluster}`,
      ...between(own),
      routes:
        tls && others.length > 0
          ? new Reference('ROUTES')
          : others.map(({ internal }) => `nats://${internal}:${cluster}`),
    },
  }
  if (regions.length > 1)
    config.gateway = {
      name: region.code,
      listen: `${listen}:${gateway}`,
      ...(listen === host.internal ? {} : { advertise: `${host.internal}:${gateway}` }),
      // nats-server does not reload with another password here, not even its users.
      ...between(system),
      reject_unknown_cluster: true,
      gateways: regions.map(({ code, hosts }) => ({
        name: code,
        urls: hostsWith(hosts, 'nats').map(({ internal }) => `nats://${internal}:${gateway}`),
      })),
    }
  const secrets = [natsPasswords, ...(tls && others.length > 0 ? [natsRoutes] : [])]
  return [...secrets.map((name) => `include "secrets/${name}"`), ...linesOf(config), ''].join('\n')
}

/** Addresses of all NATS servers of the host's region; none where it has one alone. */
export function natsRoutesOf({ platform, regions }: Plan, host: PlannedHost): string[] {
  const region = regions.find(({ code }) => code === host.region)
  const all = hostsWith(region?.hosts ?? [], 'nats')
  return all.length > 1 ? all.map(({ internal }) => `${internal}:${platform.serverPorts.nats.cluster}`) : []
}

function linesOf(map: Record<string, Conf>, indent = ''): string[] {
  return Object.entries(map).flatMap(([key, value]) => {
    if (typeof value === 'object' && !Array.isArray(value) && !(value instanceof Reference))
      return [`${indent}${key} {`, ...linesOf(value, `${indent}  `), `${indent}}`]
    return [`${indent}${key}: ${inline(value)}`]
  })
}

function inline(value: Conf): string {
  if (value instanceof Reference) return `$${value.name}`
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`
  if (typeof value === 'object')
    return `{ ${Object.entries(value)
      .map(([key, one]) => `${key}: ${inline(one)}`)
      .join(', ')} }`
  return JSON.stringify(value)
}

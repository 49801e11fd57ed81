/** What HTTP hosts listen on, what links say, whom they trust and how much they take. */
import { address, port, trustedProxies, trustedProxiesForm } from '../network-kinds.ts'
import { choice, countOrAuto, origin, type Setting, secret, type ValuesOf } from '../setting-kinds.ts'
import { token, tokenForm } from '../token.ts'

export const hostSettings = {
  HOLDFAST_API_PORT: port('8080', 'Port of the JSON API and the pages; 0 takes a free one.'),
  HOLDFAST_UPLOAD_PORT: port('8081', 'Port of the upload host.'),
  HOLDFAST_DOWNLOAD_PORT: port(
    '8082',
    'Port of the download host: its own origin, so that uploaded scripts cannot act on the pages.',
  ),
  HOLDFAST_ADMIN_PORT: port('8090', 'Port of metrics, health and operator calls.'),
  HOLDFAST_BIND: address('127.0.0.1', 'Address that every host listens on; `0.0.0.0` or `::` for all.'),
  HOLDFAST_ADMIN_BIND: address('', 'Address of the admin host, when it differs from HOLDFAST_BIND.'),
  HOLDFAST_PUBLIC_API_URL: origin({
    meaning: 'Origin of the API in links. Without it: `http://<bind>:<port>`.',
  }),
  HOLDFAST_PUBLIC_UPLOAD_URL: origin({ meaning: 'Origin of the upload host in links.' }),
  HOLDFAST_PUBLIC_DOWNLOAD_URL: origin({ meaning: 'Origin of download links and direct links.' }),
  HOLDFAST_PUBLIC_WEB_URL: origin({ meaning: 'Origin of the pages in links. Without it: the API’s.' }),
  HOLDFAST_ADMIN_TOKEN: secret({
    meaning:
      'Opens the admin host to every caller. Without it root and the user of the service can call on this machine (Linux), and no other caller.',
    form: tokenForm,
    check: token,
  }),
  HOLDFAST_METRICS_TOKEN: secret({
    meaning:
      'Opens `/metrics` of the admin host to every caller, and nothing else: for Prometheus, which sends it with each scrape. Another one than HOLDFAST_ADMIN_TOKEN.',
    form: tokenForm,
    check: token,
  }),
  HOLDFAST_TRUST_PROXY: {
    fallback: 'off',
    meaning:
      'Proxies whose X-Forwarded-For counts: a number of hops, or addresses, CIDRs, `loopback`; comma-separated.',
    form: trustedProxiesForm,
    secret: false,
    parse: trustedProxies,
  } as Setting<string[] | number | false>,
  HOLDFAST_RATE_LIMITS: choice(['default', 'off'], {
    fallback: 'default',
    meaning: '`off` lifts every rate limit, ban and budget of guesses: for tests and closed networks.',
  }),
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
}

export interface HostsConfig {
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
  /** Undefined: by the limit of open files. */
  connections: { max: number | undefined; perNetworkMax: number | undefined }
}

export function hostsConfig(values: ValuesOf<typeof hostSettings>): HostsConfig {
  return {
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
    connections: {
      max: values.HOLDFAST_CONNECTIONS_MAX,
      perNetworkMax: values.HOLDFAST_CONNECTIONS_PER_NETWORK_MAX,
    },
  }
}

export const hostPorts = [
  'HOLDFAST_API_PORT',
  'HOLDFAST_UPLOAD_PORT',
  'HOLDFAST_DOWNLOAD_PORT',
  'HOLDFAST_ADMIN_PORT',
] as const

/** One that opens everything must not be sent with each scrape. */
export function tokensDiffer(values: Partial<ValuesOf<typeof hostSettings>>): string[] {
  const { HOLDFAST_ADMIN_TOKEN: admin, HOLDFAST_METRICS_TOKEN: metrics } = values
  return metrics !== undefined && metrics === admin
    ? ['HOLDFAST_METRICS_TOKEN is the value of HOLDFAST_ADMIN_TOKEN, which opens more than /metrics']
    : []
}

/** Faults of ports that are named twice; 0 takes a free one and is no fault. */
export function portsDiffer<Name extends string>(
  values: Partial<Record<Name, unknown>>,
  names: readonly Name[],
): string[] {
  return names.flatMap((name, index) => {
    const earlier = names.slice(0, index).find((other) => values[other] === values[name])
    return earlier !== undefined && values[name] ? [`${name} is ${values[name]}, which ${earlier} takes`] : []
  })
}

/**
 * The public names of a region and the processes behind each, for nginx and for Caddy. Bodies are
 * streamed both ways; the admin host is behind no proxy.
 */
import { healthPath } from '@holdfast/http-kit'
import { clusterNames } from '@holdfast/trust'
import {
  allHosts,
  hostsWith,
  isAlone,
  isFrontendByTls,
  type Plan,
  type PlannedHost,
  type PlannedRegion,
} from '../plan.ts'
import { certificates } from '../platform.ts'
import { type PortName, serverPorts } from '../roles.ts'

/**
 * A proxy closes connections to processes that idle for this long. It is shorter than the
 * processes keep them (`defaultIdle`), so that they close none that the proxy sends on.
 */
const keptSeconds = 30

/** Connections to a process that are kept: after a burst the next one needs no handshakes. */
const keptMax = 256

/**
 * This number of failures within five seconds takes a process out of use for that long. Caddy
 * counts a connection that ends without an answer. If one were enough, a stranger who makes each
 * process cut a connection would shut everybody out. A dead host costs the first requests a second.
 */
const failuresMax = 100

/**
 * nginx repeats a request at another process after an answer 503, and counts this answer as a
 * failure. Processes also answer 503 for an account that cannot be reached, so visitors of such an
 * account would take all processes out of use. So nginx counts no failures. A dead host delays each
 * request that it gets by a second, and least_conn gives it few.
 */
const nginxFailuresMax = 0

/** What the proxy itself answers when no process does: the contract's error, not a page. */
const faultCodes = ['502', '503', '504']
const faultBody = '{"status":"error-unavailable"}'
const faultSeconds = '1'

/** A public site: its names and `address:port` of each process that serves it. */
interface Site {
  upstream: string
  names: string[]
  backends: string[]
  /** The proxy and the processes show each other certificates of the cluster. */
  tls: boolean
}

export function sitesOf({ names, hosts }: PlannedRegion): Site[] {
  const behind = (port: PortName) => {
    const processes = hosts
      .flatMap((host) => host.processes)
      .filter(({ role, ports }) => ports[port] !== undefined && role !== 'storage-node')
    return {
      backends: processes.map(({ settings, ports }) => `${settings.HOLDFAST_BIND}:${ports[port]}`),
      tls: processes.every(isFrontendByTls),
    }
  }
  return [
    { upstream: 'holdfast_api', names: [names.web, names.api], ...behind('api') },
    { upstream: 'holdfast_upload', names: [names.upload, names.regionalUpload], ...behind('upload') },
    { upstream: 'holdfast_download', names: [names.download, names.regionalDownload], ...behind('download') },
  ]
}

/** A word of a directive, or the directives of its block. */
type Directive = [words: string[], block?: Directive[]]

/** Goes to `/etc/nginx/conf.d`, which is inside of `http`. */
export function nginxConfig(plan: Plan, region: PlannedRegion, host: PlannedHost): string {
  const sites = sitesOf(region)
  const tls: Directive[] = [
    [['ssl_certificate', certificates.public.certificate]],
    [['ssl_certificate_key', certificates.public.key]],
    [['ssl_protocols', 'TLSv1.2', 'TLSv1.3']],
  ]
  const upstreams = sites.map(
    ({ upstream, backends }): Directive => [
      ['upstream', upstream],
      [
        [['least_conn']],
        ...backends.map((backend): Directive => [['server', backend, `max_fails=${nginxFailuresMax}`]]),
        [['keepalive', String(keptMax)]],
        [['keepalive_timeout', `${keptSeconds}s`]],
      ],
    ],
  )
  const servers = sites.map(
    ({ upstream, names, tls: secured }): Directive => [
      ['server'],
      [
        [['listen', '443', 'ssl', 'http2']],
        [['listen', '[::]:443', 'ssl', 'http2']],
        [['server_name', ...names]],
        ...nginxSilence,
        ...tls,
        [['client_max_body_size', '0']],
        // The longest file names make header lines and paths of 12 KiB.
        [['large_client_header_buffers', '4', '32k']],
        [['proxy_buffer_size', '32k']],
        [['proxy_buffers', '4', '32k']],
        ...nginxFaults,
        [
          ['location', '/'],
          [
            [['proxy_pass', `${secured ? 'https' : 'http'}://${upstream}`]],
            ...(secured ? nginxToFrontends : []),
            [['proxy_http_version', '1.1']],
            // To a host without power nothing is refused.
            [['proxy_connect_timeout', '1s']],
            // A process that is not ready answers 503. Changes are never sent to a second one.
            [['proxy_next_upstream', 'error', 'timeout', 'http_503']],
            [['proxy_set_header', 'Connection', '']],
            [['proxy_set_header', 'Host', '$host']],
            // Set, not appended: what clients claim does not count.
            [['proxy_set_header', 'X-Forwarded-For', '$remote_addr']],
            [['proxy_set_header', 'X-Forwarded-Proto', '$scheme']],
            [['proxy_buffering', 'off']],
            [['proxy_request_buffering', 'off']],
            [['proxy_read_timeout', '300s']],
            [['proxy_send_timeout', '300s']],
          ],
        ],
      ],
    ],
  )
  const others: Directive[] = [
    [
      ['server'],
      [
        [['listen', '443', 'ssl', 'default_server']],
        [['listen', '[::]:443', 'ssl', 'default_server']],
        [['server_name', '_']],
        ...nginxSilence,
        [['ssl_reject_handshake', 'on']],
      ],
    ],
    [
      ['server'],
      [
        // Not the default: the site that Debian's package enables is that already.
        [['listen', '80']],
        [['listen', '[::]:80']],
        [['server_name', ...sites.flatMap(({ names }) => names)]],
        ...nginxSilence,
        [['return', '308', 'https://$host$request_uri']],
      ],
    ],
  ]
  // By default a name has to fit into 64 bytes with what nginx keeps beside it.
  const hash: Directive = [['server_names_hash_bucket_size', '512']]
  return `${[hash, ...upstreams, ...servers, ...others, nginxMetrics(plan, host)].flatMap((one) => [...nginxLines(one), '']).join('\n')}`
}

/**
 * Queries may have tokens and capabilities, paths the codes of folders and the names of files.
 * nginx has no form of its log of errors without the line of the request: only messages of the
 * level `emerg`, which no request causes, pass. Its messages about starts, reloads and its files
 * are in the log of the main file.
 */
const nginxSilence: Directive[] = [[['access_log', 'off']], [['error_log', 'stderr', 'emerg']]]

/** Frontends accept no older version. All of them have one name: nginx asks each by the same. */
const nginxToFrontends: Directive[] = [
  [['proxy_ssl_protocols', 'TLSv1.3']],
  [['proxy_ssl_certificate', certificates.proxy.certificate]],
  [['proxy_ssl_certificate_key', certificates.proxy.key]],
  [['proxy_ssl_trusted_certificate', certificates.authority]],
  [['proxy_ssl_verify', 'on']],
  [['proxy_ssl_name', clusterNames.frontend]],
  [['proxy_ssl_session_reuse', 'on']],
]

/** As the service's own errors have them. */
const faultHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'Retry-After',
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'Retry-After': faultSeconds,
  'X-Content-Type-Options': 'nosniff',
}

/** The code stays that of the fault. */
const nginxFaults: Directive[] = [
  [['error_page', ...faultCodes, '@fault']],
  [
    ['location', '@fault'],
    [
      [['default_type', 'application/json; charset=utf-8']],
      ...Object.entries(faultHeaders).map(
        ([name, value]): Directive => [['add_header', name, value, 'always']],
      ),
      [['return', '200', faultBody]],
    ],
  ],
]

function nginxLines([words, block]: Directive, indent = ''): string[] {
  const line = `${indent}${words.map(nginxWord).join(' ')}`
  if (block === undefined) return [`${line};`]
  return [`${line} {`, ...block.flatMap((one) => nginxLines(one, `${indent}  `)), `${indent}}`]
}

function nginxWord(word: string): string {
  return /^[\w$./:=@[\]-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`
}

/**
 * Caddy gets certificates by itself where one host serves all names. Several hosts share one from
 * elsewhere: the authority may ask any of them.
 */
export function caddyfile(plan: Plan, region: PlannedRegion, host: PlannedHost): string {
  const alone = hostsWith(allHosts(plan), 'proxy').length === 1
  const blocks = sitesOf(region).map(({ names, backends, tls }) =>
    [
      `${names.join(', ')} {`,
      ...(alone ? [] : [`\ttls ${certificates.public.certificate} ${certificates.public.key}`]),
      `\treverse_proxy ${backends.join(' ')} {`,
      // With least_conn a process that refuses every request at once would get almost all requests
      // until Caddy asks for its health again.
      '\t\tlb_policy round_robin',
      '\t\tlb_try_duration 3s',
      // The only process is never taken out of use.
      ...(backends.length > 1 ? caddyChoice : []),
      '\t\ttransport http {',
      '\t\t\tdial_timeout 1s',
      `\t\t\tkeepalive ${keptSeconds}s`,
      `\t\t\tkeepalive_idle_conns_per_host ${keptMax}`,
      ...(tls ? caddyToFrontends : []),
      '\t\t}',
      '\t}',
      ...caddyFaults,
      '}',
    ].join('\n'),
  )
  const { global, site } = caddyMetrics(plan, host)
  const options = [`email ${plan.deployment.contact}`, `admin ${caddyAdmin}`, ...caddySilence, ...global].map(
    (line) => `\t${line}`,
  )
  return `${[['{', ...options, '}'].join('\n'), ...blocks, site.join('\n')].join('\n\n')}\n`
}

/**
 * Where `caddy reload` calls it, without a login. At Caddy's own port every user of the host could
 * make it serve its keys; connecting to this socket takes the right to write, which `caddy` has.
 */
const caddyAdmin = 'unix//var/lib/caddy/admin.sock'

/** It logs no requests, but faults with their request, whose query may have a token. */
const caddySilence = [
  'log {',
  '\tformat filter {',
  '\t\twrap json',
  '\t\tfields {',
  '\t\t\trequest delete',
  '\t\t}',
  '\t}',
  '}',
]

/**
 * A process that starts, drains or lost its servers gets no requests, although it answers. While
 * none is ready, users get 503.
 */
const caddyChoice = [
  '\t\tfail_duration 5s',
  `\t\tmax_fails ${failuresMax}`,
  `\t\thealth_uri ${healthPath}`,
  '\t\thealth_interval 2s',
  '\t\thealth_timeout 5s',
  '\t\thealth_status 200',
]

/** The code stays that of the fault. */
const caddyFaults = [
  '\thandle_errors {',
  `\t\t@fault expression \`{err.status_code} in [${faultCodes.join(', ')}]\``,
  '\t\thandle @fault {',
  '\t\t\theader Content-Type "application/json; charset=utf-8"',
  ...Object.entries(faultHeaders).map(([name, value]) => `\t\t\theader ${name} ${value}`),
  `\t\t\trespond \`${faultBody}\``,
  '\t\t}',
  '\t}',
]

/** They have one name, and Caddy sends it to each. */
const caddyToFrontends = [
  `\t\t\ttls_client_auth ${certificates.proxy.certificate} ${certificates.proxy.key}`,
  `\t\t\ttls_trusted_ca_certs ${certificates.authority}`,
  `\t\t\ttls_server_name ${clusterNames.frontend}`,
  // A burst of handshakes is slow at a busy process.
  '\t\t\ttls_timeout 5s',
]

export function proxyMetricsAddress(plan: Plan, { internal }: PlannedHost): string {
  return `${isAlone(plan) ? '127.0.0.1' : internal}:${serverPorts.proxyMetrics}`
}

function caddyMetrics(plan: Plan, host: PlannedHost): { global: string[]; site: string[] } {
  const address = proxyMetricsAddress(plan, host)
  if (isAlone(plan))
    return { global: [], site: [`http://${address} {`, '\tbind 127.0.0.1', '\tmetrics', '}'] }
  const { certificate, key } = certificates.proxy
  return {
    // Clients call an address, and TLS names none. No other site is at this one.
    global: [`servers ${address} {`, '\tstrict_sni_host insecure_off', '}'],
    site: [
      `https://:${serverPorts.proxyMetrics} {`,
      `\tbind ${host.internal}`,
      `\ttls ${certificate} ${key} {`,
      '\t\tclient_auth {',
      '\t\t\tmode require_and_verify',
      `\t\t\ttrusted_ca_cert_file ${certificates.authority}`,
      '\t\t}',
      '\t}',
      '\tmetrics',
      '}',
    ],
  }
}

/** nginx has no page of metrics, but it knows these numbers. */
function nginxMetrics(plan: Plan, host: PlannedHost): Directive {
  const states = ['active', 'reading', 'writing', 'waiting']
  const lines = states.map((state) => `nginx_connections_${state} $connections_${state}\n`)
  const { certificate, key } = certificates.proxy
  return [
    ['server'],
    [
      [['listen', proxyMetricsAddress(plan, host), ...(isAlone(plan) ? [] : ['ssl'])]],
      ...(isAlone(plan)
        ? []
        : ([
            [['ssl_certificate', certificate]],
            [['ssl_certificate_key', key]],
            [['ssl_protocols', 'TLSv1.2', 'TLSv1.3']],
            [['ssl_client_certificate', certificates.authority]],
            [['ssl_verify_client', 'on']],
          ] as Directive[])),
      [['access_log', 'off']],
      [
        ['location', '=', '/metrics'],
        [[['default_type', 'text/plain']], [['return', '200', lines.join('')]]],
      ],
      [['location', '/'], [[['return', '404']]]],
    ],
  ]
}

/** Where the file of a proxy goes. */
export function proxyFile(
  plan: Plan,
  region: PlannedRegion,
  host: PlannedHost,
): [path: string, text: string] {
  return plan.deployment.proxy === 'caddy'
    ? ['/etc/caddy/Caddyfile', caddyfile(plan, region, host)]
    : ['/etc/nginx/conf.d/holdfast.conf', nginxConfig(plan, region, host)]
}

/**
 * alertmanager, as Debian's unit reads it: its settings in `/etc/prometheus`, its options in
 * `/etc/default`. Every Prometheus sends its alerts to every alertmanager. All alertmanagers of a
 * deployment are one cluster, so each alert is reported once. They listen on the cluster's own
 * network, and both sides of each connection show a certificate of the deployment's authority.
 */
import { stringify } from 'yaml'
import { allHosts, hostsWith, isAlone, type Plan, type PlannedHost } from '../plan.ts'
import { certificates } from '../platform.ts'
import { serverPorts } from '../roles.ts'

const asText = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })
const folder = '/etc/prometheus'
const { certificate, key } = certificates.prometheus

export function alertmanagerFiles(plan: Plan, host: PlannedHost): [path: string, text: string][] {
  const files: [path: string, text: string][] = [
    [`${folder}/alertmanager.yml`, settings(plan)],
    ['/etc/default/prometheus-alertmanager', `ARGS="${options(plan, host).join(' ')}"\n`],
  ]
  if (isAlone(plan)) return files
  const server = {
    cert_file: certificate,
    key_file: key,
    client_auth_type: 'RequireAndVerifyClientCert',
    client_ca_file: certificates.authority,
  }
  const client = { cert_file: certificate, key_file: key, ca_file: certificates.authority }
  return [
    ...files,
    [`${folder}/alertmanager-web.yml`, asText({ tls_server_config: server })],
    [`${folder}/alertmanager-cluster.yml`, asText({ tls_server_config: server, tls_client_config: client })],
  ]
}

/** What else reaches an alertmanager speaks TLS to it, too. */
export function alertmanagersOf(plan: Plan): object {
  const targets = hostsWith(allHosts(plan), 'alertmanager').map((host) => alertmanagerAddress(plan, host))
  return targets.length === 0
    ? {}
    : { alerting: { alertmanagers: [{ ...observedOver(plan), static_configs: [{ targets }] }] } }
}

/** How a Prometheus reaches servers that show and ask for certificates. */
export function observedOver(plan: Plan): object {
  if (isAlone(plan)) return {}
  return {
    scheme: 'https',
    tls_config: { ca_file: certificates.authority, cert_file: certificate, key_file: key },
  }
}

export function alertmanagerAddress(plan: Plan, { internal }: PlannedHost): string {
  return `${isAlone(plan) ? '127.0.0.1' : internal}:${serverPorts.alertmanager}`
}

function options(plan: Plan, host: PlannedHost): string[] {
  const { alertmanagerCluster: port } = serverPorts
  const others = hostsWith(allHosts(plan), 'alertmanager').filter(({ name }) => name !== host.name)
  return [
    `--web.listen-address=${alertmanagerAddress(plan, host)}`,
    ...(isAlone(plan) ? [] : [`--web.config.file=${folder}/alertmanager-web.yml`]),
    // Without an address it has no cluster. Its default is every address of the host.
    `--cluster.listen-address=${others.length === 0 ? '' : `${host.internal}:${port}`}`,
    ...(others.length === 0
      ? []
      : [
          `--cluster.advertise-address=${host.internal}:${port}`,
          `--cluster.tls-config=${folder}/alertmanager-cluster.yml`,
        ]),
    ...others.map(({ internal }) => `--cluster.peer=${internal}:${port}`),
  ]
}

/** In the address of the watchdog: one watch outside for each region. */
export const regionMark = '{region}'

/**
 * The receivers of the watchdog alert, each with the region whose Prometheus it is for; undefined:
 * any region. Without an address the alert is sent nowhere: otherwise it would be a ticket that
 * never ends.
 */
function watchdogs({ deployment, regions }: Plan): { name: string; region?: string; url?: string }[] {
  const { watchdog: url } = deployment.alerts
  if (url === undefined) return [{ name: 'watchdog' }]
  if (!url.includes(regionMark)) return [{ name: 'watchdog', url }]
  return regions
    .filter(({ hosts }) => hostsWith(hosts, 'prometheus').length > 0)
    .map(({ code: region }) => ({
      name: `watchdog-${region}`,
      region,
      url: url.replaceAll(regionMark, region),
    }))
}

function settings(plan: Plan): string {
  const { deployment } = plan
  const receiver = (severity: 'page' | 'ticket') => {
    const url = deployment.alerts[severity]
    return { name: severity, ...(url === undefined ? {} : { webhook_configs: [{ url }] }) }
  }
  return asText({
    route: {
      receiver: 'ticket',
      group_by: ['alertname', 'deployment', 'region'],
      group_wait: '30s',
      group_interval: '5m',
      repeat_interval: '12h',
      routes: [
        ...watchdogs(plan).map(({ name, region }) => ({
          matchers: ['alertname="HoldfastWatchdog"', ...(region === undefined ? [] : [`region="${region}"`])],
          receiver: name,
          group_wait: '0s',
          group_interval: '1m',
          repeat_interval: '1m',
        })),
        { matchers: ['severity="page"'], receiver: 'page', repeat_interval: '1h' },
      ],
    },
    inhibit_rules: [
      ['HoldfastErrorsFast', 'HoldfastErrorsSlow'],
      ['HoldfastSlowFast', 'HoldfastSlowSlow'],
    ].map(([source, target]) => ({
      source_matchers: [`alertname="${source}"`],
      target_matchers: [`alertname="${target}"`],
      equal: ['deployment', 'region'],
    })),
    receivers: [
      receiver('ticket'),
      receiver('page'),
      ...watchdogs(plan).map(({ name, url }) => ({
        name,
        ...(url === undefined ? {} : { webhook_configs: [{ url, send_resolved: false }] }),
      })),
    ],
  })
}

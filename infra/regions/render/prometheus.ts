/**
 * Prometheus of a region scrapes everything of its region that has metrics. Alerts go to every
 * alertmanager. It listens on loopback alone.
 */
import { stringify } from 'yaml'
import { rulesFile } from '../../observe/rules-file.ts'
import type { Plan, PlannedHost, PlannedRegion } from '../plan.ts'
import { hostsWith, isAdminByTls } from '../plan.ts'
import { certificates, places } from '../platform.ts'
import { exporterPorts, serverPorts } from '../roles.ts'
import { alertmanagerAddress, alertmanagersOf, observedOver } from './alertmanager.ts'
import { proxyMetricsAddress } from './proxies.ts'

const asText = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

const own = `127.0.0.1:${serverPorts.prometheus}`

export function prometheusFiles(
  plan: Plan,
  region: PlannedRegion,
  host: PlannedHost,
): [path: string, text: string][] {
  return [
    ['/etc/prometheus/prometheus.yml', settings(plan, region, host)],
    ['/etc/prometheus/holdfast.rules.yml', rulesFile()],
    ['/etc/default/prometheus', `ARGS="--web.listen-address=${own}"\n`],
  ]
}

function settings(plan: Plan, region: PlannedRegion, host: PlannedHost): string {
  const processes = region.hosts.flatMap(({ name, processes }) =>
    processes.map((process) => ({ host: name, ...process })),
  )
  return asText({
    global: {
      scrape_interval: '15s',
      evaluation_interval: '15s',
      external_labels: { deployment: plan.deployment.name, region: region.code },
    },
    rule_files: ['holdfast.rules.yml'],
    ...alertmanagersOf(plan),
    scrape_configs: [
      {
        job_name: 'holdfast',
        authorization: { credentials_file: `${places.secrets}/metrics-token` },
        // Processes show their certificate and are shown the token alone.
        ...(processes.some(isAdminByTls) ? { tls_config: { ca_file: certificates.authority } } : {}),
        static_configs: processes.map((process) => ({
          targets: [`${process.settings.HOLDFAST_ADMIN_BIND}:${process.ports.admin}`],
          labels: {
            process: process.name,
            machine: process.host,
            role: process.role,
            ...(isAdminByTls(process) ? { __scheme__: 'https' } : {}),
          },
        })),
      },
      ...serverJobs(plan, region, host),
    ],
  })
}

/** A job for each kind of server, if the region has any. */
function serverJobs(plan: Plan, { hosts }: PlannedRegion, host: PlannedHost): object[] {
  const tls = observedOver(plan)
  const jobs: { job: string; servers: PlannedHost[]; at: (host: PlannedHost) => string; how?: object }[] = [
    { job: 'prometheus', servers: [host], at: () => own },
    {
      job: 'alertmanager',
      servers: hostsWith(hosts, 'alertmanager'),
      at: (server) => alertmanagerAddress(plan, server),
      how: tls,
    },
    ...plan.deployment.exporters.map((role) => ({
      job: role,
      servers: hostsWith(hosts, role),
      at: ({ internal }: PlannedHost) => `${internal}:${exporterPorts[role]}`,
    })),
    {
      job: 'proxy',
      servers: hostsWith(hosts, 'proxy'),
      at: (server) => proxyMetricsAddress(plan, server),
      how: tls,
    },
  ]
  return jobs.flatMap(({ job, servers, at, how }) => {
    if (servers.length === 0) return []
    return [
      {
        job_name: job,
        ...how,
        static_configs: servers.map((server) => ({
          targets: [at(server)],
          labels: { process: `${server.name}-${job}`, machine: server.name, role: job },
        })),
      },
    ]
  })
}

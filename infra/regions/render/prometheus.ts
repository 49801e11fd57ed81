/**
 * Prometheus of a region scrapes everything of its region that has metrics. Alerts go to every
 * alertmanager, which drops duplicates.
 */
import { stringify } from 'yaml'
import type { Plan, PlannedRegion } from '../plan.ts'
import { hostsWith } from '../plan.ts'
import { places } from '../platform.ts'
import { exporterPorts, type HostRole, serverPorts } from '../roles.ts'

const asText = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

export function prometheusConfig(plan: Plan, region: PlannedRegion): string {
  const processes = region.hosts.flatMap(({ name, processes }) =>
    processes.map((process) => ({ host: name, ...process })),
  )
  const alertmanagers = plan.regions
    .flatMap(({ hosts }) => hostsWith(hosts, 'alertmanager'))
    .map(({ internal }) => `${internal}:${serverPorts.alertmanager}`)
  return asText({
    global: {
      scrape_interval: '15s',
      evaluation_interval: '15s',
      external_labels: { deployment: plan.deployment.name, region: region.code },
    },
    rule_files: ['holdfast.rules.yml'],
    ...(alertmanagers.length === 0
      ? {}
      : { alerting: { alertmanagers: [{ static_configs: [{ targets: alertmanagers }] }] } }),
    scrape_configs: [
      {
        job_name: 'holdfast',
        authorization: { credentials_file: `${places.secrets}/admin-token` },
        static_configs: processes.map(({ host, name, role, settings, ports }) => ({
          targets: [`${settings.HOLDFAST_ADMIN_BIND}:${ports.admin}`],
          labels: { process: name, machine: host, role },
        })),
      },
      ...serverJobs(plan, region),
    ],
  })
}

/** A job for each kind of server, if the region has any. None of them asks for a login. */
function serverJobs({ deployment }: Plan, { hosts }: PlannedRegion): object[] {
  const jobs: { job: string; role: HostRole; port: number }[] = [
    { job: 'prometheus', role: 'prometheus', port: serverPorts.prometheus },
    { job: 'alertmanager', role: 'alertmanager', port: serverPorts.alertmanager },
    ...deployment.exporters.map((role) => ({ job: role, role, port: exporterPorts[role] })),
  ]
  if (deployment.proxy === 'caddy') jobs.push({ job: 'caddy', role: 'proxy', port: serverPorts.caddy })
  return jobs.flatMap(({ job, role, port }) => {
    const servers = hostsWith(hosts, role)
    if (servers.length === 0) return []
    return [
      {
        job_name: job,
        static_configs: servers.map(({ name, internal }) => ({
          targets: [`${internal}:${port}`],
          labels: { process: `${name}-${job}`, machine: name, role },
        })),
      },
    ]
  })
}

export function alertmanagerConfig({ deployment }: Plan): string {
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
      routes: [{ matchers: ['severity="page"'], receiver: 'page', repeat_interval: '1h' }],
    },
    inhibit_rules: [
      ['HoldfastErrorsFast', 'HoldfastErrorsSlow'],
      ['HoldfastSlowFast', 'HoldfastSlowSlow'],
    ].map(([source, target]) => ({
      source_matchers: [`alertname="${source}"`],
      target_matchers: [`alertname="${target}"`],
      equal: ['deployment', 'region'],
    })),
    receivers: [receiver('ticket'), receiver('page')],
  })
}

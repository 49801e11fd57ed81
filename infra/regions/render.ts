/**
 * Everything that a deployment needs, as files: a pure function of its text. `hosts/<name>/` is
 * copied to `/` of that host. `kubernetes/<region>/` and `dns/` are folders of their own. No file
 * has a secret.
 */
import type { Deployment } from './deployment.ts'
import { type Plan, type PlannedHost, type PlannedRegion, planOf } from './plan.ts'
import { places } from './platform.ts'
import { alertmanagerFiles } from './render/alertmanager.ts'
import { cassandraRack, cassandraYaml, cassandraYamlPath } from './render/cassandra.ts'
import { composeFile } from './render/compose.ts'
import { dnsFiles } from './render/dns.ts'
import { kubernetesFiles } from './render/kubernetes.ts'
import { natsConfig } from './render/nats.ts'
import { prometheusFiles } from './render/prometheus.ts'
import { proxyFile } from './render/proxies.ts'
import {
  cassandraReplacement,
  cassandraUnit,
  environmentFile,
  natsUnit,
  processUnit,
  proxyRestarts,
  replacementFile,
  target,
  unitName,
} from './render/units.ts'

const units = '/etc/systemd/system'

/** Paths below the output directory, sorted, and their text. */
export function render(deployment: Deployment): Map<string, string> {
  const plan = planOf(deployment)
  const files: [string, string][] = [...dnsFiles(plan)]
  for (const region of plan.regions) {
    for (const host of region.hosts)
      for (const [path, text] of hostFiles(plan, region, host))
        files.push([`hosts/${host.name}${path}`, text])
    files.push(...kubernetesFiles(plan, region, (host) => hostFiles(plan, region, host)))
  }
  return new Map(files.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/**
 * The files of one host, by their absolute paths there.
 * @param options.cassandra `joined`: its node may name itself among the seeds. `replaces`: it takes
 *   the place of the node that had its address. Undefined: nothing is known of it
 */
export function hostFiles(
  plan: Plan,
  region: PlannedRegion,
  host: PlannedHost,
  { cassandra }: { cassandra: 'joined' | 'replaces' | undefined } = { cassandra: undefined },
): Map<string, string> {
  const files = new Map<string, string>()
  const has = (role: PlannedHost['roles'][number]) => host.roles.includes(role)
  for (const process of host.processes) {
    files.set(`${places.etc}/${process.name}.env`, environmentFile(process))
    files.set(`${units}/${unitName(process.name)}`, processUnit(process))
  }
  if (has('nats')) {
    files.set(`${places.etc}/nats.conf`, natsConfig(plan, region, host))
    files.set(`${units}/holdfast-nats.service`, natsUnit())
  }
  if (has('cassandra')) {
    const seed = cassandra === undefined ? {} : { seed: cassandra === 'joined' }
    files.set(cassandraYamlPath, cassandraYaml(plan, host, seed))
    files.set('/etc/cassandra/cassandra-rackdc.properties', cassandraRack(host))
    files.set(`${units}/holdfast-cassandra.service`, cassandraUnit())
    if (cassandra === 'replaces') files.set(replacementFile, cassandraReplacement(host))
  }
  if (host.processes.length > 0 || has('nats') || has('cassandra')) {
    files.set(`${units}/holdfast.target`, target(host))
    files.set(
      `${places.etc}/compose.yaml`,
      composeFile(plan, host, (path) => files.get(path) ?? ''),
    )
  }
  if (has('proxy')) {
    const [path, text] = proxyFile(plan, region, host)
    files.set(path, text)
    files.set(`${units}/${plan.deployment.proxy}.service.d/holdfast.conf`, proxyRestarts)
  }
  if (has('prometheus')) for (const [path, text] of prometheusFiles(plan, region, host)) files.set(path, text)
  if (has('alertmanager')) for (const [path, text] of alertmanagerFiles(plan, host)) files.set(path, text)
  return files
}

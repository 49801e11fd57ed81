/** Scripts that make Cassandra's users on a deployment, and bring them to every data centre. */
import type { LoginsWork } from './cassandra-logins.ts'
import type { Deployment } from './deployment.ts'
import type { HostWork } from './hosts.ts'
import { operatorPasswordFile, places } from './platform.ts'
import { serverPorts } from './roles.ts'

/** The host that makes users: it has the code, the certificates, and the operator's password. */
export function loginsHost(all: readonly HostWork[]): HostWork | undefined {
  const cassandra = all.some(({ host }) => host.roles.includes('cassandra'))
  return cassandra ? all.find(({ makesLogins }) => makesLogins) : undefined
}

export function loginsScript(deployment: Deployment, at: HostWork, step: 'replicate' | 'make'): string {
  const { region } = at.host
  const nodesOf = (code: string) =>
    deployment.regions
      .filter((one) => one.code === code)
      .flatMap(({ hosts }) => hosts.filter(({ roles }) => roles.some(({ role }) => role === 'cassandra')))
  const work: LoginsWork = {
    contactPoints: nodesOf(region).map(({ internal }) => internal),
    port: serverPorts.cassandra.client,
    dataCentre: region,
    replication: Object.fromEntries(
      deployment.regions.map(({ code }) => [code, Math.min(deployment.replicas, nodesOf(code).length)]),
    ),
    user: 'holdfast',
    passwordFile: `${places.secrets}/cassandra-password`,
    operatorPasswordFile,
    ca: `${places.tls}/ca.pem`,
    cert: `${places.tls}/node.pem`,
    key: `${places.tls}/node.key`,
  }
  return [
    `cd ${places.code}`,
    `infra/launch.sh infra/regions/cassandra-logins.ts ${step} <<'END'`,
    JSON.stringify(work),
    'END',
    '',
  ].join('\n')
}

/** Where every node of a data centre has all users, the repair of one node reaches them all. */
export function loginsRepairs(
  deployment: Deployment,
  all: readonly HostWork[],
): { work: HostWork; script: string }[] {
  const nodes = all.filter(({ host }) => host.roles.includes('cassandra'))
  const everywhere = deployment.regions.every(
    ({ code }) => nodes.filter(({ host }) => host.region === code).length <= deployment.replicas,
  )
  const [first] = nodes
  if (everywhere && first !== undefined)
    return [{ work: first, script: 'nodetool repair --full system_auth >&2\n' }]
  return nodes.map((work) => ({
    work,
    script: 'nodetool repair --full --partitioner-range system_auth >&2\n',
  }))
}

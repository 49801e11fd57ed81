/** Scripts that bring a region that was appended to the file into a deployment that has data. */
import type { JoiningRegion } from '@holdfast/cluster'
import type { RegionCode } from '@holdfast/kernel'
import type { RegionsWork } from './cassandra-regions.ts'
import type { Deployment } from './deployment.ts'
import type { HostWork } from './hosts.ts'
import { places } from './platform.ts'
import { serverPorts } from './roles.ts'

/**
 * For the host of `loginsHost`. @param joining the region that joins; default: new ones are added
 */
export function regionsScript(deployment: Deployment, joining?: RegionCode): string {
  const work: RegionsWork = {
    regions: deployment.regions.map(({ code }) => code),
    cassandra: {
      nodes: Object.fromEntries(
        deployment.regions.map(({ code, hosts }) => [
          code,
          hosts
            .filter(({ roles }) => roles.some(({ role }) => role === 'cassandra'))
            .map(({ internal: host }) => ({ host, port: serverPorts.cassandra.client })),
        ]),
      ),
      replicas: deployment.replicas,
    },
    ...(joining === undefined ? {} : { joining }),
    user: 'holdfast',
    passwordFile: `${places.secrets}/cassandra-password`,
    ca: `${places.tls}/ca.pem`,
    cert: `${places.tls}/node.pem`,
    key: `${places.tls}/node.key`,
  }
  return [
    `cd ${places.code}`,
    `infra/launch.sh infra/regions/cassandra-regions.ts ${joining === undefined ? 'add' : 'join'} <<'END'`,
    JSON.stringify(work),
    'END',
    '',
  ].join('\n')
}

/** What `add` printed. */
export function joiningOf(lines: readonly string[]): JoiningRegion[] {
  return lines.flatMap((line) => {
    const [said, region, from, keyspaces = ''] = line.split(' ')
    if (said !== 'joining') return []
    return [{ region: region as RegionCode, from: from as RegionCode, keyspaces: keyspaces.split(',') }]
  })
}

/**
 * Its nodes get all rows: first from one replica of each row, then what that replica lacked. Where
 * every node of the region has all rows, the repair of one node reaches them all.
 */
export function fillingScripts(
  { region, from, keyspaces }: JoiningRegion,
  { replicas, all }: { replicas: number; all: readonly HostWork[] },
): { work: HostWork; script: string }[] {
  const nodes = all.filter(({ host }) => host.region === region && host.roles.includes('cassandra'))
  const repaired = nodes.length <= replicas ? nodes.slice(0, 1) : nodes
  const script = (words: (keyspace: string) => string[]) =>
    ['set -e', ...keyspaces.map((keyspace) => `nodetool ${words(keyspace).join(' ')} >&2`), ''].join('\n')
  return [
    ...nodes.map((work) => ({ work, script: script((keyspace) => rebuild(keyspace, from)) })),
    ...repaired.map((work) => ({ work, script: script(repair) })),
  ]
}

/** Words of nodetool. */
export function rebuild(keyspace: string, from: string): string[] {
  return ['rebuild', '--keyspace', keyspace, '--', from]
}

export function repair(keyspace: string): string[] {
  return ['repair', '--full', keyspace]
}

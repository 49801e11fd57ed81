/** Servers and processes of a deployment, and what the files of a host open there. */
import type { PlannedHost } from '../../../infra/regions/plan.ts'
import { serverPorts } from '../../../infra/regions/roles.ts'
import { type DeployedRegions, successful } from './deployed.ts'

export interface Door {
  /**
   * `certificate`: a port with TLS that asks for one (`own` names the files). `nats`, `cassandra`:
   * a login. `admin`, `metrics`: a call with the token. `cluster`: one of a storage node, with a
   * proof of the cluster's secret.
   */
  kind: 'certificate' | 'nats' | 'cassandra' | 'admin' | 'metrics' | 'cluster'
  /** Of `certificate`: with gRPC. */
  grpc: boolean
  host: string
  port: number
  /** Names of the certificate and the key, or the user. */
  own: readonly string[]
  /** A data centre of Cassandra. */
  region: string
}

/** Answers at a door. Every other one says how it was refused. */
export const opens = 'opens'
export const unreached = 'unreached'

export function doorsOf(hosts: readonly PlannedHost[]): Door[] {
  return hosts.flatMap(({ internal, region, roles, processes }) => {
    const { nats, cassandra, proxyMetrics, alertmanager, alertmanagerCluster } = serverPorts
    const door = (kind: Door['kind'], port = 0, ...own: string[]): Door[] => [
      { kind, grpc: false, host: internal, port, own, region },
    ]
    const shown = (port: number | undefined, ...own: string[]) =>
      port === undefined ? [] : door('certificate', port, ...own)
    const node = ['node.pem', 'node.key']
    const proxy = ['proxy.pem', 'proxy.key']
    return [
      ...(roles.includes('nats')
        ? [
            ...['holdfast', 'system'].flatMap((user) => door('nats', nats.client, user)),
            ...[nats.cluster, nats.gateway].flatMap((port) => shown(port, ...node)),
          ]
        : []),
      ...(roles.includes('cassandra')
        ? [
            ...['holdfast', 'cassandra'].flatMap((user) => door('cassandra', cassandra.client, user)),
            ...shown(cassandra.storage, 'internode.pem'),
          ]
        : []),
      ...(roles.includes('proxy') ? shown(proxyMetrics, ...node) : []),
      ...(roles.includes('alertmanager')
        ? [alertmanager, alertmanagerCluster].flatMap((port) => shown(port, ...node))
        : []),
      ...processes.flatMap(({ role, ports }) => [
        ...door('admin', ports.admin),
        ...door('metrics', ports.admin),
        ...shown(ports.api, ...proxy),
        ...shown(ports.upload, ...proxy),
        ...(role === 'storage-node'
          ? [
              ...shown(ports.bytes, ...node),
              ...shown(ports.control, ...node).map((one) => ({ ...one, grpc: true })),
              ...door('cluster', ports.control),
            ]
          : []),
      ]),
    ]
  })
}

/** Where a host has files. */
export interface Files {
  tls: string
  secrets: string
}

const ownFiles = { tls: '/etc/holdfast/tls', secrets: '/etc/holdfast/secrets' }

interface Asking {
  doors: readonly Door[]
  /** Default: those of the host. */
  files?: Partial<Files>
}

/** What each door answers to files, when a host asks with them. */
async function answersOf(
  deployed: DeployedRegions,
  host: string,
  { doors, files }: Asking,
): Promise<{ door: Door; what: string; answer: string }[]> {
  const { tls, secrets } = { ...ownFiles, ...files }
  const said = await deployed.on(
    host,
    ...['env', '-C', '/opt/holdfast', 'infra/launch.sh'],
    ...['test/long/regions/stolen-files.ts', tls, secrets, JSON.stringify(doors)],
  )
  const answers = successful(`the files of ${host}`, said)
    .trim()
    .split('\n')
    .map((line) => String(JSON.parse(line)))
  return doors.map((door, at) => ({
    door,
    what: `${door.kind} ${door.host}:${door.port} ${door.own.join(' ')}`.trim(),
    answer: answers[at] ?? '',
  }))
}

/** @throws Error that names those that do not open */
export async function allOpen(
  deployed: DeployedRegions,
  host: string,
  doors: readonly Door[],
): Promise<void> {
  const shut = (await answersOf(deployed, host, { doors })).filter(({ answer }) => answer !== opens)
  if (shut.length > 0)
    throw new Error(
      `${host} does not open ${shut.map(({ what, answer }) => `${what} (${answer})`).join(', ')}`,
    )
}

/** The server ends a handshake; the call is unauthorized; or files do not trust the server. */
const refusal = /alert|ECONNRESET|EPIPE|closed|self-signed|\b40[13]\b/i

/** @throws Error that names those that do not refuse */
export async function noneOpens(deployed: DeployedRegions, host: string, asking: Asking): Promise<void> {
  const wrong = (await answersOf(deployed, host, asking)).filter(({ answer }) => !refusal.test(answer))
  if (wrong.length > 0)
    throw new Error(`${host}: ${wrong.map(({ what, answer }) => `${what} ${answer}`).join(', ')}`)
}

/** Each host by one of its doors: a call that meets no answer takes seconds. */
export async function isCutOff(
  deployed: DeployedRegions,
  host: string,
  from: readonly PlannedHost[],
): Promise<void> {
  const doors = from.flatMap((one) =>
    doorsOf([one])
      .filter(({ kind }) => kind === 'admin')
      .slice(0, 1),
  )
  const wrong = (await answersOf(deployed, host, { doors })).filter(({ answer }) => answer !== unreached)
  if (wrong.length > 0)
    throw new Error(
      `${host} is not cut off: ${wrong.map(({ what, answer }) => `${what} ${answer}`).join(', ')}`,
    )
}

/** What a login with a replaced secret meets. */
const refusals: Partial<Record<Door['kind'], RegExp>> = {
  nats: /authorization/i,
  cassandra: /password/i,
  admin: /\b40[13]\b/,
  metrics: /\b40[13]\b/,
  cluster: /does not prove the cluster secret/,
}

/**
 * Of doors that take more than a certificate: with the current one of the host and earlier secrets.
 * @returns how many there are. @throws Error that names those that do not refuse the secret
 */
export async function refuseSecrets(
  deployed: DeployedRegions,
  host: string,
  { doors, secrets }: { doors: readonly Door[]; secrets: string },
): Promise<number> {
  const asked = doors.filter(({ kind }) => refusals[kind] !== undefined)
  const answers = await answersOf(deployed, host, { doors: asked, files: { secrets } })
  const wrong = answers.filter(({ door, answer }) => !refusals[door.kind]?.test(answer))
  if (wrong.length > 0)
    throw new Error(
      `earlier secrets: ${wrong.map(({ what, answer }) => `${what} says ${answer}`).join(', ')}`,
    )
  return asked.length
}

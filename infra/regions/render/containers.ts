/**
 * The containers of a host, once for compose and once for Kubernetes. They use the network of their
 * host: addresses are those of the file, however the processes are started.
 */
import { isAdminByTls, type Plan, type PlannedHost } from '../plan.ts'
import { places } from '../platform.ts'
import { cassandraWords } from './cassandra.ts'
import { type Memory, memoryOfCassandra, memoryOfNats, memoryOfProcess } from './memory.ts'
import { isOwnDisk } from './units.ts'

export interface Container {
  name: string
  image: string
  command: string[]
  /** File of its environment, beside the compose file. */
  envFile: string | undefined
  mounts: Mount[]
  /** Files of secrets, keys and certificates that it reads. It sees no other one. */
  secrets: string[]
  /** Takes connections when it is ready. */
  port: number
  /** How it says whether it lives (`/livez`) and is ready (`/readyz`). Undefined: not at all. */
  health: 'http' | 'https' | undefined
  address: string
  user: number
  /** It has to take connections within this time. */
  startSeconds: number
  stopSeconds: number
  memory: Memory
}

export interface Mount {
  /** On the host. */
  from: string
  to: string
  readOnly: boolean
  /** Kubernetes mounts rendered files from a ConfigMap. */
  kind: 'rendered' | 'data'
}

/** Data below the usual places, whose folders are made. A disk of its own has to be mounted. */
export function isMade({ kind, from }: Mount): boolean {
  return kind === 'data' && (!isOwnDisk(from) || from === '/var/lib/cassandra')
}

/** A first process also makes all tables. */
export const startSeconds = 300

/** A new node of Cassandra listens when it has copied its rows, and begins again if it is ended. */
const joinSeconds = 86_400

/** Of our processes and NATS inside of containers. */
export const ownUser = 1_000

const natsImage = 'nats:2.12'
const cassandraImage = 'cassandra:5.0'

/** @param textOf the rendered file of the host at this place */
export function containersOf(
  { deployment }: Plan,
  host: PlannedHost,
  textOf: (path: string) => string,
): Container[] {
  const rendered = (from: string): Mount => ({ from, to: from, readOnly: true, kind: 'rendered' })
  const data = (from: string): Mount => ({ from, to: from, readOnly: false, kind: 'data' })
  const containers: Container[] = host.processes.map((process) => ({
    name: process.name,
    image: deployment.image,
    command: ['infra/launch.sh', process.program],
    envFile: `${process.name}.env`,
    mounts: [data(process.dataDir)],
    secrets: secretsIn(Object.values(process.settings).join('\n')),
    port: process.ports.admin ?? 0,
    health: isAdminByTls(process) ? 'https' : 'http',
    address: process.settings.HOLDFAST_ADMIN_BIND ?? host.internal,
    user: ownUser,
    startSeconds,
    stopSeconds: 35,
    memory: memoryOfProcess(process.role, process.settings),
  }))
  if (host.roles.includes('nats'))
    containers.unshift({
      name: `${host.name}-nats`,
      image: natsImage,
      command: ['nats-server', '-c', `${places.etc}/nats.conf`],
      envFile: undefined,
      mounts: [rendered(`${places.etc}/nats.conf`)],
      secrets: secretsIn(textOf(`${places.etc}/nats.conf`)),
      port: 4222,
      health: undefined,
      address: host.internal,
      user: ownUser,
      startSeconds,
      stopSeconds: 35,
      memory: memoryOfNats,
    })
  if (host.roles.includes('cassandra'))
    containers.unshift({
      name: `${host.name}-cassandra`,
      image: cassandraImage,
      command: ['cassandra', ...cassandraWords],
      envFile: undefined,
      mounts: [
        rendered('/etc/cassandra/cassandra.yaml'),
        rendered('/etc/cassandra/cassandra-rackdc.properties'),
        data('/var/lib/cassandra'),
      ],
      secrets: secretsIn(textOf('/etc/cassandra/cassandra.yaml')),
      port: 9042,
      health: undefined,
      address: host.internal,
      user: 999,
      startSeconds: joinSeconds,
      stopSeconds: 120,
      memory: memoryOfCassandra,
    })
  return containers
}

/** Files of secrets, keys and certificates that a text names. */
export function secretsIn(text: string): string[] {
  // nats-server includes files by their place beside its own.
  const named = text.matchAll(/(?:\/etc\/holdfast\/|\binclude ")((?:secrets|tls)\/[\w.-]+)/g)
  return [...new Set([...named].map(([, path]) => `${places.etc}/${path}`))].sort()
}

/**
 * The containers of a host, once for compose and once for Kubernetes. They use the network of their
 * host: addresses are those of the file, however the processes are started.
 */
import type { Plan, PlannedHost } from '../plan.ts'
import { places } from '../platform.ts'

export interface Container {
  name: string
  image: string
  command: string[]
  /** File of its environment, beside the compose file. */
  envFile: string | undefined
  mounts: Mount[]
  /** Takes connections when it is ready. */
  port: number
  /** It says by HTTP whether it lives (`/livez`) and is ready (`/readyz`). */
  health: boolean
  address: string
  user: number
  stopSeconds: number
}

export interface Mount {
  /** On the host. */
  from: string
  to: string
  readOnly: boolean
  /** Secrets are mounted from the host or from a Secret; rendered files from a ConfigMap. */
  kind: 'secret' | 'rendered' | 'data'
}

/** Of our processes and NATS inside of containers. */
export const ownUser = 1_000

const natsImage = 'nats:2.12'
const cassandraImage = 'cassandra:5.0'

export function containersOf({ deployment }: Plan, host: PlannedHost): Container[] {
  const secrets = [places.secrets, places.tls].map(
    (from): Mount => ({ from, to: from, readOnly: true, kind: 'secret' }),
  )
  const rendered = (from: string): Mount => ({ from, to: from, readOnly: true, kind: 'rendered' })
  const data = (from: string): Mount => ({ from, to: from, readOnly: false, kind: 'data' })
  const containers: Container[] = host.processes.map((process) => ({
    name: process.name,
    image: deployment.image,
    command: ['infra/launch.sh', process.program],
    envFile: `${process.name}.env`,
    mounts: [...secrets, data(process.dataDir)],
    port: process.ports.admin ?? 0,
    health: true,
    address: process.settings.HOLDFAST_ADMIN_BIND ?? host.internal,
    user: ownUser,
    stopSeconds: 35,
  }))
  if (host.roles.includes('nats'))
    containers.unshift({
      name: `${host.name}-nats`,
      image: natsImage,
      command: ['nats-server', '-c', `${places.etc}/nats.conf`],
      envFile: undefined,
      mounts: [...secrets, rendered(`${places.etc}/nats.conf`)],
      port: 4222,
      health: false,
      address: host.internal,
      user: ownUser,
      stopSeconds: 35,
    })
  if (host.roles.includes('cassandra'))
    containers.unshift({
      name: `${host.name}-cassandra`,
      image: cassandraImage,
      command: ['cassandra', '-f'],
      envFile: undefined,
      mounts: [
        ...secrets,
        rendered('/etc/cassandra/cassandra.yaml'),
        rendered('/etc/cassandra/cassandra-rackdc.properties'),
        data('/var/lib/cassandra'),
      ],
      port: 9042,
      health: false,
      address: host.internal,
      user: 999,
      stopSeconds: 120,
    })
  return containers
}

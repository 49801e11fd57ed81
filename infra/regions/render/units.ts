/** systemd's units and files of environments. Values need no quotes (`deployment.ts`). */
import type { PlannedHost, PlannedProcess } from '../plan.ts'
import { places } from '../platform.ts'
import { cassandraWords } from './cassandra.ts'

type Section = [name: string, value: string][]

export function environmentFile({ settings }: PlannedProcess): string {
  return `${Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')}\n`
}

export function processUnit(process: PlannedProcess): string {
  const { dataDir } = process
  // An empty folder where a disk is not mounted must not become a store.
  const disk: Section = isOwnDisk(dataDir) ? [['RequiresMountsFor', dataDir]] : []
  return unit(
    `Holdfast ${process.role} ${process.name}`,
    [
      ['User', 'holdfast'],
      ['WorkingDirectory', places.code],
      ['Environment', 'NODE_ENV=production'],
      ['EnvironmentFile', `${places.etc}/${process.name}.env`],
      ['ExecStart', `${places.code}/infra/launch.sh ${process.program}`],
      // The process drains for 25 s. 73: the data directory cannot be used, 78: a setting is wrong.
      ['TimeoutStopSec', '35'],
      ['RestartPreventExitStatus', '65 66 73 78'],
      ['LimitNOFILE', '65536'],
      ['UMask', '0077'],
      // `infra/launch.sh` keeps compiled modules there. The processes share them.
      ['CacheDirectory', 'holdfast'],
      ['CacheDirectoryMode', '0700'],
      ...(isOwnDisk(dataDir)
        ? ([['ReadWritePaths', dataDir]] as Section)
        : ([
            ['StateDirectory', dataDir.slice('/var/lib/'.length)],
            ['StateDirectoryMode', '0700'],
          ] as Section)),
    ],
    disk,
  )
}

/** The file of the deployment names it, and it has to be there before a process starts. */
export function isOwnDisk(dataDir: string): boolean {
  return !dataDir.startsWith(`${places.data}/`)
}

export function natsUnit(): string {
  return unit('nats-server of Holdfast', [
    ['User', 'holdfast'],
    ['ExecStart', `/usr/sbin/nats-server -c ${places.etc}/nats.conf`],
    ['ExecReload', '/bin/kill -HUP $MAINPID'],
    ['LimitNOFILE', '65536'],
    ['TimeoutStopSec', '35'],
  ])
}

const cassandraStart = `/usr/sbin/cassandra ${cassandraWords.join(' ')}`

export function cassandraUnit(): string {
  return unit('Cassandra of Holdfast', [
    ['User', 'cassandra'],
    ['Environment', 'CASSANDRA_CONF=/etc/cassandra'],
    ['ExecStart', cassandraStart],
    // Its rows have the keys of tokens.
    ['UMask', '0077'],
    ['StateDirectory', 'cassandra'],
    ['StateDirectoryMode', '0700'],
    ['LogsDirectory', 'cassandra'],
    ['LogsDirectoryMode', '0700'],
    ['LimitNOFILE', '100000'],
    ['LimitMEMLOCK', 'infinity'],
    ['TimeoutStopSec', '120'],
  ])
}

/** The distribution's units leave a proxy that ended by a fault where it is. */
export const proxyRestarts = '[Service]\nRestart=on-failure\nRestartSec=1s\n'

/** Beside the unit until the node has joined. */
export const replacementFile = '/etc/systemd/system/holdfast-cassandra.service.d/replace.conf'

/** Options of other files beside the unit stay. */
export function cassandraReplacement({ internal }: PlannedHost): string {
  const options = `$$JVM_EXTRA_OPTS -Dcassandra.replace_address_first_boot=${internal}`
  const start = `export JVM_EXTRA_OPTS="${options}"; exec ${cassandraStart}`
  return textOf([
    [
      'Service',
      [
        ['ExecStart', ''],
        ['ExecStart', `/bin/sh -c '${start}'`],
      ],
    ],
  ])
}

/** All Holdfast units together: `systemctl start holdfast.target`. */
export function target({ processes, roles }: PlannedHost): string {
  return textOf([
    [
      'Unit',
      [
        ['Description', 'All of Holdfast on this host'],
        ['Wants', unitsOf(processes, roles).join(' ')],
      ],
    ],
    ['Install', [['WantedBy', 'multi-user.target']]],
  ])
}

/** Units that this deployment brings, in the order of their start. */
export function unitsOf(processes: readonly PlannedProcess[], roles: readonly string[]): string[] {
  const order = ['storage-node', 'actor-host', 'upload', 'api', 'standalone']
  const ours = [...processes].sort((a, b) => order.indexOf(a.role) - order.indexOf(b.role))
  return [
    ...(['nats', 'cassandra'] as const)
      .filter((role) => roles.includes(role))
      .map((role) => `holdfast-${role}.service`),
    ...ours.map(({ name }) => unitName(name)),
  ]
}

export function unitName(process: string): string {
  return `holdfast-${process}.service`
}

function unit(description: string, service: Section, more: Section = []): string {
  return textOf([
    [
      'Unit',
      [
        ['Description', description],
        ['Wants', 'network-online.target'],
        ['After', 'network-online.target'],
        ['PartOf', 'holdfast.target'],
        // Servers of other hosts may come much later.
        ['StartLimitIntervalSec', '0'],
        ...more,
      ],
    ],
    [
      'Service',
      [
        ['Type', 'exec'],
        ...service,
        ['Restart', 'on-failure'],
        ['RestartSec', '1'],
        ['KillMode', 'mixed'],
        ['NoNewPrivileges', 'yes'],
        ['CapabilityBoundingSet', ''],
        ['ProtectSystem', 'strict'],
        ['ProtectHome', 'yes'],
        ['PrivateTmp', 'yes'],
        ['PrivateDevices', 'yes'],
        ['ProtectKernelTunables', 'yes'],
        ['ProtectControlGroups', 'yes'],
        ['RestrictAddressFamilies', 'AF_INET AF_INET6 AF_UNIX AF_NETLINK'],
      ],
    ],
  ])
}

function textOf(sections: [name: string, Section][]): string {
  return `${sections
    .map(([name, lines]) => [`[${name}]`, ...lines.map(([key, value]) => `${key}=${value}`)].join('\n'))
    .join('\n\n')}\n`
}

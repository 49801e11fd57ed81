/**
 * The requirements of a host before `up`, as in `infra/regions/HOSTS.md`: users, secrets,
 * certificates, Cassandra. The other programs are those of this machine.
 */
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type HostWork, needsOf } from '../regions/hosts.ts'
import { ownerOf } from '../regions/owners.ts'
import type { PlannedHost, PlannedRegion } from '../regions/plan.ts'
import { places } from '../regions/platform.ts'
import { natsPasswords, natsPasswordsText } from '../regions/render/nats.ts'
import { isOwnDisk } from '../regions/render/units.ts'
import { javaFlags } from '../servers/cassandra.ts'
import { hostFolder, type Layout } from './layout.ts'

/** Where the jars of Cassandra are on a host. */
const jarsPlace = '/usr/share/cassandra/lib'
/**
 * Also the limit of memory outside the heap. Before a node joins, Cassandra repairs Paxos, which
 * needs more than 384M there.
 */
const defaultHeap = '768M'

/** Files of a host's disk that have to be there when it starts. */
export function layDisk(layout: Layout, host: string): void {
  const disk = join(hostFolder(layout, host), 'disk')
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(disk, path)), { recursive: true })
    writeFileSync(join(disk, path), text)
  }
  // Cassandra and its tools ask for the address of this name, which `/etc/hosts` has.
  put('/etc/hostname', `${host}\n`)
  put('/etc/systemd/journald.conf.d/small.conf', '[Journal]\nSystemMaxUse=64M\nRuntimeMaxUse=16M\n')
  // Timers of this machine's own services.
  mkdirSync(join(disk, 'etc/systemd/system'), { recursive: true })
  if (!existsSync(join(disk, 'etc/systemd/system/timers.target')))
    symlinkSync('/dev/null', join(disk, 'etc/systemd/system/timers.target'))
}

/** `/etc/hosts`. @param region whose proxies users and hosts reach, as DNS would lead them */
export function hostsFile({ plan }: Layout, region: PlannedRegion): string {
  const lines = ['127.0.0.1 localhost']
  for (const { name, internal } of plan.regions.flatMap(({ hosts }) => hosts))
    lines.push(`${internal} ${name}`)
  const proxiesOf = ({ hosts }: PlannedRegion) =>
    hosts.flatMap(({ address, roles }) => (address && roles.includes('proxy') ? [address] : []))
  for (const { names, ...rest } of plan.regions)
    for (const address of proxiesOf({ names, ...rest })) {
      lines.push(`${address} ${names.regionalUpload} ${names.regionalDownload}`)
      if (rest.code === region.code)
        lines.push(`${address} ${[names.web, names.api, names.upload, names.download].join(' ')}`)
    }
  return `${lines.join('\n')}\n`
}

/** Random secrets, generated once. */
export function drawSecrets({ folder }: Layout): void {
  const at = (name: string) => join(folder, 'secrets', name)
  mkdirSync(at(''), { recursive: true, mode: 0o700 })
  const draw = () => randomBytes(24).toString('base64url')
  // An earlier release made fewer of them.
  const put = (name: string, text: string) => {
    if (existsSync(at(name))) return
    writeFileSync(at(`${name}.new`), text, { mode: 0o600 })
    renameSync(at(`${name}.new`), at(name))
  }
  for (const name of [
    ...['admin-token', 'metrics-token', 'cluster-secret', 'nats-password'],
    ...['cassandra-password', 'cassandra-admin-password'],
  ])
    put(name, draw())
  // Nothing takes mails there.
  put('smtp-url', 'smtp://127.0.0.1:25')
  put(natsPasswords, natsPasswordsText({ own: readFileSync(at('nats-password'), 'utf8'), system: draw() }))
}

function regionOf({ plan }: Layout, host: PlannedHost): PlannedRegion {
  const region = plan.regions.find(({ code }) => code === host.region)
  if (region === undefined) throw new Error(`no region has the host ${host.name}`)
  return region
}

/** A script for `sh` on the host, which gets the secrets that it needs. It may be run again. */
export function prepareScript(layout: Layout, work: HostWork, jars: string): string {
  const { host } = work
  const lines = [
    'set -eu',
    'put() { base64 -d > "$1.new"; chown "$3" "$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"; }',
    ...['holdfast', 'cassandra'].map(
      (user) =>
        `id ${user} >/dev/null 2>&1 || useradd --system --home-dir /var/lib/${user} --shell /usr/sbin/nologin ${user}`,
    ),
    `install -d -m 711 ${places.secrets} ${places.tls}`,
    'mkdir -p /etc/cassandra /etc/systemd/system/holdfast-cassandra.service.d',
  ]
  const put = (path: string, mode: string, text: string, users = 'root:root') =>
    lines.push(`put ${path} ${mode} ${users} <<'END'`, Buffer.from(text).toString('base64'), 'END')
  put('/etc/hosts', '644', hostsFile(layout, regionOf(layout, host)))
  const secrets = needsOf(work)
    .filter((path) => dirname(path) === places.secrets)
    .map((path) => basename(path))
  const certificates = join(layout.folder, 'ca', host.name)
  for (const [from, to, names] of [
    [join(layout.folder, 'secrets'), places.secrets, secrets],
    [certificates, places.tls, readdirSync(certificates)],
  ] as const)
    for (const name of names) {
      const { users, mode } = ownerOf(name, { roles: host.roles, proxy: layout.plan.deployment.proxy })
      put(`${to}/${name}`, mode, readFileSync(join(from, name), 'utf8'), users)
    }
  for (const { dataDir } of host.processes.filter((process) => isOwnDisk(process.dataDir))) {
    const disk = `/var/lib/disks${dataDir}`
    lines.push(`mkdir -p ${dataDir} ${disk}`, `mountpoint -q ${dataDir} || mount --bind ${disk} ${dataDir}`)
  }
  if (host.roles.includes('cassandra')) {
    const names = readdirSync(jars).filter((name) => name.endsWith('.jar'))
    put('/usr/sbin/cassandra', '755', cassandraProgram(names))
    put('/usr/bin/nodetool', '755', nodetoolProgram)
    put('/etc/cassandra/logback.xml', '644', logback)
    put('/etc/cassandra/logback-tools.xml', '644', logbackTools)
    put('/etc/systemd/system/holdfast-cassandra.service.d/small.conf', '644', smallCassandra())
  }
  return `${lines.join('\n')}\n`
}

/** A small heap and a short wait for peers, beside the rendered unit as an operator has it. */
function smallCassandra(): string {
  return [
    '[Service]',
    `Environment=MAX_HEAP_SIZE=${process.env.MAX_HEAP_SIZE ?? defaultHeap}`,
    'Environment=JVM_EXTRA_OPTS=-Dcassandra.ring_delay_ms=5000',
    'TimerSlackNSec=1ms',
    '',
  ].join('\n')
}

/** The distribution has no Cassandra: its jars, with the variables of its own start script. */
function cassandraProgram(jars: readonly string[]): string {
  const paths = jars.map((name) => `${jarsPlace}/${name}`)
  const flags = javaFlags(paths, '$MAX_HEAP_SIZE').map((flag) => `"${flag}"`)
  return `#!/bin/sh
: "\${MAX_HEAP_SIZE:=${defaultHeap}}"
properties=
for word; do case $word in -D*) properties="$properties $word";; esac; done
exec java ${flags.join(' ')} $properties \\
  -Dcassandra.storagedir=/var/lib/cassandra -Dcassandra.config=file://$CASSANDRA_CONF/cassandra.yaml \\
  -Dcassandra-rackdc.properties=file://$CASSANDRA_CONF/cassandra-rackdc.properties \\
  -Dlogback.configurationFile=$CASSANDRA_CONF/logback.xml -Dcassandra-foreground=yes \\
  -Dcassandra.logdir=/var/log/cassandra -Dcassandra.triggers_dir=/var/lib/cassandra \\
  -Dcassandra.jmx.local.port=7199 -Djava.rmi.server.hostname=127.0.0.1 \${JVM_EXTRA_OPTS-} \\
  -cp '${jarsPlace}/*' org.apache.cassandra.service.CassandraDaemon
`
}

const nodetoolProgram = `#!/bin/sh
exec java ${javaFlags([], '128m').join(' ')} -Dcassandra.storagedir=/tmp -Dcassandra.logdir=/tmp \\
  -Dlogback.configurationFile=/etc/cassandra/logback-tools.xml -cp '${jarsPlace}/*' org.apache.cassandra.tools.NodeTool "$@"
`

const logbackTools = '<configuration><root level="OFF"/></configuration>\n'

const logback = `<configuration>
<appender name="F" class="ch.qos.logback.core.FileAppender"><file>/var/log/cassandra/system.log</file>
<encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
`

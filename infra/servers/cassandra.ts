/**
 * One Cassandra node from jars, small in memory and quick to start. The renderer of deployments
 * makes its configuration. One data centre per region.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cassandraText, cassandraValues } from '../regions/render/cassandra.ts'
import { ask, type ServerProcess, type StartOptions, startProcess, whenReady } from './server.ts'
import { cassandraJars, java } from './tools.ts'

export interface ConfiguredCassandra extends StartOptions {
  directory: string
  /** Where clients find it; any of 127.0.0.0/8 needs no set-up. */
  address: { host: string; port: number }
  files: { 'cassandra.yaml': string; 'cassandra-rackdc.properties': string }
  /** MiB. */
  heapMiB?: number | undefined
  /** The port of nodetool, for this machine only. */
  jmxPort?: number | undefined
  /** Further arguments for Java, as a replacement needs. */
  more?: readonly string[]
}

export interface CassandraOptions extends StartOptions {
  directory: string
  /** Address for clients and peers. */
  host: string
  seeds: string[]
  dataCentre: string
  /**
   * Paths of PEM files: clients that encrypt see `certificate`, which holds the key too, and show
   * one of `ca`. Others are served as well.
   */
  tls?: { ca: string; certificate: string }
  /** Clients log in; `cassandra` may, with that password. Default: anybody is served. */
  login?: boolean
  /** MiB. */
  heapMiB?: number
  nativePort?: number
  storagePort?: number
  /** `batch` syncs before each acknowledgement: where one replica must be durable. */
  commitLogSync?: 'periodic' | 'batch'
  /**
   * How long writes are kept for an absent node; it never receives later ones. Default: Cassandra's
   * own, 3 h.
   */
  hintWindowMs?: number
}

/**
 * Values of `cassandra.yaml` for a node that shares a machine with others. The number of tokens is
 * part of the data: a node with data refuses another one.
 */
export const smallCassandra: Readonly<Record<string, unknown>> = {
  num_tokens: 4,
  allocate_tokens_for_local_replication_factor: undefined,
  auto_bootstrap: false,
  commitlog_segment_size: '16MiB',
  commitlog_total_space: '256MiB',
  default_compaction: {
    class_name: 'UnifiedCompactionStrategy',
    parameters: { scaling_parameters: 'T4', target_sstable_size: '64MiB', base_shard_count: 1 },
  },
  concurrent_reads: 8,
  concurrent_writes: 8,
  concurrent_compactors: 1,
  file_cache_size: '32MiB',
  networking_cache_size: '32MiB',
}

/**
 * Its workers look for work again and again for some milliseconds after each query. A timer's
 * default slack of 50 µs wakes them some hundred times meanwhile, which costs as much as many
 * queries. Threads inherit the slack. Only Linux has it.
 */
const timerSlackNs = 1_000_000
const withTimerSlack = `echo ${timerSlackNs} 2>/dev/null >/proc/self/timerslack_ns; exec "$0" "$@"`

/** With a configuration of its own. */
export function startCassandra(options: CassandraOptions): Promise<ServerProcess> {
  const { host, seeds, directory, tls, hintWindowMs } = options
  const ports = { client: options.nativePort ?? 9042, storage: options.storagePort ?? 7000 }
  const values = {
    ...cassandraValues({
      cluster: 'holdfast',
      seeds,
      address: host,
      listen: host,
      ports,
      data: join(directory, 'data'),
      replicas: 1,
      login: options.login ?? false,
      tls: undefined,
    }),
    ...smallCassandra,
    ...(options.commitLogSync === 'batch'
      ? {}
      : { commitlog_sync: 'periodic', commitlog_sync_period: '10000ms' }),
    ...(hintWindowMs === undefined
      ? {}
      : { max_hint_window: `${hintWindowMs}ms`, hint_window_persistent_enabled: false }),
    ...(tls === undefined ? {} : { client_encryption_options: clientEncryption(tls) }),
  }
  return startConfiguredCassandra({
    ...options,
    address: { host, port: ports.client },
    files: {
      'cassandra.yaml': cassandraText(values),
      'cassandra-rackdc.properties': `dc=${options.dataCentre}\nrack=r1\n`,
    },
  })
}

/** Serves clients when it resolves. */
export async function startConfiguredCassandra(options: ConfiguredCassandra): Promise<ServerProcess> {
  const { directory, address, files } = options
  const configuration = join(directory, 'conf')
  const log = join(directory, 'stdout.log')
  mkdirSync(configuration, { recursive: true })
  mkdirSync(join(directory, 'data'), { recursive: true })
  for (const [name, text] of Object.entries({ ...files, 'logback.xml': logback(directory) }))
    writeFileSync(join(configuration, name), text)
  // An OPTIONS frame of the native protocol (version 4, opcode 5) is answered by SUPPORTED (opcode
  // 6) as soon as clients are served.
  const optionsFrame = Buffer.from([4, 0, 0, 0, 5, 0, 0, 0, 0])
  const serves = () => ask(address, optionsFrame, (bytes) => bytes[4] === 6)
  if (await serves())
    throw new Error(`a Cassandra that is not ours answers on ${address.host}:${address.port}; end it first`)
  options.signal?.throwIfAborted()
  const command = [java(), ...javaArguments(options, configuration)]
  const server = startProcess('/bin/sh', ['-c', withTimerSlack, ...command], { log, cwd: directory })
  options.started?.(server)
  await whenReady(server, serves, {
    timeoutMs: 180_000,
    what: `Cassandra on ${address.host}`,
    log,
  })
  return server
}

function clientEncryption({ ca, certificate }: { ca: string; certificate: string }): object {
  return {
    enabled: true,
    optional: true,
    require_client_auth: true,
    ssl_context_factory: { class_name: 'org.apache.cassandra.security.PEMBasedSslContextFactory' },
    keystore: certificate,
    truststore: ca,
  }
}

function logback(directory: string): string {
  return `<configuration>
<appender name="F" class="ch.qos.logback.core.FileAppender"><file>${directory}/system.log</file><append>true</append>
<encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>`
}

const exported = {
  'java.base': ['jdk.internal.misc', 'java.lang.ref'],
  'java.management.rmi': ['com.sun.jmx.remote.internal.rmi'],
  'java.rmi': ['sun.rmi.registry', 'sun.rmi.server'],
  'java.sql': ['java.sql'],
  'jdk.unsupported': ['sun.misc'],
  'jdk.attach': ['sun.tools.attach'],
}
const opened = {
  'java.base': [
    'java.lang.module',
    'jdk.internal.loader',
    'jdk.internal.ref',
    'jdk.internal.reflect',
    'jdk.internal.math',
    'jdk.internal.module',
    'jdk.internal.util.jar',
    'sun.nio.ch',
    'java.io',
    'java.nio',
    'java.lang',
    'java.lang.reflect',
    'java.util',
    'java.util.concurrent',
    'java.util.concurrent.atomic',
  ],
  'jdk.management': ['com.sun.management.internal'],
}

function javaArguments(options: ConfiguredCassandra, configuration: string): string[] {
  const heap = `${options.heapMiB ?? 512}m`
  const jars = jarPaths()
  const { jmxPort, more = [] } = options
  return [
    ...javaFlags(jars, heap),
    `-Dcassandra.storagedir=${options.directory}/data`,
    `-Dcassandra.config=file://${configuration}/cassandra.yaml`,
    `-Dlogback.configurationFile=${configuration}/logback.xml`,
    `-Dcassandra-rackdc.properties=file://${configuration}/cassandra-rackdc.properties`,
    '-Dcassandra-foreground=yes',
    `-Djava.io.tmpdir=${options.directory}`,
    `-Dcassandra.logdir=${options.directory}`,
    `-Dcassandra.triggers_dir=${options.directory}`,
    '-Dcassandra.skip_wait_for_gossip_to_settle=0',
    '-Dcassandra.ring_delay_ms=500',
    // Half of it is how long a peer may take to start. The default follows the short ring delay,
    // and then a slow peer is never found.
    '-Dcassandra.gossip_quarantine_delay_ms=120000',
    '-Dcassandra.superuser_setup_delay_ms=0',
    '-Dcassandra.consistent.rangemovement=false',
    '-Dcassandra.skip_schema_check=true',
    ...(jmxPort === undefined
      ? []
      : [`-Dcassandra.jmx.local.port=${jmxPort}`, '-Djava.rmi.server.hostname=127.0.0.1']),
    ...more,
    '-cp',
    jars.join(':'),
    'org.apache.cassandra.service.CassandraDaemon',
  ]
}

function jarPaths(): string[] {
  return readdirSync(cassandraJars())
    .filter((name) => name.endsWith('.jar'))
    .map((name) => join(cassandraJars(), name))
}

/** @param port `jmxPort` of the node. @returns what it printed. @throws Error with it */
export async function nodetool(port: number, words: readonly string[]): Promise<string> {
  const jars = jarPaths()
  const place = mkdtempSync(join(tmpdir(), 'holdfast-nodetool-'))
  const quiet = join(place, 'logback.xml')
  writeFileSync(quiet, '<configuration><root level="OFF"/></configuration>')
  const ask = promisify(execFile)(
    java(),
    [
      ...javaFlags([], '128m'),
      `-Dcassandra.storagedir=${place}`,
      `-Dcassandra.logdir=${place}`,
      `-Dlogback.configurationFile=${quiet}`,
      ...['-cp', jars.join(':'), 'org.apache.cassandra.tools.NodeTool'],
      ...['-h', '127.0.0.1', '-p', String(port), ...words],
    ],
    // It keeps a history in the home folder.
    { env: { PATH: process.env.PATH ?? '', HOME: place }, maxBuffer: 16 * 2 ** 20 },
  )
  try {
    return (await ask).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`nodetool ${words.join(' ')}: ${stdout ?? ''}${stderr ?? ''}`, { cause: error })
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** For a small process that starts quickly. @param heap like `512m` */
export function javaFlags(jars: readonly string[], heap: string): string[] {
  const agent = jars.find((path) => path.includes('/jamm-'))
  return [
    // JNA locks the committed heap in memory: a small initial heap keeps the process small.
    '-Xms64m',
    `-Xmx${heap}`,
    '-Xss512k',
    `-XX:MaxDirectMemorySize=${heap}`,
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
    '-XX:+ExitOnOutOfMemoryError',
    '-XX:+PerfDisableSharedMem',
    '-Djava.net.preferIPv4Stack=true',
    ...(agent ? [`-javaagent:${agent}`] : []),
    '-Djdk.attach.allowAttachSelf=true',
    '-Dio.netty.tryReflectionSetAccessible=true',
    ...unlock('--add-exports', exported),
    ...unlock('--add-opens', opened),
  ]
}

function unlock(flag: string, packages: Record<string, string[]>): string[] {
  return Object.entries(packages).flatMap(([module, names]) =>
    names.flatMap((name) => [flag, `${module}/${name}=ALL-UNNAMED`]),
  )
}

/**
 * Finds the servers that the cluster and its tests need beside the service, and installs missing
 * ones: Cassandra's jars through Maven, nats-server and a Java runtime from the distribution. If
 * that fails, the error says what to install.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cassandraVersion = '5.0.9'
/** Standard output belongs to the program: the first line of a cluster says that it is ready. */
const errorOutput = 2
const natsModule = 'github.com/nats-io/nats-server/v2@v2.12.3'

/** Where downloads are kept between runs. */
export function cacheDirectory(): string {
  const path = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast')
  mkdirSync(path, { recursive: true })
  return path
}

/** Path of a nats-server: on the PATH, from the distribution's package, or built by Go. */
export function natsServer(): string {
  const own = join(cacheDirectory(), 'bin', 'nats-server')
  const found = onPath('nats-server') ?? (existsSync(own) ? own : undefined)
  if (found) return found
  say('installing nats-server (once) …')
  if (install('nats-server')) return onPath('nats-server') ?? '/usr/sbin/nats-server'
  const go = goProgram()
  if (go !== undefined) {
    const built = spawnSync(go, ['install', natsModule], {
      stdio: ['ignore', errorOutput, 'inherit'],
      env: { ...process.env, GOBIN: join(cacheDirectory(), 'bin') },
    })
    if (built.status === 0) return own
  }
  throw new Error('nats-server is missing: install the package nats-server, or Go so that it can be built')
}

/** On the PATH, or in the location that go.dev recommends. */
export function goProgram(): string | undefined {
  const usual = '/usr/local/go/bin/go'
  return onPath('go') ?? (existsSync(usual) ? usual : undefined)
}

/** The directory of Cassandra's jars. */
export function cassandraJars(): string {
  const directory = join(cacheDirectory(), `cassandra-${cassandraVersion}`)
  if (existsSync(directory) && readdirSync(directory).length > 50) return directory
  if (!onPath('mvn')) install('maven')
  if (!onPath('mvn'))
    throw new Error('Maven is missing: install the package maven; it fetches Cassandra’s jars')
  say(`fetching Cassandra ${cassandraVersion} (once, about 70 MB) …`)
  const fresh = mkdtempSync(join(cacheDirectory(), 'cassandra-'))
  const fetched = spawnSync(
    'mvn',
    [
      '-q',
      '-B',
      '-f',
      join(import.meta.dirname, 'pom.xml'),
      'dependency:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${fresh}`,
    ],
    { stdio: ['ignore', errorOutput, 'inherit'] },
  )
  if (fetched.status !== 0) {
    rmSync(fresh, { recursive: true, force: true })
    throw new Error('Maven could not fetch Cassandra’s jars; its own messages are above')
  }
  rmSync(directory, { recursive: true, force: true })
  renameSync(fresh, directory)
  return directory
}

/** A Java runtime of version 17 or later. */
export function java(): string {
  const found = onPath('java')
  if (found) return found
  say('installing a Java runtime (once) …')
  install('openjdk-17-jre-headless')
  const installed = onPath('java')
  if (!installed) throw new Error('Java is missing: install the package openjdk-17-jre-headless')
  return installed
}

/** The search path with the directories of administrators’ programs. */
export function onPath(name: string): string | undefined {
  for (const directory of [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/usr/local/sbin']) {
    const path = join(directory, name)
    if (directory && existsSync(path)) return path
  }
  return undefined
}

function install(name: string): boolean {
  if (process.getuid?.() !== 0 || !onPath('apt-get')) return false
  const quiet = { stdio: ['ignore', 'ignore', 'inherit'] as ['ignore', 'ignore', 'inherit'] }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const arguments_ = ['install', '-y', '-qq', '--no-install-recommends', name]
  if (spawnSync('apt-get', arguments_, { ...quiet, env }).status === 0) return true
  spawnSync('apt-get', ['update', '-qq'], { ...quiet, env })
  return spawnSync('apt-get', arguments_, { ...quiet, env }).status === 0
}

function say(text: string): void {
  process.stderr.write(`holdfast: ${text}\n`)
}

/**
 * The scripts for `sh` that run on the hosts of a deployment, and the hosts' answers. A script may
 * be run again at any time.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import type { Deployment } from './deployment.ts'
import { records, steps } from './host-steps.ts'
import { ownerOf, ownerOfRendered } from './owners.ts'
import { hostsWith, type Plan, type PlannedHost, type PlannedRegion, planOf } from './plan.ts'
import { machines, operatorPasswordFile, places } from './platform.ts'
import { alertmanagerAddress } from './render/alertmanager.ts'
import { cassandraYaml, cassandraYamlPath, isFirstNode, seedsOf } from './render/cassandra.ts'
import { startSeconds } from './render/containers.ts'
import { natsPasswords, natsRoutesOf } from './render/nats.ts'
import { proxyMetricsAddress } from './render/proxies.ts'
import { isOwnDisk, replacementFile, unitName, unitsOf } from './render/units.ts'
import { hostFiles } from './render.ts'
import { serverPorts, shortNames } from './roles.ts'

const joinSeconds = 900
const cassandraUnitName = 'holdfast-cassandra.service'

export interface HostWork {
  host: PlannedHost
  files: ReadonlyMap<string, string>
  /** Address of each unit that runs. */
  listens: ReadonlyMap<string, string>
  /** Addresses that its NATS connects to as routes. */
  routes: readonly string[]
  /** Its node of Cassandra, and the file of one that has yet to join. Undefined: it has none. */
  node: { isFirst: boolean; joining: string | undefined } | undefined
  /** It can make Cassandra's users: it has our code, and the operator's password is there. */
  makesLogins: boolean
}

/**
 * In the order of the file.
 * @param options.replaced name of a host whose Cassandra takes the place of a node that is gone
 */
export function workOf(
  deployment: Deployment,
  { replaced }: { replaced: string | undefined } = { replaced: undefined },
): HostWork[] {
  const plan = planOf(deployment)
  return plan.regions.flatMap((region) =>
    region.hosts.map((host) => ({
      host,
      files: hostFiles(plan, region, host, { cassandra: host.name === replaced ? 'replaces' : 'joined' }),
      listens: listensOf(plan, host),
      routes: host.roles.includes('nats') ? natsRoutesOf(plan, host) : [],
      node: host.roles.includes('cassandra')
        ? {
            isFirst: isFirstNode(plan, host),
            joining: host.name === replaced ? undefined : joiningYaml(plan, host),
          }
        : undefined,
      makesLogins: loginsHosts(region).includes(host),
    })),
  )
}

/** Those with Cassandra and a process; without such ones, the first with a process. */
function loginsHosts({ hosts }: PlannedRegion): PlannedHost[] {
  const nodes = hostsWith(hosts, 'cassandra')
  const ours = hosts.filter(({ processes }) => processes.length > 0)
  const both = ours.filter((host) => nodes.includes(host))
  return both.length > 0 || nodes.length === 0 ? both : ours.slice(0, 1)
}

/**
 * What a node that is to be a seed reads until it has joined. Undefined: it is none, or there is no
 * other one that it could join.
 */
function joiningYaml(plan: Plan, host: PlannedHost): string | undefined {
  const seeds = seedsOf(plan).map(({ name }) => name)
  return seeds.includes(host.name) && seeds.length > 1
    ? cassandraYaml(plan, host, { seed: false })
    : undefined
}

/** Where secrets, keys and the code have to be before anything is brought up. */
export function needsOf({ host, files, makesLogins }: HostWork): string[] {
  // Containers are another way to start what the other files start.
  const read = [...files].filter(([path]) => path !== `${places.etc}/compose.yaml`)
  const text = read.map(([, text]) => text).join('\n')
  const named = [...text.matchAll(/\/etc\/holdfast\/(?:secrets|tls)\/[\w.-]+/g)].map(([path]) => path)
  const own = host.processes.length > 0 ? [`${places.code}/infra/launch.sh`] : []
  const nats = host.roles.includes('nats') ? [`${places.secrets}/${natsPasswords}`] : []
  const cassandra = host.roles.includes('cassandra') || makesLogins ? [operatorPasswordFile] : []
  return [...new Set([...own, ...nats, ...cassandra, ...named])].sort()
}

/**
 * Stops and removes what is left over, lays files over the root of the host, gives secrets and keys
 * to their readers, and starts its units. Those that run with other files are restarted, or
 * reloaded where that is enough. Prints what changed. It ends at the first unit that fails.
 * @param options.joins its node of Cassandra has not joined the others: it becomes a seed after
 *   that
 */
export function upScript(
  work: HostWork,
  which: 'servers' | 'processes',
  { joins }: { joins: boolean } = { joins: false },
): string {
  const { host } = work
  const joining = joins ? work.node?.joining : undefined
  const all = joining === undefined ? work.files : new Map(work.files).set(cassandraYamlPath, joining)
  const ofServers = new Set(serversOf(host).flatMap((unit) => filesOfUnit(unit, all)))
  const files = new Map([...all].filter(([path]) => ofServers.has(path) === (which === 'servers')))
  const units = which === 'servers' ? serversOf(host) : processesOf(work)
  const script = [
    prelude,
    'missing=',
    ...needsOf(work).map((path) => `[ -e "$root${path}" ] || missing="$missing ${path}"`),
    '[ -z "$missing" ] || { echo "missing:$missing" >&2; exit 1; }',
    steps,
    // Units that are left over hold ports that the new ones need, or would run beside the new ones.
    ...(which === 'servers' ? [leftOvers(work), 'left | while read -r one; do clear "$one"; done'] : []),
    ...ownersOf(work),
    ...(which === 'servers' && work.routes.length > 0 ? [`routes ${work.routes.join(' ')}`] : []),
    ...[...files].flatMap(([path, text]) =>
      put(path, { text, uses: units.filter((unit) => filesOfUnit(unit, files).includes(path)) }),
    ),
    'systemctl daemon-reload',
    // Also what an earlier `up` disabled, when the file did not name it.
    ...[
      ...(files.has('/etc/systemd/system/holdfast.target') ? ['holdfast.target'] : []),
      ...(which === 'processes' ? distributedOf(work) : []),
    ].map((unit) => `systemctl enable --quiet ${unit}`),
    ...units.flatMap((unit) => {
      const [record, later] = [all, work.files].map(
        (files) => `${unit} ${digestOfUnit(unit, files)} ${digestOfFixed(unit, files)}`,
      )
      const waits = untilListening(work, unit)
      if (unit !== cassandraUnitName) return [`begin ${record}`, ...waits, `begun ${record}`]
      // The next `up` does not restart a node that still joins: that would interrupt its copies.
      const started = [`begin ${record}`, `begun ${record}`, ...waits]
      if (joining === undefined) return started
      // It reads its seeds again at its next start.
      const text = work.files.get(cassandraYamlPath) ?? ''
      return [...started, ...put(cassandraYamlPath, { text, uses: [] }), `begun ${later}`]
    }),
  ]
  return `${script.join('\n')}\n`
}

function put(path: string, { text, uses }: { text: string; uses: readonly string[] }): string[] {
  const { users, mode } = ownerOfRendered(path)
  return [
    `put ${[users, mode, path, ...uses].join(' ')} <<'END'`,
    Buffer.from(text).toString('base64'),
    'END',
  ]
}

/**
 * Prints what the host has of its node of Cassandra: `nothing`, a node that has `joined`, or
 * `something`, which may still join.
 */
export function nodeScript({ host }: HostWork): string {
  const { internal } = host
  return `${prelude}
if [ -z "$(ls -A "$root${machines.cassandraData(host)}/data" 2>/dev/null)" ]; then echo nothing
elif grep -qwF "${internal}:${serverPorts.cassandra.storage}" "$root${cassandraYamlPath}" 2>/dev/null; then echo joined
else echo something; fi
`
}

/**
 * Hosts whose nodes of Cassandra have to join the others. A node joins without data when it names
 * itself among the seeds; it answers then that there are no accounts. Only where no node of a
 * region has data, the first one does not join.
 * @param answers of `nodeScript`, by the name of the host. @throws HostFault
 */
export function joiningNodes(
  { chosen, all }: { chosen: readonly HostWork[]; all: readonly HostWork[] },
  answers: ReadonlyMap<string, string | HostFault>,
): Set<string> {
  const known = (answer: string | HostFault | undefined) => {
    if (answer instanceof HostFault) throw answer
    return answer?.trim()
  }
  const joins = ({ host: { name, region }, node }: HostWork) => {
    if (node?.joining === undefined || known(answers.get(name)) === 'joined') return false
    if (!node.isFirst || known(answers.get(name)) === 'something') return true
    const others = all
      .filter((one) => one.node !== undefined && one.host.region === region && one.host.name !== name)
      .map(({ host }) => answers.get(host.name))
    if (others.some((answer) => typeof answer === 'string' && answer.trim() !== 'nothing')) return true
    // One without an answer may have data.
    others.forEach(known)
    return false
  }
  return new Set(chosen.filter(joins).map(({ host }) => host.name))
}

/** A folder without a disk in it stays root's: no process makes a store there. */
function ownersOf(work: HostWork): string[] {
  const { host } = work
  const secrets = needsOf(work).filter((path) => /^\/etc\/holdfast\/(secrets|tls)\//.test(path))
  const folders = [...new Set(secrets.map((path) => dirname(path)))]
  const disks = host.processes.map(({ dataDir }) => dataDir).filter(isOwnDisk)
  return [
    ...folders.map((path) => `own root:root 711 ${path}`),
    ...secrets.map((path) => {
      const { users, mode } = ownerOf(path, { roles: host.roles, proxy: proxyOf(work) })
      return `own ${users} ${mode} ${path}`
    }),
    ...disks.map((path) => `! mountpoint -q "$root${path}" || own holdfast:holdfast 700 ${path}`),
  ]
}

/**
 * One starts after the other: processes that start at once take the CPU from each other and from
 * Cassandra. Nodes of Cassandra also join one by one. One that takes over the data of others joins
 * for longer than this waits; then `up` is repeated.
 */
function untilListening({ listens }: HostWork, unit: string): string[] {
  const address = listens.get(unit)
  if (address === undefined) return []
  if (unit === cassandraUnitName) {
    const why = `has not joined within ${joinSeconds} s (nodetool netstats says what it does)`
    return [`listening ${unit} ${address} ${joinSeconds} || failed ${unit} "${why}"`]
  }
  const why = `does not listen on ${address} within ${startSeconds} s`
  return [`listening ${unit} ${address} ${startSeconds} || failed ${unit} "${why}"`]
}

/**
 * Processes first, then their servers. The files stay. A unit that does not stop keeps none of the
 * others running. The end names it.
 */
export function downScript(work: HostWork): string {
  const script = [
    prelude,
    'running=',
    // 5: the host has no such unit.
    ...allUnits(work)
      .reverse()
      .map((unit) => `systemctl stop ${unit} || [ $? -eq 5 ] || running="$running ${unit}"`),
    '[ -z "$running" ] || { echo "does not stop:$running" >&2; exit 1; }',
  ]
  return `${script.join('\n')}\n`
}

/** Prints a line `<unit> <state>` for each unit. */
export function statusScript(work: HostWork): string {
  const lines = allUnits(work).map((unit) => `echo "${unit} $(systemctl is-active ${unit})"`)
  return `${[prelude, ...lines].join('\n')}\n`
}

/**
 * Defines the function `left`. It prints what `up` made from an earlier file of the deployment and
 * the current file does not name: paths of units and settings with names that only `up` gives, and
 * units of the distribution that `up` started.
 */
function leftOvers(work: HostWork): string {
  const names = Object.entries(shortNames).map(([role, short]) =>
    role === 'standalone' ? `*-${short}` : `${short}-[0-9]*-*`,
  )
  const units = ['nats', 'cassandra', ...names].map((name) => `/etc/systemd/system/${unitName(name)}`)
  const settings = names.map((name) => `${places.etc}/${name}.env`)
  const others = [
    '/etc/systemd/system/holdfast.target',
    `${places.etc}/nats.conf`,
    `${places.etc}/compose.yaml`,
  ]
  const paths = [...units, ...others, ...settings, replacementFile, '/etc/nginx/conf.d/holdfast.conf']
  return `
left() {
  for path in ${paths.map((path) => `"$root"${path}`).join(' ')}; do
    [ -e "$path" ] || continue
    path=\${path#"$root"}
    case " ${[...work.files.keys()].join(' ')} " in *" $path "*) ;; *) echo "$path";; esac
  done
  for record in "$root${records}"/*; do
    unit=\${record##*/}
    [ -e "$record" ] && [ ! -e "$root/etc/systemd/system/$unit" ] || continue
    case " ${allUnits(work).join(' ')} " in *" $unit "*) ;; *) echo "$unit";; esac
  done
}`
}

/**
 * Prints the digests of all files that are there, the record of each unit, and what is left over.
 */
export function digestScript(work: HostWork): string {
  const lines = [...work.files.keys()].map(
    (path) => `[ -f "$root${path}" ] && echo "$(sha256sum < "$root${path}") ${path}"`,
  )
  const fieldOf = (unit: string, field: number) =>
    `$(cut -d' ' -f${field} "$root${recordOf(unit)}" 2>/dev/null)`
  const records = allUnits(work).flatMap((unit) => [
    `echo "${fieldOf(unit, 1)} - ${unit}"`,
    `echo "${fieldOf(unit, 2)} - ${fixedOf(unit)}"`,
  ])
  const left = [leftOvers(work), 'left | sed "s/^/left /"']
  return `${[prelude, ...lines, ...records, ...left, ':'].join('\n')}\n`
}

export interface HostDifference {
  /**
   * A file; or a unit that `up` would restart or reload, because it does not run with the current
   * files. `up` stops and removes units and files that are left over.
   */
  path: string
  state: 'missing' | 'changed' | 'restart' | 'reload' | 'left over'
}

/** @param answer of `digestScript` */
export function changedOn(work: HostWork, answer: string): HostDifference[] {
  const digests = new Map(
    answer
      .split('\n')
      .map((line) => line.split(/\s+-?\s*/))
      .map(([digest = '', path = '']) => [path, digest]),
  )
  const files = [...work.files].flatMap(([path, text]): HostDifference[] => {
    const digest = digests.get(path)
    if (digest === digestOf(text)) return []
    return [{ path, state: digest === undefined ? 'missing' : 'changed' }]
  })
  const units = allUnits(work).filter((unit) => digests.get(unit) !== digestOfUnit(unit, work.files))
  const reloads = (unit: string) =>
    reloaded.has(unit) && digests.get(fixedOf(unit)) === digestOfFixed(unit, work.files)
  const left = [...digests].filter(([, digest]) => digest === 'left')
  return [
    ...left.map(([path]): HostDifference => ({ path, state: 'left over' })),
    ...files,
    ...units.map((path): HostDifference => ({ path, state: reloads(path) ? 'reload' : 'restart' })),
  ]
}

/** A host that did not do what a script says. */
export class HostFault extends Error {
  override readonly name = 'HostFault'
  readonly code = 'HOST_FAILED'
  readonly reason: string

  constructor(host: string, reason: string) {
    super(`${host}: ${reason}`)
    this.reason = reason
  }
}

/** Connections of ssh. More would be a load; with fewer, silent hosts delay the others. */
const hostsAtOnce = 32

/**
 * Runs a script on each host, on many at once. A host that fails keeps none of the others from
 * answering.
 * @returns answers in the order of the hosts, each when it is there
 */
export async function* askAll(
  chosen: readonly HostWork[],
  via: string,
  scriptOf: (work: HostWork) => string,
): AsyncGenerator<{ work: HostWork; answer: string | HostFault }> {
  const ask = (work: HostWork) =>
    runOn(work, via, scriptOf(work)).catch((error: unknown) => {
      if (error instanceof HostFault) return error
      throw error
    })
  const asked: Promise<string | HostFault>[] = []
  for (const [at, work] of chosen.entries()) {
    while (asked.length < Math.min(at + hostsAtOnce, chosen.length)) {
      const next = ask(chosen[asked.length] as HostWork)
      next.catch(() => {})
      asked.push(next)
    }
    yield { work, answer: await (asked[at] as Promise<string | HostFault>) }
  }
}

/**
 * Runs a script on a host.
 * @param via a command that reads a script on its standard input. `{host}` and `{address}` in it
 *   are the host's. Its words are separated by spaces.
 * @throws HostFault with what the script wrote to its standard error, and how it ended
 */
export async function runOn({ host }: HostWork, via: string, script: string): Promise<string> {
  const words = via
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => word.replaceAll('{host}', host.name).replaceAll('{address}', host.internal))
  const [command = '', ...args] = words
  const child = spawn(command, args, { stdio: 'pipe' })
  const out: Buffer[] = []
  const err: Buffer[] = []
  child.stdout.on('data', (bytes: Buffer) => out.push(bytes))
  child.stderr.on('data', (bytes: Buffer) => err.push(bytes))
  // A command that ends early takes no more input; its exit code says why.
  child.stdin.on('error', () => {})
  const ended = new Promise<string>((resolve, reject) => {
    child.once('error', (error) => reject(new HostFault(host.name, `${command}: ${error.message}`)))
    child.once('close', (code, signal) => resolve(signal === null ? `exit ${code}` : `ended by ${signal}`))
  })
  child.stdin.end(script)
  const end = await ended
  const said = Buffer.concat(err).toString().trim()
  if (end !== 'exit 0') throw new HostFault(host.name, said === '' ? end : `${said} (${end})`)
  return Buffer.concat(out).toString()
}

/** Tests lay the files over another directory than `/`. */
const prelude = 'set -e\numask 022\nroot=$HOLDFAST_ROOT\nset -u'

/** In the order of their start. */
function allUnits(work: HostWork): string[] {
  return [...serversOf(work.host), ...processesOf(work)]
}

function serversOf({ roles }: PlannedHost): string[] {
  return unitsOf([], roles)
}

/** Ours, then those of the distribution that are in front of them or watch them. */
function processesOf(work: HostWork): string[] {
  return [...unitsOf(work.host.processes, []), ...distributedOf(work)]
}

function distributedOf(work: HostWork): string[] {
  return (['proxy', 'prometheus', 'alertmanager'] as const)
    .filter((role) => work.host.roles.includes(role))
    .map((role) => `${{ ...distributedUnits, proxy: proxyOf(work) }[role]}.service`)
}

function proxyOf({ files }: HostWork): 'caddy' | 'nginx' {
  return files.has('/etc/caddy/Caddyfile') ? 'caddy' : 'nginx'
}

const distributedUnits = { prometheus: 'prometheus', alertmanager: 'prometheus-alertmanager' }

/** Where each unit listens when it has started. */
function listensOf(plan: Plan, host: PlannedHost): Map<string, string> {
  const { nats, cassandra, prometheus } = serverPorts
  return new Map([
    ['holdfast-nats.service', `${host.internal}:${nats.client}`],
    ['holdfast-cassandra.service', `${host.internal}:${cassandra.client}`],
    ...host.processes.map(({ name, settings, ports }): [string, string] => [
      unitName(name),
      `${settings.HOLDFAST_ADMIN_BIND}:${ports.admin}`,
    ]),
    ['caddy.service', proxyMetricsAddress(plan, host)],
    ['nginx.service', proxyMetricsAddress(plan, host)],
    ['prometheus.service', `127.0.0.1:${prometheus}`],
    ['prometheus-alertmanager.service', alertmanagerAddress(plan, host)],
  ])
}

function recordOf(unit: string): string {
  return `${records}/${unit}`
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function digestOfUnit(unit: string, files: ReadonlyMap<string, string>): string {
  return digestOfFiles(filesOfUnit(unit, files), files)
}

/**
 * Units that read changed files on a reload. nats-server then reads changed routes, but no changed
 * gateways.
 */
const reloaded = new Set(['caddy.service', 'nginx.service', 'holdfast-nats.service'])

/** Files that a unit reads at its start alone. */
function digestOfFixed(unit: string, files: ReadonlyMap<string, string>): string {
  const isProxy = unit === 'caddy.service' || unit === 'nginx.service'
  return digestOfFiles(isProxy ? [] : filesOfUnit(unit, files), files)
}

/** How a host names that digest. */
function fixedOf(unit: string): string {
  return `${unit}:fixed`
}

function digestOfFiles(paths: readonly string[], files: ReadonlyMap<string, string>): string {
  return digestOf(paths.map((path) => `${path} ${digestOf(files.get(path) ?? '')}\n`).join(''))
}

/** Files whose change restarts or reloads a unit. */
function filesOfUnit(unit: string, files: ReadonlyMap<string, string>): string[] {
  const folders: Record<string, RegExp> = {
    'holdfast-nats.service': /\/(nats\.conf|holdfast-nats\.service)$/,
    'holdfast-cassandra.service': /^\/etc\/cassandra\/|\/holdfast-cassandra\.service(\.d\/replace\.conf)?$/,
    'caddy.service': /\/caddy\//,
    'nginx.service': /\/nginx\//,
    'prometheus.service': /\/prometheus\/(prometheus|holdfast\.rules)\.yml$|\/default\/prometheus$/,
    'prometheus-alertmanager.service': /\/alertmanager[^/]*\.yml$|\/default\/prometheus-alertmanager$/,
  }
  const ours = (path: string) =>
    path.endsWith(`/${unit}`) ||
    (path.endsWith('.env') && unitName(path.slice(path.lastIndexOf('/') + 1, -4)) === unit)
  return [...files.keys()].filter((path) => folders[unit]?.test(path) ?? ours(path))
}

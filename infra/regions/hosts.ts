/**
 * The scripts for `sh` that run on the hosts of a deployment, and the hosts' answers. A script may
 * be run again at any time.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import type { Deployment } from './deployment.ts'
import { type PlannedHost, planOf } from './plan.ts'
import { operatorPasswordFile, places } from './platform.ts'
import { natsPasswords } from './render/nats.ts'
import { unitName, unitsOf } from './render/units.ts'
import { hostFiles } from './render.ts'
import { serverPorts } from './roles.ts'

const joinSeconds = 900
const startSeconds = 60

export interface HostWork {
  host: PlannedHost
  files: ReadonlyMap<string, string>
}

/** In the order of the file. */
export function workOf(deployment: Deployment): HostWork[] {
  const plan = planOf(deployment)
  return plan.regions.flatMap((region) =>
    region.hosts.map((host) => ({ host, files: hostFiles(plan, region, host) })),
  )
}

/** Where secrets, keys and the code have to be before anything is brought up. */
export function needsOf({ host, files }: HostWork): string[] {
  const text = [...files.values()].join('\n')
  const named = [...text.matchAll(/\/etc\/holdfast\/(?:secrets|tls)\/[\w.-]+/g)].map(([path]) => path)
  const own = host.processes.length > 0 ? [`${places.code}/infra/launch.sh`] : []
  const nats = host.roles.includes('nats') ? [`${places.secrets}/${natsPasswords}`] : []
  const cassandra = host.roles.includes('cassandra') ? [operatorPasswordFile] : []
  return [...new Set([...own, ...nats, ...cassandra, ...named])].sort()
}

/**
 * Lays files over the root of the host, and starts its units or restarts those with changed files.
 * Prints what changed.
 */
export function upScript(work: HostWork, which: 'servers' | 'processes'): string {
  const { host } = work
  const servers = unitsOf([], host.roles)
  const ofServers = new Set(servers.flatMap((unit) => filesOfUnit(unit, work.files)))
  const files = new Map([...work.files].filter(([path]) => ofServers.has(path) === (which === 'servers')))
  const units = which === 'servers' ? servers : unitsOf(host.processes, []).concat(proxyUnits(host, files))
  const script = [
    prelude,
    'missing=',
    ...needsOf(work).map((path) => `[ -e "$root${path}" ] || missing="$missing ${path}"`),
    '[ -z "$missing" ] || { echo "missing:$missing" >&2; exit 1; }',
    'changed=" "',
    'put() {',
    '  mkdir -p "$root$(dirname "$1")"',
    '  base64 -d > "$root$1.new"',
    '  if cmp -s "$root$1.new" "$root$1"; then rm "$root$1.new"',
    '  else mv "$root$1.new" "$root$1"; changed="$changed$1 "; echo "changed $1"; fi',
    '}',
    ...[...files].flatMap(([path, text]) => [
      `put ${path} <<'END'`,
      Buffer.from(text).toString('base64'),
      'END',
    ]),
    'systemctl daemon-reload',
    ...(files.has('/etc/systemd/system/holdfast.target') ? ['systemctl enable --quiet holdfast.target'] : []),
    listening,
    ...units.flatMap((unit) => {
      const own = filesOfUnit(unit, files).map((path) => `*" ${path} "*`)
      const start = `case "$changed" in ${own.join('|') || 'none'}) systemctl restart ${unit};; *) systemctl start ${unit};; esac`
      return [start, ...untilListening(host, unit)]
    }),
  ]
  return `${script.join('\n')}\n`
}

/** Waits until an address listens. @param $1 the address @param $2 seconds */
const listening = `listening() {
  tries=0
  until ss -Hltn "src $1" | grep -q .; do
    tries=$((tries + 1))
    [ "$tries" -le "$2" ] || return 1
    sleep 1
  done
}`

/**
 * One starts after the other: processes that start at once take the CPU from each other and from
 * Cassandra. Nodes of Cassandra also join one by one. One that takes over the data of others joins
 * for longer than this waits; then `up` is repeated.
 */
function untilListening(host: PlannedHost, unit: string): string[] {
  if (unit === 'holdfast-cassandra.service') {
    const why = `Cassandra has not joined within ${joinSeconds} s; nodetool netstats says what it does, then repeat up`
    const address = `${host.internal}:${serverPorts.cassandra.client}`
    return [`listening ${address} ${joinSeconds} || { echo "${why}" >&2; exit 1; }`]
  }
  const process = host.processes.find(({ name }) => unitName(name) === unit)
  if (process === undefined) return []
  const address = `${process.settings.HOLDFAST_ADMIN_BIND}:${process.ports.admin}`
  return [`listening ${address} ${startSeconds} || echo "${unit} has not started within ${startSeconds} s"`]
}

/** Processes first, then their servers. The files stay. */
export function downScript({ host }: HostWork): string {
  const units = unitsOf(host.processes, host.roles).reverse()
  return `${[prelude, ...units.map((unit) => `systemctl stop ${unit}`)].join('\n')}\n`
}

/** Prints a line `<unit> <state>` for each unit. */
export function statusScript({ host }: HostWork): string {
  const units = unitsOf(host.processes, host.roles)
  const lines = units.map((unit) => `echo "${unit} $(systemctl is-active ${unit})"`)
  return `${[prelude, ...lines].join('\n')}\n`
}

/** Prints the digests of all files that are there. */
export function digestScript({ files }: HostWork): string {
  const lines = [...files.keys()].map(
    (path) => `[ -f "$root${path}" ] && echo "$(sha256sum < "$root${path}") ${path}"`,
  )
  return `${[prelude, ...lines, ':'].join('\n')}\n`
}

/** @param answer of `digestScript` */
export function changedOn(
  { files }: HostWork,
  answer: string,
): { path: string; state: 'missing' | 'changed' }[] {
  const digests = new Map(
    answer
      .split('\n')
      .map((line) => line.split(/\s+-?\s*/))
      .map(([digest = '', path = '']) => [path, digest]),
  )
  return [...files].flatMap(([path, text]) => {
    const digest = digests.get(path)
    if (digest === createHash('sha256').update(text).digest('hex')) return []
    return [{ path, state: digest === undefined ? ('missing' as const) : ('changed' as const) }]
  })
}

/**
 * Runs a script on a host.
 * @param via a command that reads a script on its standard input. `{host}` and `{address}` in it
 *   are the host's. Its words are separated by spaces.
 * @throws Error with what the script wrote to its standard error
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
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`${host.name}: ${command}: ${error.message}`)))
    child.once('close', resolve)
  })
  child.stdin.end(script)
  const code = await ended
  if (code !== 0) throw new Error(`${host.name}: ${Buffer.concat(err).toString().trim() || `exit ${code}`}`)
  return Buffer.concat(out).toString()
}

/** Tests lay the files over another directory than `/`. */
const prelude = 'set -e\nroot=$HOLDFAST_ROOT\nset -u'

function proxyUnits(host: PlannedHost, files: ReadonlyMap<string, string>): string[] {
  const proxy = files.has('/etc/caddy/Caddyfile') ? 'caddy' : 'nginx'
  return (['proxy', 'prometheus', 'alertmanager'] as const)
    .filter((role) => host.roles.includes(role))
    .map((role) => ({ proxy, prometheus: 'prometheus', alertmanager: 'prometheus-alertmanager' })[role])
    .map((name) => `${name}.service`)
}

/** Files whose change restarts a unit. */
function filesOfUnit(unit: string, files: ReadonlyMap<string, string>): string[] {
  const folders: Record<string, RegExp> = {
    'holdfast-nats.service': /\/(nats\.conf|holdfast-nats\.service)$/,
    'holdfast-cassandra.service': /^\/etc\/cassandra\/|\/holdfast-cassandra\.service$/,
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

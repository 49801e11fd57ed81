/**
 * The scripts for `sh` that run on the hosts of a deployment, and the hosts' answers. A script may
 * be run again at any time.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import type { Deployment } from './deployment.ts'
import { ownerOf, ownerOfRendered } from './owners.ts'
import { type Plan, type PlannedHost, planOf } from './plan.ts'
import { operatorPasswordFile, places } from './platform.ts'
import { alertmanagerAddress } from './render/alertmanager.ts'
import { startSeconds } from './render/containers.ts'
import { natsPasswords, natsRoutes, natsRoutesOf, natsUser } from './render/nats.ts'
import { proxyMetricsAddress } from './render/proxies.ts'
import { isOwnDisk, replacementFile, unitName, unitsOf } from './render/units.ts'
import { hostFiles } from './render.ts'
import { serverPorts, shortNames } from './roles.ts'

const joinSeconds = 900
const records = `${places.data}/started`

export interface HostWork {
  host: PlannedHost
  files: ReadonlyMap<string, string>
  /** Address of each unit that runs. */
  listens: ReadonlyMap<string, string>
  /** Addresses that its NATS connects to as routes. */
  routes: readonly string[]
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
      files: hostFiles(plan, region, host, { replaces: host.name === replaced }),
      listens: listensOf(plan, host),
      routes: host.roles.includes('nats') ? natsRoutesOf(plan, host) : [],
    })),
  )
}

/** Where secrets, keys and the code have to be before anything is brought up. */
export function needsOf({ host, files }: HostWork): string[] {
  // Containers are another way to start what the other files start.
  const read = [...files].filter(([path]) => path !== `${places.etc}/compose.yaml`)
  const text = read.map(([, text]) => text).join('\n')
  const named = [...text.matchAll(/\/etc\/holdfast\/(?:secrets|tls)\/[\w.-]+/g)].map(([path]) => path)
  const own = host.processes.length > 0 ? [`${places.code}/infra/launch.sh`] : []
  const nats = host.roles.includes('nats') ? [`${places.secrets}/${natsPasswords}`] : []
  const cassandra = host.roles.includes('cassandra') ? [operatorPasswordFile] : []
  return [...new Set([...own, ...nats, ...cassandra, ...named])].sort()
}

/**
 * Stops and removes what is left over, lays files over the root of the host, gives secrets and keys
 * to their readers, and starts its units or restarts those that were not started with just these
 * files. Prints what changed. It ends at the first unit that fails.
 */
export function upScript(work: HostWork, which: 'servers' | 'processes'): string {
  const { host } = work
  const ofServers = new Set(serversOf(host).flatMap((unit) => filesOfUnit(unit, work.files)))
  const files = new Map([...work.files].filter(([path]) => ofServers.has(path) === (which === 'servers')))
  const units = which === 'servers' ? serversOf(host) : processesOf(work)
  const script = [
    prelude,
    'missing=',
    ...needsOf(work).map((path) => `[ -e "$root${path}" ] || missing="$missing ${path}"`),
    '[ -z "$missing" ] || { echo "missing:$missing" >&2; exit 1; }',
    steps,
    // Their ports are needed, or they would go on beside what took their place.
    ...(which === 'servers' ? [leftOvers(work), 'left | while read -r one; do clear "$one"; done'] : []),
    ...ownersOf(work),
    ...(which === 'servers' && work.routes.length > 0 ? [`routes ${work.routes.join(' ')}`] : []),
    ...[...files].flatMap(([path, text]) => {
      const { users, mode } = ownerOfRendered(path)
      const uses = units.filter((unit) => filesOfUnit(unit, files).includes(path))
      return [
        `put ${[users, mode, path, ...uses].join(' ')} <<'END'`,
        Buffer.from(text).toString('base64'),
        'END',
      ]
    }),
    'systemctl daemon-reload',
    ...(files.has('/etc/systemd/system/holdfast.target') ? ['systemctl enable --quiet holdfast.target'] : []),
    ...units.flatMap((unit) => [
      `begin ${unit} ${digestOfUnit(unit, work.files)}`,
      ...untilListening(work, unit),
      `begun ${unit} ${digestOfUnit(unit, work.files)}`,
    ]),
  ]
  return `${script.join('\n')}\n`
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
 * A unit's record has the digest of the files with which it was last started. It is removed before
 * one of them changes: after a break the next run restarts what uses the file.
 */
const steps = `
own() {
  [ "$(stat -Lc '%U:%G %a' "$root$3")" = "$1 $2" ] || { chown "$1" "$root$3"; chmod "$2" "$root$3"; }
}
put() {
  users=$1 mode=$2; shift 2
  mkdir -p "$root$(dirname "$1")"
  (umask 077; base64 -d > "$root$1.new")
  own "$users" "$mode" "$1.new"
  # An earlier release let anyone read it.
  [ ! -e "$root$1" ] || own "$users" "$mode" "$1"
  lay "$@"
}
# The password is in no rendered file. All of it is encoded: it may have any sign.
routes() {
  password=$(sed -n 's/^ *HOLDFAST_PASSWORD *[:=] *"\\(.*\\)".*/\\1/p' "$root${places.secrets}/${natsPasswords}")
  [ -n "$password" ] || { echo "no HOLDFAST_PASSWORD: \\"…\\" is in ${places.secrets}/${natsPasswords}" >&2; exit 1; }
  word=$(printf %s "$password" | od -An -v -tx1 | tr -d ' \\n' | sed 's/../%&/g')
  all=
  for address in "$@"; do all="$all\${all:+, }\\"nats://${natsUser}:$word@$address\\""; done
  new=${places.secrets}/${natsRoutes}.new
  (umask 077; echo "ROUTES: [$all]" > "$root$new")
  own root:holdfast 640 "$new"
  lay ${places.secrets}/${natsRoutes} holdfast-nats.service
}
lay() {
  path=$1; shift
  if cmp -s "$root$path.new" "$root$path"; then rm "$root$path.new"; return; fi
  for unit in "$@"; do rm -f "$root${records}/$unit"; done
  mv "$root$path.new" "$root$path"
  echo "changed $path"
}
clear() {
  unit=\${1##*/}
  case "$unit" in *.service | *.target)
    systemctl stop "$unit" || [ $? -eq 5 ] || failed "$unit" "does not stop"
    systemctl disable --quiet "$unit" || [ ! -e "$root$1" ]
    rm -f "$root${records}/$unit"
  esac
  case "$1" in /*) rm -f "$root$1"; echo "removed $1";; *) echo "stopped $1";; esac
}
begin() {
  if [ "$(cat "$root${records}/$1" 2>/dev/null)" = "$2" ]; then systemctl start "$1" || failed "$1"
  else rm -f "$root${records}/$1"; systemctl restart "$1" || failed "$1"; fi
}
begun() { mkdir -p "$root${records}"; echo "$2" > "$root${records}/$1"; }
failed() {
  echo "$1 \${2:-does not start}; see systemctl status $1 and journalctl -eu $1, then repeat up" >&2
  exit 1
}
# until a unit listens: its name, the address, seconds
listening() {
  tries=0
  until ss -Hltn "src $2" | grep -q .; do
    tries=$((tries + 1))
    [ "$tries" -le "$3" ] && ! systemctl is-failed --quiet "$1" || return 1
    sleep 1
  done
}`

/**
 * One starts after the other: processes that start at once take the CPU from each other and from
 * Cassandra. Nodes of Cassandra also join one by one. One that takes over the data of others joins
 * for longer than this waits; then `up` is repeated.
 */
function untilListening({ listens }: HostWork, unit: string): string[] {
  const address = listens.get(unit)
  if (address === undefined) return []
  if (unit === 'holdfast-cassandra.service') {
    const why = `has not joined within ${joinSeconds} s (nodetool netstats says what it does)`
    return [`listening ${unit} ${address} ${joinSeconds} || failed ${unit} "${why}"`]
  }
  const why = `does not listen on ${address} within ${startSeconds} s`
  return [`listening ${unit} ${address} ${startSeconds} || failed ${unit} "${why}"`]
}

/** Processes first, then their servers. The files stay. */
export function downScript(work: HostWork): string {
  const units = allUnits(work).reverse()
  return `${[prelude, ...units.map((unit) => `systemctl stop ${unit}`)].join('\n')}\n`
}

/** Prints a line `<unit> <state>` for each unit. */
export function statusScript(work: HostWork): string {
  const lines = allUnits(work).map((unit) => `echo "${unit} $(systemctl is-active ${unit})"`)
  return `${[prelude, ...lines].join('\n')}\n`
}

/**
 * `left` prints what an earlier file brought to the host and this one does not: paths of units and
 * settings with names that only `up` gives, and units of the distribution that it started.
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
  const records = allUnits(work).map((unit) => `echo "$(cat "$root${recordOf(unit)}" 2>/dev/null) - ${unit}"`)
  const left = [leftOvers(work), 'left | sed "s/^/left /"']
  return `${[prelude, ...lines, ...records, ...left, ':'].join('\n')}\n`
}

export interface HostDifference {
  /**
   * A file, or a unit that `up` would restart: it was not started with the files of now. What is
   * left over `up` stops and removes.
   */
  path: string
  state: 'missing' | 'changed' | 'restart' | 'left over'
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
  const left = [...digests].filter(([, digest]) => digest === 'left')
  return [
    ...left.map(([path]): HostDifference => ({ path, state: 'left over' })),
    ...files,
    ...units.map((path): HostDifference => ({ path, state: 'restart' })),
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
  const { host } = work
  const distributed = (['proxy', 'prometheus', 'alertmanager'] as const)
    .filter((role) => host.roles.includes(role))
    .map((role) => `${{ ...distributedUnits, proxy: proxyOf(work) }[role]}.service`)
  return [...unitsOf(host.processes, []), ...distributed]
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
  return digestOf(
    filesOfUnit(unit, files)
      .map((path) => `${path} ${digestOf(files.get(path) ?? '')}\n`)
      .join(''),
  )
}

/** Files whose change restarts a unit. */
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

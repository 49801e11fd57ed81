/**
 * A deployment on one machine: each host is a network namespace with its addresses, a disk laid
 * over the machine's own, and a systemd of its own that runs the rendered units. It needs root.
 */
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runOn, workOf } from '../regions/hosts.ts'
import type { PlannedHost } from '../regions/plan.ts'
import { endOf } from '../servers/server.ts'
import { cassandraJars, natsServer, onPath } from '../servers/tools.ts'
import {
  allHosts,
  clientOf,
  controlGroups,
  hostFolder,
  isOurs,
  type Layout,
  netnsOf,
  type RunningProcess,
  readState,
  runningOf,
  runs,
  type State,
  writeState,
} from './layout.ts'
import { makeNetwork, namespaces, netnsNames, removeNetwork, startDelay } from './network.ts'
import { drawSecrets, hostsFile, layDisk, prepareScript } from './prepare.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const launcher = join(repository, 'infra/launch.sh')
const startMs = 60_000

/** How `infra` reaches a host. */
export function viaOf({ folder }: Layout): string {
  return `${folder}/on {host} sh`
}

/** Missing requirements of this machine, as text; empty: namespaces can be made. */
export function lacksOf(layout: Layout): string[] {
  const roles = new Set(allHosts(layout).flatMap((host) => host.roles))
  const proxy = layout.plan.deployment.proxy
  const programs: [program: string, why: string][] = [
    ['ip', 'the package iproute2'],
    ['unshare', 'the package util-linux'],
    ['openssl', 'the package openssl'],
    ...(roles.has('proxy') ? [[proxy, `the package ${proxy}`] as [string, string]] : []),
    ...(roles.has('prometheus') ? [['prometheus', 'the package prometheus'] as [string, string]] : []),
    ...(roles.has('alertmanager')
      ? [['prometheus-alertmanager', 'the package prometheus-alertmanager'] as [string, string]]
      : []),
  ]
  return [
    ...(process.platform === 'linux' && process.getuid?.() === 0 ? [] : ['root on Linux']),
    ...(existsSync('/dev/net/tun') ? [] : ['/dev/net/tun']),
    ...(existsSync('/usr/lib/systemd/systemd') ? [] : ['the package systemd']),
    ...(/^\S+ \S+ cgroup2 /m.test(mounts()) ? [] : ['a mounted cgroup2']),
    ...programs.filter(([program]) => onPath(program) === undefined).map(([, what]) => what),
  ]
}

function mounts(): string {
  return existsSync('/proc/mounts') ? readFileSync('/proc/mounts', 'utf8') : ''
}

/**
 * The network and all requested hosts run when it resolves; hosts that run already are not changed.
 * @param file the deployment's, for its certificates
 */
export async function startHosts(
  layout: Layout,
  { file, wanted }: { file: string; wanted: readonly PlannedHost[] },
): Promise<void> {
  const lacks = lacksOf(layout)
  if (lacks.length > 0) throw new Error(`namespaces need ${lacks.join(', ')}`)
  natsServer()
  const jars = cassandraJars()
  // Made for this user alone; on a host another user starts Cassandra.
  chmodSync(jars, 0o755)
  mkdirSync(layout.folder, { recursive: true, mode: 0o755 })
  await startNetwork(layout)
  makeCertificates(layout, file)
  drawSecrets(layout)
  const works = workOf(layout.plan.deployment)
  for (const host of wanted) {
    if (!runs(readState(layout).hosts[host.name])) {
      layDisk(layout, host.name)
      const running = await bootHost(layout, host.name, jars)
      const now = readState(layout)
      writeState(layout, { ...now, hosts: { ...now.hosts, [host.name]: running } })
    }
    const work = works.find((one) => one.host.name === host.name)
    if (work === undefined) throw new Error(`${file} has no host ${host.name}`)
    await runOn(work, viaOf(layout), prepareScript(layout, work, jars))
  }
}

/**
 * Also of regions and hosts that were added to the file. Hosts keep running when the program that
 * joins the regions ends: their network stays, and connections survive the moment without it.
 */
async function startNetwork(layout: Layout): Promise<void> {
  const { delay, ...state } = readState(layout)
  const names = netnsNames(layout)
  const known = new Set(namespaces())
  const stands = names.filter((name) => known.has(name))
  if (stands.length > 0 && !isOurs(layout))
    throw new Error(`${stands[0]} belongs to another folder: take that down first`)
  const made = state.made ?? (isOurs(layout) ? stands : [])
  const isWhole = (name: string) => known.has(name) && made.includes(name)
  // Hosts are wired to the router of their region.
  const lacking = new Set(
    layout.plan.regions.flatMap((region) => {
      const router = netnsOf(layout, region.code)
      const own = netnsNames({ ...layout, plan: { ...layout.plan, regions: [region] } })
      return isWhole(router) ? own.filter((name) => !isWhole(name)) : own
    }),
  )
  const change = (more: Partial<State>) => writeState(layout, { ...readState(layout), ...more })
  if (lacking.size > 0 || !runs(delay)) {
    await endDelay(layout)
    change({ delay: undefined, made: made.filter((name) => !lacking.has(name)) })
    makeNetwork(layout, {
      isMade: (name) => !lacking.has(name),
      made: (name) => change({ made: [...(readState(layout).made ?? []), name] }),
    })
    change({ delay: await startDelay(layout, launcher) })
  }
  layClients(layout)
}

async function endDelay(layout: Layout): Promise<void> {
  const { delay } = readState(layout)
  if (runs(delay)) process.kill(delay.pid, 'SIGKILL')
  while (runs(delay)) await new Promise((resolve) => setTimeout(resolve, 50))
}

function layClients(layout: Layout): void {
  for (const region of layout.plan.regions)
    writeFileSync(join(layout.folder, clientOf(region)), hostsFile(layout, region))
  const on = join(layout.folder, 'on')
  writeFileSync(on, onScript(layout))
  chmodSync(on, 0o755)
}

/** Users' programs run with their names and addresses, and with this machine's files. */
function onScript(layout: Layout): string {
  return `#!/bin/sh
# on <host> <command>…, on client-<region> <command>…
name=$1; shift
case $name in
  client-*) exec nsenter --net="/run/netns/${netnsOf(layout, '')}$name" unshare --mount sh -c \\
    'mount --make-rprivate / && mount --bind "$0" /etc/hosts && exec "$@"' "${layout.folder}/$name" "$@" ;;
esac
pid=$(cat "${layout.folder}/hosts/$name/pid") && kill -0 "$pid" 2>/dev/null || { echo "$name does not run" >&2; exit 1; }
exec nsenter --target "$pid" --all env -i HOME=/root \\
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
`
}

function makeCertificates(layout: Layout, file: string): void {
  const ca = join(layout.folder, 'ca')
  if (existsSync(ca)) {
    // Hosts were added, or an earlier release made fewer files. All hosts get others, of the same
    // authority.
    const lacks = ({ name, roles }: PlannedHost) =>
      !existsSync(join(ca, name)) ||
      (roles.includes('cassandra') && !existsSync(join(ca, name, 'internode.pem')))
    if (allHosts(layout).some(lacks)) ctl('certs', 'issue', ca, '--deployment', file)
    return
  }
  // Either all of them are there, or none is.
  const begun = `${ca}.new`
  rmSync(begun, { recursive: true, force: true })
  ctl('certs', 'init', begun)
  ctl('certs', 'issue', begun, '--deployment', file)
  renameSync(begun, ca)
}

function ctl(...words: string[]): void {
  const { status, stderr } = spawnSync(launcher, [join(repository, 'apps/ctl/src/main.ts'), ...words], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`ctl ${words.join(' ')}: ${stderr.trim()}`)
}

function groupOf(layout: Layout, host: string): string {
  return join(controlGroups(), netnsOf(layout, ''), host)
}

/** Resolves when its systemd has started. */
async function bootHost(layout: Layout, host: string, jars: string): Promise<RunningProcess> {
  const folder = hostFolder(layout, host)
  for (const name of ['disk', 'work', 'root']) mkdirSync(join(folder, name), { recursive: true })
  const group = groupOf(layout, host)
  mkdirSync(group, { recursive: true })
  const log = join(folder, 'boot.log')
  const out = openSync(log, 'a')
  const boot = [join(import.meta.dirname, 'boot.sh'), folder, host, repository, jars]
  const child = spawn(
    'sh',
    [
      '-c',
      `echo $$ > "${group}/cgroup.procs"; exec "$@"`,
      'sh',
      ...['nsenter', `--net=/run/netns/${netnsOf(layout, host)}`],
      ...['unshare', '--mount', '--pid', '--uts', '--ipc', '--cgroup', '--fork', ...boot],
    ],
    { detached: true, stdio: ['ignore', out, out] },
  )
  let ended = false
  child.once('exit', () => {
    ended = true
  })
  child.unref()
  const until = performance.now() + startMs
  for (;;) {
    const pid = firstChildOf(child.pid ?? 0)
    if (pid !== undefined && commandOf(pid) === 'systemd') {
      writeFileSync(join(folder, 'pid'), `${pid}\n`)
      const { stdout } = spawnSync(join(layout.folder, 'on'), [host, 'systemctl', 'is-system-running'], {
        encoding: 'utf8',
      })
      if (/^(running|degraded)/.test(stdout)) return runningOf(pid)
    }
    if (ended || performance.now() > until) throw new Error(`the host ${host} did not start; ${endOf(log)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

function firstChildOf(parent: number): number | undefined {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = statOf(name)
    if (fields?.[1] === String(parent)) return Number(name)
  }
  return undefined
}

function statOf(pid: string): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
  } catch {
    return undefined
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return ''
  }
}

/** As by a loss of power: nothing ends in order. Disks stay. */
export async function cutPower(layout: Layout, hosts: readonly Pick<PlannedHost, 'name'>[]): Promise<void> {
  const state = readState(layout)
  const cut = hosts.map(({ name }) => state.hosts[name]).filter(runs)
  for (const { pid } of cut) process.kill(pid, 'SIGKILL')
  while (cut.some(runs)) await new Promise((resolve) => setTimeout(resolve, 50))
  for (const { name } of hosts) await removeGroup(groupOf(layout, name))
}

/**
 * Ends the deployment and removes its folder, with hosts that the file no longer names.
 * @throws Error when no deployment runs in it
 */
export async function removeAll(layout: Layout): Promise<void> {
  if (!isOurs(layout)) throw new Error(`no deployment runs in ${layout.folder}`)
  const { hosts, made = [] } = readState(layout)
  await cutPower(
    layout,
    Object.keys(hosts).map((name) => ({ name })),
  )
  await endDelay(layout)
  removeNetwork([...netnsNames(layout), ...made])
  await removeGroup(groupOf(layout, ''))
  rmSync(layout.folder, { recursive: true, force: true, maxRetries: 5 })
  // `ip netns` mounts its list over itself.
  if (namespaces().length === 0 && spawnSync('umount', ['/run/netns'], { stdio: 'ignore' }).status === 0)
    rmSync('/run/netns', { recursive: true, force: true })
}

/** Groups below it first; a group that still ends its processes cannot be removed yet. */
async function removeGroup(group: string): Promise<void> {
  if (!existsSync(group)) return
  for (const entry of readdirSync(group, { withFileTypes: true }))
    if (entry.isDirectory()) await removeGroup(join(group, entry.name))
  const until = performance.now() + startMs
  for (;;) {
    try {
      rmdirSync(group)
      return
    } catch (error) {
      if (performance.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

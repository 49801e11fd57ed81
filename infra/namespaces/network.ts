/**
 * Networks of a deployment on one machine. Each host is a network namespace with the addresses of
 * the file. A namespace is the router of a region; `delay.ts` joins the routers. So packets between
 * hosts of a region take no time, and those between regions take as long as light in a fibre.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import type { RegionCode } from '@holdfast/kernel'
import { endOf } from '../servers/server.ts'
import type { DelayOptions } from './delay.ts'
import {
  allHosts,
  clientNetwork,
  clientOf,
  type Layout,
  netnsOf,
  type RunningProcess,
  runningOf,
} from './layout.ts'

/** The address of a router on each of its wires to hosts. */
const gateway = '169.254.1.1'
/** Larger packets are fewer, and each of them costs the delaying program as much. */
const packetBytes = '9000'
/** 170 km/ms: light in fibres that are not straight. */
const kilometresPerMs = 170
const earthKilometres = 6_371
const places: Record<RegionCode, [latitude: number, longitude: number]> = {
  'eu-par': [48.9, 2.4],
  'na-phx': [33.4, -112.1],
  'na-nyc': [40.7, -74],
  'ap-sgp': [1.4, 103.8],
  'ap-hkg': [22.3, 114.2],
  'ap-tyo': [35.7, 139.7],
  'ap-syd': [-33.9, 151.2],
  'sa-sao': [-23.6, -46.6],
}

/** One way, milliseconds. */
function delayBetween(from: RegionCode, to: RegionCode): number {
  const radians = (degrees: number) => (degrees * Math.PI) / 180
  const [[lat1, lon1], [lat2, lon2]] = [places[from].map(radians), places[to].map(radians)] as [
    [number, number],
    [number, number],
  ]
  const half = (angle: number) => Math.sin(angle / 2) ** 2
  const chord = half(lat2 - lat1) + Math.cos(lat1) * Math.cos(lat2) * half(lon2 - lon1)
  return Math.round((2 * earthKilometres * Math.asin(Math.sqrt(chord))) / kilometresPerMs)
}

/**
 * Router, wires and addresses of all regions. Those that are made stay: hosts may run behind them.
 * @param made is called with each network namespace that is ready
 */
export function makeNetwork(
  layout: Layout,
  { isMade, made }: { isMade: (netns: string) => boolean; made: (netns: string) => void },
): void {
  const make = (name: string, how: () => void) => {
    const netns = netnsOf(layout, name)
    if (isMade(netns)) return
    if (namespaces().includes(netns)) ip('netns', 'del', netns)
    ip('netns', 'add', netns)
    ip('-n', netns, 'link', 'set', 'lo', 'up')
    how()
    made(netns)
  }
  for (const [at, region] of layout.plan.regions.entries()) {
    const router = netnsOf(layout, region.code)
    make(region.code, () => ip('netns', 'exec', router, 'sysctl', '-qw', 'net.ipv4.ip_forward=1'))
    for (const { name, internal, address } of region.hosts) {
      const addresses = [internal, ...(address === undefined ? [] : [address])]
      make(name, () => makeWire(layout, { name, router, wire: wireOf(internal), addresses }))
    }
    const client = clientOf(region)
    const network = `${clientNetwork(at)}.0.0/16`
    make(client, () => {
      makeWire(layout, { name: client, router, wire: 'client', addresses: [`${clientNetwork(at)}.0.1`] })
      ip('-n', netnsOf(layout, client), 'route', 'add', 'local', network, 'dev', 'lo')
      ip('-n', router, 'route', 'add', network, 'dev', 'client')
    })
  }
}

/** Not by its place in the file: hosts that the file no longer names keep theirs. */
function wireOf(internal: string): string {
  return `host${internal
    .split('.')
    .map((part) => Number(part).toString(16).padStart(2, '0'))
    .join('')}`
}

function makeWire(
  layout: Layout,
  { name, router, wire, addresses }: { name: string; router: string; wire: string; addresses: string[] },
): void {
  const own = netnsOf(layout, name)
  const [source = ''] = addresses
  const [near, far] = [
    ['name', 'eth0', 'netns', own, 'mtu', packetBytes],
    ['name', wire, 'netns', router, 'mtu', packetBytes],
  ]
  ip('link', 'add', ...(near ?? []), 'type', 'veth', 'peer', ...(far ?? []))
  ip('-n', router, 'addr', 'add', `${gateway}/32`, 'dev', wire)
  ip('-n', router, 'link', 'set', wire, 'up')
  for (const address of addresses) {
    ip('-n', own, 'addr', 'add', `${address}/32`, 'dev', 'eth0')
    ip('-n', router, 'route', 'add', `${address}/32`, 'dev', wire)
  }
  ip('-n', own, 'link', 'set', 'eth0', 'up')
  ip('-n', own, 'route', 'add', 'default', 'via', gateway, 'dev', 'eth0', 'onlink', 'src', source)
}

/** Joins the routers. */
export async function startDelay(layout: Layout, launcher: string): Promise<RunningProcess> {
  const { folder, plan } = layout
  const digest = createHash('sha256').update(folder).digest('hex').slice(0, 8)
  const options: DelayOptions = {
    devices: plan.regions.map((_, at) => `hf${digest}-${at}`),
    prefixes: plan.regions.flatMap(({ hosts }, at): [string, number][] => [
      ...hosts.flatMap(({ internal, address }): [string, number][] => [
        [internal, at],
        ...(address === undefined ? [] : [[address, at] as [string, number]]),
      ]),
      [clientNetwork(at), at],
    ]),
    delays: plan.regions.map((from) => plan.regions.map((to) => delayBetween(from.code, to.code))),
  }
  const log = join(folder, 'delay.log')
  const child = spawn(launcher, [join(import.meta.dirname, 'delay.ts'), JSON.stringify(options)], {
    detached: true,
    stdio: ['ignore', 'pipe', openSync(log, 'a')],
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('exit', () => reject(new Error(`the network between regions did not start; ${endOf(log)}`)))
    child.once('error', reject)
  })
  child.removeAllListeners()
  child.stdout?.destroy()
  child.unref()
  for (const [at, { code }] of plan.regions.entries()) {
    const router = netnsOf(layout, code)
    ip('link', 'set', options.devices[at] ?? '', 'netns', router, 'name', 'regions', 'mtu', packetBytes, 'up')
    ip('-n', router, 'route', 'add', 'default', 'dev', 'regions')
  }
  return runningOf(child.pid ?? 0)
}

/** The namespaces of hosts, users and routers. */
export function netnsNames(layout: Layout): string[] {
  const { regions } = layout.plan
  return [
    ...allHosts(layout).map(({ name }) => name),
    ...regions.map(clientOf),
    ...regions.map(({ code }) => code),
  ].map((name) => netnsOf(layout, name))
}

/** Those of these names that there are. */
export function removeNetwork(names: readonly string[]): void {
  const known = new Set(namespaces())
  for (const name of new Set(names)) if (known.has(name)) ip('netns', 'del', name)
}

export function namespaces(): string[] {
  return ip('netns', 'list')
    .split('\n')
    .map((line) => line.split(' ')[0] ?? '')
    .filter((name) => name !== '')
}

function ip(...words: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('ip', words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${error?.message ?? stderr.trim()}`)
  return stdout
}

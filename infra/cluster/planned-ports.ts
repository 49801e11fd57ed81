/**
 * The ports of a plan. A chosen port is used, or the start is refused. The others are random, and
 * kept from start to start unless another program has taken them.
 */
import { addressFault, StartFault } from '@holdfast/bootstrap'
import { SettingsFault } from '@holdfast/config'
import type { Deployment } from '../regions/deployment.ts'
import { freePort, listening, whenClosed } from '../servers/ports.ts'
import type { Choices, ProcessRole } from './planned-processes.ts'
import { counts, listenAddressOf, natsPorts, portKey, portNames, processName } from './platform.ts'

type PublicPort = 'api' | 'upload' | 'download' | 'admin'

const defaults: Record<PublicPort, number> = { api: 8080, upload: 8081, download: 8082, admin: 8090 }
/** The next region's public ports are that much higher. */
const portStep = 100

/** The admin host that is printed for a region is that of its API frontend. */
const publicPorts: Partial<Record<ProcessRole, readonly PublicPort[]>> = {
  api: ['api', 'admin'],
  upload: ['upload', 'download'],
}

interface PortRequest {
  /** What listens there, the same from start to start. */
  key: string
  /** Addresses of all that listen on it. */
  hosts: string[]
  public: PublicPort | undefined
  /** Place of its region in the order; -1: of all regions. */
  region: number
}

interface ChosenPort {
  key: string
  name: PublicPort
  host: string
  port: number
}

/**
 * By their keys.
 * @throws SettingsFault naming all impossible choices; StartFault PORT_TAKEN naming all unavailable
 *   ports
 */
export async function plannedPorts({
  env,
  deployment,
  hosts,
  earlier = {},
}: {
  env: Record<string, string>
  deployment: Deployment
  /** Where processes listen. */
  hosts: { any: string; admin: string }
  earlier?: Choices['ports'] | undefined
}): Promise<Choices['ports']> {
  const wanted = wantedPorts(deployment, hosts)
  const chosen = chosenPorts(env, deployment, wanted)
  await refuseTaken(chosen)
  const ports = new Map(chosen.map(({ key, port }) => [key, port]))
  const used = new Set(ports.values())
  const take = (key: string, port: number) => {
    used.add(port)
    ports.set(key, port)
  }
  for (const { key, hosts } of wanted) {
    const port = earlier[key]
    if (!ports.has(key) && port !== undefined && !used.has(port) && (await isFree(hosts, port)))
      take(key, port)
  }
  for (const { key, hosts } of wanted) {
    if (ports.has(key)) continue
    let port = await freePort(hosts[0])
    while (used.has(port) || !(await isFree(hosts, port))) port = await freePort(hosts[0])
    take(key, port)
  }
  return Object.fromEntries(wanted.map(({ key }) => [key, ports.get(key) as number]))
}

function wantedPorts({ regions }: Deployment, hosts: { any: string; admin: string }): PortRequest[] {
  const ofProcesses = regions.flatMap(({ code, hosts: [host] }, region) =>
    (Object.keys(counts) as ProcessRole[]).flatMap((role) =>
      Array.from({ length: counts[role] }, (_, at) =>
        portNames[role].map((name): PortRequest => {
          const internal = name === 'control' || name === 'bytes'
          return {
            key: portKey(processName(code, role, at), name),
            hosts: [internal ? (host?.internal ?? '') : name === 'admin' ? hosts.admin : hosts.any],
            public: publicPorts[role]?.find((one) => one === name),
            region,
          }
        }),
      ).flat(),
    ),
  )
  const addresses = regions.flatMap(({ hosts }) => hosts.map(({ internal }) => internal))
  const ofServers = Object.values(natsPorts).map(
    (key): PortRequest => ({
      key,
      hosts: [...addresses, ...addresses.map(listenAddressOf)],
      public: undefined,
      region: -1,
    }),
  )
  return [...ofServers, ...ofProcesses]
}

/** Without those that are chosen at random: their setting is 0. */
function chosenPorts(
  env: Record<string, string>,
  { regions }: Deployment,
  wanted: readonly PortRequest[],
): ChosenPort[] {
  const faults: string[] = []
  const chosen: (ChosenPort & { region: string | undefined })[] = []
  for (const { key, hosts, public: name, region: at } of wanted) {
    if (name === undefined) continue
    const first = Number(env[settingOf(name)] || defaults[name])
    if (first === 0) continue
    const port = first + at * portStep
    const region = regions[at]?.code
    const other = chosen.find((one) => one.port === port)
    if (port > 65_535)
      faults.push(`${settingOf(name)} is ${first}, which gives ${region} ${port}, above 65535`)
    if (other !== undefined)
      faults.push(
        `${settingOf(name)} is ${first}, which gives ${region} ${port}, as ${settingOf(other.name)} does ${other.region}`,
      )
    chosen.push({ key, name, region, port, host: hosts[0] ?? '' })
  }
  if (faults.length > 0) throw new SettingsFault(faults)
  return chosen
}

async function refuseTaken(chosen: readonly ChosenPort[]): Promise<void> {
  const faults: StartFault[] = []
  for (const { name, host, port } of chosen) {
    try {
      await whenClosed(await listening({ host, port }))
    } catch (error) {
      const fault = addressFault(error, { name, host, port })
      if (fault === undefined) throw error
      faults.push(fault)
    }
  }
  if (faults.length > 0) throw new StartFault('PORT_TAKEN', faults.map(({ message }) => message).join('\n  '))
}

async function isFree(hosts: readonly string[], port: number): Promise<boolean> {
  for (const host of hosts) {
    try {
      await whenClosed(await listening({ host, port }))
    } catch {
      return false
    }
  }
  return true
}

function settingOf(name: PublicPort): string {
  return `HOLDFAST_${name.toUpperCase()}_PORT`
}

/**
 * The ports of a plan. A chosen port is used, or the start is refused. The others are random, and
 * kept from start to start unless another program has taken them.
 */
import { addressFault, StartFault } from '@holdfast/bootstrap'
import { SettingsFault } from '@holdfast/config'
import { closed, freePorts, listening } from '../servers/ports.ts'
import type { Plan, Role } from './planned-processes.ts'

export type PublicPort = 'api' | 'upload' | 'download' | 'admin'

const defaults: Record<PublicPort, number> = { api: 8080, upload: 8081, download: 8082, admin: 8090 }
/** The next region's public ports are that much higher. */
const portStep = 100
/** More than all processes listen on. */
const portCount = 64

interface Chosen {
  name: PublicPort
  region: string
  port: number
}

export interface PlannedPorts {
  public(name: PublicPort, region: string): number
  /** @param name what listens there, the same from start to start */
  drawn(name: string): number
}

/**
 * @throws SettingsFault naming all impossible choices; StartFault PORT_TAKEN naming all unavailable
 *   ports
 */
export async function plannedPorts({
  env,
  regions,
  hosts,
  earlier,
}: {
  env: Record<string, string>
  regions: readonly string[]
  /** Where they listen. */
  hosts: { any: string; admin: string }
  earlier: Plan | undefined
}): Promise<PlannedPorts> {
  const chosen = chosenPorts(env, regions)
  await refuseTaken(chosen, hosts)
  const used = new Set(chosen.map(({ port }) => port))
  const byName = new Map<string, number>()
  for (const [name, port] of earlier === undefined ? [] : drawnBefore(earlier)) {
    if (used.has(port) || !(await isFree({ host: hosts.any, port }))) continue
    used.add(port)
    byName.set(name, port)
  }
  const fresh = (await freePorts(portCount, hosts.any)).filter((port) => !used.has(port))
  const drawn = (name: string) => {
    const port = byName.get(name) ?? fresh.pop()
    if (port === undefined) throw new Error('too few ports were taken')
    return port
  }
  return {
    drawn,
    public: (name, region) =>
      chosen.find((one) => one.name === name && one.region === region)?.port ?? drawn(`${region} ${name}`),
  }
}

/** Without those that are chosen at random: their setting is 0. */
function chosenPorts(env: Record<string, string>, regions: readonly string[]): Chosen[] {
  const faults: string[] = []
  const chosen: Chosen[] = []
  for (const [at, region] of regions.entries())
    for (const name of Object.keys(defaults) as PublicPort[]) {
      const first = Number(env[settingOf(name)] || defaults[name])
      if (first === 0) continue
      const port = first + at * portStep
      const other = chosen.find((one) => one.port === port)
      if (port > 65_535)
        faults.push(`${settingOf(name)} is ${first}, which gives ${region} ${port}, above 65535`)
      if (other !== undefined)
        faults.push(
          `${settingOf(name)} is ${first}, which gives ${region} ${port}, as ${settingOf(other.name)} does ${other.region}`,
        )
      chosen.push({ name, region, port })
    }
  if (faults.length > 0) throw new SettingsFault(faults)
  return chosen
}

async function refuseTaken(chosen: readonly Chosen[], hosts: { any: string; admin: string }): Promise<void> {
  const faults: StartFault[] = []
  for (const { name, port } of chosen) {
    const address = { host: name === 'admin' ? hosts.admin : hosts.any, port }
    try {
      await closed(await listening(address))
    } catch (error) {
      const fault = addressFault(error, { name, ...address })
      if (fault === undefined) throw error
      faults.push(fault)
    }
  }
  if (faults.length > 0) throw new StartFault('PORT_TAKEN', faults.map(({ message }) => message).join('\n  '))
}

async function isFree(address: { host: string; port: number }): Promise<boolean> {
  try {
    await closed(await listening(address))
    return true
  } catch {
    return false
  }
}

/**
 * The ports of one process; the region's public ports are in the settings of all, and taken from
 * its API frontend's.
 */
const own: Partial<Record<Role, readonly string[]>> = {
  api: ['api', 'upload', 'download', 'admin'],
  upload: ['admin', 'control', 'bytes'],
  'storage-node': ['admin', 'download', 'control', 'bytes'],
  'actor-host': ['admin'],
}

/**
 * All ports of an earlier plan: it does not say which of them were chosen, and a current choice
 * wins anyway.
 */
function drawnBefore({ regions, processes }: Plan): [name: string, port: number][] {
  const ofRegions = regions.flatMap(({ code, natsPort, gatewayPort }): [string, number][] => [
    [`${code} nats`, natsPort],
    [`${code} gateway`, gatewayPort],
  ])
  const ofProcesses = processes.flatMap(({ name, role, region, settings }) =>
    (own[role] ?? []).map((what): [string, number] => [
      `${role === 'api' ? region : name} ${what}`,
      Number(settings[`HOLDFAST_${what.toUpperCase()}_PORT`]),
    ]),
  )
  return [...ofRegions, ...ofProcesses]
}

function settingOf(name: PublicPort): string {
  return `HOLDFAST_${name.toUpperCase()}_PORT`
}

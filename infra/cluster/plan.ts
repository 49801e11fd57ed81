/**
 * Names, addresses and environments of all processes of a cluster on this machine. Every start
 * derives them from the operator's settings and from random choices of an earlier start (ports,
 * addresses, secrets), which are in `<data dir>/plan.json`. The cluster is a deployment: its plan
 * and the configuration of its servers are made as those of machines (`infra/regions`).
 */
import { randomBytes } from 'node:crypto'
import { urlOf } from '@holdfast/bootstrap'
import { SettingsFault } from '@holdfast/config'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { planOf as deploymentPlanOf, type PlannedHost, type Plan as RegionsPlan } from '../regions/plan.ts'
import { cassandraRack, cassandraYaml } from '../regions/render/cassandra.ts'
import { natsConfig, natsPasswords, natsPasswordsText } from '../regions/render/nats.ts'
import { listening, whenClosed } from '../servers/ports.ts'
import { plannedPorts } from './planned-ports.ts'
import type { Choices, LocalPlan, LocalProcess, LocalRegion, ProcessRole } from './planned-processes.ts'
import { addressOf, deploymentOf, listenAddressOf, platformOf } from './platform.ts'

/** A cluster of n regions has the first n. The order is part of the data. */
export const regionOrder: readonly RegionCode[] = [
  ...new Set<RegionCode>(['eu-par', 'na-nyc', 'ap-sgp', ...regionCodes]),
]
const usualCount = 2

/**
 * @param env the operator's settings, each valid by itself; addresses and ports apply to the first
 *   region.
 * @param regions how many, at least those of the earlier plan; default: those, or two
 * @param earlier the previous plan, whose random choices stay
 * @throws SettingsFault, StartFault PORT_TAKEN
 */
export async function planOf(
  dataDir: string,
  env: Record<string, string>,
  { regions: wanted, earlier }: { regions?: number | undefined; earlier?: LocalPlan | undefined } = {},
): Promise<LocalPlan> {
  const codes = codesOf(wanted, earlier)
  const any = env.HOLDFAST_BIND || '127.0.0.1'
  const hosts = { any, admin: env.HOLDFAST_ADMIN_BIND || any }
  const network = earlier?.choices.network ?? (await freeNetwork(codes.length))
  const deployment = deploymentOf(codes, network)
  const draw = () => randomBytes(24).toString('base64url')
  const drawn = earlier?.choices.secrets ?? { cluster: draw(), nats: draw(), natsSystem: draw() }
  const choices: Choices = {
    network,
    secrets: { ...drawn, cluster: env.HOLDFAST_CLUSTER_SECRET || drawn.cluster },
    ports: await plannedPorts({ env, deployment, hosts, earlier: earlier?.choices.ports }),
  }
  const plan = deploymentPlanOf(deployment, platformOf({ dataDir, env, hosts, choices }))
  const inRegions = plan.regions.flatMap((region) =>
    region.hosts.map((host) => ({ host, files: filesOf(plan, region, host, choices) })),
  )
  return {
    version: 2,
    choices,
    regions: inRegions.map(({ host }) => regionOf(host)),
    processes: inRegions.flatMap(({ host, files }) => [
      serverOf(host, 'cassandra', files.cassandra),
      serverOf(host, 'nats', files.nats),
      ...host.processes.map((process): LocalProcess => {
        const { name, role, settings } = process
        return { name, role: role as ProcessRole, region: host.region, admin: adminOf(process), settings }
      }),
    ]),
  }
}

/** @throws SettingsFault: fewer than the data has. Regions can only be added. */
function codesOf(wanted: number | undefined, earlier: LocalPlan | undefined): readonly RegionCode[] {
  if (earlier === undefined) return regionOrder.slice(0, wanted ?? usualCount)
  const codes = earlier.regions.map(({ code }) => code as RegionCode)
  if (wanted !== undefined && wanted < codes.length)
    throw new SettingsFault([
      `--regions is ${wanted}, but the data directory has ${codes.length}, and none is taken away: leave --regions out, or name another HOLDFAST_DATA_DIR`,
    ])
  return [...codes, ...regionOrder.filter((code) => !codes.includes(code))].slice(0, wanted ?? codes.length)
}

function filesOf(
  plan: RegionsPlan,
  region: RegionsPlan['regions'][number],
  host: PlannedHost,
  { secrets }: Choices,
) {
  return {
    cassandra: {
      'cassandra.yaml': cassandraYaml(plan, host),
      'cassandra-rackdc.properties': cassandraRack(host),
    },
    nats: {
      'nats.conf': natsConfig(plan, region, host),
      [`secrets/${natsPasswords}`]: natsPasswordsText({ own: secrets.nats, system: secrets.natsSystem }),
    },
  }
}

function serverOf(
  { region }: PlannedHost,
  role: 'cassandra' | 'nats',
  files: Record<string, string>,
): LocalProcess {
  return { name: `${region}-${role}`, role, region, admin: null, settings: {}, files }
}

function regionOf({ region: code, internal, processes }: PlannedHost): LocalRegion {
  const api = processes.find(({ role }) => role === 'api')
  if (api === undefined) throw new Error(`${code} has no API frontend`)
  const { settings } = api
  return {
    code,
    address: internal,
    api: settings.HOLDFAST_PUBLIC_API_URL ?? '',
    upload: settings.HOLDFAST_PUBLIC_UPLOAD_URL ?? '',
    download: settings.HOLDFAST_PUBLIC_DOWNLOAD_URL ?? '',
    admin: adminOf(api),
  }
}

function adminOf({ settings }: { settings: Record<string, string> }): string {
  return urlOf(settings.HOLDFAST_ADMIN_BIND ?? '', Number(settings.HOLDFAST_ADMIN_PORT))
}

/** The third number of 127.0.x.y addresses with free Cassandra ports. */
async function freeNetwork(regions: number): Promise<number> {
  const first = 30 + (process.pid % 200)
  for (let step = 0; step < 200; step++) {
    const network = 30 + ((first + step - 30) % 200)
    const wanted = Array.from({ length: regions }, (_, at) => addressOf(network, at)).flatMap((host) => [
      { host, port: 7000 },
      { host: listenAddressOf(host), port: 7000 },
      { host, port: 9042 },
    ])
    const taken = await Promise.all(wanted.map((address) => listening(address).catch(() => undefined)))
    await Promise.all(taken.filter((server) => server !== undefined).map(whenClosed))
    if (taken.every((server) => server !== undefined)) return network
  }
  throw new Error('no addresses of 127.0.0.0/8 are free for Cassandra (ports 7000 and 9042)')
}

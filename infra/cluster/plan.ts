/**
 * Names, addresses and environments of all processes of a cluster on this machine. Every start
 * derives them from the operator's settings and from random choices of an earlier start (ports,
 * addresses, secrets), which are in `<data dir>/plan.json`.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { urlOf } from '@holdfast/bootstrap'
import { closed, listening } from '../servers/ports.ts'
import { plannedPorts } from './planned-ports.ts'
import type { Plan, PlannedProcess, PlannedRegion, Role } from './planned-processes.ts'
import type { Link } from './wan.ts'

export type { Plan, PlannedProcess, PlannedRegion, Role } from './planned-processes.ts'

const regionCodes = ['eu-par', 'na-nyc']
/** Of a kind in each region. */
const counts: [role: Role, short: string, count: number][] = [
  ['storage-node', 'storage', 2],
  ['actor-host', 'actor', 2],
  ['upload', 'upload', 1],
  ['api', 'api', 1],
]
/** Upload frontends are storage nodes too where HOLDFAST_UPLOAD_STORES says so. */
const mayStore: readonly Role[] = ['storage-node', 'upload']

/** Of the last start. @returns undefined before the first */
export function readPlan(dataDir: string): Plan | undefined {
  const path = pathIn(dataDir)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Plan) : undefined
}

/** Whole or absent; it contains secrets. */
export function writePlan(dataDir: string, plan: Plan): void {
  const path = pathIn(dataDir)
  rmSync(`${path}.new`, { force: true })
  writeFileSync(`${path}.new`, `${JSON.stringify(plan, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'plan.json')
}

/**
 * @param env the operator's settings, each valid by itself; addresses and ports apply to the first
 *   region.
 * @param earlier the previous plan, whose random choices stay
 * @throws SettingsFault, StartFault PORT_TAKEN
 */
export async function planOf(dataDir: string, env: Record<string, string>, earlier?: Plan): Promise<Plan> {
  const host = env.HOLDFAST_BIND || '127.0.0.1'
  const adminHost = env.HOLDFAST_ADMIN_BIND || host
  const ports = await plannedPorts({
    env,
    regions: regionCodes,
    hosts: { any: host, admin: adminHost },
    earlier,
  })
  const network = (earlier && networkOf(earlier)) ?? (await freeNetwork())
  const publicUrl = (name: 'API' | 'UPLOAD' | 'DOWNLOAD', at: number, port: number) =>
    (at === 0 && env[`HOLDFAST_PUBLIC_${name}_URL`]) || urlOf(host, port)
  const placed = regionCodes.map((code, at) => {
    const own = {
      api: ports.public('api', code),
      upload: ports.public('upload', code),
      download: ports.public('download', code),
      admin: ports.public('admin', code),
    }
    const region: PlannedRegion = {
      code,
      api: publicUrl('API', at, own.api),
      upload: publicUrl('UPLOAD', at, own.upload),
      download: publicUrl('DOWNLOAD', at, own.download),
      admin: urlOf(adminHost, own.admin),
      cassandra: `127.0.${network}.${at + 1}`,
      natsPort: ports.drawn(`${code} nats`),
      gatewayPort: ports.drawn(`${code} gateway`),
    }
    return { region, own }
  })
  const regions = placed.map(({ region }) => region)
  const nats = earlier?.nats ?? { user: 'holdfast', password: randomBytes(24).toString('base64url') }
  const drawnSecret = earlier?.processes.find(({ admin }) => admin !== null)?.settings.HOLDFAST_CLUSTER_SECRET
  const shared = {
    HOLDFAST_NATS_USER: nats.user,
    HOLDFAST_NATS_PASSWORD: nats.password,
    HOLDFAST_REGIONS: regionCodes.join(','),
    HOLDFAST_CASSANDRA: regions.map(({ code, cassandra }) => `${code}=${cassandra}:9042`).join(';'),
    HOLDFAST_CASSANDRA_REPLICAS: '1',
    HOLDFAST_CLUSTER_SECRET:
      env.HOLDFAST_CLUSTER_SECRET || drawnSecret || randomBytes(24).toString('base64url'),
  }
  const processes = placed.flatMap(({ region, own }): PlannedProcess[] => {
    const { code } = region
    const servers = (['cassandra', 'nats'] as const).map(
      (role): PlannedProcess => ({ name: `${code}-${role}`, role, region: code, admin: null, settings: {} }),
    )
    const ours = counts.flatMap(([role, short, count]) =>
      Array.from({ length: count }, (_, at): PlannedProcess => {
        const name = `${code}-${short}-${at + 1}`
        const draw = (what: string) => ports.drawn(`${name} ${what}`)
        const admin = role === 'api' ? own.admin : draw('admin')
        return {
          name,
          role,
          region: code,
          admin: urlOf(adminHost, admin),
          settings: {
            ...shared,
            HOLDFAST_NODE_NAME: name,
            HOLDFAST_REGION: code,
            HOLDFAST_NATS_SERVERS: `127.0.0.1:${region.natsPort}`,
            HOLDFAST_DATA_DIR: mayStore.includes(role) ? join(dataDir, name) : dataDir,
            HOLDFAST_API_PORT: String(own.api),
            HOLDFAST_UPLOAD_PORT: String(own.upload),
            HOLDFAST_DOWNLOAD_PORT: String(role === 'storage-node' ? draw('download') : own.download),
            HOLDFAST_ADMIN_PORT: String(admin),
            HOLDFAST_PUBLIC_API_URL: region.api,
            HOLDFAST_PUBLIC_UPLOAD_URL: region.upload,
            HOLDFAST_PUBLIC_DOWNLOAD_URL: region.download,
            HOLDFAST_PUBLIC_WEB_URL: env.HOLDFAST_PUBLIC_WEB_URL || region.api,
            ...(mayStore.includes(role)
              ? { HOLDFAST_CONTROL_PORT: String(draw('control')), HOLDFAST_BYTES_PORT: String(draw('bytes')) }
              : {}),
          },
        }
      }),
    )
    return [...servers, ...ours]
  })
  return { version: 1, nats, regions, processes }
}

/**
 * Cassandra listens here to peers; they find it at its own address, where the link to its region
 * listens.
 */
export function listenAddressOf({ cassandra }: Pick<PlannedRegion, 'cassandra'>): string {
  return cassandra.replace(/\d+$/, (last) => String(Number(last) + 100))
}

/** Every address that one region's processes may use in another region. */
export function linksOf({ regions, processes }: Plan): Link[] {
  return regions.flatMap((region) =>
    regions
      .filter(({ code }) => code !== region.code)
      .flatMap((other): Link[] => {
        const way = { from: other.code, to: region.code }
        const nodes = processes.filter(
          ({ settings, region: code }) =>
            settings.HOLDFAST_CONTROL_PORT !== undefined && code === region.code,
        )
        const ports = nodes.flatMap(({ settings }) => [
          settings.HOLDFAST_CONTROL_PORT,
          settings.HOLDFAST_BYTES_PORT,
          settings.HOLDFAST_DOWNLOAD_PORT,
        ])
        return [
          {
            ...way,
            listen: { host: region.cassandra, port: 7000 },
            target: { host: listenAddressOf(region), port: 7000 },
          },
          { ...way, target: { host: region.cassandra, port: 9042 } },
          { ...way, target: { host: '127.0.0.1', port: region.gatewayPort } },
          ...ports.map((port) => ({ ...way, target: { host: '127.0.0.1', port: Number(port) } })),
        ]
      }),
  )
}

function networkOf({ regions: [first] }: Plan): number | undefined {
  const third = first?.cassandra.split('.')[2]
  return third === undefined ? undefined : Number(third)
}

/** The third number of 127.0.x.y addresses with free Cassandra ports. */
async function freeNetwork(): Promise<number> {
  const first = 30 + (process.pid % 200)
  for (let step = 0; step < 200; step++) {
    const network = 30 + ((first + step - 30) % 200)
    const wanted = regionCodes.flatMap((_, at) =>
      [7000, 9042].map((port) => ({ host: `127.0.${network}.${at + 1}`, port })),
    )
    const taken = await Promise.all(wanted.map((address) => listening(address).catch(() => undefined)))
    await Promise.all(taken.filter((server) => server !== undefined).map(closed))
    if (taken.every((server) => server !== undefined)) return network
  }
  throw new Error('no addresses of 127.0.0.0/8 are free for Cassandra (ports 7000 and 9042)')
}

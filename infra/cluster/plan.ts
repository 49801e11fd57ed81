/**
 * What runs where: names, addresses and environments of all processes of a cluster on this machine. Made at the first start and kept
 * in `<data dir>/plan.json`, so that a later start, or a restart of one process, finds everything at its old place.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { closed, freePorts, listening } from '../servers/ports.ts'
import type { Link } from './wan.ts'

export type Role = 'cassandra' | 'nats' | 'actor-host' | 'storage-node' | 'upload' | 'api'

export interface PlannedProcess {
  name: string
  role: Role
  region: string
  /** Address of its admin host; null for servers of others. */
  admin: string | null
  /** Settings of ours. */
  settings: Record<string, string>
}

export interface PlannedRegion {
  code: string
  api: string
  upload: string
  download: string
  admin: string
  /** Cassandra's address and ports of NATS. */
  cassandra: string
  natsPort: number
  gatewayPort: number
}

export interface Plan {
  version: 1
  /** Of all nats-servers. Plans of before have none. */
  nats?: { user: string; password: string }
  regions: PlannedRegion[]
  processes: PlannedProcess[]
}

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
const publicPorts = { API: 8080, UPLOAD: 8081, DOWNLOAD: 8082, ADMIN: 8090 }
/** The next region's public ports are that much higher. */
const portStep = 100
/** More than all processes listen on. */
const portCount = 64

/** @param env settings that the operator gave; those that say where things are decide where the first region is. */
export async function planOf(dataDir: string, env: Record<string, string>): Promise<Plan> {
  const path = join(dataDir, 'plan.json')
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as Plan
  const plan = await newPlan(dataDir, env)
  writeFileSync(path, `${JSON.stringify(plan, null, 2)}\n`, { mode: 0o600 })
  return plan
}

async function newPlan(dataDir: string, env: Record<string, string>): Promise<Plan> {
  const host = env.HOLDFAST_BIND || '127.0.0.1'
  const network = await freeNetwork()
  const ports = await freePorts(portCount, host)
  const nextPort = () => {
    const port = ports.pop()
    if (port === undefined) throw new Error('too few ports were taken')
    return port
  }
  const publicPort = (name: keyof typeof publicPorts, at: number) => {
    const first = Number(env[`HOLDFAST_${name}_PORT`] || publicPorts[name])
    return first === 0 ? nextPort() : first + at * portStep
  }
  const url = (port: number) => `http://${host}:${port}`
  const placed = regionCodes.map((code, at) => {
    const own = {
      api: publicPort('API', at),
      upload: publicPort('UPLOAD', at),
      download: publicPort('DOWNLOAD', at),
      admin: publicPort('ADMIN', at),
    }
    const region: PlannedRegion = {
      code,
      api: (at === 0 && env.HOLDFAST_PUBLIC_API_URL) || url(own.api),
      upload: (at === 0 && env.HOLDFAST_PUBLIC_UPLOAD_URL) || url(own.upload),
      download: (at === 0 && env.HOLDFAST_PUBLIC_DOWNLOAD_URL) || url(own.download),
      admin: url(own.admin),
      cassandra: `127.0.${network}.${at + 1}`,
      natsPort: nextPort(),
      gatewayPort: nextPort(),
    }
    return { region, own }
  })
  const regions = placed.map(({ region }) => region)
  const nats = { user: 'holdfast', password: randomBytes(24).toString('base64url') }
  const shared = {
    HOLDFAST_NATS_USER: nats.user,
    HOLDFAST_NATS_PASSWORD: nats.password,
    HOLDFAST_REGIONS: regionCodes.join(','),
    HOLDFAST_CASSANDRA: regions.map(({ code, cassandra }) => `${code}=${cassandra}:9042`).join(';'),
    HOLDFAST_CASSANDRA_REPLICAS: '1',
    HOLDFAST_CLUSTER_SECRET: env.HOLDFAST_CLUSTER_SECRET || randomBytes(24).toString('base64url'),
  }
  const processes = placed.flatMap(({ region, own }): PlannedProcess[] => {
    const { code } = region
    const servers = (['cassandra', 'nats'] as const).map(
      (role): PlannedProcess => ({ name: `${code}-${role}`, role, region: code, admin: null, settings: {} }),
    )
    const ours = counts.flatMap(([role, short, count]) =>
      Array.from({ length: count }, (_, at): PlannedProcess => {
        const name = `${code}-${short}-${at + 1}`
        const admin = role === 'api' ? own.admin : nextPort()
        return {
          name,
          role,
          region: code,
          admin: url(admin),
          settings: {
            ...shared,
            HOLDFAST_NODE_NAME: name,
            HOLDFAST_REGION: code,
            HOLDFAST_NATS_SERVERS: `127.0.0.1:${region.natsPort}`,
            HOLDFAST_DATA_DIR: mayStore.includes(role) ? join(dataDir, name) : dataDir,
            HOLDFAST_API_PORT: String(own.api),
            HOLDFAST_UPLOAD_PORT: String(own.upload),
            HOLDFAST_DOWNLOAD_PORT: String(role === 'storage-node' ? nextPort() : own.download),
            HOLDFAST_ADMIN_PORT: String(admin),
            HOLDFAST_PUBLIC_API_URL: region.api,
            HOLDFAST_PUBLIC_UPLOAD_URL: region.upload,
            HOLDFAST_PUBLIC_DOWNLOAD_URL: region.download,
            HOLDFAST_PUBLIC_WEB_URL: env.HOLDFAST_PUBLIC_WEB_URL || region.api,
            ...(mayStore.includes(role)
              ? { HOLDFAST_CONTROL_PORT: String(nextPort()), HOLDFAST_BYTES_PORT: String(nextPort()) }
              : {}),
          },
        }
      }),
    )
    return [...servers, ...ours]
  })
  return { version: 1, nats, regions, processes }
}

/** Cassandra listens here to peers; they find it at its own address, which the link to its region has. */
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

/** The third number of 127.0.x.y addresses on which nobody has Cassandra's ports. */
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

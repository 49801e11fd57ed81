/**
 * Starts the measured processes and reads their cost from the kernel: CPU seconds and peak resident
 * memory of process trees.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from '../infra/servers/ports.ts'

const ticksPerSecond = 100
const repository = join(import.meta.dirname, '..')
/** What `npm start` and `npm run cluster` start with. */
const launcher = join(repository, 'infra/launch.sh')

/** CPU seconds of these processes and all their children. */
export function cpuSeconds(pids: readonly number[]): number {
  let ticks = 0
  for (const pid of withChildren(pids)) {
    const stat = readProc(pid, 'stat')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // Its own in user and kernel mode, then that of children that have ended.
    for (const field of fields.slice(11, 15)) ticks += Number(field)
  }
  return ticks / ticksPerSecond
}

/** CPU seconds that this machine has spent or was denied (steal), all cores together. */
export function machineCpuSeconds(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readFileSync(
    '/proc/stat',
    'latin1',
  )
    .slice(0, 200)
    .split(/\s+/, 9)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq + steal) / ticksPerSecond
}

/** MiB at the peak since `resetPeak`. */
export function peakMiB(pids: readonly number[]): number {
  let kib = 0
  for (const pid of withChildren(pids))
    kib += Number(/VmHWM:\s+(\d+)/.exec(readProc(pid, 'status'))?.[1] ?? 0)
  return kib / 1024
}

/** Bytes that these processes had written to the disk, by the kernel's count. */
export function writtenBytes(pids: readonly number[]): number {
  let bytes = 0
  for (const pid of withChildren(pids))
    bytes += Number(/^write_bytes: (\d+)/m.exec(readProc(pid, 'io'))?.[1] ?? 0)
  return bytes
}

export function resetPeak(pids: readonly number[]): void {
  for (const pid of withChildren(pids)) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      // Another user's process or another system: the peak is then since its start.
    }
  }
}

function withChildren(pids: readonly number[]): Set<number> {
  const all = new Set(pids)
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = readProc(Number(name), 'stat')
    parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  for (let grown = true; grown; ) {
    grown = false
    for (const [pid, parent] of parents)
      if (all.has(parent) && !all.has(pid)) {
        all.add(pid)
        grown = true
      }
  }
  return all
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}

export interface Service {
  api: URL
  upload: URL
  admin: URL
  pids: number[]
  /** Pids by kind of process, where there are several. */
  kinds?: Record<string, number[]>
  dataDirectory: string
  stop(): Promise<void>
  /** Stops it cleanly and starts it again on the same data; its pids change. */
  restart?(): Promise<void>
}

interface ClusterFile {
  regions: {
    api: string
    upload: string
    admin: string
    processes: { role: string; pid: number }[]
  }[]
}

/**
 * A cluster of two regions on fresh data; requests go to the first one, all processes of both are
 * counted.
 */
export async function startCluster(
  dataDirectory: string,
  env: Record<string, string> = {},
): Promise<Service> {
  const child = spawn(launcher, ['infra/cluster/main.ts'], {
    cwd: repository,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      HOLDFAST_API_PORT: '0',
      HOLDFAST_UPLOAD_PORT: '0',
      HOLDFAST_DOWNLOAD_PORT: '0',
      HOLDFAST_ADMIN_PORT: '0',
      HOLDFAST_DATA_DIR: dataDirectory,
      HOLDFAST_RATE_LIMITS: 'off',
      HOLDFAST_LOG_LEVEL: 'error',
      ...env,
    },
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('exit', (code) => reject(new Error(`the cluster ended with ${code} before it was ready`)))
  })
  const file = readFileSync(join(dataDirectory, 'cluster.json'), 'utf8')
  const { regions } = JSON.parse(file) as ClusterFile
  const [first] = regions
  if (first === undefined) throw new Error('the cluster has no region')
  const kinds: Record<string, number[]> = {}
  for (const { role, pid } of regions.flatMap(({ processes }) => processes))
    kinds[role] = [...(kinds[role] ?? []), pid]
  return {
    api: new URL(first.api),
    upload: new URL(first.upload),
    admin: new URL(first.admin),
    pids: [child.pid ?? 0],
    kinds,
    dataDirectory,
    stop: () => stop(child),
  }
}

/**
 * The embedded service in its own process, on fresh data; of another checkout by the command that
 * its `npm start` names.
 */
export async function startEmbedded(
  dataDirectory: string,
  env: Record<string, string> = {},
  checkout?: string,
): Promise<Service> {
  const cwd = checkout ?? repository
  const command = checkout === undefined ? `exec ${launcher} apps/standalone/src/main.ts` : startOf(checkout)
  const [api, upload, download, admin] = await freePorts(4)
  const start = () =>
    spawn('/bin/sh', ['-c', command], {
      cwd,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...process.env,
        PATH: `${join(cwd, 'node_modules/.bin')}:${process.env.PATH}`,
        HOLDFAST_API_PORT: String(api),
        HOLDFAST_UPLOAD_PORT: String(upload),
        HOLDFAST_DOWNLOAD_PORT: String(download),
        HOLDFAST_ADMIN_PORT: String(admin),
        HOLDFAST_DATA_DIR: dataDirectory,
        HOLDFAST_RATE_LIMITS: 'off',
        HOLDFAST_LOG_LEVEL: 'error',
        ...env,
      },
    })
  let child = start()
  const pids = [child.pid ?? 0]
  const service: Service = {
    api: new URL(`http://127.0.0.1:${api}`),
    upload: new URL(`http://127.0.0.1:${upload}`),
    admin: new URL(`http://127.0.0.1:${admin}`),
    pids,
    dataDirectory,
    // A comparison starts many: their data must not fill the disk.
    async stop() {
      await stop(child)
      rmSync(dataDirectory, { recursive: true, force: true })
    },
    async restart() {
      await stop(child)
      child = start()
      pids[0] = child.pid ?? 0
      await ready(service.admin, child)
    },
  }
  await ready(service.admin, child)
  return service
}

function startOf(checkout: string): string {
  const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    scripts: { start: string }
  }
  return scripts.start
}

async function ready(admin: URL, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    if (child.exitCode !== null)
      throw new Error(`the service ended with ${child.exitCode} before it was ready`)
    const answer = await fetch(new URL('/readyz', admin)).catch(() => undefined)
    if (answer?.ok) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the service was not ready within 30 s')
}

/** Stops it cleanly. */
export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
}

export interface Reference {
  http: URL
  fastify: URL
  pids: number[]
  stop(): Promise<void>
}

/** References lack our allocator settings, as in the baselines: they would move each ratio. */
export const plain = { ...process.env, GLIBC_TUNABLES: undefined }

export async function startReference(directory: string): Promise<Reference> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'reference.ts'), directory], {
    env: plain,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const line = await new Promise<string>((resolve) =>
    child.stdout?.once('data', (bytes) => resolve(String(bytes))),
  )
  const ports = JSON.parse(line) as { http: number; fastify: number }
  return {
    http: new URL(`http://127.0.0.1:${ports.http}`),
    fastify: new URL(`http://127.0.0.1:${ports.fastify}`),
    pids: [child.pid ?? 0],
    stop: () => stop(child),
  }
}

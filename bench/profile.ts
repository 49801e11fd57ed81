/**
 * Where the time of a profiled run was spent. V8's profiles name functions; here each sample counts
 * for the nearest Holdfast function above it, so that the work of Node and libraries counts for the
 * part that caused it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface CpuProfile {
  nodes: {
    id: number
    callFrame: { functionName: string; url: string; lineNumber: number }
    children?: number[]
  }[]
  samples: number[]
  /** Microseconds. */
  timeDeltas: number[]
}

/** Starting and compiling, at the beginning of a run. */
const warmUpMs = 5_000
/** For one process. Sampling many processes at this rate would take most of the machine's time. */
const sampleMicros = 250
const partsShown = 25
const functionsShown = 40

/** Node's arguments for profiles of all threads, written to this directory at the end. */
export function profiling(directory: string, { processes = 1 } = {}): string {
  return `--cpu-prof --cpu-prof-interval=${sampleMicros * processes} --cpu-prof-dir=${directory}`
}

/**
 * Shares of the busy time by part and by function, for the busiest thread; of each kind of process
 * where there are several.
 * @param kinds pids by kind
 */
export function whereTimeGoes(directory: string, kinds?: Record<string, number[]>): string {
  const names = readdirSync(directory).filter((name) => name.endsWith('.cpuprofile'))
  if (kinds === undefined) return busiestOf(directory, names)
  return Object.entries(kinds)
    .map(([kind, pids]) => [kind, names.filter((name) => pids.includes(pidOf(name)))] as const)
    .filter(([, own]) => own.length > 0)
    .map(([kind, own]) => `${kind}. ${busiestOf(directory, own)}`)
    .join('\n\n')
}

/** `CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile` */
function pidOf(name: string): number {
  return Number(name.split('.')[3])
}

function busiestOf(directory: string, names: readonly string[]): string {
  const profiles = names.map((name) =>
    sharesOf(JSON.parse(readFileSync(join(directory, name), 'utf8')) as CpuProfile),
  )
  const [busiest] = profiles.sort((a, b) => b.busyMs - a.busyMs)
  if (busiest === undefined) return `no profiles in ${directory}`
  const { busyMs, parts, functions } = busiest
  return [
    `The busiest of ${profiles.length} threads was busy for ${busyMs.toFixed(0)} ms:`,
    ...shown(parts, busyMs, partsShown),
    '',
    ...shown(functions, busyMs, functionsShown),
  ].join('\n')
}

function shown(times: Map<string, number>, busyMs: number, count: number): string[] {
  return [...times]
    .sort((a, b) => b[1] - a[1])
    .slice(0, count)
    .map(([name, ms]) => `${((100 * ms) / busyMs).toFixed(1).padStart(6)} %  ${name}`)
}

function sharesOf({ nodes, samples, timeDeltas }: CpuProfile) {
  const nodeById = new Map(nodes.map((node) => [node.id, node]))
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])))
  const ownerOf = (id: number): { part: string; name: string } => {
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const { functionName, url, lineNumber } = nodeById.get(at)?.callFrame ?? { functionName: '', url: '' }
      const file = /\/((?:libs|apps)\/[^/]+)\/(.*)|\/node_modules\/((?:@[^/]+\/)?[^/]+)\/(.*)/.exec(url)
      const part = file?.[1] ?? file?.[3]
      if (part !== undefined)
        return { part, name: `${part} ${file?.[2] ?? file?.[4]}:${(lineNumber ?? 0) + 1} ${functionName}` }
      if (/^\((?!root)/.test(functionName)) return { part: functionName, name: functionName }
    }
    return { part: 'node', name: 'node' }
  }
  const owners = new Map<number, { part: string; name: string }>()
  const parts = new Map<string, number>()
  const functions = new Map<string, number>()
  let busyMs = 0
  let atMs = 0
  for (const [n, sample] of samples.entries()) {
    const ms = (timeDeltas[n] ?? 0) / 1000
    atMs += ms
    const owner = owners.get(sample) ?? ownerOf(sample)
    owners.set(sample, owner)
    if (atMs < warmUpMs || owner.part === '(idle)') continue
    busyMs += ms
    parts.set(owner.part, (parts.get(owner.part) ?? 0) + ms)
    functions.set(owner.name, (functions.get(owner.name) ?? 0) + ms)
  }
  return { busyMs, parts, functions }
}

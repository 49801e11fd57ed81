/**
 * What a case is, and how cases run: in parallel, each from its own client address, independent of
 * each other.
 */
import { createServer } from 'node:net'
import { allRows, rowOf } from './coverage.ts'
import type { Instances } from './instances.ts'
import { type Hosts, World } from './world.ts'

/** A longer case has failed. The slowest takes 10 s on an idle machine, 66 s on a busy one. */
const caseTimeoutMs = 180_000

export interface Case {
  name: string
  /** Rows of the coverage table. */
  covers: string[]
  run: (world: World) => Promise<void>
}

type Define = (name: string, covers: string[], run: (world: World) => Promise<void>) => void

/**
 * The cases of one endpoint or theme. `covers` names rows of that endpoint; a row of another is
 * written `endpoint · row`.
 *
 * @throws when a row is not in the coverage table.
 */
export function cases(endpoint: string, define: (test: Define) => void): Case[] {
  const defined: Case[] = []
  define((name, covers, run) => {
    defined.push({ name: `${endpoint}: ${name}`, covers: covers.map((row) => rowOf(endpoint, row)), run })
  })
  return defined
}

export interface Result {
  case: Case
  error: unknown
  ms: number
}

/** Runs all cases and reports each as it ends. */
export async function runCases(
  all: readonly Case[],
  options: {
    hosts: Hosts
    instances: Instances
    /** First two numbers of this machine's addresses; undefined: of loopback where it can. */
    network: string | undefined
    /** Concurrent cases. They mostly wait. */
    parallel: number
    report: (result: Result) => void
  },
): Promise<Result[]> {
  const network = options.network ?? ((await loopbackAliases(options.hosts)) ? '127.77' : undefined)
  const results: Result[] = []
  let next = 0
  const worker = async () => {
    for (let number = next++; number < all.length; number = next++) {
      const from = network && `${network}.${number >> 8}.${number & 255 || 1}`
      const world = new World(options.hosts, options.instances, { from })
      const result = await runCase(all[number] as Case, world)
      results.push(result)
      options.report(result)
    }
  }
  await Promise.all(Array.from({ length: options.parallel }, worker))
  return results
}

async function runCase(tried: Case, world: World): Promise<Result> {
  const started = performance.now()
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done in ${caseTimeoutMs} ms`)), caseTimeoutMs)
  })
  try {
    await Promise.race([tried.run(world), timeout])
    return { case: tried, error: undefined, ms: performance.now() - started }
  } catch (error) {
    return { case: tried, error, ms: performance.now() - started }
  } finally {
    clearTimeout(timer)
  }
}

/** Rows without a passed case. */
export function emptyRows(results: readonly Result[]): string[] {
  const covered = new Set(
    results.filter((result) => result.error === undefined).flatMap((result) => result.case.covers),
  )
  return allRows().filter((row) => !covered.has(row))
}

/** Linux answers on all of 127.0.0.0/8: then every case can have its own client address. */
async function loopbackAliases(hosts: Hosts): Promise<boolean> {
  const all = [...hosts.api, ...hosts.upload, ...hosts.download]
  if (!all.every((url) => new URL(url).hostname === '127.0.0.1')) return false
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(0, '127.77.0.1', () => server.close(() => resolve(true)))
  })
}

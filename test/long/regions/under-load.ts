/** An operator's work while users of all regions make folders, upload and download. */
import type { DeployedRegions } from './deployed.ts'
import { seconds } from './drills.ts'
import { Load } from './load.ts'
import type { Repeats } from './load-program.ts'

/** Of work after it, so that new connections are made. */
const goOnMs = 20_000

export interface UnderLoad {
  /** Of a hundred requests. */
  failuresMax?: number
  /** Clients that follow the contract repeat with `refused`. */
  repeats?: Repeats
}

/**
 * @returns figures. @throws Error when more failed
 */
export async function underLoad(
  deployed: DeployedRegions,
  work: () => Promise<unknown>,
  { failuresMax = 0, repeats = 'refused' }: UnderLoad = {},
): Promise<string> {
  const loads = await Promise.all(deployed.regions.map(({ code }) => Load.start(deployed, code, { repeats })))
  let tookMs: number
  try {
    tookMs = await timed(work)
    await pause(goOnMs)
  } finally {
    await Promise.all(loads.map((load) => load.stop()))
  }
  const requests = await Promise.all(loads.map((load) => load.stop()))
  const all = (name: 'done' | 'failed' | 'repeated') => requests.reduce((sum, one) => sum + one[name], 0)
  const [done, failed] = [all('done'), all('failed')]
  const figures = `${seconds(tookMs)}; ${done} requests, ${all('repeated')} repeated, ${failed} failed`
  if (failed * 100 > (done + failed) * failuresMax)
    throw new Error(`${figures}: ${JSON.stringify(requests.map(({ faults }) => faults))}`)
  return figures
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export function lineOf(what: string, figures: string): string {
  return `  ${what.padEnd(22)} ${figures}`
}

/** Lines that are reported at once, and kept. */
export function keptLines(report: (line: string) => void): {
  lines: string[]
  printLine: (line: string) => void
} {
  const lines: string[] = []
  const printLine = (line: string) => {
    lines.push(line)
    report(line)
  }
  return { lines, printLine }
}

/** Users that work while an operator does something, and what they notice of it. */

import { sleep } from '../../acceptance/world.ts'
import { check } from '../../cluster/faults/checker.ts'
import { History } from '../../cluster/faults/history.ts'
import { type Kind, Load, type Wait } from '../../cluster/faults/load.ts'
import { arrive } from '../../cluster/faults/people.ts'
import type { ClusterRegion } from '../../cluster/local-cluster.ts'
import type { Office } from './office.ts'

const peopleEach = 3
/** A cluster that was just started answers slowly at first. */
const coldMs = 25_000
const warmMs = 3_000
/** Long enough for a 99th percentile. */
const usualMs = 25_000
const filesMax = 40

const kinds: readonly (readonly [name: string, kinds: readonly Kind[]])[] = [
  ['changes', ['change', 'upload']],
  ['reads', ['look', 'download']],
]

/**
 * Users born in these regions repeat their calls until they are answered. First they work
 * undisturbed, then during the work; then everything is read and compared.
 * @returns a line of figures. @throws Error when a call failed or something acknowledged was lost
 */
export async function underLoad(
  office: Office,
  {
    seed,
    regions = office.regions,
    insistForMs,
  }: {
    seed: number
    regions?: readonly ClusterRegion[]
    /** How long a call may take with its repetitions. Default: as in the faults. */
    insistForMs?: number
  },
  work: () => Promise<void>,
): Promise<string> {
  const people = await Promise.all(
    regions.flatMap((region) => Array.from({ length: peopleEach }, () => arrive(region))),
  )
  const history = new History()
  const load = new Load({
    ...{ people, regions, history, seed, insistent: true },
    ...(insistForMs === undefined ? {} : { insistForMs }),
  })
  await load.prepare()
  load.start()
  let beganMs = 0
  let endedMs = 0
  let usual = 0
  try {
    await sleep(office.isWarm ? warmMs : coldMs)
    office.isWarm = true
    usual = performance.now()
    await sleep(usualMs)
    beganMs = performance.now()
    await work()
    endedMs = performance.now()
  } finally {
    await load.stop()
  }
  await load.lookAtRest({ filesMax })
  const { operations, unknown, lost, stale, wrongBytes, other } = check(history)
  const broken = [...lost, ...stale, ...wrongBytes, ...other]
  const line = `${operations} requests, ${load.repeated} repeated, ${load.failed} failed, ${lost.length} lost; ${percentiles(load.waits, { usual, beganMs, endedMs })}`
  if (load.failed > 0 || unknown.happened + unknown.absent > 0 || broken.length > 0)
    throw new Error([line, ...broken.slice(0, 10)].join('\n'))
  return line
}

function percentiles(
  waits: readonly Wait[],
  { usual, beganMs, endedMs }: { usual: number; beganMs: number; endedMs: number },
): string {
  return kinds
    .map(([name, which]) => {
      const within = (from: number, to: number) =>
        waits
          .filter(({ kind, asked }) => which.includes(kind) && asked >= from && asked < to)
          .map(({ ms }) => ms)
          .sort((a, b) => a - b)
      const before = within(usual, beganMs)
      const during = within(beganMs, endedMs)
      const p99 = (sorted: readonly number[]) => Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0)
      return `p99 of ${name} ${p99(before)} ms without, ${p99(during)} ms with, longest ${Math.round(during.at(-1) ?? 0)} ms`
    })
    .join('; ')
}

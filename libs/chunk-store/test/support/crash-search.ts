/**
 * Crashes of random loads at random events, each state checked; and how soon that finds planted
 * faults.
 */
import { type History, makeHistory, type PromisedBlob, promisesAfter, violations } from './crash-history.ts'
import { CrashMachine, type DiskState, seeded } from './crash-machine.ts'
import type { PlantedFault } from './planted-faults.ts'

export interface CrashSearch {
  /** States opened and compared with what was promised by then. */
  tried: number
  /** The number of random loads. */
  histories: number
  /** The violation of the first broken state, and its position; the search ends there. */
  violations: string[]
}

const operations = 150
/**
 * Many, because a load costs as much as ten states; fewer where a fault shows only in some loads.
 */
const statesOfHistory = 100
const statesOfPlanted = 10
/**
 * Events after the start of a file was written: its sync, the next batches, the first records. Most
 * crashes are near the start, before the next batch.
 */
const aroundStart = 80

/** @param report called after each load */
export async function searchCrashStates(
  seed: number,
  states: number,
  report: (line: string) => void = () => {},
  fault?: PlantedFault,
): Promise<CrashSearch> {
  const histories = Math.max(2, Math.ceil(states / (fault === undefined ? statesOfHistory : statesOfPlanted)))
  let tried = 0
  let crashed: { base: DiskState; promises: PromisedBlob[] } | undefined
  for (let n = 0; n < histories; n++) {
    // Every other one begins with the state after a crash of the one before.
    const machine = (random: () => number, base?: DiskState) => {
      const made = new CrashMachine(random, base)
      fault?.machine?.(made)
      return made
    }
    const history: History = await makeHistory(seed + n, operations, { ...crashed, machine })
    if (history.misread.length > 0)
      return {
        tried,
        histories: n + 1,
        violations: [`seed ${seed + n}, while the load ran`, ...history.misread.slice(0, 5)],
      }
    const random = seeded(seed * 7 + n)
    for (let k = 0; k < states / histories; k++) {
      const event = eventFor(k, history.machine, random)
      const mood = [0, 0.5, 0.9, 1][k % 4] as number
      const logRots = k % 5 === 3
      const state = history.machine.crashAt(event, random, mood, { logRots })
      const lost = k % 5 === 4 // the catalogue's directory as well
      if (lost) state.rows.clear()
      const leftovers = (lost || logRots) && crashed !== undefined
      const options = { deletionsHold: true, ghosts: logRots, withoutCatalogue: lost, leftovers, random }
      const broken = await violations(state, history.promises, event, options)
      tried++
      if (broken.length > 0) {
        const where = `seed ${seed + n}, event ${event}, mood ${mood}, catalogue ${lost ? 'lost' : logRots ? 'of an earlier moment' : 'kept'}`
        return { tried, histories: n + 1, violations: [where, ...broken.slice(0, 5)] }
      }
    }
    report(`${tried} states of ${n + 1} loads`)
    const event = Math.floor(history.machine.events * (0.5 + random() / 2))
    const base = history.machine.crashAt(event, random, 0.5)
    crashed = n % 2 === 0 ? { base, promises: promisesAfter(history, event) } : undefined
  }
  return { tried, histories, violations: [] }
}

/** Anywhere, and each third time while an extent is freed or begun. */
function eventFor(k: number, { events, starts }: CrashMachine, random: () => number): number {
  const start = k % 3 === 2 ? starts[Math.floor(random() * starts.length)] : undefined
  return start === undefined
    ? Math.floor(random() * events) + 1
    : Math.min(events, start + Math.floor(random() ** 3 * aroundStart))
}

/**
 * @returns after how many states the fault is found, 0: while the first load ran; undefined: not
 *   within its limit.
 */
export async function statesUntilFound(seed: number, fault: PlantedFault): Promise<number | undefined> {
  const unplant = fault.plant?.()
  try {
    const { tried, violations } = await searchCrashStates(seed, fault.foundWithin, undefined, fault)
    return violations.length > 0 ? tried : undefined
  } finally {
    unplant?.()
  }
}

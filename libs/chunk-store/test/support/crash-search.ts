/** Crashes of random loads at random events, each state looked into; and how soon that finds a store that lies about its syncs. */
import { type History, makeHistory, type Promised, promisesAfter, violations } from './crash-history.ts'
import { type DiskState, seeded } from './crash-machine.ts'

export interface CrashSearch {
  /** States opened and compared with what was promised by then. */
  tried: number
  /** Random loads that they were taken from. */
  histories: number
  /** What the first broken state breaks, and where it is; the search ends there. */
  violations: string[]
}

const operations = 150
const statesOfHistory = 100

/** @param report told after each load */
export async function searchCrashStates(
  seed: number,
  states: number,
  report: (line: string) => void = () => {},
): Promise<CrashSearch> {
  const histories = Math.max(2, Math.ceil(states / statesOfHistory))
  let tried = 0
  let crashed: { base: DiskState; promises: Promised[] } | undefined
  for (let n = 0; n < histories; n++) {
    // Every other one begins with what a crash of the one before has left.
    const history: History = await makeHistory(seed + n, operations, crashed)
    const random = seeded(seed * 7 + n)
    for (let k = 0; k < states / histories; k++) {
      const event = Math.floor(random() * history.machine.events) + 1
      const mood = [0, 0.5, 0.9, 1][k % 4] as number
      const logRots = k % 5 === 3
      const state = history.machine.crashAt(event, random, mood, { logRots })
      const lost = k % 5 === 4 // the catalogue's directory as well
      if (lost) state.rows.clear()
      const options = { deletionsHold: true, ghosts: logRots, random }
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

/** @returns after how many states it is found that the store acknowledges before the sync; undefined: not within `most`. */
export async function statesUntilLieIsFound(seed: number, most: number): Promise<number | undefined> {
  const history = await makeHistory(seed, 40, { liesAboutSync: true })
  const random = seeded(seed)
  for (let tried = 1; tried <= most; tried++) {
    const event = Math.floor(random() * history.machine.events) + 1
    const state = history.machine.crashAt(event, random, 0.3)
    const broken = await violations(state, history.promises, event, { deletionsHold: true, random })
    if (broken.some((what) => what.startsWith('acknowledged at'))) return tried
  }
  return undefined
}

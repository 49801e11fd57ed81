import type { Kind } from './load.ts'
import type { Person } from './people.ts'
import type { Stage } from './stage.ts'

/** A fault of the cluster while users work on it. */
export interface Fault {
  name: string
  /** The users that the fault may affect; it must not affect others. */
  touches: (person: Person, stage: Stage) => boolean
  /** The kinds of calls that must work again; default: all. */
  kinds?: readonly Kind[]
  /**
   * Whether the cluster recovers by itself, or when it is repaired: recovery counts from then on.
   */
  recovers: 'itself' | 'repaired'
  /** Users of their own region are not affected; users of the other one must recover. */
  touchesAbroad?: boolean
  /** Clients send every change twice, at once, by two frontends. */
  doubled?: boolean
  /** Also in the daily tests, on the cluster of the acceptance suite. */
  daily?: boolean
  /** Left to the long form: the short one has a similar one. */
  longOnly?: boolean
  /** Why this machine cannot do it; undefined: it can. */
  impossible?: (stage: Stage) => string | undefined
  run: (stage: Stage) => Promise<void>
  /** Conditions that must become true without further requests. */
  atRest?: (stage: Stage) => Promise<void>
}

/** Where faults happen, and the other one. */
export const home = 'eu-par'
export const other = 'na-nyc'

export function livesIn(region: string): (person: Person) => boolean {
  return (person) => person.region === region
}

export function noAccount(): boolean {
  return false
}

import type { Kind } from './load.ts'
import type { Person } from './people.ts'
import type { Stage } from './stage.ts'

/** What is done to the cluster while people work on it. */
export interface Fault {
  name: string
  /** Who may notice; everybody else must not. */
  touches: (person: Person, stage: Stage) => boolean
  /** What must work again; everything unless told. */
  kinds?: readonly Kind[]
  /**
   * Whether the cluster gets over it by itself, or when it is repaired: from then on recovery
   * counts.
   */
  recovers: 'itself' | 'repaired'
  /** Nobody is touched who asks in his own region; who asks in the other one has to recover. */
  touchesAbroad?: boolean
  /** Clients send every change twice, at once, by two frontends. */
  doubled?: boolean
  /** Also in the daily tests, on the cluster of the acceptance suite. */
  daily?: boolean
  /** Left to the long form: the short one has its like. */
  longOnly?: boolean
  /** Why this machine cannot do it; undefined: it can. */
  impossible?: (stage: Stage) => string | undefined
  run: (stage: Stage) => Promise<void>
  /** What comes true once nobody asks any more. */
  atRest?: (stage: Stage) => Promise<void>
}

/** Where things break, and the other one. */
export const home = 'eu-par'
export const other = 'na-nyc'

export function livesIn(region: string): (person: Person) => boolean {
  return (person) => person.region === region
}

export function nobody(): boolean {
  return false
}

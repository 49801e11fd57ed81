/**
 * What an attack is: a name, what it prepares, what it sends, and what must hold besides the common
 * limits.
 */
import type { Account, World } from '../../acceptance/world.ts'
import type { Standalone } from '../../support/standalone.ts'
import type { Hostile } from './hostile.ts'

export interface Attack {
  /** Words that `--attack` chooses by; unique. */
  name: string
  /** Makes what the attack needs before anything is measured. */
  prepare?: (stage: Stage) => Promise<Prepared>
  /** Sends until `signal` aborts. Runs in a process of its own, whose connections end with it. */
  run: (hostile: Hostile) => Promise<void>
  /** Further things that must hold, each fault a sentence. */
  judge?: (facts: Facts) => string[] | Promise<string[]>
  /** Part of the short form, which `npm test` runs. */
  short?: boolean
  /** Longer or shorter than the others, seconds. */
  seconds?: number
  /**
   * What the sink cannot stand in for: the attack is no traffic. Then there is no reference, and
   * what the users wait for meanwhile is told but not judged, as it is not a stranger who did it.
   */
  byOperator?: boolean
  /** Needs a network namespace, where any IPv6 address is the machine's own. */
  manyIpv6?: boolean
}

/** Everything here goes to the generator's process as JSON. */
export interface Prepared {
  tokens?: string[]
  ids?: string[]
  paths?: string[]
  /** Folders with passwords of their own that the ordinary users open during all phases. */
  visits?: Visit[]
}

export interface Visit {
  id: string
  /** As readers send it: SHA-256, hex. */
  password: string
}

export interface Stage {
  service: Standalone
  /** People who call from this address, and wait when a budget is spent. */
  world: (from: string) => World
  /** Accounts of the three ordinary users. */
  users: readonly Account[]
}

export interface Facts {
  service: Standalone
  seconds: number
  /** What the attack counted by name, and answers by their status code. */
  tally: Readonly<Record<string, number>>
}

export const listeners = ['api', 'upload', 'download', 'admin'] as const
export type Listener = (typeof listeners)[number]

export interface Target {
  ports: Record<Listener, number>
  /** Of the service; undefined when the target is the sink. */
  pid: number | undefined
}

/**
 * An attack: a name, its preparation, its requests, and what must hold besides the common limits.
 */
import type { Account, World } from '../../acceptance/world.ts'
import type { Standalone } from '../../support/standalone.ts'
import type { HostileClient } from './hostile.ts'

export interface Attack {
  /** Words that `--attack` selects by; unique. */
  name: string
  /** Makes what the attack needs before anything is measured. */
  prepare?: (stage: Stage) => Promise<AttackInput>
  /** Sends until `signal` aborts. Runs in a separate process, whose connections end with it. */
  run: (hostile: HostileClient) => Promise<void>
  /** Further things that must hold, each fault a sentence. */
  judge?: (details: AttackRun) => string[] | Promise<string[]>
  /** Part of the short form, which `npm test` runs. */
  short?: boolean
  /** Longer or shorter than the others, seconds. */
  seconds?: number
  /**
   * The sink cannot replace it: the attack is no traffic. Then there is no reference, and the
   * users' waits are reported but not judged, because the attack is not a stranger's.
   */
  byOperator?: boolean
  /** Needs a network namespace, where any IPv6 address belongs to the machine. */
  manyIpv6?: boolean
}

/** Everything here is sent to the generator's process as JSON. */
export interface AttackInput {
  tokens?: string[]
  ids?: string[]
  paths?: string[]
  /** Folders with separate passwords that the ordinary users open during all phases. */
  visits?: Visit[]
}

export interface Visit {
  id: string
  /** As readers send it: SHA-256, hex. */
  password: string
}

export interface Stage {
  service: Standalone
  /** Users of this address, which wait when a budget is spent. */
  world: (from: string) => World
  /** Accounts of the three ordinary users. */
  users: readonly Account[]
}

export interface AttackRun {
  service: Standalone
  seconds: number
  /** What the attack counted by name, and answers by their status code. */
  tally: Readonly<Record<string, number>>
}

export const listeners = ['api', 'upload', 'download', 'admin'] as const
export type Listener = (typeof listeners)[number]

export interface Target {
  ports: Record<Listener, number>
  /** The service's process; undefined when the target is the sink. */
  pid: number | undefined
}

/** What all accounts of a host share. */
import type { AccountStates } from '@holdfast/content-tree'
import type { JournalStore, LookupStore } from '@holdfast/journal'
import type { Clock, Randomness, Tracer } from '@holdfast/kernel'
import type { Blob } from '@holdfast/wire'
import type { Refusals } from './account/requests/refusals.ts'
import type { RuntimeBounds } from './bounds.ts'
import type { ActiveSegments } from './lookups/active-segments.ts'
import type { CodeLeases } from './lookups/code-leases.ts'
import type { WakeHours } from './lookups/wake-hours.ts'
import type { HostMetrics, RuntimeLog } from './observer.ts'
import type { Arrivals } from './queues/arrivals.ts'
import type { PasswordChecks } from './queues/password-checks.ts'
import type { Semaphore } from './queues/semaphore.ts'
import type { LoopTimers } from './timers.ts'

export interface SignInMailer {
  /**
   * Takes a sign-in mail; resolves when it is accepted. Called again with the same id after an
   * unknown outcome.
   *
   * @throws a Fault of category `invalid`: it will never be accepted, the effect ends; anything
   *   else is retried.
   */
  send(mail: {
    id: string
    accountId: string
    email: string
    tokenKeyId: number
    tokenCounter: number
  }): Promise<void>
}

/** A copy that an account no longer refers to. */
export interface ReleasedBlob {
  blob: Pick<Blob, 'id' | 'incarnation'>
  account: string
}

/**
 * Accounts whose rows are kept together: in a cluster those born in one region. A home is one
 * part of a key.
 */
export interface Homes {
  of(account: string): string
  /** Those whose accounts are served here now. */
  served(): readonly string[]
}

/** What reads an account and answers questions about it. */
export type ReadingServices = Pick<
  Services,
  'states' | 'clock' | 'timers' | 'randomness' | 'bounds' | 'passwords'
>

export interface Services {
  readonly hostId: string
  readonly journal: JournalStore
  readonly lookups: LookupStore
  readonly states: AccountStates
  readonly clock: Clock
  readonly timers: LoopTimers
  readonly randomness: Randomness
  readonly bounds: RuntimeBounds
  readonly log: RuntimeLog
  readonly metrics: HostMetrics
  /** Undefined: no request is traced. */
  readonly tracer: Tracer | undefined
  readonly homes: Homes
  readonly activeSegments: ActiveSegments
  readonly wakeHours: WakeHours
  readonly codes: CodeLeases
  readonly passwords: PasswordChecks
  readonly refusals: Refusals
  readonly mailer: SignInMailer
  readonly mailSemaphore: Semaphore
  readonly arrivals: Arrivals
  /**
   * Asks the host that holds the account to release it, if it probably still has it in memory. Best
   * effort: resolves in every case.
   */
  readonly askRelease: (account: string, holder: string) => Promise<void>
  /** The reference row of a blob was removed: the collector may check it. */
  readonly onBlobReleased: (released: ReleasedBlob) => void
  /** When the account has something due next, Unix seconds. */
  readonly onDue: (account: string, due: number | undefined) => void
}

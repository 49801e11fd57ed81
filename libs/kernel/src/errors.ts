/** What a fault requires of its catcher. A timeout is `unknown`, never an absence. */
export type FaultCategory =
  | 'not-found'
  | 'unavailable'
  | 'corrupt'
  | 'fenced'
  | 'unknown'
  | 'cancelled'
  | 'full'
  | 'invalid'

/** Base of all faults. Compare `code`, not `instanceof`, for anything that crossed a process. */
export abstract class Fault extends Error {
  abstract readonly code: string
  abstract readonly category: FaultCategory
}

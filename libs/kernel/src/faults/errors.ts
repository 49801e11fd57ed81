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

/** A fault whose code decides its category. */
export abstract class CodedFault<Code extends string> extends Fault {
  readonly code: Code
  readonly category: FaultCategory

  constructor(code: Code, message: string, options: ErrorOptions & { category: FaultCategory }) {
    const { category, ...causes } = options
    super(message, causes)
    this.code = code
    this.category = category
  }
}

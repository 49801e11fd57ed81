import { Fault } from '@holdfast/kernel'

/**
 * No answer from an account: the request may or may not have taken effect; a repeat with the same
 * request id has one effect.
 */
export class AccountsUnavailable extends Fault {
  override readonly name = 'AccountsUnavailable'
  readonly code = 'ACCOUNTS_UNAVAILABLE'
  readonly category = 'unavailable'
  /**
   * The account's mailbox was full and nothing was decided: shed load (429), do not retry at once.
   */
  readonly overloaded: boolean

  constructor(message: string, options: ErrorOptions & { overloaded?: boolean } = {}) {
    super(message, options)
    this.overloaded = options.overloaded ?? false
  }
}

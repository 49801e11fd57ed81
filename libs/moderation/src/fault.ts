/** Why an operator's act was not done; nothing was changed. */
export class ModerationFault extends Error {
  override readonly name = 'ModerationFault'
  readonly code: 'FULL' | 'NOT_FOUND' | 'TOO_LATE' | 'FINAL'

  /** `FULL`: the list has no room. `TOO_LATE`, `FINAL`: the act cannot be undone. */
  constructor(code: ModerationFault['code'], message: string) {
    super(message)
    this.code = code
  }
}

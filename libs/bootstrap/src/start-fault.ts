/** Why the service does not start, in terms that an operator can act on. */
export class StartFault extends Error {
  override readonly name = 'StartFault'
  readonly code:
    | 'PORT_TAKEN'
    | 'DATA_FORMAT'
    | 'DATA_LOCKED'
    | 'DATA_MISSING'
    | 'DATA_UNUSABLE'
    | 'SERVER_AWAY'
    | 'TOO_FEW_DESCRIPTORS'

  constructor(code: StartFault['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** As in sysexits.h, so that a supervisor knows what a restart may cure. */
export const exitCodes = {
  /** EX_DATAERR */
  DATA_FORMAT: 65,
  /** EX_NOINPUT */
  DATA_MISSING: 66,
  /** EX_UNAVAILABLE */
  PORT_TAKEN: 69,
  /** EX_UNAVAILABLE: a restart succeeds when the server is available again. */
  SERVER_AWAY: 69,
  /** EX_TEMPFAIL */
  DATA_LOCKED: 75,
  /** EX_SOFTWARE: a part of the running process failed, and works again after a restart. */
  PART_FAILED: 70,
  /** EX_CANTCREAT */
  DATA_UNUSABLE: 73,
  /** EX_OSERR */
  TOO_FEW_DESCRIPTORS: 71,
  /** EX_CONFIG */
  SETTINGS: 78,
} as const

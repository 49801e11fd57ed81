/**
 * `UNUSABLE`: the directory, the key file or the snapshot is not what was asked for. `DAMAGED`: an
 * object is missing or is not what was written.
 */
export class BackupFault extends Error {
  override readonly name = 'BackupFault'
  readonly code: 'UNUSABLE' | 'DAMAGED'

  constructor(code: BackupFault['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

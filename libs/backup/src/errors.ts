/**
 * `UNUSABLE`: the directory, the key file or the snapshot is a wrong one, or cannot be read or
 * written now. `DAMAGED`: an object is missing, or its bytes differ from those that were written.
 */
export class BackupFault extends Error {
  override readonly name = 'BackupFault'
  readonly code: 'UNUSABLE' | 'DAMAGED'

  constructor(code: BackupFault['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

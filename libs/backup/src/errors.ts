/**
 * `UNUSABLE`: the directory, the key file or the snapshot is not what was asked for, or cannot be
 * read or written now. `DAMAGED`: an object is missing or is not what was written.
 */
export class BackupFault extends Error {
  override readonly name = 'BackupFault'
  readonly code: 'UNUSABLE' | 'DAMAGED'

  constructor(code: BackupFault['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

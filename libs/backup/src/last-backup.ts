/**
 * When the last backup was taken, as a row: it outlives the process, so that an alert on its age
 * holds after a restart too.
 */

/** Rows of one machine, or those that all processes of a region share. */
export interface LastBackupRows {
  get(key: string): Promise<Uint8Array | undefined>
  write(changes: readonly { put: string; value: Uint8Array }[]): Promise<void>
}

/** → Unix ms, as text. */
export const lastBackupKey = 'backup/last'

export class LastBackup {
  readonly #rows: LastBackupRows
  readonly #onFault: (error: unknown) => void
  #takenMs: number | undefined

  /** @param options.onFault the row cannot be read or written: only the alert depends on it. */
  constructor({ rows, onFault }: { rows: LastBackupRows; onFault: (error: unknown) => void }) {
    this.#rows = rows
    this.#onFault = onFault
  }

  /** The newest that is known, Unix ms; undefined: none, or not read yet. */
  get takenMs(): number | undefined {
    return this.#takenMs
  }

  /** Reads the row, which other processes write as well. Never rejects. */
  async read(): Promise<void> {
    try {
      const row = await this.#rows.get(lastBackupKey)
      const readMs = Number(Buffer.from(row ?? []).toString())
      if (readMs > (this.#takenMs ?? 0)) this.#takenMs = readMs
    } catch (error) {
      this.#onFault(error)
    }
  }

  /** Never rejects: the backup is complete without the row. */
  async note(takenMs: number): Promise<void> {
    this.#takenMs = takenMs
    try {
      await this.#rows.write([{ put: lastBackupKey, value: Buffer.from(String(takenMs)) }])
    } catch (error) {
      this.#onFault(error)
    }
  }
}

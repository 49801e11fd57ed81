/**
 * The passwords of folders. An inherited one is shared; it is dropped when no folder has it any
 * more.
 */
import type { PasswordVerifier } from '@holdfast/wire'

export class PasswordTable {
  #rows: ({ verifier: PasswordVerifier; key: string; uses: number } | undefined)[] = []
  #free: number[] = []
  readonly #byKey = new Map<string, number>()

  get bytes(): number {
    return this.#rows.length * 300
  }

  get count(): number {
    return this.#byKey.size
  }

  /** The row of this password, counting one use more. */
  use(verifier: PasswordVerifier): number {
    const key = `${verifier.salt.toString('hex')}:${verifier.hash.toString('hex')}:${verifier.cost}`
    let row = this.#byKey.get(key)
    if (row === undefined) {
      row = this.#free.pop() ?? this.#rows.length
      this.#rows[row] = { verifier, key, uses: 0 }
      this.#byKey.set(key, row)
    }
    this.#at(row).uses++
    return row
  }

  unuse(row: number): void {
    const entry = this.#at(row)
    if (--entry.uses > 0) return
    this.#byKey.delete(entry.key)
    this.#rows[row] = undefined
    this.#free.push(row)
  }

  verifier(row: number): PasswordVerifier {
    return this.#at(row).verifier
  }

  #at(row: number): { verifier: PasswordVerifier; key: string; uses: number } {
    const entry = this.#rows[row]
    if (entry === undefined) throw new Error(`no password in row ${row}`)
    return entry
  }
}

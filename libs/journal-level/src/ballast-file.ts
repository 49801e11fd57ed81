/**
 * Reserved disk space, released when another program fills the disk to the last byte: reopening
 * LevelDB writes its log into tables, and a deletion is a write before it frees anything.
 */
import { open, rm } from 'node:fs/promises'

const stepBytes = 1024 * 1024

export class BallastFile {
  readonly #path: string
  readonly #bytes: number
  #held = false
  /** One operation after the other. */
  #busy = Promise.resolve(false)

  /** @param bytes a multiple of 1 MiB; 0: none. */
  constructor(path: string, bytes: number) {
    this.#path = path
    this.#bytes = bytes
  }

  /** @returns whether it is held now. Never fails. */
  take(): Promise<boolean> {
    this.#busy = this.#busy.then(async () => {
      if (this.#held || this.#bytes === 0) return true
      this.#held = await this.#fill().then(
        () => true,
        () => false,
      )
      if (!this.#held) await this.#remove()
      return this.#held
    })
    return this.#busy
  }

  /** Releases the space. Never fails. */
  async release(): Promise<void> {
    this.#busy = this.#busy.then(async () => {
      this.#held = false
      await this.#remove()
      return false
    })
    await this.#busy
  }

  async #remove(): Promise<void> {
    await rm(this.#path, { force: true }).catch(() => {})
  }

  async #fill(): Promise<void> {
    await using file = await open(this.#path, 'a')
    const { size } = await file.stat()
    const zeros = Buffer.alloc(stepBytes)
    for (let at = size; at < this.#bytes; at += stepBytes) await file.appendFile(zeros)
    await file.sync()
  }
}

import { giveBack } from '@holdfast/blob-store'

/**
 * The memory that a socket has read into, given back by hand once the HTTP parser is done with it.
 * That may be done as the parser copies what it hands on, which Node promises nowhere. So the
 * chunks are kept until the first piece comes out of the parser: only where that has memory of its
 * own is any chunk given back, and else all of them are left to the collector.
 */
export class SocketMemory {
  /**
   * Read, and not known to be copied. As many as the response takes before its first piece is read.
   */
  #kept: Uint8Array[] = []
  #parserCopies: boolean | undefined

  /** After the parser has seen it. */
  read(chunk: Uint8Array): void {
    if (this.#parserCopies === undefined) this.#kept.push(chunk)
    else if (this.#parserCopies) giveBack(chunk)
  }

  /** A piece that came out of the parser. */
  handedOn(piece: Uint8Array): void {
    if (this.#parserCopies !== undefined) return
    this.#parserCopies = this.#kept.every(({ buffer }) => buffer !== piece.buffer)
    const kept = this.#kept
    this.#kept = []
    if (this.#parserCopies) for (const chunk of kept) giveBack(chunk)
  }
}

import { releaseBuffer } from '@holdfast/blob-store'

/**
 * Releases by hand the memory that a socket has read into, once the HTTP parser has processed it.
 * This is safe because the parser copies what it passes on, which Node documents nowhere. So the
 * chunks are kept until the first piece comes out of the parser: chunks are released only if that
 * piece has its own memory; otherwise the collector frees them.
 */
export class SocketMemory {
  /**
   * Chunks that the socket has read, while it is unknown whether the parser copies them. Their
   * number is bounded by what arrives before the first piece of the response is read.
   */
  #kept: Uint8Array[] = []
  #parserCopies: boolean | undefined

  /** After the parser has processed it. */
  read(chunk: Uint8Array): void {
    if (this.#parserCopies === undefined) this.#kept.push(chunk)
    else if (this.#parserCopies) releaseBuffer(chunk)
  }

  /** A piece that came out of the parser. */
  handedOn(piece: Uint8Array): void {
    if (this.#parserCopies !== undefined) return
    this.#parserCopies = this.#kept.every(({ buffer }) => buffer !== piece.buffer)
    const kept = this.#kept
    this.#kept = []
    if (this.#parserCopies) for (const chunk of kept) releaseBuffer(chunk)
  }
}

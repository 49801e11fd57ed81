/**
 * Releases the memory of stream pieces by hand. With garbage collection alone, every 64 MiB of
 * pieces cost a collection of the whole heap: more CPU, on all cores, than all other work on the
 * bytes.
 */

/**
 * Smallest piece that owns its memory; shorter ones cost the collector little, and may be in a
 * pool.
 */
const ownMemoryBytesMin = 4 * 1024

/** The piece is empty afterwards for every holder. Does nothing where it shares its memory. */
export function releaseBuffer(piece: Uint8Array): void {
  if (piece.length >= ownMemoryBytesMin && piece.length === piece.buffer.byteLength)
    (piece.buffer as ArrayBuffer).transfer(0)
}

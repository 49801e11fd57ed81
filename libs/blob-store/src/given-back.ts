/**
 * Memory of pieces of a stream, given back by hand. Left to the collector, every 64 MiB of pieces
 * cost a collection of the whole heap: more CPU, on all cores, than anything that is done with the
 * bytes.
 */

/**
 * Pieces that have this memory to themselves; shorter ones cost the collector little, and may lie
 * in a pool.
 */
const ownMemoryBytesMin = 4 * 1024

/**
 * The piece is empty then, for whoever looks at it still. Does nothing where it shares its memory.
 */
export function giveBack(piece: Uint8Array): void {
  if (piece.length >= ownMemoryBytesMin && piece.length === piece.buffer.byteLength)
    (piece.buffer as ArrayBuffer).transfer(0)
}

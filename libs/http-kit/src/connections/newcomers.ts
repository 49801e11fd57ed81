/**
 * Inspects the first bytes of a connection before Node's parser gets them: it parses one read at
 * once, and with very many lines that takes 25 ms.
 */
import type { Socket } from 'node:net'

/** With no more lines a read cannot hold more requests than a connection may send ahead. */
const fewLines = 128
/**
 * A read with more lines is parsed in pieces of this size, until all is parsed or the socket is
 * destroyed.
 */
const pieceBytes = 2 * 1024

/** Heads and small bodies are shorter and not inspected. */
const plainBytes = 8 * 1024
/** A full read with more lines has less than 64 bytes a line on average. */
const linesMax = 1_024
const lineFeed = 10

/**
 * Waits for the first bytes of a paused socket. The socket is paused again when they are reported,
 * and no longer holds them. A socket that sends nothing in time, ends or fails before is destroyed,
 * and nothing is reported.
 */
export function awaitFirstBytes(
  socket: Socket,
  { timeoutMs }: { timeoutMs: number },
  onFirst: (bytes: Buffer) => void,
): void {
  const drop = () => void socket.destroy()
  const first = (bytes: Buffer) => {
    socket.setTimeout(0)
    socket.off('timeout', drop).off('end', drop)
    socket.pause()
    onFirst(bytes)
  }
  socket.setTimeout(timeoutMs)
  socket.once('timeout', drop).once('end', drop).once('data', first)
  socket.resume()
}

/**
 * Gives a socket's listeners its first bytes in pieces, until one of them ends or destroys it. They
 * are not put back as pieces: after a pause between two of them, later reads would overtake the
 * rest.
 */
export function emitInPieces(socket: Socket, bytes: Buffer): void {
  for (let at = 0; at < bytes.length && socket.writable; at += pieceBytes)
    socket.emit('data', bytes.subarray(at, at + pieceBytes))
}

/** May these be more requests than a connection may send ahead? */
export function mayBeManyRequests(bytes: Buffer): boolean {
  return bytes.length > pieceBytes && hasMoreLines(bytes, fewLines)
}

/** Are these enough lines to make parsing slow? */
export function hasManyLines(bytes: Buffer): boolean {
  return bytes.length > plainBytes && hasMoreLines(bytes, linesMax)
}

function hasMoreLines(bytes: Buffer, than: number): boolean {
  let lines = 0
  for (let at = bytes.indexOf(lineFeed); at !== -1; at = bytes.indexOf(lineFeed, at + 1))
    if (++lines > than) return true
  return false
}

/**
 * Inspects the first bytes of a connection before Node's parser gets them: it parses one read at
 * once, and with very many lines that takes 25 ms.
 */
import type { Socket } from 'node:net'

/** More requests than a connection may send ahead have more lines. */
const fewLines = 128
/** Of a read with more lines. A pause of the socket ends the parsing between two pieces. */
const pieceBytes = 2 * 1024

/** Heads and small bodies are shorter and not inspected. */
const plainBytes = 8 * 1024
/** On average less than 64 bytes a line, where a read is full. */
const linesMax = 1_024
const lineFeed = 10

/**
 * Waits for the first bytes of a paused socket. The socket is paused again when they are reported,
 * and holds them: its reader gets them first, in pieces when they are many lines. A socket that
 * sends nothing in time, ends or fails before is destroyed, and nothing is reported.
 */
export function awaitFirstBytes(
  socket: Socket,
  { timeoutMs }: { timeoutMs: number },
  told: (bytes: Buffer) => void,
): void {
  const drop = () => void socket.destroy()
  const first = (bytes: Buffer) => {
    socket.setTimeout(0)
    socket.off('timeout', drop).off('end', drop)
    socket.pause()
    putBack(socket, bytes)
    told(bytes)
  }
  socket.setTimeout(timeoutMs)
  socket.once('timeout', drop).once('end', drop).once('data', first)
  socket.resume()
}

function putBack(socket: Socket, bytes: Buffer): void {
  const size = mayBeManyRequests(bytes) ? pieceBytes : bytes.length
  for (let end = bytes.length; end > 0; end = Math.floor((end - 1) / size) * size)
    socket.unshift(bytes.subarray(Math.floor((end - 1) / size) * size, end))
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

/**
 * The first bytes of a connection, seen before Node's parser gets them: it parses what one read
 * brought in one go, and with very many lines that takes 25 ms.
 */
import type { Socket } from 'node:net'

/** Heads and small bodies are shorter and not looked at. */
const plainBytes = 8 * 1024
/** On average less than 64 bytes a line, where a read is full. */
const linesMax = 1_024
const lineFeed = 10

/**
 * Waits for the first bytes of a paused socket. The socket is paused again when they are told, and
 * holds them: they are the first that its reader gets. A socket that sends nothing in time, ends or
 * fails before is destroyed, and nothing is told.
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
    socket.unshift(bytes)
    told(bytes)
  }
  socket.setTimeout(timeoutMs)
  socket.once('timeout', drop).once('end', drop).once('data', first)
  socket.resume()
}

/** Are these so many lines that parsing them takes long? */
export function hasManyLines(bytes: Buffer): boolean {
  if (bytes.length <= plainBytes) return false
  let lines = 0
  for (let at = bytes.indexOf(lineFeed); at !== -1; at = bytes.indexOf(lineFeed, at + 1))
    if (++lines > linesMax) return true
  return false
}

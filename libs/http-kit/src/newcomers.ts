/**
 * Inspects the first bytes of a connection before Node's parser gets them: it parses one read at
 * once, and with very many lines that takes 25 ms.
 */
import type { Socket } from 'node:net'

/** Heads and small bodies are shorter and not inspected. */
const plainBytes = 8 * 1024
/** On average less than 64 bytes a line, where a read is full. */
const linesMax = 1_024
const lineFeed = 10

/**
 * Waits for the first bytes of a paused socket. The socket is paused again when they are reported,
 * and holds them: its reader gets them first. A socket that sends nothing in time, ends or fails
 * before is destroyed, and nothing is reported.
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

/** Are these enough lines to make parsing slow? */
export function hasManyLines(bytes: Buffer): boolean {
  if (bytes.length <= plainBytes) return false
  let lines = 0
  for (let at = bytes.indexOf(lineFeed); at !== -1; at = bytes.indexOf(lineFeed, at + 1))
    if (++lines > linesMax) return true
  return false
}

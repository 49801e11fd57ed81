/**
 * A body that goes from the page cache to the socket directly: the store attaches verified pages to
 * the socket below Node, so Node must have no pending output. The head with the first bytes, and
 * the rest, are written like any body, at the pace of the client. Bytes that the page cache no
 * longer has are read from the disk.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { BlobSender, WholeBytes } from '@holdfast/blob-store'
import { type AnswerShare, notePassed } from '@holdfast/http-kit'
import type { ByteRange } from './ranges.ts'
import {
  type DownloadPace,
  pieceBytes,
  ResponseBody,
  SlowReader,
  slowestDownloadPace,
} from './response-body.ts'

export interface DirectBytes {
  range: ByteRange
  /** The first verified bytes of the range. */
  first: WholeBytes
  sender: BlobSender
  read(range: ByteRange, signal: AbortSignal): AsyncIterable<Uint8Array>
}

/**
 * Writes the body and ends the response; resolves then, or when the client is gone.
 * @param onBytes called with the number of bytes that the socket accepted.
 * @param share of the bytes under way. The caller closes it.
 * @throws that the reader was too slow, or what the store threw: the connection is cut.
 */
export async function sendDirect(
  response: ServerResponse,
  { range: { start, end }, first, sender, read }: DirectBytes,
  onBytes: (count: number) => void,
  share: AnswerShare,
  pace: DownloadPace = slowestDownloadPace,
): Promise<void> {
  let position = start
  let tooSlow = false
  const slow = new SlowReader(pace, () => {
    tooSlow = true
    response.destroy()
  })
  const count = (bytes: number) => {
    position += bytes
    onBytes(bytes)
  }
  const write = async (piece: WholeBytes) => {
    share.keep(piece.bytes.length)
    slow.expect(piece.bytes.length)
    if (await isTaken(response, piece.bytes)) count(piece.bytes.length)
    piece.release()
  }
  const pass = () => {
    const socket = idleSocketOf(response)
    return socket === undefined ? undefined : sender.send({ start: position, end }, socket)
  }
  try {
    await write(first)
    while (position < end) {
      const room = share.take(Math.min(end - position, pieceBytes))
      if (room !== undefined) await room
      // A socket accepts megabytes at once; those of a hundred readers that begin together are
      // many.
      const sent = await share.make(pass)
      if (sent === undefined) break
      slow.expect(sent.count)
      count(sent.count)
      notePassed(response.socket, sent.count)
      if (sent.rest !== undefined) await write(sent.rest)
    }
    slow.stop()
    if (tooSlow) throw new Error('the reader is too slow')
    if (response.destroyed) return
    if (position === end) response.end()
    else {
      const rest = { start: position, end }
      await new ResponseBody((signal) => read(rest, signal), onBytes, pace).sendTo(response, share)
    }
  } catch (error) {
    response.destroy()
    throw error
  } finally {
    slow.stop()
    sender.release()
  }
}

/** False when the client is gone. */
function isTaken(response: ServerResponse, bytes: Uint8Array): Promise<boolean> {
  return new Promise((resolve) => {
    const gone = () => resolve(false)
    if (response.destroyed) gone()
    response.once('close', gone)
    response.write(bytes, (error) => {
      response.off('close', gone)
      resolve(!error)
    })
  })
}

/**
 * The descriptor of a plain socket without pending output. Node has no public name for it, but has
 * had it for years.
 */
function idleSocketOf(response: ServerResponse): number | undefined {
  const socket = response.socket as (Socket & { _handle?: { fd?: number } | null }) | null
  if (socket === null || socket.destroyed || 'encrypted' in socket) return undefined
  if (response.writableLength > 0 || socket.writableLength > 0) return undefined
  const descriptor = socket._handle?.fd
  return descriptor !== undefined && descriptor >= 0 ? descriptor : undefined
}

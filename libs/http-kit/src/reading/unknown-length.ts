/**
 * A request whose body has no announced length: only such a body can come in many pieces of one
 * read. It is read in turns, see `SmallPiecesLane`, on every host and whether a handler reads it or
 * not.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { RefusalError } from '@holdfast/kernel'
import { type PiecewiseRequest, takePieces } from './piecewise-request.ts'
import type { LaneBody, PiecesLane } from './small-pieces-lane.ts'

const paused = Symbol('paused')
type PausedSocket = Socket & { [paused]?: true }

export function isOfUnknownLength({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined
}

/** Nothing is read of it until `resumeReading`, even when a reader resumes the socket. */
export function pauseReading(socket: PausedSocket): void {
  if (socket[paused] === undefined) socket.on('resume', stayPaused)
  socket[paused] = true
  stop(socket)
  // Its stream may have a read scheduled, which starts the handle again: before the next poll.
  setImmediate(() => {
    if (isReadingPaused(socket)) stop(socket)
  })
}

/**
 * Node's parser reads the handle by itself, and stops at the event `pause`. A socket that is
 * already paused does not emit it, although its handle may still be read in two cases: the socket
 * waits for its first bytes, or an earlier `resume` takes effect after the pause.
 */
function stop(socket: Socket): void {
  if (socket.isPaused()) socket.emit('pause')
  else socket.pause()
}

function resumeReading(socket: PausedSocket): void {
  delete socket[paused]
  socket.off('resume', stayPaused)
  if (!socket.destroyed) socket.resume()
}

export function isReadingPaused(socket: PausedSocket): boolean {
  return socket[paused] === true
}

function stayPaused(this: Socket): void {
  stop(this)
}

export interface UnknownLengthDeps {
  lane: PiecesLane
  /** The client's network, as far as it is known. */
  network: string
  /** Its first bytes are being parsed, in their turn. */
  isBeingParsed: boolean
  /** Lets the request begin. */
  handle: (request: PiecewiseRequest, response: ServerResponse) => void
  /** Answers the connection and closes it. */
  refuse: () => void
}

/** Lets the request begin when its body may be read, and reads that in turns to its end. */
export function readInTurns(response: ServerResponse, deps: UnknownLengthDeps): void {
  const { lane, network, handle, refuse } = deps
  const request = response.req as PiecewiseRequest
  const { socket } = request
  let isBegun = false
  let hasLeft = false
  const begin = () => {
    isBegun = true
    handle(request, response)
    // Node drops the unread rest of a request, and its pieces would not be counted.
    request.read(0)
  }
  const readOn = () => {
    // When the body has ended, the socket belongs to another request.
    if (socket.destroyed || (hasLeft && isBegun)) return false
    if (!hasLeft) resumeReading(socket)
    if (!isBegun) begin()
    return true
  }
  const refuseIt = (refusal: RefusalError) => {
    if (hasLeft && isBegun) return
    if (isBegun && request.waitedTooLong !== undefined) request.waitedTooLong(refusal)
    else refuse()
  }
  let body: LaneBody | undefined
  request.foundSmallPieces = (sinceMs) => {
    pauseReading(socket)
    // The rest of what was read is parsed before.
    setImmediate(() => body?.took(performance.now() - sinceMs))
  }
  const leave = () => {
    socket.off('close', leave)
    // A read of small pieces may have been its last.
    setImmediate(() => {
      hasLeft = true
      body?.leave()
      resumeReading(socket)
    })
  }
  request.arrivedWhole = leave
  socket.once('close', leave)
  response.once('close', () => {
    if (!request.complete) dropRest(request)
  })
  if (deps.isBeingParsed) begin()
  body = lane.beginBody(network, { readOn, pause: () => pauseReading(socket), refuse: refuseIt })
}

/** What comes is counted and not kept. */
function dropRest(request: PiecewiseRequest): void {
  takePieces(request, () => true)
  request.resume()
}

/**
 * Answers that are written as JSON when they are sent, in pieces if they are large.
 *
 * Up to 1 MiB, which is more than a page of 1,000 plain files, an answer is one buffer that fastify
 * sends. A larger one is sent in slices: the code makes and writes one slice and waits until the
 * socket has accepted it. So a reader that does not read keeps one slice in memory. Bytes made and
 * not yet read draw on the process' `AnswerBudget`; room is taken before anything is made.
 *
 * Both are made in pieces, and before each piece the answer queues (`Turns`). So all answers
 * together block the loop for a few milliseconds, and the answer of a network that asks rarely
 * waits for one or two pieces of others.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { logFailure } from '../host.ts'
import { JsonWriter } from '../items/json-writer.ts'
import { clientAddress, networkOf } from '../rate-limits/addresses.ts'
import type { AnswerBudget, AnswerShare } from './answer-budget.ts'
import { takeOver } from './headers.ts'
import { refusalOf } from './refusals.ts'

/** Sent as one buffer: one and a half times a page of 1,000 plain files. */
const wholeBytesMax = 1024 * 1024
/** The size of a slice of larger answers. */
const sliceBytes = 256 * 1024
/** Made without a pause: a fraction of a millisecond. */
const pieceBytes = 64 * 1024
/** Smaller answers are made at once: that takes no longer than the rest of their request. */
const onceBytesMax = 16 * 1024
/** Smaller answers are not counted: sockets accept as much at once. */
const freeBytesMax = 64 * 1024
const contentType = 'application/json; charset=utf-8'

/** The result of an operation instead of an object. */
export class WrittenAnswer {
  /** Approximate bytes. */
  readonly bytes: number
  readonly write: (json: JsonWriter) => Generator<void, void>

  constructor({ bytes, write }: { bytes: number; write: (json: JsonWriter) => Generator<void, void> }) {
    this.bytes = bytes
    this.write = write
  }
}

/**
 * The body of a successful answer whose `data` is written as JSON.
 *
 * @param data.bytes approximate size
 * @param data.write yields when the writer is full
 */
export function okWritten(
  { bytes, write }: { bytes: number; write: (json: JsonWriter) => Generator<void, void> },
  metadata?: unknown,
): WrittenAnswer {
  return new WrittenAnswer({ bytes, write: (json) => writeOk(json, { bytes, write, metadata }) })
}

/**
 * At the top level: for each generator function that is made while the program runs V8 makes a map
 * in its old space. The map keeps the function, and so the whole answer, until a full collection.
 */
function* writeOk(
  json: JsonWriter,
  { bytes, write, metadata }: Pick<WrittenAnswer, 'bytes' | 'write'> & { metadata: unknown },
): Generator<void, void> {
  json.expect(bytes)
  json.text('{"status":"ok","data":')
  yield* write(json)
  json.text(metadata === undefined ? '}' : `,"metadata":${JSON.stringify(metadata)}}`)
}

/** Writes an object of values that are made one by one. */
export function* writeMembers<T>(
  json: JsonWriter,
  members: Iterable<T>,
  memberOf: (member: T) => readonly [name: string, value: object],
): Generator<void, void> {
  const seen = new Set<string>()
  json.text('{')
  for (const member of members) {
    const [name, value] = memberOf(member)
    // As in an object, a name occurs once.
    if (seen.has(name)) continue
    if (seen.size > 0) json.comma()
    seen.add(name)
    json.text(`${JSON.stringify(name)}:${JSON.stringify(value)}`)
    if (json.full) yield
  }
  json.text('}')
}

export interface SendContext {
  answer: WrittenAnswer
  budget: AnswerBudget
  /** Called for each slice beyond what one answer usually takes. */
  charge: () => void
}

/** @returns the handler's result for fastify. */
export async function sendWritten(
  request: FastifyRequest,
  reply: FastifyReply,
  { answer, budget, charge }: SendContext,
): Promise<Buffer | FastifyReply> {
  const json = new JsonWriter(wholeBytesMax, pieceBytes)
  const steps = answer.write(json)
  if (answer.bytes <= onceBytesMax && steps.next().done === true) return whole(reply, json.done())
  const share = shareOf(request, reply, budget)
  const room = answer.bytes <= freeBytesMax ? undefined : share.take(Math.min(answer.bytes, wholeBytesMax))
  if (room !== undefined) await room
  const slices = { steps, json, charge, share }
  if (!(await madeSlice(reply.raw, slices))) return await sendSlices(request, reply, slices)
  const bytes = json.done()
  if (bytes.length > freeBytesMax) share.keep(bytes.length)
  return whole(reply, bytes)
}

/** Makes the answer up to the end of its slice. @returns whether that was the last one */
async function madeSlice(
  response: ServerResponse,
  { steps, json, share }: Pick<Slices, 'steps' | 'json' | 'share'>,
): Promise<boolean> {
  const piece = () => response.destroyed || steps.next().done === true
  // Answers of a network are made one after the other: half-made ones would fill the memory.
  for (let isBegun = false; !(await share.make(piece, isBegun)); isBegun = true) {
    if (json.isSlice) return false
    json.goOn()
  }
  return true
}

function whole(reply: FastifyReply, bytes: Buffer): Buffer {
  reply.type(contentType)
  return bytes
}

/** The answer's part of the budget. It ends with the response, in any way. */
export function shareOf(request: FastifyRequest, reply: FastifyReply, budget: AnswerBudget): AnswerShare {
  const response = reply.raw
  const share = budget.open(networkOf(clientAddress(request)), () => response.destroy())
  const close = () => share.close()
  response.once('finish', close)
  response.once('close', close)
  return share
}

interface Slices {
  steps: Generator<void, void>
  json: JsonWriter
  share: AnswerShare
  charge: () => void
}

/** An answer that waits for its reader holds one slice. */
async function sendSlices(
  request: FastifyRequest,
  reply: FastifyReply,
  slices: Slices,
): Promise<FastifyReply> {
  const response = takeOver(request, reply, {
    code: 200,
    headers: { 'content-type': contentType },
  })
  try {
    await writeSlices(response, slices)
    response.end()
  } catch (error) {
    // The head is sent: the client sees an answer that does not end.
    if (!response.destroyed) logFailure(error, request, refusalOf(error))
    response.destroy()
  }
  return reply
}

async function writeSlices(response: ServerResponse, { steps, json, share, charge }: Slices): Promise<void> {
  for (let done = false; !response.destroyed; ) {
    const piece = json.slice(sliceBytes)
    share.keep(piece.length)
    if (!response.write(piece)) await whenDrained(response)
    if (done || response.destroyed) return
    const room = share.take(sliceBytes)
    if (room !== undefined) await room
    charge()
    done = await madeSlice(response, { steps, json, share })
  }
}

/** Resolves when the socket has accepted what was written, or is closed. */
async function whenDrained(response: ServerResponse): Promise<void> {
  const ended = new AbortController()
  const end = () => ended.abort()
  response.once('close', end)
  try {
    await once(response, 'drain', { signal: ended.signal })
  } catch (error) {
    if (!ended.signal.aborted) throw error
  } finally {
    response.off('close', end)
  }
}

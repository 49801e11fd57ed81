/**
 * Answers GET and HEAD for something that has a size, an ETag and bytes: conditions, ranges, and
 * the pump.
 */
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { WholeBytes } from '@holdfast/blob-store'
import {
  type AnswerBudget,
  type AnswerShare,
  clientAddress,
  networkOf,
  RefusalError,
  takeOver,
} from '@holdfast/http-kit'
import { forClientRequest } from '@holdfast/kernel'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { evaluate, rangeHolds } from './conditions.ts'
import { type DirectBytes, sendDirect } from './direct-body.ts'
import { type ByteRange, parseRanges } from './ranges.ts'
import { pieceBytes, ResponseBody, sendWhole, slowestDownloadPace } from './response-body.ts'

export interface Representation {
  size: number
  /** Strong, with its quotes. */
  etag: string
  /** Unix seconds; undefined: no Last-Modified. */
  modifiedSeconds: number | undefined
  /** Also sent with an answer without a body: `validatorsOf`. */
  validators: Record<string, string>
  /** The operator took it down: asked for each request, because representations are kept. */
  isBlocked?(): boolean
  /** Content-Type, Content-Disposition and other headers of the bytes. */
  headers: Record<string, string>
  /** A range would continue another body: everything is sent. */
  ignoresRange: boolean
  /**
   * The bytes start … end (exclusive); a piece is valid only until the consumer asks for the next
   * one.
   */
  read(range: ByteRange, signal: AbortSignal): AsyncIterable<Uint8Array>
  /** The same bytes in one piece; undefined when they are too many or not in memory. */
  readWhole?(range: ByteRange): Promise<WholeBytes | undefined>
  /**
   * The same bytes, most of them without passing through this process; undefined when that is not
   * available.
   */
  openDirect?(range: ByteRange): Promise<DirectBytes | undefined>
}

export interface ServeObserver {
  /** The budget of bodies under way. */
  readonly answers: AnswerBudget
  /**
   * Called once, before the first byte, when the answer begins with byte 0 of the representation.
   */
  begun(): void
  /** Bytes of body that the socket accepted. */
  sent(bytes: number): void
}

/**
 * @throws RefusalError error-blocked (451), error-precondition (412), error-range (416); what the
 *   first read throws.
 */
export async function serveRepresentation(
  request: FastifyRequest,
  reply: FastifyReply,
  representation: Representation,
  observer: ServeObserver,
): Promise<FastifyReply> {
  const { size } = representation
  if (representation.isBlocked?.() === true) throw new RefusalError('error-blocked')
  const verdict = evaluate(request.headers, representation)
  if (verdict === 'failed') throw new RefusalError('error-precondition')
  if (verdict === 'not modified') return reply.code(304).headers(representation.validators).send()

  const ranged = representation.ignoresRange !== true && rangeHolds(request.headers, representation)
  const ranges = ranged ? parseRanges(request.headers.range, size) : undefined
  if (ranges?.length === 0) {
    reply.header('content-range', `bytes */${size}`)
    throw new RefusalError('error-range')
  }
  const plan = planOf(representation, ranges)
  if (request.method === 'HEAD') return reply.code(plan.code).headers(plan.headers).send()
  const { answers } = observer
  const hold = () => answers.open(networkOf(clientAddress(request)), () => reply.raw.destroy())
  // Most small bodies are with the socket at once. Only where bytes are scarce the answer takes its
  // share first.
  let share = answers.scarce ? await awaitAdmission(hold(), plan, reply.raw) : undefined
  try {
    const whole = plan.single && (await representation.readWhole?.(plan.single))
    if (whole) {
      share?.close()
      if (plan.fromStart) observer.begun()
      sendWhole(
        takeOver(request, reply, plan),
        whole,
        (bytes) => observer.sent(bytes),
        slowestDownloadPace,
        hold,
      )
      return reply
    }
    const held = share ?? hold()
    share = held
    // Pieces may come from other processes.
    await forClientRequest(request.id, () =>
      sendPieces(request, reply, { representation, plan, observer, share: held }),
    )
    return reply
  } catch (error) {
    share?.close()
    throw error
  }
}

/** Resolves when the body has begun. */
async function sendPieces(
  request: FastifyRequest,
  reply: FastifyReply,
  {
    representation,
    plan,
    observer,
    share,
  }: { representation: Representation; plan: SendPlan; observer: ServeObserver; share: AnswerShare },
): Promise<void> {
  const cut = (error: unknown) => request.log.warn({ err: error, requestId: request.id }, 'an answer was cut')
  const sent = (bytes: number) => observer.sent(bytes)
  const direct = plan.single && (await representation.openDirect?.(plan.single))
  if (direct) {
    if (plan.fromStart) observer.begun()
    const response = takeOver(request, reply, plan)
    closeWith(response, share)
    sendDirect(response, direct, sent, share).catch(cut)
    return
  }
  // Hundreds may have waited for one layout. Each first piece of an archive takes milliseconds.
  const turn = share.next()
  if (turn !== undefined) await turn
  if (reply.raw.destroyed) throw new RefusalError('error-unavailable')
  const body = new ResponseBody(plan.open, sent)
  await body.ready()
  if (plan.fromStart) observer.begun()
  const response = takeOver(request, reply, plan)
  closeWith(response, share)
  body.sendTo(response, share).catch(cut)
}

/** @throws RefusalError error-unavailable when there was no room for a first piece in time */
async function awaitAdmission(
  share: AnswerShare,
  { length }: SendPlan,
  response: ServerResponse,
): Promise<AnswerShare> {
  const leave = () => share.close()
  response.once('close', leave)
  try {
    await share.take(Math.min(length, pieceBytes))
    return share
  } catch (error) {
    share.close()
    throw error
  } finally {
    response.off('close', leave)
  }
}

/** The end of the answer, in any way, returns what it held. */
function closeWith(response: ServerResponse, share: AnswerShare): void {
  if (response.destroyed) share.close()
  else response.once('close', () => share.close())
}

/** The headers by which a client later checks whether its copy is current. */
export function validatorsOf({
  etag,
  modifiedSeconds,
}: Pick<Representation, 'etag' | 'modifiedSeconds'>): Record<string, string> {
  const validators = { etag, 'accept-ranges': 'bytes', 'cache-control': 'private, no-cache' }
  return modifiedSeconds === undefined
    ? validators
    : { ...validators, 'last-modified': new Date(modifiedSeconds * 1000).toUTCString() }
}

interface SendPlan {
  code: 200 | 206
  headers: Readonly<Record<string, string>>
  fromStart: boolean
  /** Bytes of body. */
  length: number
  /** Undefined: several ranges. */
  single: ByteRange | undefined
  open(signal: AbortSignal): AsyncIterable<Uint8Array>
}

/** A representation that is kept is asked for whole again and again. */
const wholePlans = new WeakMap<Representation, SendPlan>()

function wholePlanOf(representation: Representation): SendPlan {
  let plan = wholePlans.get(representation)
  if (plan === undefined) {
    const { size } = representation
    const all = { start: 0, end: size }
    plan = {
      code: 200,
      headers: { ...representation.validators, ...representation.headers, 'content-length': String(size) },
      fromStart: true,
      length: size,
      single: all,
      open: (signal) => representation.read(all, signal),
    }
    wholePlans.set(representation, plan)
  }
  return plan
}

function planOf(representation: Representation, ranges: ByteRange[] | undefined): SendPlan {
  const [first, second] = ranges ?? []
  if (first === undefined) return wholePlanOf(representation)
  const { size } = representation
  const headers: Record<string, string> = { ...representation.validators, ...representation.headers }
  if (second === undefined) {
    headers['content-length'] = String(first.end - first.start)
    headers['content-range'] = contentRange(first, size)
    return {
      code: 206,
      headers,
      fromStart: first.start === 0,
      length: first.end - first.start,
      single: first,
      open: (signal) => representation.read(first, signal),
    }
  }
  return multipartPlan(representation, headers, ranges as ByteRange[])
}

/** `multipart/byteranges`, RFC 9110 §14.6. */
function multipartPlan(
  representation: Representation,
  headers: Readonly<Record<string, string>>,
  ranges: ByteRange[],
): SendPlan {
  const { size } = representation
  const boundary = randomUUID()
  const heads = ranges.map((range) =>
    Buffer.from(
      `\r\n--${boundary}\r\nContent-Type: ${headers['content-type']}\r\nContent-Range: ${contentRange(range, size)}\r\n\r\n`,
    ),
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  const length = ranges.reduce(
    (sum, { start, end }, index) => sum + (heads[index] as Buffer).length + end - start,
    tail.length,
  )
  return {
    code: 206,
    headers: {
      ...headers,
      'content-type': `multipart/byteranges; boundary=${boundary}`,
      'content-length': String(length),
    },
    length,
    single: undefined,
    fromStart: ranges.some(({ start }) => start === 0),
    open: (signal) => readParts(representation, { ranges, heads, tail, signal }),
  }
}

async function* readParts(
  representation: Representation,
  {
    ranges,
    heads,
    tail,
    signal,
  }: { ranges: readonly ByteRange[]; heads: readonly Buffer[]; tail: Buffer; signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  for (const [index, range] of ranges.entries()) {
    yield heads[index] as Buffer
    yield* representation.read(range, signal)
  }
  yield tail
}

function contentRange({ start, end }: ByteRange, size: number): string {
  return `bytes ${start}-${end - 1}/${size}`
}

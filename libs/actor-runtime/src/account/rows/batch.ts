/**
 * One flush: the changes gathered while the previous one was in flight, and all requests that wait
 * for it.
 */
import { type LookupChange, maxEventBytes, maxFlushBytes } from '@holdfast/journal'
import { inSpan, type Tracer } from '@holdfast/kernel'
import type { Sweep } from '@holdfast/wire'
import { namedRequests } from '../effects/effect-causes.ts'
import { type Answer, bytesOfAnswer, type PendingRequest } from '../requests/pending-request.ts'
import { bytesOfEntry, type FlushEntry, type Page } from './flush-row.ts'

/** Left free in a row for one more change and the report of finished effects. */
const reservedBytes = maxEventBytes + 64 * 1024

export class Batch {
  readonly entries: FlushEntry[] = []
  /** Reference keys that must be durable before the row. */
  readonly uses = new Set<string>()
  /** Routes of share codes, the same. */
  readonly routes: LookupChange[] = []
  readonly waiting: { ask: PendingRequest; answer: Answer }[] = []
  /**
   * At least one waiting request came after the epoch was raised. If the batch has no changes, a
   * read of the head must confirm the answers.
   */
  toConfirm = false
  rowBytes = 0
  replyBytes = 0

  /** What timers delete with it. */
  readonly sweeps: Sweep[] = []

  /** Its requests were given a turn of the loop to gather. */
  gathered = false
  /** The report of finished effects is in it. */
  finished = false
  /** Set when it is sealed: the number of the last effect that its changes made. */
  lastEffect = 0
  /** When the account's next timer is due after it, Unix seconds. */
  due: number | undefined

  /** It contains something tentative. */
  get changes(): boolean {
    return this.entries.length > 0
  }

  get full(): boolean {
    return this.rowBytes > maxFlushBytes - reservedBytes
  }

  add(entry: FlushEntry): void {
    this.entries.push(entry)
    this.rowBytes += bytesOfEntry(entry)
  }

  hold(ask: PendingRequest, answer: Answer): void {
    this.waiting.push({ ask, answer })
    this.toConfirm ||= !ask.proven
    this.replyBytes += bytesOfAnswer(answer)
  }

  /** Some of the clients' requests that wait for it. */
  get requestIds(): string[] {
    return namedRequests(this.waiting.values().map(({ ask }) => ask.request.clientRequest))
  }

  /** The span of the first traced request that waits for it. */
  get traceparent(): string | undefined {
    return this.waiting.find(({ ask }) => ask.request.traceparent !== undefined)?.ask.request.traceparent
  }

  get pages(): Page[] {
    return this.entries.flatMap((entry) => (Array.isArray(entry) ? entry : []))
  }
}

/** The first traced request that waits for a flush has it in its trace; the flush counts all. */
export function tracedFlush(
  tracer: Tracer | undefined,
  batch: Batch,
  flush: () => Promise<void>,
): Promise<void> {
  const parent = tracer && batch.traceparent
  if (tracer === undefined || parent === undefined) return flush()
  const attributes = {
    'holdfast.changes': batch.entries.length,
    'holdfast.requests': batch.waiting.length,
  }
  return inSpan(tracer, { name: 'flush', parent, attributes }, flush)
}

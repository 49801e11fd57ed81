/**
 * The results of the last requests, so that a repeated one has one effect and the same answer.
 *
 * Ids minted by frontends begin with their time. When a result is dropped, the floor rises to the
 * time of its id: an id at or below the floor whose result is not kept may have been executed, and
 * is refused. Ids that clients chose have no time. Their results are kept within separate bounds,
 * and a digest of each id stays for 24 hours: an id of which only the digest is left was executed,
 * and is refused.
 */
import { hex, latin1, nameOfRequest, requestTime } from '@holdfast/kernel'
import type { KeptOutcome } from '@holdfast/wire'
import {
  keyedOutcomeAgeMsMax,
  keyedOutcomesMax,
  outcomeAgeMsMax,
  outcomesBytesMax,
  outcomesMax,
  outcomesPerPart,
  requestAheadMsMax,
} from '../bounds.ts'
import { type CutClock, RowMarks } from '../tree/row-marks.ts'
import { type KeyDigest, KeyDigests } from './key-digests.ts'

export class Outcomes {
  #floorMs = 0
  readonly minted: Window
  readonly keyed: Window
  readonly digests: KeyDigests

  constructor(cuts: CutClock) {
    this.minted = new Window({ count: outcomesMax, ageMs: outcomeAgeMsMax }, cuts)
    this.keyed = new Window({ count: keyedOutcomesMax, ageMs: keyedOutcomeAgeMsMax }, cuts)
    this.digests = new KeyDigests({ cuts })
  }

  get bytes(): number {
    return this.minted.bytes + this.keyed.bytes + this.digests.bytes
  }

  get floorMs(): number {
    return this.#floorMs
  }

  find(requestId: Uint8Array): KeptOutcome | undefined {
    return this.#windowOf(requestId).find(requestId)
  }

  /** The kept digests of a request with a chosen id that was executed within its time. */
  digestOf(requestId: Uint8Array, nowMs: number): KeyDigest | undefined {
    return requestTime(requestId) === undefined ? this.digests.find(requestId, nowMs) : undefined
  }

  /**
   * Why a request whose result is not kept must not be executed: it may have been already, or
   * claims to come from the future; or its id could not be remembered for its time.
   */
  refuses(requestId: Uint8Array, nowMs: number): 'stale' | 'full' | undefined {
    const time = requestTime(requestId)
    if (time === undefined) return this.digests.isFull(nowMs) ? 'full' : undefined
    return time > this.#floorMs && time <= nowMs + requestAheadMsMax ? undefined : 'stale'
  }

  /** Keeps an outcome and forgets what is over its bound by then. */
  keep(unnumbered: Omit<KeptOutcome, 'number'>): void {
    const window = this.#windowOf(unnumbered.requestId)
    const outcome = { ...unnumbered, number: window.end }
    window.add(withOwnMemory(outcome))
    if (requestTime(outcome.requestId) === undefined) this.digests.add(outcome.requestId, outcome)
    for (const window of [this.minted, this.keyed])
      for (const forgotten of window.forget(outcome.timeMs))
        this.#floorMs = Math.max(this.#floorMs, requestTime(forgotten.requestId) ?? 0)
  }

  /**
   * Outcomes of a checkpoint, each kind in the order of numbers. @param first of each kind; what
   * comes before is forgotten.
   */
  restore(
    outcomes: readonly KeptOutcome[],
    { floorMs, first }: { floorMs: number; first: { minted: number; keyed: number } },
  ): void {
    this.#floorMs = floorMs
    this.minted.first = first.minted
    this.keyed.first = first.keyed
    for (const outcome of outcomes) {
      const window = this.#windowOf(outcome.requestId)
      if (outcome.number >= window.first) window.add(withOwnMemory({ ...outcome, number: window.end }))
    }
  }

  #windowOf(requestId: Uint8Array): Window {
    return requestTime(requestId) === undefined ? this.keyed : this.minted
  }
}

/** Outcomes of one kind of id. Their numbers rise by one. */
class Window {
  readonly #outcomes = new Map<string, KeptOutcome>()
  readonly #bound: { count: number; ageMs: number }
  /** Number of the oldest. */
  first = 0
  bytes = 0
  /** What of it a checkpoint has to write, by numbers. */
  readonly marks: RowMarks

  constructor(bound: { count: number; ageMs: number }, cuts: CutClock) {
    this.#bound = bound
    this.marks = new RowMarks(cuts, outcomesPerPart)
  }

  /** Number of the next one. */
  get end(): number {
    return this.first + this.#outcomes.size
  }

  find(requestId: Uint8Array): KeptOutcome | undefined {
    return this.#outcomes.get(requestKey(requestId))
  }

  add(outcome: KeptOutcome): void {
    const key = requestKey(outcome.requestId)
    if (this.#outcomes.has(key))
      throw new Error(`request ${hex(Buffer.from(key, 'latin1'))} was executed twice`)
    this.marks.touch(outcome.number)
    this.#outcomes.set(key, outcome)
    this.bytes += outcomeBytes(outcome)
  }

  /** Outcomes beyond the bounds of count, bytes or age, oldest first. */
  *forget(nowMs: number): Generator<KeptOutcome> {
    for (const [key, outcome] of this.#outcomes) {
      const fits = this.#outcomes.size <= this.#bound.count && this.bytes <= outcomesBytesMax
      if (fits && nowMs - outcome.timeMs <= this.#bound.ageMs) break
      this.#outcomes.delete(key)
      this.bytes -= outcomeBytes(outcome)
      this.first++
      yield outcome
    }
    this.marks.dropBefore(this.first)
  }

  all(): Iterable<KeptOutcome> {
    return this.#outcomes.values()
  }
}

/**
 * Its bytes in separate memory: as they come they are short views that keep a pool, or the whole
 * message, alive.
 */
function withOwnMemory({ requestId, reply, ids, ...rest }: KeptOutcome): KeptOutcome {
  const memory = Buffer.allocUnsafeSlow(requestId.length + reply.length + ids.length)
  memory.set(requestId)
  memory.set(reply, requestId.length)
  memory.set(ids, requestId.length + reply.length)
  return {
    ...rest,
    requestId: memory.subarray(0, requestId.length),
    reply: memory.subarray(requestId.length, requestId.length + reply.length),
    ids: memory.subarray(requestId.length + reply.length),
  }
}

function requestKey(requestId: Uint8Array): string {
  return latin1(nameOfRequest(requestId))
}

function outcomeBytes(outcome: KeptOutcome): number {
  return 200 + outcome.reply.length + outcome.ids.length
}

/**
 * The results of the last requests, so that a repeated one has one effect and the same answer.
 *
 * Ids minted by frontends begin with their time. When a result is dropped, the floor rises to the
 * time of its id: an id at or below the floor whose result is not kept may have been executed, and
 * is refused. Ids that clients chose have no time. Their results are kept within separate bounds,
 * and a digest of each id stays for 24 hours: an id of which only the digest is left was executed,
 * and is refused.
 */
import { nameOfRequest, requestTime } from '@holdfast/kernel'
import type { KeptOutcome } from '@holdfast/wire'
import { type KeyDigest, KeyDigests } from './key-digests.ts'
import {
  keyedOutcomeAgeMsMax,
  keyedOutcomesMax,
  outcomeAgeMsMax,
  outcomesBytesMax,
  outcomesMax,
  requestAheadMsMax,
} from './limits.ts'

export class Outcomes {
  #floorMs = 0
  readonly #minted = new Window({ count: outcomesMax, ageMs: outcomeAgeMsMax })
  readonly #keyed = new Window({ count: keyedOutcomesMax, ageMs: keyedOutcomeAgeMsMax })
  readonly digests = new KeyDigests()

  get bytes(): number {
    return this.#minted.bytes + this.#keyed.bytes + this.digests.bytes
  }

  get floorMs(): number {
    return this.#floorMs
  }

  find(requestId: Uint8Array): KeptOutcome | undefined {
    return this.#windowOf(requestId).find(requestId)
  }

  /** What is left of a request with a chosen id that was executed within its time. */
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

  /** Keeps a result and drops what is over its bound by then. */
  keep(outcome: KeptOutcome): void {
    this.#windowOf(outcome.requestId).add(withOwnMemory(outcome))
    if (requestTime(outcome.requestId) === undefined) this.digests.add(outcome.requestId, outcome)
    for (const window of [this.#minted, this.#keyed])
      for (const forgotten of window.forget(outcome.timeMs))
        this.#floorMs = Math.max(this.#floorMs, requestTime(forgotten.requestId) ?? 0)
  }

  /** Oldest first, minted ids before chosen ones. */
  *all(): Generator<KeptOutcome> {
    yield* this.#minted.all()
    yield* this.#keyed.all()
  }

  restore(outcomes: readonly KeptOutcome[], floorMs: number): void {
    this.#floorMs = floorMs
    for (const outcome of outcomes) this.#windowOf(outcome.requestId).add(withOwnMemory(outcome))
  }

  #windowOf(requestId: Uint8Array): Window {
    return requestTime(requestId) === undefined ? this.#keyed : this.#minted
  }
}

class Window {
  readonly #outcomes = new Map<string, KeptOutcome>()
  readonly #bound: { count: number; ageMs: number }
  bytes = 0

  constructor(bound: { count: number; ageMs: number }) {
    this.#bound = bound
  }

  find(requestId: Uint8Array): KeptOutcome | undefined {
    return this.#outcomes.get(keyOf(requestId))
  }

  add(outcome: KeptOutcome): void {
    const key = keyOf(outcome.requestId)
    if (this.#outcomes.has(key))
      throw new Error(`request ${Buffer.from(key, 'latin1').toString('hex')} was executed twice`)
    this.#outcomes.set(key, outcome)
    this.bytes += bytesOf(outcome)
  }

  /** What is beyond count, bytes or age, oldest first. */
  *forget(nowMs: number): Generator<KeptOutcome> {
    for (const [key, outcome] of this.#outcomes) {
      const fits = this.#outcomes.size <= this.#bound.count && this.bytes <= outcomesBytesMax
      if (fits && nowMs - outcome.timeMs <= this.#bound.ageMs) return
      this.#outcomes.delete(key)
      this.bytes -= bytesOf(outcome)
      yield outcome
    }
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

function keyOf(requestId: Uint8Array): string {
  const name = nameOfRequest(requestId)
  return Buffer.from(name.buffer, name.byteOffset, name.length).toString('latin1')
}

function bytesOf(outcome: KeptOutcome): number {
  return 200 + outcome.reply.length + outcome.ids.length
}

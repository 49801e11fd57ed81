/**
 * Bodies that come in very many small pieces are read one at a time, and together take a quarter of
 * the loop's time at most.
 *
 * Node parses a read of up to 64 KiB in one go. With pieces of one byte these are 11,000 calls,
 * which take 10 to 25 ms and cost the sender nothing. A hundred such connections, each read once a
 * turn of the loop, would make a turn last seconds.
 *
 * Whether pieces are small is known only after a read, and the next read may be of another kind. So
 * three kinds of reads wait here for their turn. Networks take turns.
 *
 * - Bodies of unknown length. Two of them are read at a time. When others wait, each is read for 10
 *   ms, then it waits again. After a read of small pieces the lane rests three times as long as the
 *   read took.
 * - The parsing of a connection's first read, when it has very many lines.
 * - The first read of a connection whose network sent small pieces lately.
 *
 * While nothing waits, no read is delayed.
 */
import { type Clock, RefusalError, RoundRobin, systemClock } from '@holdfast/kernel'
import { unavailableRetrySeconds } from '../answers/refusals.ts'

/** Bodies that are read at a time. Each may take 25 ms of the same turn of the loop. */
const flowingMax = 2
/** A body is read for this long when others wait. */
const sliceMs = 10
/** After a read of small pieces the lane rests this many times as long as the read took. */
const restFactor = 3
/** The maximum of that rest, for any measured duration of the read. */
const restMsMax = 250
/** The lane rests this long after it admits a first read, until that read is done. */
const beginMs = 2
/**
 * A longer wait before the first read is refused. Nothing is read from a waiting socket, so the
 * process cannot see whether the client is still there.
 */
const waitMsMax = 2_000
/** The same in the middle of a body. A thousand bodies, two at a time for 10 ms each, take 5 s. */
const waitInBodyMsMax = 10_000
/**
 * A turn of the lane that comes this much too late shows that the whole process stalled: behind a
 * disk, or without a core. No request waited for others meanwhile, and nothing is refused for it.
 */
const stallMs = 250
/**
 * A waiting request holds at most two reads of its socket (128 KiB); all together 128 MiB.
 */
const holdingMax = 1_024
/** Connections that were not read and wait. Their listeners have fewer; some may be closed. */
const unreadMax = 8_192
/** A network that sent small pieces is known for this long. */
const knownMs = 10_000
const knownMax = 4_096

/** A wait for a turn. Exactly one of `readOn` and `refuse` is called, once for each wait. */
export interface Turn {
  /** It may be read. @returns false when its connection is closed: then it takes no turn */
  readOn: () => boolean
  /** It waited too long, or too many wait. */
  refuse: (refusal: RefusalError) => void
}

/**
 * The calls for a body of unknown length. `readOn` is also called when the whole body has arrived
 * meanwhile, because its request may not have begun.
 */
export interface BodyTurns extends Turn {
  /** Nothing more is read of it until `readOn`. */
  pause: () => void
}

/** A body in the lane. */
export interface LaneBody {
  /** A read of it held many small pieces and took this long. */
  took(ms: number): void
  /** It is complete, or its connection is closed. */
  leave(): void
}

/** What hosts ask of it. */
export type PiecesLane = Pick<SmallPiecesLane, 'isKnown' | 'enter' | 'begin' | 'beginBody'>

interface WaitingTurn extends Turn {
  /** It is refused after this time of the lane. Infinity: it holds nothing and is not refused. */
  latestMs: number
}

export class SmallPiecesLane {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** By network. */
  readonly #waiting = new RoundRobin<string, WaitingTurn>()
  /** The number of waiting bodies that may hold bytes. */
  #holding = 0
  readonly #flowing = new Set<Body>()
  /** Until when networks are known, the soonest first. */
  readonly #known = new Map<string, number>()
  #restingUntilMs = 0
  #timer: NodeJS.Timeout | undefined
  /** When its next turn is due. */
  #dueMs = Number.POSITIVE_INFINITY
  /** How long the process stalled in total. The lane's time is that of the clock less this. */
  #stalledMs = 0

  constructor(clock: Pick<Clock, 'monotonic'> = systemClock) {
    this.#clock = clock
  }

  /** Has this network sent small pieces lately? */
  isKnown(network: string): boolean {
    return (this.#known.get(network) ?? Number.NEGATIVE_INFINITY) >= this.#clock.monotonic()
  }

  /** A connection of which nothing was read. */
  enter(network: string, turn: Turn): void {
    if (this.#waiting.size >= unreadMax) turn.refuse(refusal())
    else this.#push(network, { ...turn, latestMs: Number.POSITIVE_INFINITY })
  }

  /** Bytes that were read and may take the parser long. */
  begin(network: string, turn: Turn): void {
    if (!this.#isFree) this.#wait(network, turn, waitMsMax)
    else if (turn.readOn()) this.#restingUntilMs = this.#clock.monotonic() + beginMs
  }

  /** A body of unknown length. Nothing was read of it. */
  beginBody(network: string, turns: BodyTurns): LaneBody {
    const body = new Body(this, network, turns)
    if (this.#isFree) this.#flow(body)
    else this.#waitBody(body, waitMsMax)
    return body
  }

  /** @internal */
  tookSmallPieces(body: Body, ms: number): void {
    const { network } = body
    const nowMs = this.#clock.monotonic()
    this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs) + Math.min(restMsMax, restFactor * ms)
    this.#known.delete(network)
    this.#known.set(network, nowMs + knownMs)
    const [oldest] = this.#known.keys()
    if (this.#known.size > knownMax && oldest !== undefined) this.#known.delete(oldest)
    if (this.#flowing.has(body)) this.#yield(body)
  }

  /** @internal */
  left(body: Body): void {
    if (this.#flowing.delete(body) && this.#waiting.size > 0) this.#serveSoon()
  }

  get #isFree(): boolean {
    return this.#waiting.size === 0 && !this.#isBusy(this.#clock.monotonic())
  }

  #isBusy(nowMs: number): boolean {
    return nowMs < this.#restingUntilMs || this.#flowing.size >= flowingMax
  }

  #flow(body: Body): void {
    if (body.hasLeft) {
      // The whole body has arrived: it takes no place, and its request may begin.
      body.turns.readOn()
      return
    }
    body.sinceMs = this.#clock.monotonic()
    // Before it is read: it may leave at once.
    this.#flowing.add(body)
    if (!body.turns.readOn()) this.#flowing.delete(body)
  }

  #yield(body: Body): void {
    this.#flowing.delete(body)
    this.#waitBody(body, waitInBodyMsMax)
  }

  #waitBody(body: Body, waitMs: number): void {
    body.turns.pause()
    // False: the lane does not rest after it. The number of bodies in the lane is the bound.
    const readOn = () => {
      this.#flow(body)
      return false
    }
    this.#wait(body.network, { readOn, refuse: body.turns.refuse }, waitMs)
  }

  #wait(network: string, turn: Turn, waitMs: number): void {
    if (this.#holding >= holdingMax) {
      turn.refuse(refusal())
      return
    }
    this.#holding++
    this.#noteStall(this.#clock.monotonic())
    this.#push(network, { ...turn, latestMs: this.#clock.monotonic() - this.#stalledMs + waitMs })
  }

  #push(network: string, waiting: WaitingTurn): void {
    this.#waiting.push(network, waiting)
    this.#serveSoon()
  }

  #serveSoon(): void {
    const nowMs = this.#clock.monotonic()
    this.#noteStall(nowMs)
    let fromMs = Math.max(nowMs, this.#restingUntilMs)
    if (this.#flowing.size >= flowingMax) {
      // The first of the set has been read for the longest time.
      const [longest] = this.#flowing
      fromMs = Math.max(fromMs, (longest as Body).sinceMs + sliceMs)
    }
    clearTimeout(this.#timer)
    this.#dueMs = fromMs
    this.#timer = setTimeout(() => this.#serve(), fromMs - nowMs)
  }

  #noteStall(nowMs: number): void {
    const lateMs = nowMs - Math.max(this.#dueMs, this.#restingUntilMs)
    if (lateMs < stallMs) return
    this.#stalledMs += lateMs
    this.#dueMs = nowMs
  }

  #serve(): void {
    const nowMs = this.#clock.monotonic()
    this.#noteStall(nowMs)
    this.#dueMs = Number.POSITIVE_INFINITY
    for (const body of [...this.#flowing])
      if (this.#flowing.size >= flowingMax && nowMs - body.sinceMs >= sliceMs) this.#yield(body)
    while (!this.#isBusy(nowMs)) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      if (next.latestMs !== Number.POSITIVE_INFINITY) this.#holding--
      if (nowMs - this.#stalledMs > next.latestMs) next.refuse(refusal())
      else if (next.readOn()) this.#restingUntilMs = Math.max(this.#restingUntilMs, nowMs + beginMs)
    }
    if (this.#waiting.size > 0) this.#serveSoon()
  }
}

class Body implements LaneBody {
  readonly #lane: SmallPiecesLane
  readonly network: string
  readonly turns: BodyTurns
  /** Read since then. */
  sinceMs = 0
  hasLeft = false

  constructor(lane: SmallPiecesLane, network: string, turns: BodyTurns) {
    this.#lane = lane
    this.network = network
    this.turns = turns
  }

  took(ms: number): void {
    this.#lane.tookSmallPieces(this, ms)
  }

  leave(): void {
    this.hasLeft = true
    this.#lane.left(this)
  }
}

function refusal(): RefusalError {
  return new RefusalError('error-rateLimit', { retryAfter: unavailableRetrySeconds })
}

/**
 * Membership by heartbeats: every member publishes one a second and receives those of all others,
 * in all regions.
 *
 * A member that was silent for `deadMs` is dead in this view. Time is the local monotonic clock at
 * the arrival, so no clock of another machine is trusted. A view also receives its own heartbeats.
 * When it does not, its own link is broken (or the process was paused), and it declares no member
 * dead until it receives them again. Every member answers a new member with a heartbeat at once, so
 * its view is complete after a round trip.
 *
 * NATS reports a dead process at once, a paused one never. A caller that got no answer can report a
 * suspicion (`suspect`): the member is pinged, declared dead if the ping has no responder, and the
 * others are asked to check for themselves.
 *
 * Wall clocks are compared by their offset to the local monotonic clock. A member's offset is the
 * time in its heartbeat less the time of arrival; the local one is read on demand. So a step of the
 * local clock shows at once. A late heartbeat makes its sender look behind by its delay, so the
 * greatest offset of the last few heartbeats counts: that of the fastest delivery.
 */
import { randomBytes } from 'node:crypto'
import type { Bus } from '@holdfast/bus'
import { type Clock, hex, type Subscription } from '@holdfast/kernel'
import {
  assertLoad,
  assertMemberInfo,
  clockOffsets,
  type Member,
  type MemberInfo,
  type MemberRole,
  type Membership,
  maxMembers,
} from '@holdfast/membership'
import { Heartbeat } from '@holdfast/wire/cluster'

/** The content of a heartbeat besides the member's details. */
export interface HeartbeatReport {
  /**
   * False while the member starts, drains, or cannot do its work: it is alive, and gets no new
   * work.
   */
  ready: boolean
  /** Room for uploads. 0 without a store. */
  freeBytes: number
  /** Active accounts. */
  accounts: number
  /** How old the copies may be that a storage node still has to fetch. */
  lagMs: number
  /** A storage node that is to be emptied. */
  draining: boolean
  /** A storage node that has too much damage or was away too long: others are asked first. */
  suspect: boolean
  /**
   * For each node that this one follows, a time of that node's clock: this node has everything that
   * the other one held at that time.
   */
  coveredMs: Readonly<Record<string, number>>
}

/** The report of a member without bytes and accounts. */
export const plainReport: HeartbeatReport = {
  ready: true,
  freeBytes: 0,
  accounts: 0,
  lagMs: 0,
  draining: false,
  suspect: false,
  coveredMs: {},
}

export interface NatsMembershipOptions {
  /** Accepts NATS patterns. Not closed here. */
  bus: Bus
  info: MemberInfo
  /** Its duties besides the role in its details. */
  moreRoles: readonly MemberRole[]
  /** Undefined: always 0. */
  load: (() => number) | undefined
  report: () => HeartbeatReport
  clock: Clock
  /** Called with what a listener threw, for the log. */
  onListenerError: (error: unknown) => void
}

export interface NatsMembershipTuning {
  /** Default 1,000. */
  intervalMs?: number
  /** Default 4,000. */
  deadMs?: number
}

interface HeardMember {
  beat: Heartbeat
  seenMs: number
  /** Monotonic. */
  heardMs: number
  /**
   * By how much its wall clock was ahead of our monotonic one at its last heartbeats in this life,
   * ms.
   */
  clocksMs: readonly number[]
}

type Listener = (members: readonly Member[]) => void

const roles: readonly MemberRole[] = ['standalone', 'api', 'upload', 'actor-host', 'storage-node', 'web']
/** Members that another member found dead; each member checks for itself. */
const suspicionsSubject = 'suspicions'
/** NATS answers at once for a dead process. */
const suspectTimeoutMs = 1_000
/** Greetings for new members are sent together. */
const greetMs = 20
/**
 * Heartbeats by which a clock is judged: a late one does not count, and a clock that was set back
 * shows after this many.
 */
const clockWords = 4

export class NatsMembership implements Membership {
  readonly #bus: Bus
  readonly #info: MemberInfo
  readonly #moreRoles: readonly MemberRole[]
  readonly #load: () => number
  readonly #report: () => HeartbeatReport
  readonly #intervalMs: number
  readonly #deadMs: number
  readonly #clock: Clock
  readonly #onListenerError: (error: unknown) => void
  readonly #incarnation: Buffer
  readonly #listeners = new Set<Listener>()
  readonly #heard = new Map<string, HeardMember>()
  readonly #timer: NodeJS.Timeout
  readonly #suspected = new Set<string>()
  readonly #suspicions: Subscription
  readonly #alive: Subscription
  #greeting: NodeJS.Timeout | undefined
  #subscription: Subscription
  #sequence = 0
  #ownHeardMs: number
  #notifying = false
  #closed = false

  /** Joins: sends its first heartbeat at once. @throws RangeError on bad details. */
  constructor(
    options: NatsMembershipOptions,
    { intervalMs = 1_000, deadMs = 4_000 }: NatsMembershipTuning = {},
  ) {
    assertMemberInfo(options.info)
    this.#bus = options.bus
    this.#info = structuredClone(options.info)
    this.#moreRoles = options.moreRoles
    this.#load = options.load ?? (() => 0)
    this.#report = options.report
    this.#intervalMs = intervalMs
    this.#deadMs = deadMs
    this.#clock = options.clock
    this.#onListenerError = options.onListenerError
    this.#incarnation = incarnationAt(this.#clock.now())
    this.#ownHeardMs = this.#clock.monotonic()
    this.#subscription = this.#bus.subscribe('members.>', (message) => this.#hear(message))
    this.#alive = this.#bus.serve(aliveSubject(this.#info.id), async () => new Uint8Array())
    this.#suspicions = this.#bus.subscribe(
      suspicionsSubject,
      (message) => void this.suspect(Buffer.from(message).toString()),
    )
    this.#timer = setInterval(() => this.#beat(), this.#intervalMs)
    this.announce()
  }

  /** Sends a heartbeat now instead of within a second. */
  announce(): void {
    if (!this.#closed) this.#publish({ leaving: false })
  }

  self(): Member {
    const [clockOffsetMs = 0] = this.#clockOffsets()
    return {
      ...structuredClone(this.#info),
      load: assertLoad(this.#load()),
      seenMs: this.#clock.now(),
      clockOffsetMs,
    }
  }

  members(): readonly Member[] {
    const offsets = this.#clockOffsets()
    const others = [...this.#heard.values()].map((heard, at) => memberOf(heard, offsets[at + 1] as number))
    return [this.self(), ...others].sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  /** The local member first, then others in the order they were heard. */
  #clockOffsets(): number[] {
    const own = this.#clock.now() - this.#clock.monotonic()
    return clockOffsets([own, ...[...this.#heard.values()].map(({ clocksMs }) => Math.max(...clocksMs))])
  }

  /** The last heartbeat of every member, the local one as it would be now. */
  beats(): readonly Heartbeat[] {
    const others = [...this.#heard.values()].map(({ beat }) => beat)
    return [this.#heartbeat({ leaving: false }), ...others].sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  /** The last heartbeat of one member: calls use it several times per request. */
  beatOf(id: string): Heartbeat | undefined {
    return id === this.#info.id ? this.#heartbeat({ leaving: false }) : this.#heard.get(id)?.beat
  }

  /** Also called when a member becomes ready or stops being ready. */
  onChange(listener: Listener): Subscription {
    const own: Listener = (members) => listener(members)
    this.#listeners.add(own)
    return { close: () => void this.#listeners.delete(own) }
  }

  /**
   * A caller got no answer from this member, or wants to know its state. The member is declared
   * dead at once when its process is gone; silence alone proves nothing. Resolves when that is
   * known; never rejects.
   */
  async suspect(id: string): Promise<void> {
    const known = this.#heard.get(id)
    if (known === undefined || this.#closed || this.#suspected.has(id)) return
    this.#suspected.add(id)
    try {
      await this.#bus.request(aliveSubject(id), new Uint8Array(), { timeoutMs: suspectTimeoutMs })
    } catch (fault) {
      const same = this.#heard.get(id)?.beat.incarnation.equals(known.beat.incarnation) === true
      if ((fault as { code?: string }).code !== 'NO_RESPONDERS' || !same || !this.#hearsItself()) return
      this.#heard.delete(id)
      this.#changed()
      this.#bus.publish(suspicionsSubject, Buffer.from(id))
    } finally {
      this.#suspected.delete(id)
    }
  }

  async close(): Promise<void> {
    this.#end()
    this.#publish({ leaving: true })
  }

  /** Test seam: stops sending as after a crash. */
  die(): void {
    this.#end()
  }

  #end(): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#timer)
    clearTimeout(this.#greeting)
    this.#listeners.clear()
    this.#subscription.close()
    this.#alive.close()
    this.#suspicions.close()
    this.#heard.clear()
  }

  #beat(): void {
    this.announce()
    this.#bury()
  }

  #publish({ leaving }: { leaving: boolean }): void {
    const { region, id } = this.#info
    this.#sequence++
    this.#bus.publish(
      `members.${region}.${subjectToken(id)}`,
      Heartbeat.encode(this.#heartbeat({ leaving })).finish(),
    )
  }

  #heartbeat({ leaving }: { leaving: boolean }): Heartbeat {
    const { id, role, region, addresses } = this.#info
    const { ready, coveredMs, ...report } = this.#report()
    return {
      id,
      roles: [role, ...this.#moreRoles],
      region,
      incarnation: this.#incarnation,
      sequence: this.#sequence,
      wallMs: this.#clock.now(),
      load: assertLoad(this.#load()),
      ready: ready && !leaving,
      addresses: { ...addresses },
      ...report,
      leaving,
      coveredMs: { ...coveredMs },
    }
  }

  #hear(message: Uint8Array): void {
    if (this.#closed) return
    const beat = parse(message)
    if (beat === undefined) return
    const heardMs = this.#clock.monotonic()
    if (beat.id === this.#info.id) {
      if (this.#incarnation.equals(beat.incarnation)) this.#ownHeardMs = heardMs
      return
    }
    const known = this.#heard.get(beat.id)
    if (known !== undefined && !isNewer(beat, known.beat)) return
    if (beat.leaving) {
      if (this.#heard.delete(beat.id)) this.#changed()
      return
    }
    if (known === undefined && this.#heard.size + 1 >= maxMembers) return
    const sameLife = known?.beat.incarnation.equals(beat.incarnation) === true
    const clocksMs = [beat.wallMs - heardMs, ...(sameLife ? known.clocksMs : [])].slice(0, clockWords)
    this.#heard.set(beat.id, { beat, seenMs: this.#clock.now(), heardMs, clocksMs })
    if (!sameLife) this.#greet()
    if (known === undefined || saysOf(known.beat) !== saysOf(beat)) this.#changed()
  }

  /** A new member learns of us before our next heartbeat is due. */
  #greet(): void {
    this.#greeting ??= setTimeout(() => {
      this.#greeting = undefined
      this.announce()
    }, greetMs)
  }

  #bury(): void {
    const nowMs = this.#clock.monotonic()
    if (!this.#hearsItself()) return
    for (const [id, { heardMs }] of this.#heard) {
      if (nowMs - heardMs <= this.#deadMs) continue
      this.#heard.delete(id)
      this.#changed()
    }
  }

  /** Otherwise the local link is broken. */
  #hearsItself(): boolean {
    return this.#clock.monotonic() - this.#ownHeardMs <= 2 * this.#intervalMs
  }

  #changed(): void {
    if (this.#notifying) return
    this.#notifying = true
    queueMicrotask(() => {
      this.#notifying = false
      for (const listener of [...this.#listeners]) {
        if (!this.#listeners.has(listener)) continue
        try {
          listener(this.members())
        } catch (error) {
          this.#onListenerError(error)
        }
      }
    })
  }
}

function memberOf({ beat, seenMs }: HeardMember, clockOffsetMs: number): Member {
  const { id, region, addresses, load } = beat
  const role = beat.roles[0] as MemberRole
  return { id, role, region, addresses: { ...addresses }, load, seenMs, clockOffsetMs }
}

/** Input from other members is not trusted to be well-formed. */
function parse(message: Uint8Array): Heartbeat | undefined {
  try {
    const beat = Heartbeat.decode(message)
    assertMemberInfo({ ...beat, role: 'api' })
    assertLoad(beat.load)
    const known = roles.includes(beat.roles[0] as MemberRole)
    return known && beat.incarnation.length === 16 ? beat : undefined
  } catch {
    return undefined
  }
}

/** A later life, or a later heartbeat of the same one. */
function isNewer(beat: Heartbeat, known: Heartbeat): boolean {
  const lives = Buffer.compare(beat.incarnation, known.incarnation)
  return lives === 0 ? beat.sequence > known.sequence : lives > 0
}

/** Everything whose change is reported; load is not. */
function saysOf({ roles, region, addresses, ready, incarnation }: Heartbeat): string {
  return JSON.stringify([roles, region, addresses, ready, hex(incarnation)])
}

/** 16 bytes that sort by the start of the life. */
function incarnationAt(nowMs: number): Buffer {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(nowMs, 0, 6)
  return bytes
}

function aliveSubject(id: string): string {
  return `alive.${subjectToken(id)}`
}

/** A token of a subject has no dots, blanks or wildcards. */
function subjectToken(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, '_')
}

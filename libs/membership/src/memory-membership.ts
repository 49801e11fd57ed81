/**
 * Membership within one process: the embedded mode, whose only member is itself, and the members of
 * a cluster in one test. No member is lost by accident; a test removes members from a view (`hide`)
 * as a network cut would.
 */
import { type Clock, type Subscription, systemClock } from '@holdfast/kernel'
import { clockOffsets } from './clocks.ts'
import {
  assertLoad,
  assertMemberInfo,
  type Member,
  type MemberInfo,
  type Membership,
  maxMembers,
} from './membership.ts'

export interface MemoryMembershipOptions {
  /** Called at each look; default always 0. */
  load?: () => number
  clock?: Clock
  /**
   * Called with what a listener threw, for the log; the other listeners are still called.
   */
  onListenerError?: (error: unknown) => void
}

type Listener = (members: readonly Member[]) => void

export class MemoryMembership implements Membership {
  readonly #info: MemberInfo
  readonly #load: () => number
  readonly #clock: Clock
  readonly #onListenerError: (error: unknown) => void
  readonly #gathering: MemoryGroup
  readonly #listeners = new Set<Listener>()
  readonly #hidden = new Set<string>()
  #notifying = false

  /** @throws RangeError on invalid details, an id that is already alive, or too many members. */
  constructor(
    info: MemberInfo,
    options: MemoryMembershipOptions = {},
    gathering: MemoryGroup = new MemoryGroup(),
  ) {
    assertMemberInfo(info)
    this.#info = structuredClone(info)
    this.#load = options.load ?? (() => 0)
    this.#clock = options.clock ?? systemClock
    this.#onListenerError = options.onListenerError ?? (() => {})
    this.#gathering = gathering
    gathering.join(info.id, this)
  }

  /** Another member of the same gathering. */
  join(info: MemberInfo, options: MemoryMembershipOptions = {}): MemoryMembership {
    return new MemoryMembership(info, { clock: this.#clock, ...options }, this.#gathering)
  }

  self(): Member {
    const seen = this.#seen()
    return this.#member(this.#offsets(seen)[seen.indexOf(this)] as number)
  }

  members(): readonly Member[] {
    const seen = this.#seen()
    const offsets = this.#offsets(seen)
    return seen
      .map((member, at) => member.#member(offsets[at] as number))
      .sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  #seen(): MemoryMembership[] {
    const all = this.#gathering.has(this.#info.id, this) ? this.#gathering.all() : [this]
    return all.filter((member) => member === this || !this.#hidden.has(member.#info.id))
  }

  #offsets(seen: readonly MemoryMembership[]): number[] {
    return clockOffsets(seen.map((member) => member.#clock.now()))
  }

  #member(clockOffsetMs: number): Member {
    const load = assertLoad(this.#load())
    return { ...structuredClone(this.#info), load, seenMs: this.#clock.now(), clockOffsetMs }
  }

  onChange(listener: Listener): Subscription {
    const own: Listener = (members) => listener(members)
    this.#listeners.add(own)
    return { close: () => void this.#listeners.delete(own) }
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    this.#gathering.leave(this.#info.id, this)
  }

  /** Test seam: this member no longer sees that one; that one still sees this one. */
  hide(id: string): void {
    this.#hidden.add(id)
    this.changed()
  }

  /** Test seam: sees it again. */
  show(id: string): void {
    this.#hidden.delete(id)
    this.changed()
  }

  /** Calls the listeners, soon and once for all changes until then. */
  changed(): void {
    if (this.#notifying) return
    this.#notifying = true
    queueMicrotask(() => {
      this.#notifying = false
      for (const listener of [...this.#listeners]) {
        if (this.#listeners.has(listener)) this.#notify(listener)
      }
    })
  }

  #notify(listener: Listener): void {
    try {
      listener(this.members())
    } catch (error) {
      this.#onListenerError(error)
    }
  }
}

class MemoryGroup {
  readonly #members = new Map<string, MemoryMembership>()

  join(id: string, member: MemoryMembership): void {
    if (this.#members.has(id)) throw new RangeError(`a member ${id} is alive already`)
    if (this.#members.size >= maxMembers) throw new RangeError(`${maxMembers} members are alive already`)
    this.#members.set(id, member)
    this.#changed()
  }

  leave(id: string, member: MemoryMembership): void {
    if (!this.has(id, member)) return
    this.#members.delete(id)
    this.#changed()
  }

  has(id: string, member: MemoryMembership): boolean {
    return this.#members.get(id) === member
  }

  all(): MemoryMembership[] {
    return [...this.#members.values()]
  }

  #changed(): void {
    for (const member of this.#members.values()) member.changed()
  }
}

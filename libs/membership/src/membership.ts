/**
 * Who is alive, with what load. A view, different at every member at every moment: it may name the
 * dead for a while and lack the living. Nothing may be correct because of it; it says where to send
 * things first.
 */
export interface Membership {
  /** Oneself as the others are told: `seenMs` is now. */
  self(): Member

  /**
   * All that are believed alive, oneself included, in the order of their ids. At most `maxMembers`.
   */
  members(): readonly Member[]

  /**
   * Calls back after a member came, went or changed its facts, not for load alone. Several changes
   * may be told as one; what is told is what `members()` says then. Never within the call that
   * changed it.
   */
  onChange(listener: (members: readonly Member[]) => void): Subscription

  /**
   * Leaves, so that the others need not wait to notice. Afterwards one's own view is oneself alone.
   */
  close(): Promise<void>
}

export interface Subscription {
  close(): void
}

/** What a member says of itself. */
export interface MemberFacts {
  /**
   * Unique among the living; a process that starts again may come back under it. At most 128 bytes
   * of printable ASCII.
   */
  id: string
  role: MemberRole
  /** Code of its region. */
  region: string
  /**
   * Where and how it is reached, by name, such as `{"download": "http://…"}`; at most 4 KiB as
   * JSON.
   */
  addresses: Readonly<Record<string, string>>
}

export type MemberRole = 'standalone' | 'api' | 'upload' | 'actor-host' | 'storage-node' | 'web'

export interface Member extends MemberFacts {
  /** 0 is idle, 1 is all it can do; as it said when it was heard last. */
  load: number
  /** When it was heard last, Unix milliseconds of one's own clock. */
  seenMs: number
  /**
   * How far its wall clock is ahead of the median of all members, ms; behind it: negative
   * (`clockOffsets`). A step of one's own clock shows at once; one of another member within a few
   * of its words. Messages on their way make it inexact by what they take.
   */
  clockOffsetMs: number
}

/** Members in one view: a region's processes, several times over. */
export const maxMembers = 4_096
const maxAddressBytes = 4 * 1024
const maxIdBytes = 128

/** @throws RangeError on facts that no view takes. */
export function assertFacts({ id, addresses }: MemberFacts): void {
  if (!/^[\x21-\x7e]+$/.test(id) || id.length > maxIdBytes) {
    throw new RangeError(
      `a member's id is 1 to ${maxIdBytes} printable characters, not ${JSON.stringify(id)}`,
    )
  }
  const bytes = Buffer.byteLength(JSON.stringify(addresses))
  if (bytes > maxAddressBytes)
    throw new RangeError(`addresses of ${bytes} bytes are beyond ${maxAddressBytes}`)
}

/** @throws RangeError unless it is a share of what the member can do. */
export function assertLoad(load: number): number {
  if (load >= 0 && load <= 1) return load
  throw new RangeError(`a load is from 0 to 1, not ${load}`)
}

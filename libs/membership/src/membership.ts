import type { Subscription } from '@holdfast/kernel'

/**
 * Which members are alive, with what load. Each member has its own view, which changes all the
 * time: it may contain dead members for a while and lack living ones. No correctness may depend on
 * it; it says where to send things first.
 */
export interface Membership {
  /** The local member as others see it: `seenMs` is now. */
  self(): Member

  /**
   * All members believed alive, including the local one, in the order of their ids. At most
   * `maxMembers`.
   */
  members(): readonly Member[]

  /**
   * Called after a member came, went or changed its details, not for load alone. Several changes
   * may be reported as one; the report is what `members()` returns then. Never within the call that
   * changed it.
   */
  onChange(listener: (members: readonly Member[]) => void): Subscription

  /**
   * Leaves, so that the others need not wait to notice. Afterwards the own view holds only itself.
   */
  close(): Promise<void>
}

/** The details of a member. */
export interface MemberInfo {
  /**
   * Unique among the living; a restarted process may use it again. At most 128 bytes of printable
   * ASCII.
   */
  id: string
  role: MemberRole
  /** Code of its region. */
  region: string
  /** Where it is reached, by name, such as `{"download": "http://…"}`; at most 4 KiB as JSON. */
  addresses: Readonly<Record<string, string>>
}

export type MemberRole = 'standalone' | 'api' | 'upload' | 'actor-host' | 'storage-node' | 'web'

export interface Member extends MemberInfo {
  /** 0 is idle, 1 is fully loaded; the last reported value. */
  load: number
  /** When it was last heard, Unix milliseconds of the local clock. */
  seenMs: number
  /**
   * How far its wall clock is ahead of the median of all members, ms; behind it: negative
   * (`clockOffsets`). A step of the local clock shows at once; one of another member within a few
   * of its heartbeats. The delay of messages makes it inexact.
   */
  clockOffsetMs: number
}

/** Members in one view: several times the processes of a region. */
export const maxMembers = 4_096
const maxAddressBytes = 4 * 1024
const maxIdBytes = 128

/** @throws RangeError on invalid details. */
export function assertMemberInfo({ id, addresses }: MemberInfo): void {
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

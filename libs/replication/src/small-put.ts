/**
 * A small blob at W members of a group, in one call each.
 *
 * A member answers with the copy of this upload, or with a copy that it knew and has pinned. All
 * members of a group know the same copies and choose alike, so their answers agree, except for
 * copies still in transit between them. An upload is acknowledged when W answers name one copy.
 * When they name several, a known copy is used that W members can pin. Without one the upload
 * becomes its own copy at the members that named others.
 *
 * A member that fails is replaced by the next one, and finally by one of another region. A silent
 * member is replaced after a while; a late answer still counts.
 */
import {
  BlobFault,
  type BlobInfo,
  type PutOptions,
  type SmallBlob,
  type StorageNode,
} from '@holdfast/blob-store'
import { hex, type Timers } from '@holdfast/kernel'

/**
 * How long a member may be silent before another one is asked, ms: as for a call that opens a
 * stage.
 */
const patienceMs = 3_000

interface GroupMember {
  id: string
  node: StorageNode
}

/** A copy, and the nodes that acknowledged it. */
export interface AcknowledgedCopy {
  info: BlobInfo
  holders: readonly string[]
}

export interface SmallPutDeps {
  /** W. */
  needed: number
  timers: Timers
  broken(node: string, fault: BlobFault): void
}

export class SmallPut {
  readonly #blob: SmallBlob
  readonly #options: Omit<PutOptions, 'asNew'>
  readonly #deps: SmallPutDeps
  /** The newest answer of each member. */
  readonly #answers = new Map<GroupMember, BlobInfo>()
  /** Silent members, and their pending answers. */
  readonly #slow = new Map<GroupMember, Promise<BlobInfo | BlobFault>>()
  /** Members that failed, or did not answer for a while. */
  readonly #deaf = new Set<GroupMember>()
  readonly faults: BlobFault[] = []

  constructor(blob: SmallBlob, options: Omit<PutOptions, 'asNew'>, deps: SmallPutDeps) {
    this.#blob = blob
    this.#options = options
    this.#deps = deps
  }

  /**
   * @param members nearest first; the later ones replace those that fail.
   * @returns the copy that W of them have; undefined: fewer than W are known to have one.
   */
  async run(members: readonly GroupMember[]): Promise<AcknowledgedCopy | undefined> {
    const { needed } = this.#deps
    const queue = [...members]
    let asNew = false
    for (;;) {
      const agreed = this.#agreed()
      if (agreed !== undefined) return agreed
      if (this.faults.some(({ code }) => code === 'STALE_PLACEMENT')) return undefined
      if (!asNew && this.#answers.size >= needed) {
        const pinned = await this.#pinKnown(members)
        if (pinned !== undefined) return pinned
        asNew = true
      }
      const others = asNew ? this.#others() : []
      for (const member of others) this.#answers.delete(member)
      const missing = needed - this.#answers.size - others.length
      const asked = [...others, ...queue.splice(0, Math.max(0, missing))]
      if (asked.length > 0) await Promise.all(asked.map((member) => this.#ask(member, asNew)))
      else if (!(await this.#hearSlow())) return undefined
    }
  }

  /** The copy that W members name. */
  #agreed(): AcknowledgedCopy | undefined {
    const holders = new Map<string, string[]>()
    for (const [{ id }, info] of this.#answers) {
      const name = hex(info.incarnation)
      const ids = [...(holders.get(name) ?? []), id]
      if (ids.length >= this.#deps.needed) return { info, holders: ids }
      holders.set(name, ids)
    }
    return undefined
  }

  /** Members that named another copy than that of this upload. */
  #others(): GroupMember[] {
    return [...this.#answers].filter(([, info]) => !this.#isOwn(info)).map(([member]) => member)
  }

  #isOwn({ incarnation }: BlobInfo): boolean {
    return hex(incarnation) === hex(this.#options.uploadId)
  }

  /** One of the named copies, once W members have pinned it. */
  async #pinKnown(members: readonly GroupMember[]): Promise<AcknowledgedCopy | undefined> {
    const { placement, pinMs: ttlMs } = this.#options
    const known = new Map([...this.#answers.values()].map((info) => [hex(info.incarnation), info]))
    const asked = members.filter((member) => !this.#deaf.has(member))
    for (const info of [...known.values()].filter((info) => !this.#isOwn(info))) {
      const pins = asked.map(({ node }) => node.pin(info, { ttlMs, placement, whole: true }))
      const outcomes = await Promise.allSettled(pins)
      const holders = asked.flatMap(({ id }, at) => {
        const outcome = outcomes[at]
        return outcome?.status === 'fulfilled' && outcome.value ? [id] : []
      })
      if (holders.length >= this.#deps.needed) return { info, holders }
    }
    return undefined
  }

  async #ask(member: GroupMember, asNew: boolean): Promise<void> {
    const answer = this.#put(member, asNew)
    const heard = await new Promise<BlobInfo | BlobFault | undefined>((resolve) => {
      const cancel = this.#deps.timers.after(patienceMs, () => resolve(undefined))
      void answer.then((known) => {
        cancel()
        resolve(known)
      })
    })
    if (heard === undefined) {
      this.#slow.set(member, answer)
      this.#deaf.add(member)
    } else this.#note(member, heard)
  }

  /** Waits for one of the silent members. @returns false when there is none. */
  async #hearSlow(): Promise<boolean> {
    if (this.#slow.size === 0) return false
    const [member, heard] = await Promise.race(
      [...this.#slow].map(async ([member, answer]) => [member, await answer] as const),
    )
    this.#slow.delete(member)
    this.#note(member, heard)
    return true
  }

  #note(member: GroupMember, heard: BlobInfo | BlobFault): void {
    if (!(heard instanceof BlobFault)) {
      this.#answers.set(member, heard)
      return
    }
    this.#deaf.add(member)
    this.faults.push(heard)
    this.#deps.broken(member.id, heard)
  }

  /** Never rejects. */
  async #put({ id, node }: GroupMember, asNew: boolean): Promise<BlobInfo | BlobFault> {
    try {
      return await node.put(this.#blob, { ...this.#options, asNew })
    } catch (error) {
      const fault =
        error instanceof BlobFault
          ? error
          : new BlobFault('UNAVAILABLE', `${id}: ${(error as Error).message}`, { cause: error })
      return fault.code === 'UNKNOWN' ? ((await this.#committedAt(node)) ?? fault) : fault
    }
  }

  /** The outcome of a put without an answer. */
  async #committedAt(node: StorageNode): Promise<BlobInfo | undefined> {
    try {
      const info = await node.committed(this.#options.uploadId)
      return info?.size === this.#blob.bytes.length ? info : undefined
    } catch {
      return undefined // it does not count, and is harmless if it exists
    }
  }
}

/**
 * A node that returns after tombstones have expired may hold copies that were deleted everywhere
 * else. It takes part as before, but is no source for others until its copies were checked against
 * the references.
 */
import { BlobFault, type BlobName } from '@holdfast/blob-store'
import type { Clock } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'

const noteName = 'alive'

export interface RejoinCheckOptions {
  node: LocalNode
  /** Read at quorum. */
  referenced: (blob: BlobName) => Promise<boolean>
  clock: Clock
}

/** Shorter than tombstones are kept anywhere, which leaves room for clocks and slow starts. */
const awayMsMax = 5 * 24 * 3_600_000

export class RejoinCheck {
  readonly #options: RejoinCheckOptions

  constructor(options: RejoinCheckOptions) {
    this.#options = options
  }

  /** Call it before the node serves requests. A store without a note is new, and needs no check. */
  async begin(): Promise<void> {
    const { node, clock } = this.#options
    const note = await node.store.note(noteName)
    const awayMs = note === undefined ? 0 : clock.now() - Number(Buffer.from(note).toString('utf8'))
    if (awayMs > awayMsMax) node.unverified = `${node.id} was away for ${Math.round(awayMs / 3_600_000)} h`
    else await this.noteAlive()
  }

  /**
   * Called every few minutes. Does nothing while the node is unverified, so that a second start
   * sees the absence too.
   */
  async noteAlive(): Promise<void> {
    const { node, clock } = this.#options
    if (node.unverified === undefined)
      await node.store.setNote(noteName, Buffer.from(String(Math.floor(clock.now()))))
  }

  /**
   * Removes unreferenced copies, then lets others pull from here. The collector handles uploads of
   * the last day: their references may not be written yet.
   * @throws BlobFault when references cannot be read: the node stays unverified.
   */
  async verify(): Promise<{ checked: number; removed: number }> {
    const { node, referenced, clock } = this.#options
    let checked = 0
    let removed = 0
    for await (const info of node.store.inventory()) {
      checked++
      if (clock.now() - info.createdMs < recentMs || (await referenced(info))) continue
      const outcome = await node.store.delete(info)
      if (outcome === 'deleted') removed++
      else throw new BlobFault('UNAVAILABLE', 'a copy without reference is pinned; check again later')
    }
    node.unverified = undefined
    await this.noteAlive()
    return { checked, removed }
  }
}

const recentMs = 24 * 3_600_000

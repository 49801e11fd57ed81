/**
 * Everything about one account: its record, its tree, its pending effects, its kept results, its
 * report sources.
 */

import { reportSourcesMax } from '../bounds.ts'
import { Tree } from '../tree/tree.ts'
import { Effects } from './effects.ts'
import { Outcomes } from './outcomes.ts'
import type { AccountRecord } from './record.ts'

export const noCode = { next: 0, term: 0 } as const

export class Account {
  readonly id: string
  /** Undefined until it was created. */
  record: AccountRecord | undefined
  readonly tree = new Tree()
  readonly effects = new Effects(this.tree.blobs)
  readonly outcomes = new Outcomes(this.tree.cuts)
  /** Reporting process (hex) → last sequence, longest silent first. */
  readonly sources = new Map<string, number>()
  /** The counter after the last used share code; the rest of its block belongs to the account. */
  nextCode: { readonly next: number; readonly term: number } = noCode
  /**
   * No file had its last use before this time, Unix seconds; undefined: not looked up. Only a
   * cache.
   */
  idleSince: { earliest: number | undefined } | undefined
  /**
   * Distinguishes this state in memory from every other of the account: 16 bytes, the seed of the
   * first decision that needed it.
   */
  #instance: Buffer | undefined

  constructor(id: string) {
    this.id = id
  }

  get bytes(): number {
    return 4_096 + this.tree.bytes + this.effects.bytes + this.outcomes.bytes + this.sources.size * 100
  }

  /** Identifies the content of a folder, now and only in this state: 24 bytes. */
  versionOf(folder: number, seed: Uint8Array): Buffer {
    this.#instance ??= Buffer.from(seed)
    const change = Buffer.alloc(8)
    change.writeDoubleBE(this.tree.changeOf(folder))
    return Buffer.concat([this.#instance, change])
  }

  /** @throws Error when the account was not created yet. */
  get known(): AccountRecord {
    if (this.record === undefined) throw new Error(`account ${this.id} does not exist`)
    return this.record
  }

  /**
   * The row of a content; @throws Error when there is none. For contents that were looked up
   * before.
   */
  row(id: string): number {
    const row = this.tree.find(id)
    if (row < 0) throw new Error(`content ${id} is not in account ${this.id}`)
    return row
  }

  isNewReport(source: string, sequence: number): boolean {
    return sequence > (this.sources.get(source) ?? 0)
  }

  heard(source: string, sequence: number): void {
    this.sources.delete(source)
    this.sources.set(source, sequence)
    for (const oldest of this.sources.keys()) {
      if (this.sources.size <= reportSourcesMax) break
      this.sources.delete(oldest)
    }
  }
}

/**
 * Counters of share codes, drawn ahead by a host and leased to its accounts in whole, exclusive
 * blocks. Counters not leased before the host ends are lost.
 */
import type { LookupStore } from '@holdfast/journal'
import { codesPerBlock } from '@holdfast/kernel'
import { codesCounter } from './lookup-rows.ts'

export interface CodeRange {
  next: number
  end: number
}

export function widthOf({ next, end }: CodeRange): number {
  return end - next
}

export class CodeLeases {
  readonly #lookups: LookupStore
  readonly #drawn: number
  #rest: CodeRange = { next: 0, end: 0 }
  #spare: CodeRange | undefined
  #drawing: Promise<void> | undefined

  /** @param options.drawn counters drawn at one time: whole blocks. */
  constructor(lookups: LookupStore, { drawn }: { drawn: number }) {
    if (drawn % codesPerBlock !== 0) throw new RangeError(`${drawn} counters are no whole blocks`)
    this.#lookups = lookups
    this.#drawn = drawn
  }

  /** Draws the first counters; earlier users wait for them. Failure shows at the first use. */
  prepare(): void {
    this.#drawAhead()
  }

  /** That many consecutive blocks, or undefined: they must be awaited. */
  takeNow(blocks: number): CodeRange | undefined {
    const count = blocks * codesPerBlock
    if (widthOf(this.#rest) < count && this.#spare !== undefined && widthOf(this.#spare) >= count) {
      this.#rest = this.#spare
      this.#spare = undefined
    }
    if (this.#spare === undefined && widthOf(this.#rest) < this.#drawn / 2) this.#drawAhead()
    if (widthOf(this.#rest) < count) return undefined
    const { next } = this.#rest
    this.#rest.next += count
    return { next, end: next + count }
  }

  /** That many consecutive blocks. @throws what the lookups throw. */
  async take(blocks: number): Promise<CodeRange> {
    const count = blocks * codesPerBlock
    if (count <= this.#drawn) {
      const range = this.takeNow(blocks)
      if (range !== undefined) return range
      await this.#drawing?.catch(() => {}) // the draw below reports the failure
      const drawn = this.takeNow(blocks)
      if (drawn !== undefined) return drawn
    }
    const next = await this.#lookups.take(codesCounter, count)
    return { next, end: next + count }
  }

  #drawAhead(): void {
    if (this.#drawing !== undefined) return
    this.#drawing = this.#draw()
    this.#drawing.catch(() => {})
  }

  async #draw(): Promise<void> {
    try {
      const next = await this.#lookups.take(codesCounter, this.#drawn)
      this.#spare = { next, end: next + this.#drawn }
    } finally {
      this.#drawing = undefined
    }
  }
}

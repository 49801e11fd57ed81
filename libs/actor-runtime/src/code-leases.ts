/**
 * Counters of share codes, drawn ahead in blocks that nobody else gets.
 *
 * A decision is shown a range; what its change used is burnt, also when the append of that change is refused later: a code
 * is never handed out twice. What a crash leaves of a block is lost.
 */
import type { LookupStore } from '@holdfast/journal'

export interface CodeRange {
  next: number
  end: number
}

export function widthOf({ next, end }: CodeRange): number {
  return end - next
}

export class CodeLeases {
  readonly #lookups: LookupStore
  readonly #counter: string
  readonly #drawn: number
  #block: CodeRange = { next: 0, end: 0 }
  #spare: CodeRange | undefined
  #drawing: Promise<void> | undefined

  /** @param drawn counters a block has. */
  constructor(lookups: LookupStore, { counter, drawn }: { counter: string; drawn: number }) {
    this.#lookups = lookups
    this.#counter = counter
    this.#drawn = drawn
  }

  /** Draws the first block; decisions made before get an empty range and ask. Failure shows at the first use. */
  prepare(): void {
    this.#drawAhead()
  }

  /** The next `width` counters, or none. Shown again to the next decision unless burnt. */
  show(width: number): CodeRange {
    if (widthOf(this.#block) < width && this.#spare !== undefined) {
      this.#block = this.#spare
      this.#spare = undefined
    }
    if (this.#spare === undefined && widthOf(this.#block) < this.#drawn / 2) this.#drawAhead()
    const { next, end } = this.#block
    return end - next < width ? { next: 0, end: 0 } : { next, end: next + width }
  }

  /** The first `used` of a range are spent: nobody is shown them again.  */
  burn(range: CodeRange, used: number): void {
    if (used > widthOf(range)) throw new RangeError(`${used} codes were used of ${widthOf(range)}`)
    if (used > 0 && range.next === this.#block.next) this.#block.next += used
  }

  /** A range of one's own. @throws what the lookups throw. */
  async take(count: number): Promise<CodeRange> {
    if (count <= this.#drawn) {
      if (this.#drawing !== undefined) await this.#drawing.catch(() => {})
      const range = this.show(count)
      if (widthOf(range) > 0) {
        this.#block.next = range.end
        return range
      }
    }
    const next = await this.#lookups.take(this.#counter, count)
    return { next, end: next + count }
  }

  #drawAhead(): void {
    if (this.#drawing !== undefined) return
    this.#drawing = this.#draw()
    this.#drawing.catch(() => {})
  }

  async #draw(): Promise<void> {
    try {
      const next = await this.#lookups.take(this.#counter, this.#drawn)
      this.#spare = { next, end: next + this.#drawn }
    } finally {
      this.#drawing = undefined
    }
  }
}

/**
 * A hash index from keys of several 32-bit words to rows. The keys themselves are in their column;
 * the index holds only row numbers, four bytes per slot. Linear probing; deletion shifts back, so
 * there are no tombstones.
 *
 * Keys are random by construction (ids are keyed permutations, incarnations random numbers), so
 * their words serve as the hash.
 */

const empty = 0xffffffff

export class WordIndex {
  readonly #words: number
  readonly #hashWord: number
  #column: Uint32Array
  #slots = new Uint32Array(16).fill(empty)
  #used = 0

  /** @param words words a key. @param hashWord which of them is the most random. */
  constructor(column: Uint32Array, { words, hashWord }: { words: number; hashWord: number }) {
    this.#column = column
    this.#words = words
    this.#hashWord = hashWord
  }

  get bytes(): number {
    return this.#slots.byteLength
  }

  /** Call it when the key column was replaced by a larger one. */
  moved(column: Uint32Array): void {
    this.#column = column
  }

  /** The row with this key, or -1. */
  find(key: Uint32Array, at = 0): number {
    const mask = this.#slots.length - 1
    for (let slot = this.#hash(key[at + this.#hashWord] as number); ; slot = (slot + 1) & mask) {
      const row = this.#slots[slot] as number
      if (row === empty) return -1
      if (this.#same(row, key, at)) return row
    }
  }

  /** The row's key must not be in the index yet. */
  add(row: number): void {
    this.reserve(this.#used + 1)
    this.#insert(row)
    this.#used++
  }

  /** As `add`, for consecutive rows. */
  addRun(first: number, count: number): void {
    this.reserve(this.#used + count)
    for (let row = first; row < first + count; row++) this.#insert(row)
    this.#used += count
  }

  /** Makes room at once for that many rows in all. */
  reserve(rows: number): void {
    let slots = this.#slots.length
    while (rows * 4 > slots * 3) slots *= 2
    if (slots > this.#slots.length) this.#resize(slots)
  }

  remove(row: number): void {
    const mask = this.#slots.length - 1
    let slot = this.#homeOf(row)
    while (this.#slots[slot] !== row) {
      if (this.#slots[slot] === empty) throw new Error(`row ${row} is not in the index`)
      slot = (slot + 1) & mask
    }
    this.#used--
    for (let next = (slot + 1) & mask; ; next = (next + 1) & mask) {
      const other = this.#slots[next] as number
      if (other === empty) break
      const home = this.#homeOf(other)
      if (((next - home) & mask) < ((next - slot) & mask)) continue
      this.#slots[slot] = other
      slot = next
    }
    this.#slots[slot] = empty
  }

  #insert(row: number): void {
    const mask = this.#slots.length - 1
    let slot = this.#homeOf(row)
    while (this.#slots[slot] !== empty) slot = (slot + 1) & mask
    this.#slots[slot] = row
  }

  #resize(slots: number): void {
    const rows = this.#slots
    this.#slots = new Uint32Array(slots).fill(empty)
    for (const row of rows) if (row !== empty) this.#insert(row)
  }

  #homeOf(row: number): number {
    return this.#hash(this.#column[row * this.#words + this.#hashWord] as number)
  }

  #hash(word: number): number {
    return (Math.imul(word, 0x9e3779b1) >>> 7) & (this.#slots.length - 1)
  }

  #same(row: number, key: Uint32Array, at: number): boolean {
    const start = row * this.#words
    for (let word = 0; word < this.#words; word++)
      if (this.#column[start + word] !== key[at + word]) return false
    return true
  }
}

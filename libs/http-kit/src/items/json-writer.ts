/**
 * JSON text written as UTF-8 bytes into one growing buffer.
 *
 * The cost of an answer of half a megabyte is that of its bytes. A string would be joined from
 * ropes, measured and encoded, each with a pass over all of it. Constant parts are copied whole,
 * and loops over single bytes run over short ones only, so that the first answers, made by
 * uncompiled code, also take a few milliseconds.
 */

const comma = 0x2c
const quote = 0x22
const zero = 0x30
const dash = 0x2d

/** Bytes from which a copy as a whole is faster than one byte by byte. */
const wholeCopyMin = 16
const firstBytes = 1_024
/**
 * A slice ends after the item that passes its bound. This many bytes are reserved for the end of
 * that item.
 */
const beyondSlice = 16 * 1024
/** A buffer for an item that is larger than usual is this many times as long as its content. */
const growthBeyond = 1.25
/** Characters from which a text is measured. A shorter one reserves its maximum size. */
const measuredMin = 1_024
/** Maximum characters of a number. */
export const numberBytesMax = 25
export const uuidBytes = 36

const highDigits = Buffer.from(Array.from({ length: 256 }, (_, byte) => digit(byte >> 4)))
const lowDigits = Buffer.from(Array.from({ length: 256 }, (_, byte) => digit(byte & 15)))
/** ASCII that needs no escape in a JSON string or in a part of a URL's path. */
const plainInJson = asciiTable((character) => JSON.stringify(character) === `"${character}"`)
const plainInUrl = asciiTable((character) => encodeURIComponent(character) === character)

export class JsonWriter {
  #bytes = Buffer.allocUnsafe(firstBytes)
  #at = 0
  #sliceBytes: number
  readonly #pieceBytes: number
  /** Where the current piece ends. */
  #pauseAt: number

  /**
   * @param sliceBytes size of a slice, which is one buffer. Default: no bound.
   * @param pieceBytes size of a piece, which is written without a pause. Default: that of a slice.
   */
  constructor(sliceBytes = Number.POSITIVE_INFINITY, pieceBytes = sliceBytes) {
    this.#sliceBytes = sliceBytes
    this.#pieceBytes = pieceBytes
    this.#pauseAt = Math.min(pieceBytes, sliceBytes)
  }

  /** Whether the piece is complete. A caller that can pause pauses now. */
  get full(): boolean {
    return this.#at >= this.#pauseAt
  }

  /** Whether the slice is complete. */
  get isSlice(): boolean {
    return this.#at >= this.#sliceBytes
  }

  /** Begins the next piece of the slice. */
  goOn(): void {
    this.#pauseAt = Math.min(this.#at + this.#pieceBytes, this.#sliceBytes)
  }

  /** Bytes written since the last slice. @param sliceBytes size of the next slice */
  slice(sliceBytes: number): Buffer {
    const written = this.done()
    this.#bytes = Buffer.allocUnsafe(firstBytes)
    this.#at = 0
    this.#sliceBytes = sliceBytes
    this.goOn()
    return written
  }

  /** The written bytes; do not use the writer afterwards. */
  done(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }

  /** Reserves this many further bytes. */
  reserve(bytes: number): void {
    const least = this.#at + bytes
    if (least <= this.#bytes.length) return
    // Doubling would make a buffer of two slices for a slice that is only a little over its bound.
    const usual = Math.min(this.#bytes.length * 2, this.#sliceBytes + beyondSlice)
    const grown = Buffer.allocUnsafe(least <= usual ? usual : Math.ceil(least * growthBeyond))
    grown.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = grown
  }

  /** Like `reserve`, for output in slices: it reserves at most one slice. */
  expect(bytes: number): void {
    this.reserve(Math.min(bytes, this.#sliceBytes))
  }

  /** Writes JSON unchanged. */
  text(json: string): void {
    this.reserve(json.length < measuredMin ? json.length * 3 : Buffer.byteLength(json))
    this.#at += this.#bytes.write(json, this.#at)
  }

  comma(): void {
    this.reserve(1)
    this.#bytes[this.#at++] = comma
  }

  // The following methods write into reserved room.

  raw(bytes: Uint8Array): void {
    const at = this.#at
    if (bytes.length >= wholeCopyMin) this.#bytes.set(bytes, at)
    else for (let n = 0; n < bytes.length; n++) this.#bytes[at + n] = bytes[n] as number
    this.#at = at + bytes.length
  }

  /** Writes a few bytes. */
  part(bytes: Uint8Array, start: number, count: number): void {
    const at = this.#at
    for (let n = 0; n < count; n++) this.#bytes[at + n] = bytes[start + n] as number
    this.#at = at + count
  }

  /** Writes lower-case hex digits of some bytes. */
  hex(bytes: Uint8Array, start: number, count: number): void {
    const out = this.#bytes
    let at = this.#at
    for (let n = start; n < start + count; n++) {
      const byte = bytes[n] as number
      out[at++] = highDigits[byte] as number
      out[at++] = lowDigits[byte] as number
    }
    this.#at = at
  }

  /** Writes the UUID of 16 bytes. @returns its position, for `uuidAgain`. */
  uuid(bytes: Uint8Array, start: number): number {
    const at = this.#at
    this.hex(bytes, start, 4)
    this.#bytes[this.#at++] = dash
    this.hex(bytes, start + 4, 2)
    this.#bytes[this.#at++] = dash
    this.hex(bytes, start + 6, 2)
    this.#bytes[this.#at++] = dash
    this.hex(bytes, start + 8, 2)
    this.#bytes[this.#at++] = dash
    this.hex(bytes, start + 10, 6)
    return at
  }

  uuidAgain(from: number): void {
    this.#bytes.copyWithin(this.#at, from, from + uuidBytes)
    this.#at += uuidBytes
  }

  number(value: number): void {
    // Writes times, sizes and counts with 32-bit integer arithmetic alone.
    if ((value | 0) !== value || value < 0) {
      this.#at += this.#bytes.write(String(value), this.#at, 'latin1')
      return
    }
    let end = this.#at + 1
    for (let rest = value; rest > 9; rest = (rest / 10) | 0) end++
    this.#at = end
    for (let rest = value; ; rest = (rest / 10) | 0) {
      this.#bytes[--end] = zero + (rest % 10)
      if (rest < 10) return
    }
  }

  /** Writes a quoted and escaped string. */
  string(text: string): void {
    const out = this.#bytes
    let at = this.#at
    out[at++] = quote
    for (let n = 0; n < text.length; n++) {
      const code = text.charCodeAt(n)
      if (plainInJson[code] !== 1) {
        this.#at += out.write(JSON.stringify(text), this.#at)
        return
      }
      out[at++] = code
    }
    out[at++] = quote
    this.#at = at
  }

  /** Writes a part of a URL's path, encoded. */
  urlPart(text: string): void {
    const out = this.#bytes
    let at = this.#at
    for (let n = 0; n < text.length; n++) {
      const code = text.charCodeAt(n)
      if (plainInUrl[code] !== 1) {
        this.#at += out.write(encodeURIComponent(text), this.#at, 'latin1')
        return
      }
      out[at++] = code
    }
    this.#at = at
  }
}

/** Maximum bytes of `string` for this many UTF-16 units: `\u0000`. */
export function textBytesMax(units: number): number {
  return 2 + units * 6
}

/** Maximum bytes of `string` and `urlPart` for this many UTF-16 units: `\u0000`, `%E2%82%AC`. */
export function writtenNameBytesMax(units: number): number {
  return 2 + units * (6 + 9)
}

function digit(value: number): number {
  return value.toString(16).charCodeAt(0)
}

function asciiTable(isPlain: (character: string) => boolean): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) => (isPlain(String.fromCharCode(code)) ? 1 : 0))
}

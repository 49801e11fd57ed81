/**
 * `multipart/form-data` (RFC 7578 over RFC 2046) as it arrives: chunks go in, parts come out, only
 * headers are buffered.
 *
 * Event-based parsers report a truncated body as ended, skip invalid parts, and know one of two
 * file names. An upload must be exactly what was sent or an error. So this parser is a state
 * machine that its reader pulls: anything but a well-formed form throws, and the bytes of a part
 * are views into the current chunk.
 *
 * ```
 * start → preamble → after delimiter → headers → body ─┐
 *   └───────────────→     ↑    └──── `--` → epilogue    │
 *                         └────────── delimiter ────────┘
 * ```
 */
import { isUtf8 } from 'node:buffer'
import { RefusalError } from '@holdfast/http-kit'
import { GrowingBytes, RecentMap } from '@holdfast/kernel'
import {
  afterBlanks,
  closingQuote,
  type Disposition,
  decodedFileName,
  parseDisposition,
  trimSpace,
} from './content-disposition.ts'

export type FormEvent =
  | { kind: 'part'; part: PartHead }
  /** Bytes of the part that began last; valid until the next chunk is fed. */
  | { kind: 'data'; bytes: Buffer }
  | { kind: 'part end' }

export interface PartHead extends Readonly<Disposition> {
  /** Content-Type as sent; undefined without one. */
  readonly type: string | undefined
}

/** Forms of browsers and tools have a handful. */
const partsMax = 100
/** A name of 255 code points, percent-encoded in both spellings, needs 6 KiB. */
const partHeaderBytesMax = 16 * 1024
/** Headers of all parts together: a form of a hundred parts with usual heads has 20 KiB. */
const formHeaderBytesMax = 64 * 1024
/** Heads read in one go. Then `needsPause` asks for a turn of the loop for others. */
const headsPerTurnMax = 16
const headerLinesMax = 32
const paddingBytesMax = 256
/** Text before the first and after the last boundary is ignored; a little is allowed. */
const surroundBytesMax = 64 * 1024
const cr = 0x0d

type State = 'start' | 'preamble' | 'delimiter' | 'after delimiter' | 'headers' | 'body' | 'epilogue'

/** Every delimiter begins with this. */
const delimiterStart = Buffer.from('\r\n--')
/**
 * After this many of them in one search that begin no delimiter, the rest is searched for the whole
 * delimiter.
 */
const falseStartsMax = 16
/** Below this, the two ways to search take the same time. */
const largeSearchBytes = 16 * 1024
/** Distance of the sampled bytes. A prime: lines of one length have no pattern in it. */
const sampledEvery = 1021
/** More carriage returns than this among the sampled bytes: one byte in twenty is one. */
const sampledReturnsMax = 2
const lineBreak = Buffer.from('\r\n')
const emptyLine = Buffer.from('\r\n\r\n')
/** RFC 2046 says 70. */
const boundaryLengthMax = 200
const nothing = Buffer.alloc(0)
const partEnd: FormEvent = { kind: 'part end' }

/** Cached delimiters, for types of up to this many characters; 100 KiB in all. */
const delimitersMax = 256
const rememberedTypeLengthMax = 256

/** Common parts of a client's forms are parsed once: the delimiter by the type of the request. */
export class FormMemory {
  readonly #delimiters = new RecentMap<string, Buffer>({ max: delimitersMax })

  /** @throws RefusalError error-body */
  delimiterOf(contentType: string | undefined): Buffer {
    const type = contentType ?? ''
    let delimiter = this.#delimiters.get(type)
    if (delimiter === undefined) {
      delimiter = Buffer.from(`\r\n--${boundaryOf(type)}`, 'latin1')
      if (type.length <= rememberedTypeLengthMax) this.#delimiters.set(type, delimiter)
    }
    return delimiter
  }
}

export class FormScanner {
  readonly #delimiter: Buffer
  #state: State = 'start'
  /** The chunk, after the undecided rest of earlier ones, and how far it is read. */
  #bytes: Buffer = nothing
  #at = 0
  readonly #held = new GrowingBytes()
  /** The bytes are a view of what is held. */
  #fromHeld = false
  #parts = 0
  #headerBytes = 0
  /** Heads read since the last pause. */
  #headsThisTurn = 0
  /** In these bytes, from `#at` on, the end of the headers does not begin before this index. */
  #searched = 0
  #surroundBytes = 0

  /**
   * @param contentType of the request.
   * @throws RefusalError error-body when it is no form, or one without a usable boundary.
   */
  constructor(contentType: string | undefined, memory: FormMemory = new FormMemory()) {
    this.#delimiter = memory.delimiterOf(contentType)
  }

  /**
   * Feeds a chunk. `next` returns its events; call it until it returns undefined before feeding
   * another chunk.
   */
  feed(chunk: Buffer): void {
    this.#at = 0
    this.#fromHeld = false
    if (this.#state === 'start') this.#begin(chunk)
    else if (this.#held.length === 0) this.#bytes = chunk
    else {
      this.#held.append(chunk)
      this.#bytes = this.#held.view()
      this.#fromHeld = true
    }
  }

  /**
   * Many heads were read since the last pause: one form must not block the loop. Calling this
   * begins the next turn.
   */
  get needsPause(): boolean {
    if (this.#headsThisTurn < headsPerTurnMax) return false
    this.#headsThisTurn = 0
    return true
  }

  /**
   * @returns undefined when it needs another chunk.
   * @throws RefusalError error-body when the form is malformed or has too many parts,
   *   error-headerSize when their headers are too large.
   */
  next(): FormEvent | undefined {
    for (;;) {
      const bytes = this.#bytes
      const at = this.#at
      if (at === bytes.length) {
        if (at > 0) this.#hold(at)
        return undefined
      }
      switch (this.#state) {
        case 'start':
          throw new Error('a form was read before it was fed')
        case 'preamble':
        case 'body': {
          const found = this.#find(bytes, at)
          const end = found < 0 ? this.#undecided(bytes, at) : found
          const inBody = this.#state === 'body'
          if (!inBody) this.#surround(end - at)
          if (found < 0) this.#hold(end)
          else {
            this.#at = inBody ? found : found + this.#delimiter.length
            this.#state = inBody ? 'delimiter' : 'after delimiter'
          }
          if (inBody && end > at) return { kind: 'data', bytes: viewOf(bytes, at, end) }
          if (found < 0) return undefined
          break
        }
        case 'delimiter':
          this.#at = at + this.#delimiter.length
          this.#state = 'after delimiter'
          return partEnd
        case 'after delimiter': {
          const next = this.#lineEnd(bytes, at)
          if (next === undefined) return this.#hold(at)
          this.#at = next
          break
        }
        case 'headers': {
          const end = headersEnd(bytes, at, this.#searched)
          this.#assertHeaderBytes((end ?? bytes.length) - at)
          if (end === undefined) {
            // Its last three bytes may begin the empty line.
            this.#searched = Math.max(0, bytes.length - at - 3)
            return this.#hold(at)
          }
          this.#searched = 0
          if (++this.#parts > partsMax) throw new RefusalError('error-body')
          this.#headerBytes += end - at
          this.#headsThisTurn++
          this.#at = end
          this.#state = 'body'
          return { kind: 'part', part: partHead(bytes.subarray(at, end)) }
        }
        case 'epilogue':
          this.#at = bytes.length
          this.#surround(bytes.length - at)
      }
    }
  }

  /**
   * The first delimiter lacks the line break of the others, because usually nothing precedes it.
   */
  #begin(chunk: Buffer): void {
    const bytes = this.#delimiter.length - lineBreak.length
    const isThere = chunk.length >= bytes && this.#delimiter.compare(chunk, 0, bytes, lineBreak.length) === 0
    this.#state = isThere ? 'after delimiter' : 'preamble'
    this.#bytes = isThere ? chunk : Buffer.concat([lineBreak, chunk])
    if (isThere) this.#at = bytes
  }

  /**
   * Index of the delimiter, -1 without one. Its first four bytes are found in a third of the time
   * that all of it takes, unless every few bytes could begin them (`bench/NOTES-bulk-uploads.md`).
   */
  #find(bytes: Buffer, at: number): number {
    const delimiter = this.#delimiter
    if (bytes.length - at < largeSearchBytes || hasManyReturns(bytes, at)) return bytes.indexOf(delimiter, at)
    let from = at
    for (let looks = 0; looks < falseStartsMax; looks++) {
      const start = bytes.indexOf(delimiterStart, from)
      const end = start + delimiter.length
      if (start < 0 || end > bytes.length) return -1
      if (delimiter.compare(bytes, start, end) === 0) return start
      from = start + 1
    }
    return bytes.indexOf(delimiter, from)
  }

  /** The body has ended. @throws RefusalError error-body unless the form had. */
  end(): void {
    if (this.#state !== 'epilogue') throw new RefusalError('error-body')
  }

  /**
   * After a delimiter comes `--`, or padding and a line break.
   * @returns where to continue; undefined when it needs more bytes.
   */
  #lineEnd(bytes: Buffer, at: number): number | undefined {
    if (bytes.length < at + 2) return undefined
    if (bytes[at] === 0x2d && bytes[at + 1] === 0x2d) {
      this.#state = 'epilogue'
      return at + 2
    }
    let end = at
    while (bytes[end] === 0x20 || bytes[end] === 0x09) end++
    if (end - at > paddingBytesMax) throw new RefusalError('error-body')
    if (bytes.length < end + 2) return undefined
    if (bytes[end] !== cr || bytes[end + 1] !== 0x0a) throw new RefusalError('error-body')
    this.#state = 'headers'
    return end + 2
  }

  /** Start of the bytes that may be the first part of a delimiter. */
  #undecided(bytes: Buffer, at: number): number {
    const delimiter = this.#delimiter
    const earliest = Math.max(at, bytes.length - delimiter.length + 1)
    if (bytes.indexOf(cr, earliest) < 0) return bytes.length
    // A delimiter has one CR, its first byte: no other follows.
    const start = bytes.lastIndexOf(cr)
    const isPart = delimiter.compare(bytes, start, bytes.length, 0, bytes.length - start) === 0
    return isPart ? start : bytes.length
  }

  #hold(from: number): undefined {
    const rest = this.#bytes
    this.#bytes = nothing
    this.#at = 0
    if (this.#fromHeld && from === 0) return // all of it is held already
    this.#held.clear()
    // A copy: the socket reuses the chunk after it was read. The old bytes may be in use until the
    // next chunk.
    if (from < rest.length) this.#held.append(rest.subarray(from))
  }

  /** @param bytes of the head that is being read. */
  #assertHeaderBytes(bytes: number): void {
    if (bytes > partHeaderBytesMax || this.#headerBytes + bytes > formHeaderBytesMax)
      throw new RefusalError('error-headerSize')
  }

  #surround(bytes: number): void {
    this.#surroundBytes += bytes
    if (this.#surroundBytes > surroundBytesMax) throw new RefusalError('error-body')
  }
}

/** Most chunks are a part of a file as a whole: no object is made for them. */
function viewOf(bytes: Buffer, start: number, end: number): Buffer {
  return start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)
}

/** By a sample from a random start: no sender knows which bytes are looked at. */
function hasManyReturns(bytes: Buffer, from: number): boolean {
  let returns = 0
  for (let at = from + Math.floor(Math.random() * sampledEvery); at < bytes.length; at += sampledEvery)
    if (bytes[at] === cr) returns++
  return returns > sampledReturnsMax
}

/**
 * `boundary` of `multipart/form-data; charset=utf-8; boundary="…"`. @throws RefusalError error-body
 */
function boundaryOf(contentType: string): string {
  let at = contentType.indexOf(';')
  const isForm = trimSpace(contentType, 0, Math.max(0, at)).toLowerCase() === 'multipart/form-data'
  for (; isForm && at >= 0; at = contentType.indexOf(';', at + 1)) {
    const boundary = boundaryAt(contentType, afterBlanks(contentType, at + 1))
    if (boundary === undefined) continue
    if (boundary.length > boundaryLengthMax) break
    return boundary
  }
  throw new RefusalError('error-body')
}

/**
 * The value of the parameter that begins here; undefined when it is another parameter, or empty.
 */
function boundaryAt(text: string, start: number): string | undefined {
  const name = 'boundary'
  if (text.slice(start, start + name.length).toLowerCase() !== name) return undefined
  const equals = afterBlanks(text, start + name.length)
  if (text[equals] !== '=') return undefined
  const value = afterBlanks(text, equals + 1)
  if (text[value] !== '"') return /^[^\s;,"]+/.exec(text.slice(value))?.[0]
  const end = closingQuote(text, value)
  return end === undefined ? undefined : text.slice(value + 1, end).replace(/\\(.)/gs, '$1') || undefined
}

/**
 * Index behind the empty line that ends the headers.
 * @param searched number of bytes from `at` on that are known not to begin it.
 */
function headersEnd(bytes: Buffer, at: number, searched: number): number | undefined {
  if (bytes[at] === cr && bytes[at + 1] === 0x0a) return at + 2
  const end = bytes.indexOf(emptyLine, at + searched)
  return end < 0 ? undefined : end + emptyLine.length
}

/** The form that nearly every client writes: plain names and a type, without escapes, in ASCII. */
const plainHead =
  /^Content-Disposition: form-data; name="([\w.-]+)"(?:; filename="([ !#-[\]-~]*)")?\r\n(?:Content-Type: ([\w!#$&^.+/-]+)\r\n)?\r\n$/
const plainHeadBytesMax = 512

/** @throws RefusalError error-body */
export function partHead(block: Buffer): PartHead {
  const plain = block.length > plainHeadBytesMax ? null : plainHead.exec(block.toString('latin1'))
  if (plain === null) return anyPartHead(block)
  return { name: plain[1], fileName: plain[2] && decodedFileName(plain[2]), type: plain[3] }
}

/** The head of a part in any form that is allowed. @throws RefusalError error-body */
export function anyPartHead(block: Buffer): PartHead {
  const text = textOf(block).replace(/\r\n[ \t]+/g, ' ')
  const lines = text.split('\r\n').filter((line) => line !== '')
  if (lines.length > headerLinesMax) throw new RefusalError('error-body')
  let disposition: string | undefined
  let type: string | undefined
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = trimSpace(line, 0, colon)
    if (name === '' || line.startsWith(' ') || line.startsWith('\t') || /\s/.test(name))
      throw new RefusalError('error-body')
    if (name.toLowerCase() === 'content-disposition') disposition ??= trimSpace(line, colon + 1)
    if (name.toLowerCase() === 'content-type') type ??= trimSpace(line, colon + 1)
  }
  return { ...parseDisposition(disposition), type }
}

/**
 * UTF-8, as every client of today sends it; invalid UTF-8 is decoded as Latin-1, which loses
 * nothing.
 */
function textOf(bytes: Buffer): string {
  return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}

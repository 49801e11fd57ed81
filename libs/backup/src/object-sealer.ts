/**
 * How objects are written: as they are, or encrypted.
 *
 * Encrypted bytes are frames of at most 1 MiB:
 *
 * | bytes | field                                                     |
 * | ----- | --------------------------------------------------------- |
 * | 4     | length of the ciphertext; the highest bit: the last frame |
 * | 12    | nonce, random                                             |
 * | 16    | tag of AES-256-GCM                                        |
 * | n     | ciphertext                                                |
 *
 * The tag covers name, number and position too, so frames cannot be moved, left out or cut off.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { BackupFault } from './errors.ts'

const frameBytes = 1024 * 1024
const lastBit = 0x8000_0000
const headBytes = 4 + 12 + 16

/** Bytes in pieces of any size. */
export type Pieces = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

export interface ObjectSealer {
  /** The file name of an object. */
  nameOf(object: string): string
  seal(object: string, bytes: Pieces): Pieces
  /** @throws BackupFault `DAMAGED` before any byte that is not as it was written. */
  unseal(object: string, bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>
}

/** For backups without encryption: digests of the caller protect the bytes. */
export const plain: ObjectSealer = {
  nameOf: (object) => object,
  seal: (_, bytes) => bytes,
  unseal: (_, bytes) => bytes,
}

export class Encryption implements ObjectSealer {
  readonly #key: Buffer
  readonly #nameKey: Buffer

  constructor(secret: Uint8Array, salt: Uint8Array) {
    const derived = (what: string) =>
      Buffer.from(hkdfSync('sha256', secret, salt, `holdfast backup ${what}`, 32))
    this.#key = derived('bytes')
    this.#nameKey = derived('names')
  }

  nameOf(object: string): string {
    return createHmac('sha256', this.#nameKey).update(object).digest('hex')
  }

  async *seal(object: string, bytes: Pieces): AsyncGenerator<Uint8Array> {
    let number = 0
    let waiting: Buffer | undefined
    for await (const frame of inFrames(bytes)) {
      if (waiting !== undefined) yield this.#frame(object, waiting, { number: number++, last: false })
      waiting = frame
    }
    yield this.#frame(object, waiting ?? Buffer.alloc(0), { number, last: true })
  }

  #frame(object: string, text: Buffer, place: FramePosition): Buffer {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(boundTo(object, place))
    const sealed = Buffer.concat([cipher.update(text), cipher.final()])
    const length = Buffer.alloc(4)
    length.writeUInt32BE((sealed.length | (place.last ? lastBit : 0)) >>> 0)
    return Buffer.concat([length, nonce, cipher.getAuthTag(), sealed])
  }

  async *unseal(object: string, bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let rest = Buffer.alloc(0)
    let number = 0
    let ended = false
    for await (const piece of bytes) {
      rest = rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece])
      for (;;) {
        if (rest.length < headBytes) break
        const head = rest.readUInt32BE(0)
        const length = head & ~lastBit
        if (ended || length > frameBytes) throw damageFault(object)
        if (rest.length < headBytes + length) break
        ended = head >>> 31 === 1
        yield this.#opened(object, rest.subarray(0, headBytes + length), { number: number++, last: ended })
        rest = rest.subarray(headBytes + length)
      }
    }
    if (!ended || rest.length > 0) throw damageFault(object)
  }

  #opened(object: string, frame: Buffer, place: FramePosition): Buffer {
    const decipher = createDecipheriv('aes-256-gcm', this.#key, frame.subarray(4, 16))
      .setAAD(boundTo(object, place))
      .setAuthTag(frame.subarray(16, headBytes))
    try {
      return Buffer.concat([decipher.update(frame.subarray(headBytes)), decipher.final()])
    } catch (error) {
      throw damageFault(object, error)
    }
  }
}

interface FramePosition {
  number: number
  last: boolean
}

function boundTo(object: string, { number, last }: FramePosition): Buffer {
  return Buffer.from(`${object}\0${number}\0${last}`)
}

function damageFault(object: string, cause?: unknown): BackupFault {
  return new BackupFault('DAMAGED', `${object} cannot be decrypted: it is damaged`, { cause })
}

async function* inFrames(bytes: Pieces): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let size = 0
  for await (const piece of bytes) {
    for (let at = 0; at < piece.length; ) {
      // The source reuses its memory.
      const part = Buffer.from(piece.subarray(at, at + frameBytes - size))
      held.push(part)
      size += part.length
      at += part.length
      if (size < frameBytes) continue
      yield Buffer.concat(held)
      held = []
      size = 0
    }
  }
  if (size > 0) yield Buffer.concat(held)
}

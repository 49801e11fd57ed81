/**
 * The proof in a mailed link, beside the token. The creator of an account knows its token; only the
 * reader of the mail has the proof. A proof belongs to one token and expires with it; nothing is
 * stored.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

/** 128 bits: cannot be guessed. */
const proofBytes = 16

export class MailProofs {
  readonly #key: Uint8Array

  /** @param key 32 bytes, used for nothing else. */
  constructor(key: Uint8Array) {
    this.#key = key
  }

  /** 22 characters of [A-Za-z0-9_-]. */
  of(token: Uint8Array): string {
    return this.#digest(token).toString('base64url')
  }

  holds(token: Uint8Array, proof: string): boolean {
    const sent = Buffer.from(proof, 'base64url')
    return sent.length === proofBytes && timingSafeEqual(sent, this.#digest(token))
  }

  #digest(token: Uint8Array): Buffer {
    return createHmac('sha256', this.#key).update(token).digest().subarray(0, proofBytes)
  }
}

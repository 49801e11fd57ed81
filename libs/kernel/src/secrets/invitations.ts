/**
 * What opens a closed sign-up to one address until a time. The address and the time are signed, so
 * nothing is stored, and an invitation makes one account at most: an address has one.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

/** 128 bits: cannot be guessed. */
const proofBytes = 16

export class Invitations {
  readonly #key: Uint8Array

  /** @param key 32 bytes, used for nothing else. */
  constructor(key: Uint8Array) {
    this.#key = key
  }

  /**
   * At most 40 characters of [A-Za-z0-9_.-].
   * @param expireTime Unix seconds
   */
  of(email: string, expireTime: number): string {
    return `${expireTime.toString(36)}.${this.#digest(email, expireTime).toString('base64url')}`
  }

  holds(invitation: string, { email, nowSeconds }: { email: string; nowSeconds: number }): boolean {
    const [, time = '', proof = ''] = /^([0-9a-z]{1,9})\.([A-Za-z0-9_-]{22})$/.exec(invitation) ?? []
    if (time === '') return false
    const expireTime = Number.parseInt(time, 36)
    const sent = Buffer.from(proof, 'base64url')
    return timingSafeEqual(sent, this.#digest(email, expireTime)) && nowSeconds < expireTime
  }

  /** Addresses compare without case. */
  #digest(email: string, expireTime: number): Buffer {
    const signed = `${expireTime}\n${email.toLowerCase()}`
    return createHmac('sha256', this.#key).update(signed).digest().subarray(0, proofBytes)
  }
}

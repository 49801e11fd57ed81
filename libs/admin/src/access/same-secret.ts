import { createHash, timingSafeEqual } from 'node:crypto'

/** Compares digests, so that the time reveals neither content nor length. */
export function isSameSecret(sent: string, expected: string): boolean {
  return timingSafeEqual(digestOf(sent), digestOf(expected))
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

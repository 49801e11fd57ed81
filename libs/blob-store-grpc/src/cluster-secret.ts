/**
 * How the processes of a cluster authenticate each other: HMAC-SHA-256 with the cluster's secret
 * over the request and its time.
 *
 * It protects against an attacker that reads the cluster's network, or reaches its ports, and does
 * not know the secret. The attacker cannot make its own requests, because a proof is valid for one
 * message, one range or one upload. It can repeat a recorded request for a minute: reads of what it
 * has already seen, and writes that are idempotent by name. An upload's bytes are proven at their
 * end, by their number and CRC-32; a copy from node to node is proven by its name, which is its
 * digest.
 *
 * By itself it does not protect against an attacker that changes messages in transit, or answers in
 * a node's place: answers are not proven, and nothing is encrypted. Certificates on both sides
 * protect against that attacker (`listeners.ts`, `connections.ts`).
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { Clock } from '@holdfast/kernel'

/** Wall clocks may differ by this much, and a proof is valid for this long, ms. */
const proofAgeMaxMs = 60_000
const secretBytesMin = 16

/** The request to which a proof is bound. */
export interface CallProof {
  /** `GET`, `PUT`, or `grpc`. */
  method: string
  /** Path of the URL, or the full name of the gRPC method. */
  path: string
  /**
   * The rest of the request: the message's digest, the range, or what has been sent. Default:
   * nothing.
   */
  content?: string
}

type Secret = string | Uint8Array
export type ClusterSecretSource = Secret | (() => readonly Secret[])

export class ClusterSecret {
  /**
   * Key objects instead of bytes: from bytes Node would prepare a key for each sum, which takes
   * eight times as long as the sum.
   */
  #keys: readonly [KeyObject, ...KeyObject[]]
  #made: readonly Secret[]
  readonly #now: () => readonly Secret[]
  readonly #clock: Clock

  /**
   * @param secret at least 16 bytes (UTF-8 when text). As a function it is asked for each call: the
   *   first one proves, all are accepted.
   */
  constructor(secret: ClusterSecretSource, clock: Clock) {
    const only = typeof secret === 'function' ? [] : [secret]
    this.#now = typeof secret === 'function' ? secret : () => only
    this.#made = this.#now()
    this.#keys = keysOf(this.#made)
    this.#clock = clock
  }

  /** Value of the `authorization` header. */
  prove(call: CallProof): string {
    const atMs = Math.floor(this.#clock.now())
    const [first] = this.#current()
    return `Holdfast ${atMs}.${sumOf(first, call, atMs).toString('base64url')}`
  }

  verify(call: CallProof, header: string | undefined): boolean {
    const match = /^Holdfast (\d{1,16})\.([A-Za-z0-9_-]{43})$/.exec(header ?? '')
    if (match === null) return false
    const atMs = Number(match[1])
    const fresh = Math.abs(this.#clock.now() - atMs) <= proofAgeMaxMs
    const given = Buffer.from(match[2] as string, 'base64url')
    return this.#current().some((key) => timingSafeEqual(given, sumOf(key, call, atMs))) && fresh
  }

  #current(): readonly [KeyObject, ...KeyObject[]] {
    const now = this.#now()
    if (now !== this.#made) {
      this.#keys = keysOf(now)
      this.#made = now
    }
    return this.#keys
  }
}

function keysOf(secrets: readonly Secret[]): readonly [KeyObject, ...KeyObject[]] {
  const [first, ...others] = secrets.map((secret) => {
    const bytes = Buffer.from(secret as Uint8Array)
    if (bytes.length < secretBytesMin) throw new RangeError(`a cluster secret of ${bytes.length} bytes`)
    // A separate key for this use: the secret may have other uses.
    return createSecretKey(createHmac('sha256', bytes).update('holdfast storage v1').digest())
  })
  if (first === undefined) throw new RangeError('no cluster secret')
  return [first, ...others]
}

function sumOf(key: KeyObject, { method, path, content = '' }: CallProof, atMs: number): Buffer {
  return createHmac('sha256', key).update(`${atMs}\n${method}\n${path}\n`).update(content).digest()
}

/** What proves the bytes of an upload, at their end. */
export function sentContent({ size, crc32 }: { size: number; crc32: number }): string {
  return `${size} bytes, ${crc32}`
}

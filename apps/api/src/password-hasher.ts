/**
 * Verifiers of folder passwords: scrypt over the lower-case SHA-256 hex, which is what readers send. An owner may give the
 * plaintext or that hex; both then open.
 */
import { createHash, randomBytes, scrypt } from 'node:crypto'
import { Refusal } from '@holdfast/http-kit'
import type { PasswordVerifier } from '@holdfast/wire'

/** log2 of N: about 30 ms and 16 MiB a hash. */
const cost = 14
const blockSize = 8
/** Two of the pool's threads, so that files and names are still served. */
const atOnceMax = 2
const waitingMax = 200

export class PasswordHasher {
  #running = 0
  readonly #waiting: (() => void)[] = []

  /** @throws Refusal error-rateLimit when too many wait */
  async verifier(password: string): Promise<PasswordVerifier> {
    await this.#enter()
    try {
      const salt = randomBytes(16)
      return { salt, hash: await hashOf(password, salt), cost }
    } finally {
      this.#leave()
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < atOnceMax) {
      this.#running++
      return
    }
    if (this.#waiting.length >= waitingMax) throw new Refusal('error-rateLimit', { retryAfter: 2 })
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** Hands the place on to whoever waits longest. */
  #leave() {
    const next = this.#waiting.shift()
    if (next === undefined) this.#running--
    else next()
  }
}

function hashOf(password: string, salt: Buffer): Promise<Buffer> {
  const N = 2 ** cost
  return new Promise((resolve, reject) => {
    scrypt(
      sha256Of(password),
      salt,
      32,
      { N, r: blockSize, p: 1, maxmem: 256 * N * blockSize },
      (error, key) => {
        if (error) reject(error)
        else resolve(key)
      },
    )
  })
}

/** What a reader of this password sends. */
function sha256Of(password: string): string {
  if (/^[0-9a-f]{64}$/i.test(password)) return password.toLowerCase()
  return createHash('sha256').update(password).digest('hex')
}

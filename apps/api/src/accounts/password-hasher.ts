/**
 * Verifiers of folder passwords: scrypt over the lower-case SHA-256 hex, which is what readers
 * send. An owner may send the plaintext or that hex; both then open the folder.
 *
 * Few hashes run at one time. Networks and accounts take turns, as with checks of passwords, so
 * that a client that sets many does not delay others. Where one process does both, they share
 * the turns.
 */
import { randomBytes } from 'node:crypto'
import { PasswordWork } from '@holdfast/actor-runtime'
import { RefusalError } from '@holdfast/http-kit'
import { passwordDigest } from '@holdfast/kernel'
import type { PasswordVerifier } from '@holdfast/wire'

/** log2 of N: about 30 ms and 16 MiB a hash. */
const cost = 14
const hashBytes = 32

export type HashPassword = (password: string, salt: Buffer) => Promise<Buffer>

export class PasswordHasher {
  readonly #hash: HashPassword
  readonly #work: PasswordWork

  constructor({
    work = new PasswordWork(),
    hash = (password, salt) =>
      work.derive({ secret: passwordDigest(password), salt, bytes: hashBytes, cost }),
  }: { hash?: HashPassword; work?: PasswordWork | undefined } = {}) {
    this.#hash = hash
    this.#work = work
  }

  /**
   * @param asker takes turns by network and account; an empty network is unknown
   * @throws RefusalError error-rateLimit when too many wait, and most of them are this network's
   */
  async verifier(password: string, asker: { network: string; account: string }): Promise<PasswordVerifier> {
    const lane = { network: asker.network, folder: asker.account }
    const made = await this.#work.run(lane, async () => {
      const salt = randomBytes(16)
      return { salt, hash: await this.#hash(password, salt), cost }
    })
    if (made === undefined) throw new RefusalError('error-rateLimit', { retryAfter: 2 })
    return made
  }
}

/**
 * Slow checks of folder passwords, a bounded number at one time, networks and folders in turn,
 * verdicts kept for minutes.
 *
 * A verdict belongs to one verifier (its salt is the password's version), so a password changed
 * meanwhile is checked again.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, isPasswordDigest } from '@holdfast/kernel'
import type { PasswordVerifier } from '@holdfast/wire'
import { LRUCache } from 'lru-cache'
import type { RuntimeBounds } from '../bounds.ts'
import type { HostMetrics } from '../observer.ts'
import { PasswordWork } from './password-work.ts'

/**
 * log2 of scrypt's N: 32 times the usual cost is the most a stored verifier may ask of this
 * machine.
 */
const costMax = 19

export type PasswordCheck = (verifier: PasswordVerifier, password: string) => Promise<boolean>

export class PasswordChecks {
  readonly #check: PasswordCheck
  readonly #work: PasswordWork
  readonly #verdicts: LRUCache<string, boolean>
  readonly #running = new Map<string, Promise<boolean | undefined>>()
  readonly #clock: Clock
  readonly #metrics: HostMetrics

  constructor({
    clock,
    bounds,
    metrics,
    work = new PasswordWork(bounds),
    check = (verifier, password) => checkByScrypt(work, verifier, password),
  }: {
    check?: PasswordCheck | undefined
    clock: Clock
    bounds: RuntimeBounds
    metrics: HostMetrics
    /** New passwords are hashed as slowly: a process that does both shares it. */
    work?: PasswordWork | undefined
  }) {
    this.#check = check
    this.#clock = clock
    this.#metrics = metrics
    this.#work = work
    this.#verdicts = new LRUCache({
      max: bounds.verdictsKeptMax,
      ttl: bounds.verdictsKeptMs,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() + 1 },
    })
  }

  /** The verdict kept, or undefined. */
  known(verifier: PasswordVerifier, password: string): boolean | undefined {
    return this.#verdicts.get(passwordCheckKey(verifier, password))
  }

  /**
   * The verdict; undefined when too many checks wait, and most of them are this network's. Equal
   * running checks are shared.
   *
   * @param network whose turn it is; empty: not known.
   */
  async verdict(verifier: PasswordVerifier, password: string, network: string): Promise<boolean | undefined> {
    const key = passwordCheckKey(verifier, password)
    const known = this.#verdicts.get(key)
    if (known !== undefined) return known
    const running = this.#running.get(key)
    if (running !== undefined) return running
    const lane = { network, folder: verifier.salt.toString('base64') }
    const check = this.#work.run(lane, () => this.#measured(verifier, password))
    this.#running.set(key, check)
    try {
      const verdict = await check
      if (verdict !== undefined) this.#verdicts.set(key, verdict)
      return verdict
    } finally {
      this.#running.delete(key)
    }
  }

  async #measured(verifier: PasswordVerifier, password: string): Promise<boolean> {
    const started = this.#clock.monotonic()
    const verdict = await this.#check(verifier, password)
    this.#metrics.passwordChecked({ ms: this.#clock.monotonic() - started })
    return verdict
  }
}

/** Names verifier and password without keeping either. */
export function passwordCheckKey(verifier: PasswordVerifier, password: string): string {
  const digest = createHash('sha256').update(verifier.salt).update(verifier.hash).update(`${verifier.cost}/`)
  return digest.update(password.toLowerCase()).digest('base64')
}

/**
 * scrypt over the lower-case hex that readers send; anything else cannot be right and costs
 * nothing.
 */
async function checkByScrypt(
  work: PasswordWork,
  { hash, salt, cost }: PasswordVerifier,
  password: string,
): Promise<boolean> {
  const secret = password.toLowerCase()
  const possible = isPasswordDigest(secret) && cost >= 1 && cost <= costMax
  if (!possible || hash.length === 0) return false
  return timingSafeEqual(await work.derive({ secret, salt, bytes: hash.length, cost }), hash)
}

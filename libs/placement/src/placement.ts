/**
 * Which host an account belongs to: rendezvous hashing (Thaler and Ravishankar, 1996).
 *
 * Every (account, host) pair has a score that all processes compute alike; the host with the
 * highest score has the account. A new host takes accounts evenly from all others. When a host
 * goes, only its own accounts move. There is no ring, no table, and nothing to agree on except the
 * list of hosts. Views of that list that differ for a while disagree only about the accounts of the
 * hosts that differ.
 *
 * The answer is a hint. The journal prevents two hosts from both changing an account, so a change
 * of this function costs each account one move and nothing else; a golden test makes that visible.
 *
 * Cost: one hash of the account, some 20 ns a host. No I/O, no clock, no randomness.
 */
export class Placement {
  readonly hosts: readonly string[]
  readonly #hashes: readonly Hash[]

  /** @param hosts ids in any order; repeated ones count once. */
  constructor(hosts: Iterable<string>) {
    this.hosts = [...new Set(hosts)].sort()
    this.#hashes = this.hosts.map(hashOf)
  }

  /** The account's host; undefined when there are no hosts. */
  hostOf(account: string): string | undefined {
    const hash = hashOf(account)
    let best: string | undefined
    let bestScore = -1
    for (const [at, host] of this.hosts.entries()) {
      const score = scoreOf(hash, this.#hashes[at] as Hash)
      if (score <= bestScore) continue
      best = host
      bestScore = score
    }
    return best
  }

  /** The hosts in the account's order of preference: the second has it when the first goes. */
  ranked(account: string, { limit = this.hosts.length }: { limit?: number } = {}): string[] {
    const hash = hashOf(account)
    return this.hosts
      .map((host, at) => ({ host, score: scoreOf(hash, this.#hashes[at] as Hash) }))
      .sort((one, other) => other.score - one.score)
      .slice(0, limit)
      .map(({ host }) => host)
  }
}

/** Two independent 32-bit hashes. */
interface Hash {
  high: number
  low: number
}

function hashOf(text: string): Hash {
  let high = 0x9e3779b9
  let low = 0x85ebca6b
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    high = Math.imul(high ^ unit, 0x01000193)
    low = Math.imul(low + unit, 0x5bd1e995) ^ (low >>> 15)
  }
  return { high: mixBits(high), low: mixBits(low) }
}

/**
 * 53 bits, so that a number compares them exactly; equal scores go to the host that sorts first.
 */
function scoreOf(account: Hash, host: Hash): number {
  const high = mixBits(account.high ^ host.high ^ mixBits(account.low + host.low))
  const low = mixBits(account.low ^ mixBits(host.low ^ high))
  return high * 0x200000 + (low >>> 11)
}

/** The finalizer of MurmurHash3: every bit of the input changes half of the output. */
function mixBits(value: number): number {
  let hash = value ^ (value >>> 16)
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/**
 * LevelDB's internal keys: the user's key | tag (8, little-endian): sequence * 256 + type, where 0
 * is a removal and 1 a value. Keys ascend, and of one user's key the newest comes first.
 */

const tagBytes = 8
const typeMax = 1
/** Of the greatest sequence, so before each entry of the same user's key. */
const earliestTag = Buffer.from('01ffffffffffffff', 'hex')

export function userKey(internal: Uint8Array): Uint8Array {
  return internal.subarray(0, internal.length - tagBytes)
}

export function isInternalKey(key: Buffer): boolean {
  return key.length >= tagBytes && (key[key.length - tagBytes] as number) <= typeMax
}

export function sequenceOf(internal: Buffer): bigint {
  return tagOf(internal) >> 8n
}

function tagOf(internal: Buffer): bigint {
  return internal.readBigUInt64LE(internal.length - tagBytes)
}

/** Below zero if `one` comes first. */
export function compareInternal(one: Buffer, two: Buffer): number {
  const order = Buffer.compare(userKey(one), userKey(two))
  if (order !== 0) return order
  const [oneTag, twoTag] = [tagOf(one), tagOf(two)]
  return oneTag === twoTag ? 0 : oneTag > twoTag ? -1 : 1
}

/**
 * A short key from `last` on, before `next` if there is one.
 *
 * It is never longer than the key that LevelDB itself would take between `last` and a key before
 * `next`. If the first byte that differs cannot be counted up, a later byte is.
 */
export function separator(last: Buffer, next: Buffer | undefined): Buffer {
  const key = userKey(last)
  const limit = next === undefined ? undefined : userKey(next)
  let at = 0
  if (limit !== undefined) {
    while (at < key.length && key[at] === limit[at]) at++
    const isPrefix = at === key.length
    if (isPrefix) return last
    if ((key[at] as number) + 1 >= (limit[at] as number)) at++
  }
  while (key[at] === 0xff) at++
  if (at + 1 >= key.length) return last
  const short = Buffer.concat([key.subarray(0, at + 1), earliestTag])
  short[at] = (key[at] as number) + 1
  return short
}

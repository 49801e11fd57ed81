import { randomBytes } from 'node:crypto'
import type { LookupStore } from '@holdfast/journal'
import { Keyring } from '@holdfast/kernel'

/**
 * Every id, token and code depends on it: made at the first start, never changed, part of every
 * backup.
 */
export const masterRow = 'setting/master'
const masterBytes = 32

export async function openKeyring(lookups: LookupStore): Promise<Keyring> {
  const known = await lookups.get(masterRow)
  return new Keyring(known ?? (await lookups.claim(masterRow, randomBytes(masterBytes))))
}

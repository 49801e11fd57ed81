/** Bounds that are equal in every adapter, and the checks that every adapter makes first. */
import { JournalFault } from './errors.ts'
import type { LookupChange } from './lookup-store.ts'

/** One flush, equal in every adapter. */
export const maxFlushBytes = 1024 * 1024
/** One event within a flush; a larger one is written as a page first. */
export const maxEventBytes = 256 * 1024
/**
 * One page: what one mutation of the cluster's database accepts comfortably. Larger states are
 * several pages.
 */
export const maxPageBytes = 1024 * 1024
/** A checkpoint's root: it names pages, some 60 bytes each, of the largest account. */
export const maxRootBytes = 256 * 1024
const maxPageNameBytes = 128
const maxAccountBytes = 64
export const maxLookupKeyBytes = 512
/** Prefixes of one `firstOf`: a page of an inventory. */
export const maxPrefixes = 1_024
export const maxLookupValueBytes = 4 * 1024
/** Numbers taken from a counter at a time. */
const maxTakeCount = 1_000_000

const printable = /^[\x20-\x7e]+$/

export function assertAccount(account: string): void {
  assertText('an account', account, maxAccountBytes)
}

export function assertRow(row: Uint8Array): void {
  assertFits('a row', row, maxFlushBytes)
}

export function assertRoot(root: Uint8Array): void {
  assertFits('a root', root, maxRootBytes)
}

export function assertPage(name: string, bytes: Uint8Array): void {
  assertText('a page name', name, maxPageNameBytes)
  assertFits('a page', bytes, maxPageBytes)
}

export function assertLookupKey(key: string): void {
  assertText('a lookup key', key, maxLookupKeyBytes)
}

export function assertLookupRow(key: string, value: Uint8Array): void {
  assertLookupKey(key)
  assertFits('a lookup value', value, maxLookupValueBytes)
}

export function assertChange(change: LookupChange): void {
  if ('put' in change) assertLookupRow(change.put, change.value)
  else assertLookupKey(change.delete)
}

export function assertPrefixes(prefixes: readonly string[]): void {
  if (prefixes.length > maxPrefixes) {
    throw new RangeError(`${prefixes.length} prefixes are beyond ${maxPrefixes}`)
  }
  for (const prefix of prefixes) assertLookupKey(prefix)
}

export function assertCount(count: number): void {
  if (Number.isInteger(count) && count >= 1 && count <= maxTakeCount) return
  throw new RangeError(`${count} numbers cannot be taken: 1 to ${maxTakeCount}`)
}

function assertText(what: string, text: string, maxBytes: number): void {
  if (text.length > maxBytes) {
    throw new JournalFault('TOO_LARGE', `${what} of ${text.length} bytes is beyond ${maxBytes}`)
  }
  if (!printable.test(text)) throw new RangeError(`${what} is printable ASCII, not ${JSON.stringify(text)}`)
}

function assertFits(what: string, bytes: Uint8Array, maxBytes: number): void {
  if (bytes.length <= maxBytes) return
  throw new JournalFault('TOO_LARGE', `${what} of ${bytes.length} bytes is beyond ${maxBytes}`)
}

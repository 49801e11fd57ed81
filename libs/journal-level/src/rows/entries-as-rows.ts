/**
 * The entries of any whole store as rows of this one: so a backup of a cluster has the form of a
 * backup of one machine, and is verified like one.
 */
import type { AccountEntry, JournalRowEntry, StoredEntry } from '@holdfast/journal'
import { sha256 } from '@holdfast/kernel'
import {
  decodeFixed,
  decodeNamed,
  decodeNumber,
  decodeRow,
  decodeSmall,
  encodeFixed,
  encodeNamed,
  encodeNumber,
  encodeRow,
  encodeSmall,
  keys,
  metadataFormatVersion,
  namedDigest,
} from './format.ts'

type StoredRow = [key: Uint8Array, value: Uint8Array]

/** @param name of the store: 16 bytes follow from it. */
export function rowsOfStore(name: string): StoredRow[] {
  const format = keys.meta('format')
  const store = keys.meta('store')
  const id = sha256([Buffer.from(name)]).subarray(0, 16)
  return [
    [format, encodeNumber(format, metadataFormatVersion)],
    [store, encodeSmall(store, id)],
  ]
}

export function rowsOfEntry(entry: StoredEntry): StoredRow[] {
  switch (entry.kind) {
    case 'account':
      return rowsOfAccount(entry)
    case 'row':
      return [[keys.row(entry.account, entry.seq), encodeRow(entry)]]
    case 'page': {
      const { account, name, bytes } = entry
      return [[keys.page(account, name), encodeNamed(account, name, bytes)]]
    }
    case 'lookup': {
      const key = keys.lookup(entry.key)
      return [[key, encodeSmall(key, entry.value)]]
    }
    case 'counter': {
      const key = keys.counter(entry.counter)
      return [[key, encodeNumber(key, entry.next)]]
    }
  }
}

function rowsOfAccount({ account, epoch, head, chain, root, through }: AccountEntry): StoredRow[] {
  const named = root && { through, digest: namedDigest(account, '', root) }
  const fixed = { epoch, head, chain, trimmed: through, owner: undefined, root: named }
  const rows: StoredRow[] = root === undefined ? [] : [[keys.root(account), encodeNamed(account, '', root)]]
  return [...rows, [keys.fixed(account), encodeFixed(account, fixed)]]
}

/**
 * The way back, in the same order.
 * @param options.onDamaged called with the fault of a row that is left out.
 */
export async function* entriesOfRows(
  rows: AsyncIterable<StoredRow>,
  { onDamaged }: { onDamaged: (fault: Error) => void },
): AsyncGenerator<StoredEntry> {
  let root: { account: string; bytes: Uint8Array } | undefined
  for await (const [key, value] of rows) {
    try {
      const entry = entryOf(key, value, root)
      if (entry === undefined) continue
      root = entry.kind === 'root' ? entry : undefined
      if (entry.kind !== 'root') yield entry
    } catch (error) {
      onDamaged(error as Error)
    }
  }
}

/** Undefined: it is no entry of an account, a lookup or a counter. */
function entryOf(
  key: Uint8Array,
  value: Uint8Array,
  root: { account: string; bytes: Uint8Array } | undefined,
): StoredEntry | { kind: 'root'; account: string; bytes: Uint8Array } | undefined {
  const kind = String.fromCharCode(key[0] ?? 0)
  if (kind === 'l') return { kind: 'lookup', key: keys.lookupOf(key), value: decodeSmall(key, value) }
  if (kind === 'c') return { kind: 'counter', counter: keys.counterOf(key), next: decodeNumber(key, value) }
  if (kind !== 'j') return undefined
  const account = keys.accountOf(key)
  switch (String.fromCharCode(key[account.length + 2] ?? 0)) {
    case 'e':
      return {
        kind: 'row',
        account,
        ...(decodeRow(account, value, { seq: keys.seqOf(key) }) satisfies Omit<
          JournalRowEntry,
          'kind' | 'account'
        >),
      }
    case 'p': {
      const name = keys.pageOf(account, key)
      return { kind: 'page', account, name, bytes: decodeNamed(account, name, value) }
    }
    case 'r':
      return { kind: 'root', account, bytes: decodeNamed(account, '', value) }
    default: {
      const { epoch, head, chain, trimmed: through, root: named } = decodeFixed(account, value)
      const bytes = named === undefined || root?.account !== account ? undefined : root.bytes
      return { kind: 'account', account, epoch, head, chain, through, root: bytes }
    }
  }
}

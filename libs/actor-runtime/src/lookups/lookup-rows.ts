/**
 * The rows that accounts keep beside their journals, and how many of them are in transit at once.
 */
import { routeKey } from '@holdfast/accounts'
import type { LookupChange, LookupStore } from '@holdfast/journal'

/** Counters of share codes: a number that is taken twice is a code of two contents. */
export const codesCounter = 'codes'
export const legacyCodesCounter = 'legacy-codes'

export function activeSegmentPrefix({
  home,
  host,
  segment,
}: {
  home: string
  host: string
  segment: number
}): string {
  return `active/${home}/${host}/${segment}/`
}

/** The parts of an active row's key. */
export function activePlaceOf(key: string): { home: string; host: string; segment: number } {
  const [, home = '', host = '', segment = ''] = key.split('/')
  return { home, host, segment: Number(segment) }
}

export function hostsPrefix(home: string): string {
  return `hosts/${home}/`
}

export function hostKey(home: string, host: string): string {
  return `${hostsPrefix(home)}${host}`
}

/** Unix seconds, or an hour of them; decimal. */
export function dueOf(value: Uint8Array): number {
  return Number(Buffer.from(value).toString())
}

/** The row that leads from a block of share codes to its account. */
export function routeRow(length: 6 | 8, block: number, account: string): LookupChange {
  return { put: routeKey(length, block), value: Buffer.from(account) }
}

/**
 * Issues rows in writes of bounded size, all at once, ahead of everything issued later; resolves
 * when all are durable.
 * @param options.writeTime of rows that one account owns.
 */
export async function writeRows(
  lookups: LookupStore,
  rows: Iterable<LookupChange>,
  { rowsMax, writeTime }: { rowsMax: number; writeTime?: bigint | undefined },
): Promise<void> {
  const faults: unknown[] = []
  const writes: Promise<void>[] = []
  for (const some of inBatches(rows, rowsMax)) {
    writes.push(lookups.write(some, writeTime).catch((fault: unknown) => void faults.push(fault)))
  }
  await Promise.all(writes)
  if (faults.length > 0) throw faults[0]
}

function* inBatches(rows: Iterable<LookupChange>, rowsMax: number): Generator<LookupChange[]> {
  let batch: LookupChange[] = []
  for (const row of rows) {
    batch.push(row)
    if (batch.length < rowsMax) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** The account of an `active` row, or of a timer's row. */
export function accountOfRow(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1)
}

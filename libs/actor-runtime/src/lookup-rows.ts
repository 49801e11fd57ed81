/** The rows that accounts keep beside their journals, and how many of them travel at once. */
import type { LookupChange, LookupStore } from '@holdfast/journal'
import type { Effect } from '@holdfast/wire'

export function activeKey(account: string): string {
  return `active/${account}`
}

export function wakeKey(account: string): string {
  return `wake/${account}`
}

/** Unix seconds, decimal. */
export function wakeRow(account: string, due: number): LookupChange {
  return { put: wakeKey(account), value: Buffer.from(String(due)) }
}

export function dueOf(value: Uint8Array): number {
  return Number(Buffer.from(value).toString())
}

/** Rows `code/<code>` → content id. */
export function* codeRows(effects: Iterable<Effect>): Generator<LookupChange> {
  for (const { effect } of effects) {
    if (effect?.$case !== 'codeRow') continue
    const { codes, contentIds } = effect.value
    for (const [at, code] of codes.entries())
      yield { put: `code/${code}`, value: Buffer.from(contentIds[at] ?? '') }
  }
}

/**
 * Issues rows in writes of bounded size; resolves when all are durable.
 * @param options.turn others have theirs between two writes. Without it all are issued at once, ahead of whatever is issued next.
 * @param options.writeTime of rows that one account owns.
 */
export async function writeRows(
  lookups: LookupStore,
  rows: Iterable<LookupChange>,
  {
    rowsMax,
    turn,
    writeTime,
  }: { rowsMax: number; turn?: () => Promise<void>; writeTime?: bigint | undefined },
): Promise<void> {
  const faults: unknown[] = []
  const writes: Promise<void>[] = []
  for (const some of inBatches(rows, rowsMax)) {
    if (turn !== undefined && writes.length > 0) await turn()
    if (faults.length > 0) break
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

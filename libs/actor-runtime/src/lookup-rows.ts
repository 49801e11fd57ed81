/** The rows that accounts keep beside their journals, and how many of them travel at once. */
import type { LookupChange, LookupStore } from '@holdfast/journal'
import type { Blob, Effect } from '@holdfast/wire'

export function referenceKey(blob: Blob, account: string): string {
  return `ref/${hex(blob.id)}/${hex(blob.incarnation)}/${account}`
}

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

/** Rows `code/<code>` → content id of one effect. */
export function codeRows(effect: Effect): LookupChange[] {
  if (effect.effect?.$case !== 'codeRow') return []
  const { codes, contentIds } = effect.effect.value
  return codes.map((code, at) => ({ put: `code/${code}`, value: Buffer.from(contentIds[at] ?? '') }))
}

/** Issues all rows at once, in writes of bounded size; resolves when all are durable. */
export async function writeRows(
  lookups: LookupStore,
  rows: readonly LookupChange[],
  { rowsMax }: { rowsMax: number },
): Promise<void> {
  const writes: Promise<void>[] = []
  for (let start = 0; start < rows.length; start += rowsMax) {
    writes.push(lookups.write(rows.slice(start, start + rowsMax)))
  }
  const failed = (await Promise.allSettled(writes)).find((write) => write.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}

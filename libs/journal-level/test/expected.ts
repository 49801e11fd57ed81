import type { JournalStore } from '@holdfast/journal'

/** Content of row `seq` of an account in the crash tests; of many lengths. */
export function rowText(account: string, seq: number): string {
  return `${account} ${seq} ${'.'.repeat((seq * 37) % 200)}`
}

/** All rows of an account as texts, read by a new owner. */
export async function rowTexts(journals: JournalStore, account: string): Promise<string[]> {
  const ownership = await journals.acquire(account, { owner: 'reader' })
  return Array.fromAsync(journals.rows(ownership, 0), (row) => Buffer.from(row.bytes).toString())
}

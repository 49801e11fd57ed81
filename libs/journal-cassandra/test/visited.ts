/** The accounts of a pass, without the places that have nothing to move. */
import type { PassStep, TakeFailure, TakenJournal } from '../src/index.ts'

export async function visited(pass: AsyncIterable<PassStep>) {
  const accounts: ((TakenJournal | TakeFailure) & { place: string })[] = []
  for await (const step of pass) if ('account' in step) accounts.push(step)
  return accounts
}

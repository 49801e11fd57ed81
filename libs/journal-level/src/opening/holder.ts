/**
 * The file `holder`: which process opened the store last. Messages name that process. The file also
 * shows whether copies of lookups count: a release that keeps no copies writes the file, too, and
 * its lookups lack copies.
 */
import { open, readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'

const fileName = 'holder'
const copiesLine = 'keeps copies of lookups'

export interface StoreHolder {
  /** In words. */
  who: string
  keepsCopies: boolean
}

/** A file that is missing or damaged says nothing. */
export async function holderOf(path: string): Promise<StoreHolder> {
  const text = await readFile(join(path, fileName), 'utf8').catch(() => '')
  const [who = '', ...more] = text.split('\n')
  return { who: who === '' ? 'another process' : who, keepsCopies: more.includes(copiesLine) }
}

/**
 * Names this process, durably. A disk without room for it does not prevent the start.
 * @param options.keepsCopies every lookup that should have a copy has one
 */
export async function nameHolder(path: string, { keepsCopies }: { keepsCopies: boolean }): Promise<void> {
  const who = `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
  try {
    await using file = await open(join(path, fileName), 'w', 0o600)
    await file.writeFile(`${[who, ...(keepsCopies ? [copiesLine] : [])].join('\n')}\n`)
    await file.sync()
  } catch {
    // The copies are made again at the next start.
  }
}

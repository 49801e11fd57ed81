/**
 * A data directory has one supervisor at a time, under any path. The lock belongs to the system, so
 * it always ends with its holder. `supervisor.json` beside it names the holder and its socket.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type BegunProcess, beganOf, runs } from './leftovers.ts'

export interface Holder extends BegunProcess {
  /** Where it accepts commands. */
  socket: string
}

export interface Hold {
  /** Releases the directory. */
  close(): void
}

const busy = 5
const pollMs = 50

/**
 * @returns undefined while another process holds the directory. @throws Error when the directory
 * cannot be written
 */
export function holdOf(dataDir: string): Hold | undefined {
  // It stores nothing: a transaction of SQLite is the system lock that Node has on every platform.
  const lock = new DatabaseSync(join(dataDir, 'lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return lock
  } catch (error) {
    lock.close()
    if ((error as { errcode?: number }).errcode === busy) return undefined
    throw error
  }
}

/** Called by the holder of the directory. */
export function recordHolder(dataDir: string, socket: string): void {
  const holder: Holder = { pid: process.pid, began: beganOf(process.pid) ?? '', socket }
  const path = join(dataDir, 'supervisor.json')
  writeFileSync(`${path}.new`, JSON.stringify(holder))
  renameSync(`${path}.new`, path)
}

/** The supervisor that runs in this directory. */
export function holderOf(dataDir: string): Holder | undefined {
  try {
    const holder = JSON.parse(readFileSync(join(dataDir, 'supervisor.json'), 'utf8')) as Holder
    return runs(holder) ? holder : undefined
  } catch {
    return undefined
  }
}

/** Resolves when that process has ended. */
export async function gone(holder: Holder): Promise<void> {
  while (runs(holder)) await new Promise((resolve) => setTimeout(resolve, pollMs))
}

/**
 * The processes that a supervisor started, on disk. A killed supervisor leaves them behind, and the
 * next start, or `--stop`, ends them. The start time distinguishes a process from a later one with
 * the same number.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A process. Its start time distinguishes it from a later one with the same number. */
export interface BegunProcess {
  pid: number
  began: string
}

interface ProcessRecord extends BegunProcess {
  name: string
}

const pollMs = 50

function pathIn(dataDir: string): string {
  return join(dataDir, 'running.json')
}

/** Replaces the record. */
export function recordRunning(
  dataDir: string,
  running: Iterable<readonly [name: string, pid: number]>,
): void {
  const recorded = [...running].map(
    ([name, pid]): ProcessRecord => ({ name, pid, began: beganOf(pid) ?? '' }),
  )
  writeFileSync(`${pathIn(dataDir)}.new`, JSON.stringify(recorded))
  renameSync(`${pathIn(dataDir)}.new`, pathIn(dataDir))
}

/**
 * Ends what is left of an earlier supervisor: only for the holder of the directory, because
 * another's processes are in use. @returns the names of those that still ran
 */
export async function endLeftovers(dataDir: string): Promise<string[]> {
  const left = readRecords(dataDir).filter(runs)
  for (const { pid } of left) process.kill(pid, 'SIGKILL')
  while (left.some(runs)) await new Promise((resolve) => setTimeout(resolve, pollMs))
  return left.map(({ name }) => name)
}

function readRecords(dataDir: string): ProcessRecord[] {
  try {
    return JSON.parse(readFileSync(pathIn(dataDir), 'utf8')) as ProcessRecord[]
  } catch {
    return []
  }
}

export function runs({ pid, began }: BegunProcess): boolean {
  return began !== '' && beganOf(pid) === began
}

/** When a process began. Undefined when there is no such process, or it is a zombie. */
export function beganOf(pid: number): string | undefined {
  if (process.platform === 'linux') {
    try {
      // After the name, which may contain anything: state is the first field, the start in ticks
      // since boot the 20th.
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      return fields[0] === 'Z' ? undefined : fields[19]
    } catch {
      return undefined
    }
  }
  try {
    const reported = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
    }).trim()
    return reported.startsWith('Z') ? undefined : reported.replace(/^\S+\s+/, '')
  } catch {
    return undefined
  }
}

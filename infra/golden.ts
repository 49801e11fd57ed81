/**
 * Golden files: what is written to disks or sent between processes, as text, one fact a line. They
 * are frozen. `GOLDEN=write npm test -- <file>` writes them again after a deliberate change.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** @returns the lines as they are and as they have to be. */
export function golden(
  directory: string,
  name: string,
  lines: readonly string[],
): { is: string[]; was: string[] } {
  const path = join(directory, 'golden', name)
  if (process.env.GOLDEN === 'write') {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `${lines.join('\n')}\n`)
  }
  return { is: [...lines], was: readFileSync(path, 'utf8').trimEnd().split('\n') }
}

/**
 * Golden files: what is written to disks or sent between processes, as text, one value a line. They
 * are frozen. `GOLDEN=write npm test -- <file>` writes them again after a deliberate change.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Test } from 'tap'

/** Compares the lines with those of the file `golden/<name>` in the directory. */
export function sameAsGolden(
  t: Pick<Test, 'strictSame'>,
  directory: string,
  name: string,
  lines: readonly string[],
): void {
  const path = join(directory, 'golden', name)
  if (process.env.GOLDEN === 'write') {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `${lines.join('\n')}\n`)
  }
  const file = relative(join(import.meta.dirname, '..'), process.argv[1] ?? '')
  const was = readFileSync(path, 'utf8').trimEnd().split('\n')
  t.strictSame([...lines], was, `${name}; GOLDEN=write npm test -- ${file} writes it again`)
}

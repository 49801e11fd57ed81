/**
 * `npm test [-- files, folders and options of tap]`: the daily tests, at most ten minutes on two
 * cores. tap runs and reports them. `forms.ts` says what is left to the long run.
 */
import { globSync, statSync } from 'node:fs'
import { longFiles, longRun, sizedFiles } from './forms.ts'
import { runTap } from './support/tap-run.ts'

const own = process.argv.slice(2).flatMap(filesOf)
const left = own.length === 0 ? Object.keys(longFiles) : []
const excludes = left.map((file) => `--exclude=${file}`)

const { passed, failed, exitCode } = await runTap([...own, ...excludes], 'short')
if (left.length > 0)
  console.log(`\nLeft to ${longRun}: ${left.join(', ')}; the full size of ${sizedFiles.join(', ')}`)
console.log(`\n${passed} passed, ${failed} failed`)
process.exitCode = exitCode

/** tap silently skips a folder when files are named, too. */
function filesOf(word: string): string[] {
  if (statSync(word, { throwIfNoEntry: false })?.isDirectory() !== true) return [word]
  const files = globSync(`${word}/**/*.test.ts`)
  if (files.length > 0) return files
  console.error(`${word} has no tests`)
  process.exit(2)
}

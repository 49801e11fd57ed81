/**
 * The alerts of one machine in their faults, on a small disk of its own:
 * `npm run test:long -- --only observed [--fault <words>] [--pictures <folder>]`.
 */
import { observedTrial } from './run-observed.ts'
import { picturesVariable, smallDisk } from './small-disk.ts'

const disk = smallDisk()
try {
  console.log(
    await observedTrial({
      words: process.argv.length > 2 ? process.argv.slice(2) : [''],
      disk,
      pictures: process.env[picturesVariable] || undefined,
      report: console.log,
    }),
  )
} catch (error) {
  console.log(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

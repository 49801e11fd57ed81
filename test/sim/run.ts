/**
 * `npm run sim`: runs seeds, tells what broke and how fast it went.
 *
 *     npm run sim -- --seeds 500            seeds 1 … 500
 *     npm run sim -- --from 501 --seeds 500
 *     npm run sim -- --seed 17              one seed, with everything that happens in it
 *     npm run sim -- --break fence          with a planted fault, up to the first seed that finds it
 *
 * Ends with 1 when something was violated, so a planted fault that is found makes it fail.
 */
import { parseArgs } from 'node:util'
import { planted } from './planted.ts'
import { runBroken, runSeed } from './seeds.ts'
import type { Run } from './simulation.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    break: { type: 'string' },
  },
})

const print = (line: string) => void process.stdout.write(line)
const one = values.seed === undefined ? undefined : count('seed', values.seed)
const first = one ?? count('from', values.from)
const last = one ?? first + count('seeds', values.seeds) - 1
if (values.break !== undefined && planted[values.break] === undefined) {
  process.stderr.write(`No fault is named ${values.break}; there are: ${Object.keys(planted).join(', ')}\n`)
  process.exit(2)
}

const startedAt = performance.now()
const tell = one === undefined ? undefined : print
let failed = 0
let ran = 0
const sums = { simulatedMs: 0, asked: 0, changes: 0, events: 0 }
for (let seed = first; seed <= last; seed++) {
  const runs =
    values.break === undefined ? await runSeed(seed, tell) : [await runBroken(values.break, seed, tell)]
  ran++
  for (const run of runs) {
    for (const key of ['simulatedMs', 'asked', 'changes', 'events'] as const) sums[key] += run[key]
    if (one !== undefined) print(`${run.kind}: seed ${seed}, digest ${run.digest}\n`)
    if (run.violations.length > 0) report(run)
  }
  if (runs.some(({ violations }) => violations.length > 0)) failed++
  if (failed > 0 && values.break !== undefined) break
}
summary()
process.exitCode = failed > 0 ? 1 : 0

function report({ kind, seed, digest, violations }: Run): void {
  const again = values.break === undefined ? '' : ` --break ${values.break}`
  print(
    `seed ${seed} (${kind}, digest ${digest}) failed; again with: npm run sim -- --seed ${seed}${again}\n`,
  )
  for (const violation of violations) print(`  ${violation}\n`)
}

function summary(): void {
  const minutes = (performance.now() - startedAt) / 60_000
  const hours = sums.simulatedMs / 3_600_000
  const rate = (figure: number) => (figure / minutes).toFixed(figure / minutes < 100 ? 1 : 0)
  print(
    `${ran} seeds in ${(minutes * 60).toFixed(1)} s, ${failed} failed; ${sums.asked} requests, ${sums.changes} changes, ${sums.events} events; ` +
      `${hours.toFixed(2)} simulated hours, ${rate(hours)} simulated hours per minute, ${rate(ran)} seeds per minute\n`,
  )
  if (values.break !== undefined && failed === 0) print(`${values.break} was not found\n`)
}

function count(name: string, text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text)
  process.stderr.write(`--${name} takes a number from 1 on, not ${text}\n`)
  process.exit(2)
}

/**
 * `npm run sim`: runs seeds, reports violations and speed.
 *
 *     npm run sim -- --seeds 500            seeds 1 … 500
 *     npm run sim -- --from 501 --seeds 500
 *     npm run sim -- --seed 17              one seed, with everything that happens in it
 *     npm run sim -- --again --seeds 20     each seed twice: both runs have to be the same
 *     npm run sim -- --break fence          with a planted fault, up to the first seed to find it
 *     npm run sim -- --planted              each planted fault and a seed that finds it
 *
 * Exits with 1 when something was violated, so a planted fault that is found makes it fail;
 * `--planted` when one was not found.
 */
import { commandLine, headOf } from '../../infra/command-line.ts'
import { near, planted } from './planted.ts'
import { differing, type PrintLine, runBroken, runSeed } from './seeds.ts'
import type { Run } from './simulation.ts'

const { values } = commandLine('sim', headOf(import.meta.filename), {
  seeds: { type: 'string' },
  from: { type: 'string', default: '1' },
  seed: { type: 'string' },
  again: { type: 'boolean', default: false },
  break: { type: 'string' },
  planted: { type: 'boolean', default: false },
})

const print = (line: string) => void process.stdout.write(line)
const one = values.seed === undefined ? undefined : count('seed', values.seed)
const first = one ?? count('from', values.from)
const last = one ?? first + count('seeds', values.seeds ?? (values.planted ? '1000' : '100')) - 1
if (values.break !== undefined && planted[values.break] === undefined) {
  process.stderr.write(`No fault is named ${values.break}; there are: ${Object.keys(planted).join(', ')}\n`)
  process.exit(2)
}

if (values.planted) {
  process.exitCode = (await tableOfPlanted()) ? 0 : 1
  process.exit()
}

const startedAt = performance.now()
const printLine = one === undefined ? undefined : print
let failed = 0
let ran = 0
const sums = { simulatedMs: 0, asked: 0, changes: 0, events: 0 }
for (let seed = first; seed <= last; seed++) {
  const run = async (printLine?: PrintLine) =>
    values.break === undefined ? runSeed(seed, printLine) : [await runBroken(values.break, seed, printLine)]
  const runs = await run(printLine)
  const others = values.again ? differing(runs, await run()) : []
  ran++
  for (const run of runs) {
    for (const key of ['simulatedMs', 'asked', 'changes', 'events'] as const) sums[key] += run[key]
    if (one !== undefined) print(`${run.kind}: seed ${seed}, digest ${run.digest}\n`)
    if (run.violations.length > 0) report(run)
  }
  for (const { kind, digest, events } of others)
    print(`seed ${seed} (${kind}) gave another run the second time: digest ${digest}, ${events} events\n`)
  if (others.length > 0 || runs.some(({ violations }) => violations.length > 0)) failed++
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

/** @returns whether each was found. */
async function tableOfPlanted(): Promise<boolean> {
  let all = true
  for (const name of Object.keys(planted)) {
    const found = await firstThatFinds(name)
    all &&= found !== undefined
    const where =
      found === undefined
        ? `not found by seeds ${first} … ${last}`
        : `seed ${found.seed}: ${found.violations[0]}`
    print(`${name.padEnd(30)}${where}\n`)
  }
  return all
}

async function firstThatFinds(name: string): Promise<Run | undefined> {
  const seeds = Array.from({ length: last - first + 1 }, (_, at) => first + at)
  for (const seed of [near[name] ?? first, ...seeds]) {
    const run = await runBroken(name, seed)
    if (run.violations.length > 0) return run
  }
  return undefined
}

function count(name: string, text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text)
  process.stderr.write(`--${name} takes a number from 1 on, not ${text}\n`)
  process.exit(2)
}

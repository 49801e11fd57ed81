/**
 * Measures the services of two checkouts, old and new, in turn under the same load; both run side
 * by side. A busy moment of the machine affects both, so their ratio varies less than either
 * figure.
 *
 * Two processes of the same code differ by 5 % for as long as they run. So both are started again
 * several times, and each of them is measured first equally often.
 */
import { quantile } from './load.ts'
import { cpuSeconds } from './processes.ts'
import { figureOf, workOf } from './report.ts'
import type { Bench, Scenario } from './scenarios.ts'

/** How often both are started. */
export const starts = 6

export interface ScenarioComparison {
  name: string
  /** The new figure by the old one, of each round; above 1 is better. */
  figures: number[]
  /** CPU time of the same work, new by old, of each round; below 1 is cheaper. */
  costs: number[]
}

/** Measures both in each round; the one that begins changes from round to round. */
export async function compared(
  scenario: Scenario,
  both: { old: Bench; new: Bench },
  rounds: number,
): Promise<ScenarioComparison> {
  const one = async (bench: Bench) => {
    const measure = await scenario.prepare(bench)
    return async () => {
      const before = cpuSeconds(bench.service.pids)
      const measured = await measure()
      if (measured.errors > 0)
        throw new Error(
          `${scenario.name}: ${measured.errors} requests failed at ${bench.service.api.host}, the first with ${measured.firstError}`,
        )
      const cpu = (cpuSeconds(bench.service.pids) - before) / workOf(scenario.unit, measured)
      return { count: measured.count, figure: figureOf(scenario.unit, measured), cpu }
    }
  }
  const sides = [await one(both.old), await one(both.new)] as const
  for (const side of sides) for (let warm = 0; warm < (scenario.warm ?? 1); ) warm += (await side()).count
  const figures: number[] = []
  const costs: number[] = []
  for (let round = 0; round < rounds; round++) {
    const first = await sides[round % 2 === 0 ? 0 : 1]()
    const second = await sides[round % 2 === 0 ? 1 : 0]()
    const [before, after] = round % 2 === 0 ? [first, second] : [second, first]
    figures.push(scenario.unit === 'ms' ? before.figure / after.figure : after.figure / before.figure)
    costs.push(after.cpu / before.cpu)
  }
  return { name: scenario.name, figures, costs }
}

/** Joins the comparisons of several starts. */
export function together(parts: readonly ScenarioComparison[]): ScenarioComparison[] {
  const names = [...new Set(parts.map(({ name }) => name))]
  return names.map((name) => {
    const own = parts.filter((part) => part.name === name)
    const sorted = (values: number[]) => values.sort((a, b) => a - b)
    return {
      name,
      figures: sorted(own.flatMap(({ figures }) => figures)),
      costs: sorted(own.flatMap(({ costs }) => costs)),
    }
  })
}

/** Medians, with the quartiles in brackets. */
export function againstTable(all: readonly ScenarioComparison[]): string {
  const cell = (sorted: readonly number[]) => {
    const [low, middle, high] = [0.25, 0.5, 0.75].map((q) => quantile(sorted, q).toFixed(2))
    return `${middle} (${low}–${high})`
  }
  return [
    '| path | new by old | CPU, new by old |',
    '| --- | --- | --- |',
    ...all.map(({ name, figures, costs }) => `| ${name} | ${cell(figures)} | ${cell(costs)} |`),
  ].join('\n')
}

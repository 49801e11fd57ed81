/**
 * Targets of the hot paths, as far as one run can judge. A figure is relative to a reference of the
 * same run, is a cost that varies little between machines, or is a time that users wait. The
 * targets hold for the sizes of the full form. A budget whose scenarios were not measured is left
 * out.
 */
import type { Result } from './report.ts'

export interface Budget {
  name: string
  unit: string
  better: 'more' | 'less'
  /** Reached or not. */
  floor: number
  aim: number
  /** Undefined: a needed figure was not measured. */
  of(results: ReadonlyMap<string, Result>): number | undefined
}

export interface BudgetResult {
  name: string
  unit: string
  figure: number
  floor: number
  aim: number
  verdict: 'aim' | 'floor' | 'missed'
}

const sorts = ['createTime', 'name', 'size', 'downloads', 'mimetype']
const bulk = ['upload 1 MiB × 16', 'upload 64 MiB × 4', 'upload 256 MiB × 1']
const small = 'list 1,000 of 1,000'
const large = 'list 1,000 of 1,000,000'
const activation = 'activation of an account of 10,000'

export const budgets: readonly Budget[] = [
  {
    name: 'upload 256 MiB × 1 by the md5 rate of one core',
    unit: '',
    better: 'more',
    floor: 0.75,
    aim: 0.85,
    of: (results) => results.get('upload 256 MiB × 1')?.ratios['md5 of one core'],
  },
  byNginx('download 1 MiB × 16', 0.6, 0.9),
  byNginx('download 256 MiB × 1', 0.8, 1),
  slowestSort(small),
  slowestSort(large),
  {
    name: `${large} by that of 1,000, the worst sort`,
    unit: '×',
    better: 'less',
    floor: 2,
    aim: 2,
    of: (results) =>
      worst(results, bySort(large), ({ name, p50 }) => {
        const beside = results.get(name.replace(large, small))
        return beside && p50 / beside.p50
      }),
  },
  {
    name: 'written by payload, bulk uploads',
    unit: '×',
    better: 'less',
    floor: 1.05,
    aim: 1.01,
    of: (results) => worst(results, bulk, ({ writeAmplification }) => writeAmplification),
  },
  cpu('upload 64 MiB × 4', 2.6, 2.2),
  cpu('upload 256 MiB × 1', 2.6, 2.2),
  cpu('download 64 MiB × 4', 0.5, 0.35),
  cpu('download 256 MiB × 1', 0.5, 0.35),
  {
    name: 'peak memory, upload 256 MiB × 4 to a fresh service',
    unit: 'MiB',
    better: 'less',
    floor: 300,
    aim: 200,
    of: (results) => results.get('upload 256 MiB × 4, fresh service')?.peakMiB,
  },
  {
    name: 'an idle account of 10,000, by its own estimate',
    unit: 'MiB',
    better: 'less',
    floor: 5,
    aim: 3,
    of: (results) => results.get(activation)?.facts['MiB an account'],
  },
  {
    name: 'an idle account of 10,000, by resident memory',
    unit: 'MiB',
    better: 'less',
    floor: 5,
    aim: 3,
    of: (results) => results.get(activation)?.facts['resident MiB an account'],
  },
  {
    name: activation,
    unit: 'ms',
    better: 'less',
    floor: 30,
    aim: 10,
    of: (results) => results.get(activation)?.p50,
  },
]

export function judged(results: readonly Result[]): BudgetResult[] {
  const byName = new Map(results.map((result) => [result.name, result]))
  return budgets.flatMap((budget) => {
    const { name, unit, floor, aim } = budget
    const figure = budget.of(byName)
    if (figure === undefined || Number.isNaN(figure)) return []
    const reaches = (bound: number) => (budget.better === 'more' ? figure >= bound : figure <= bound)
    const verdict = reaches(aim) ? 'aim' : reaches(floor) ? 'floor' : 'missed'
    return [{ name, unit, figure, floor, aim, verdict }]
  })
}

/** Empty when none could be judged. */
export function budgetTable(all: readonly BudgetResult[]): string {
  if (all.length === 0) return ''
  const rows = all.map(({ name, unit, figure, floor, aim, verdict }) => [
    name,
    `${figure.toPrecision(3)} ${unit}`.trim(),
    String(floor),
    String(aim),
    { aim: 'met, and the aim', floor: 'met', missed: 'NOT met' }[verdict],
  ])
  const head = ['budget', 'figure', 'at least', 'aim', '']
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

function byNginx(name: string, floor: number, aim: number): Budget {
  return {
    name: `${name} by nginx with sendfile`,
    unit: '',
    better: 'more',
    floor,
    aim,
    of: (results) => results.get(name)?.ratios.nginx,
  }
}

function cpu(name: string, floor: number, aim: number): Budget {
  return {
    name: `${name}, CPU`,
    unit: 's/GiB',
    better: 'less',
    floor,
    aim,
    of: (results) => results.get(name)?.cpuSecondsPerGiB,
  }
}

function slowestSort(name: string): Budget {
  return {
    name: `${name}, p50 of the slowest sort`,
    unit: 'ms',
    better: 'less',
    floor: 4.4,
    aim: 3,
    of: (results) => worst(results, bySort(name), ({ p50 }) => p50),
  }
}

function bySort(name: string): string[] {
  return sorts.map((sort) => `${name} by ${sort}`)
}

/** Undefined unless all were measured. */
function worst(
  results: ReadonlyMap<string, Result>,
  names: readonly string[],
  figure: (result: Result) => number | undefined,
): number | undefined {
  const figures = names.map((name) => {
    const result = results.get(name)
    return result && figure(result)
  })
  return figures.every((each) => each !== undefined) ? Math.max(...figures) : undefined
}

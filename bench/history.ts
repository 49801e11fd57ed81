/**
 * The runs of the past, a line each, and a drawing of them: which hot path became slower, and since
 * which commit. What is drawn is the ratio to the reference of the same round, because rates of
 * different machines and days cannot be compared.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BaselineEntry } from './report.ts'

export interface PastRun {
  version: 1
  /** ISO 8601. */
  time: string
  commit: string
  machine: Record<string, unknown>
  scenarios: Record<string, BaselineEntry>
}

/** The newest ones are drawn. */
const drawnMax = 60
const chart = { width: 260, height: 84, gap: 36, perRow: 3, left: 20, top: 56 }
const colours = ['#2f6fb3', '#c4622d', '#3a8f5c', '#8a5bb0']

/**
 * Appends the run to `<folder>/<name>.jsonl` and draws all runs into `<folder>/<name>.svg`.
 * @param name of the form: runs of different forms are never compared
 */
export function addToHistory(folder: string, name: string, run: PastRun): void {
  mkdirSync(folder, { recursive: true })
  const lines = join(folder, `${name}.jsonl`)
  // A run that was killed may have left a line without its end.
  const before = existsSync(lines) ? readFileSync(lines, 'utf8') : ''
  const end = before === '' || before.endsWith('\n') ? '' : '\n'
  appendFileSync(lines, `${end}${JSON.stringify(run)}\n`)
  writeFileSync(join(folder, `${name}.svg`), drawn(readHistory(lines), name))
}

/** A line that a killed run left behind is skipped. */
export function readHistory(path: string): PastRun[] {
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        const run = JSON.parse(line) as PastRun
        return run.version === 1 ? [run] : []
      } catch {
        return []
      }
    })
}

/** A small chart for each scenario: CPU time by the reference's (lower is better), run by run. */
export function drawn(runs: readonly PastRun[], title: string): string {
  const shown = runs.slice(-drawnMax)
  const names = [...new Set(shown.flatMap(({ scenarios }) => Object.keys(scenarios)))]
  const rows = Math.ceil(names.length / chart.perRow)
  const width = chart.left + chart.perRow * (chart.width + chart.gap)
  const height = chart.top + rows * (chart.height + chart.gap + 14) + 20
  const charts = names.map((name, at) => {
    const x = chart.left + (at % chart.perRow) * (chart.width + chart.gap)
    const y = chart.top + Math.floor(at / chart.perRow) * (chart.height + chart.gap + 14)
    return `<g transform="translate(${x} ${y})">${chartOf(name, shown)}</g>`
  })
  const [first, last] = [shown[0], shown.at(-1)]
  const range =
    first === undefined || last === undefined ? 'no runs' : `${labelOf(first)} to ${labelOf(last)}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="${chart.left}" y="22" font-size="15">${escaped(title)}: ${shown.length} runs, ${escaped(range)}</text>`,
    `<text x="${chart.left}" y="38" fill="#666">CPU time by the reference’s of the same rounds; where there is none, the rate by the reference’s (dashed)</text>`,
    ...charts,
    '</svg>',
    '',
  ].join('\n')
}

function chartOf(scenario: string, runs: readonly PastRun[]): string {
  const kept = runs.map(({ scenarios }) => scenarios[scenario])
  const costly = kept.some((one) => Object.keys(one?.costs ?? {}).length > 0)
  const figures = kept.map((one) => (costly ? one?.costs : one?.ratios) ?? {})
  const references = [...new Set(figures.flatMap((one) => Object.keys(one)))].slice(0, colours.length)
  const most = Math.max(1e-9, ...figures.flatMap((one) => Object.values(one)))
  const step = chart.width / Math.max(1, runs.length - 1)
  const curves = references.map((reference, at) => {
    const points = figures.flatMap((one, run) => {
      const value = one[reference]
      return value === undefined
        ? []
        : [[run * step, chart.height * (1 - value / most)].map((place) => place.toFixed(1)).join(',')]
    })
    const colour = colours[at] as string
    const dashes = costly ? '' : ' stroke-dasharray="4 3"'
    const newest = figures.at(-1)?.[reference]
    return [
      `<polyline fill="none" stroke="${colour}" stroke-width="1.5"${dashes} points="${points.join(' ')}"/>`,
      ...points
        .slice(-1)
        .map(
          (point) =>
            `<circle r="2.5" fill="${colour}" cx="${point.split(',')[0]}" cy="${point.split(',')[1]}"/>`,
        ),
      `<text x="${at * 86}" y="${chart.height + 14}" fill="${colour}">${escaped(reference)} ${newest === undefined ? '' : newest.toPrecision(3)}</text>`,
    ].join('')
  })
  return [
    `<text y="-5" font-weight="bold">${escaped(scenario)}</text>`,
    `<path d="M0 0V${chart.height}H${chart.width}" fill="none" stroke="#bbb"/>`,
    `<text x="${chart.width}" y="8" fill="#888" text-anchor="end">${most.toPrecision(3)}</text>`,
    ...curves,
  ].join('')
}

function labelOf({ time, commit }: PastRun): string {
  return `${time.slice(0, 10)} ${commit.slice(0, 8)}`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

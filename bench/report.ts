/** Tables, JSON, and the comparison with the committed baseline. */
import type { Measured } from './load.ts'
import { median } from './load.ts'

export interface Round {
  measured: Measured
  references: Record<string, number>
  cpuSeconds: number
  peakMiB: number
  writtenBytes: number
}

export interface Result {
  name: string
  unit: 'requests' | 'bytes' | 'ms'
  /** Median over rounds: requests/s, bytes/s or ms. */
  figure: number
  p50: number
  p99: number
  errors: number
  /** Median over rounds of this round's figure by this round's reference; above 1 is better than the reference. */
  ratios: Record<string, number>
  /** Scenarios of bytes. */
  cpuSecondsPerGiB: number | undefined
  /** Scenarios of requests. */
  cpuMicrosPerRequest: number | undefined
  peakMiB: number
  /** Uploads of bytes: written to the disk, by payload. */
  writeAmplification: number | undefined
  /** What only this scenario tells. */
  facts: Record<string, number>
}

export function summarise(name: string, unit: Result['unit'], rounds: readonly Round[]): Result {
  const figures = rounds.map((round) => figureOf(unit, round.measured))
  const names = Object.keys(rounds[0]?.references ?? {})
  const bytes = rounds.reduce((sum, round) => sum + round.measured.bytes, 0)
  return {
    name,
    unit,
    figure: median(figures),
    p50: median(rounds.map((round) => round.measured.p50)),
    p99: median(rounds.map((round) => round.measured.p99)),
    errors: rounds.reduce((sum, round) => sum + round.measured.errors, 0),
    ratios: Object.fromEntries(
      names.map((reference) => [
        reference,
        median(
          rounds.map((round, index) => {
            const own = figures[index] ?? Number.NaN
            const theirs = round.references[reference] ?? Number.NaN
            return unit === 'ms' ? theirs / own : own / theirs
          }),
        ),
      ]),
    ),
    cpuSecondsPerGiB:
      unit === 'bytes' && bytes > 0
        ? rounds.reduce((sum, round) => sum + round.cpuSeconds, 0) / (bytes / 2 ** 30)
        : undefined,
    cpuMicrosPerRequest:
      unit === 'bytes'
        ? undefined
        : (rounds.reduce((sum, round) => sum + round.cpuSeconds, 0) * 1e6) /
          rounds.reduce((sum, round) => sum + round.measured.count, 0),
    peakMiB: Math.max(...rounds.map((round) => round.peakMiB)),
    writeAmplification:
      unit === 'bytes' && name.startsWith('upload')
        ? rounds.reduce((sum, round) => sum + round.writtenBytes, 0) / bytes
        : undefined,
    facts: Object.assign({}, ...rounds.map(({ measured }) => measured.facts ?? {})) as Record<string, number>,
  }
}

export function figureOf(unit: Result['unit'], measured: Measured): number {
  if (unit === 'ms') return measured.p50
  return (unit === 'requests' ? measured.count : measured.bytes) / measured.seconds
}

export function table(results: readonly Result[]): string {
  const rows = results.map((result) => [
    result.name,
    written(result.unit, result.figure),
    `${result.p50.toFixed(1)} / ${result.p99.toFixed(1)}`,
    Object.entries(result.ratios)
      .map(([name, ratio]) => `${ratio.toFixed(2)} ${name}`)
      .join(', '),
    result.cpuSecondsPerGiB?.toFixed(2) ?? `${result.cpuMicrosPerRequest?.toFixed(0)} µs each`,
    result.peakMiB.toFixed(0),
    result.writeAmplification?.toFixed(3) ?? '',
    String(result.errors),
    Object.entries(result.facts)
      .map(([name, value]) => `${name} ${value.toFixed(1)}`)
      .join(', '),
  ])
  const head = [
    'scenario',
    'figure',
    'p50 / p99 ms',
    'ratio to references',
    'CPU-s/GiB, or CPU',
    'peak MiB',
    'written / payload',
    'errors',
    'beside',
  ]
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

function written(unit: Result['unit'], figure: number): string {
  if (unit === 'ms') return `${figure.toFixed(2)} ms`
  return unit === 'requests' ? `${figure.toFixed(0)} /s` : `${(figure / 1e6).toFixed(0)} MB/s`
}

export interface Baseline {
  /** Scenario → reference → ratio. */
  ratios: Record<string, Record<string, number>>
}

/** How far a ratio may fall below the baseline before it counts as a regression: the noise of a shared machine. */
const tolerated = 0.6

export function faultsOf(result: Result, baseline: Baseline): string[] {
  const faults: string[] = []
  if (result.errors > 0) faults.push(`${result.name}: ${result.errors} requests failed`)
  // The best of a scenario's references decides: one that had a bad moment must not fail the hot path.
  const kept = Object.entries(baseline.ratios[result.name] ?? {}).map(
    ([reference, before]) => (result.ratios[reference] ?? 0) / before,
  )
  if (kept.length > 0 && Math.max(...kept) < tolerated)
    faults.push(`${result.name}: at ${(Math.max(...kept) * 100).toFixed(0)} % of the baseline's ratio`)
  return faults
}

export function baselineOf(results: readonly Result[]): Baseline {
  return { ratios: Object.fromEntries(results.map((result) => [result.name, result.ratios])) }
}

/** Tables, JSON, and the comparison with the committed baseline. */
import type { LoadResult } from './load.ts'
import { median } from './load.ts'

/** The result of a reference in a round. */
export interface ReferenceResult {
  /** In the scenario's unit. */
  figure: number
  /**
   * CPU-seconds of the reference process for one request or byte; undefined for a bare rate of the
   * machine.
   */
  cpuEach: number | undefined
}

export interface Round {
  measured: LoadResult
  references: Record<string, ReferenceResult>
  /** CPU time of the service's processes. */
  cpuSeconds: number
  /** The same by kind of process, where there are several. */
  cpuSecondsByKind: Record<string, number>
  peakMiB: number
  writtenBytes: number
  /** Part of the machine's CPU time that other processes used, 0 to 1. */
  otherLoad: number
}

export interface Result {
  name: string
  unit: 'requests' | 'bytes' | 'ms'
  /** Median over rounds: requests/s, bytes/s or ms. */
  figure: number
  p50: number
  p99: number
  errors: number
  /**
   * Median over rounds of this round's figure by this round's reference; above 1 is better than the
   * reference.
   */
  ratios: Record<string, number>
  /**
   * Median over rounds of the service's CPU time by the reference's for the same work; below 1 is
   * cheaper than the reference.
   */
  costs: Record<string, number>
  /** Scenarios of bytes. */
  cpuSecondsPerGiB: number | undefined
  /** Scenarios of requests. */
  cpuMicrosPerRequest: number | undefined
  peakMiB: number
  /** Uploads of bytes: written to the disk, by payload. */
  writeAmplification: number | undefined
  /** Median over rounds of the part of the machine's CPU time that other processes used, 0 to 1. */
  otherLoad: number
  /** What only this scenario measures. */
  facts: Record<string, number>
  rounds: readonly Round[]
}

export function summarise(name: string, unit: Result['unit'], rounds: readonly Round[]): Result {
  const figures = rounds.map((round) => figureOf(unit, round.measured))
  const overRounds = (ratio: (beside: ReferenceResult, round: Round, figure: number) => number) =>
    Object.fromEntries(
      Object.keys(rounds[0]?.references ?? {}).flatMap((name) => {
        const values = rounds.map((round, index) =>
          ratio(round.references[name] as ReferenceResult, round, figures[index] as number),
        )
        return values.every(Number.isFinite) ? [[name, median(values)]] : []
      }),
    )
  const bytes = rounds.reduce((sum, round) => sum + round.measured.bytes, 0)
  return {
    name,
    unit,
    figure: median(figures),
    p50: median(rounds.map((round) => round.measured.p50)),
    p99: median(rounds.map((round) => round.measured.p99)),
    errors: rounds.reduce((sum, round) => sum + round.measured.errors, 0),
    ratios: overRounds((beside, _, own) => (unit === 'ms' ? beside.figure / own : own / beside.figure)),
    costs: overRounds(
      (beside, round) => round.cpuSeconds / workOf(unit, round.measured) / (beside.cpuEach ?? Number.NaN),
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
    otherLoad: median(rounds.map((round) => round.otherLoad)),
    facts: {
      ...(Object.assign({}, ...rounds.map(({ measured }) => measured.facts ?? {})) as Record<string, number>),
      ...sharesOf(rounds),
    },
    rounds,
  }
}

/** The unit of CPU time: per request, or per byte. */
export function workOf(unit: Result['unit'], measured: LoadResult): number {
  return unit === 'bytes' ? measured.bytes : measured.count
}

/** Each kind of process' part of the CPU time, %. */
function sharesOf(rounds: readonly Round[]): Record<string, number> {
  const all = rounds.reduce((sum, round) => sum + round.cpuSeconds, 0)
  const kinds = Object.keys(rounds[0]?.cpuSecondsByKind ?? {})
  return Object.fromEntries(
    kinds.map((kind) => [
      `% ${kind}`,
      (rounds.reduce((sum, round) => sum + (round.cpuSecondsByKind[kind] ?? 0), 0) / all) * 100,
    ]),
  )
}

export function figureOf(unit: Result['unit'], measured: LoadResult): number {
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
    Object.entries(result.costs)
      .map(([name, cost]) => `${cost.toFixed(1)} ${name}`)
      .join(', '),
    result.peakMiB.toFixed(0),
    result.writeAmplification?.toFixed(3) ?? '',
    String(result.errors),
    `${(result.otherLoad * 100).toFixed(0)} %`,
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
    'CPU by references',
    'peak MiB',
    'written / payload',
    'errors',
    'other load',
    'beside',
  ]
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

/** For people. */
export function written(unit: Result['unit'], figure: number): string {
  if (unit === 'ms') return `${figure.toFixed(2)} ms`
  return unit === 'requests' ? `${figure.toFixed(0)} /s` : `${(figure / 1e6).toFixed(0)} MB/s`
}

/** The baseline of one scenario. */
export interface BaselineEntry {
  ratios: Record<string, number>
  costs: Record<string, number>
  writeAmplification?: number | undefined
}

export interface Baseline {
  commit: string
  machine: Record<string, unknown>
  scenarios: Record<string, BaselineEntry>
}

/**
 * How far a scenario may be from the baseline before it counts as a regression: the noise of a
 * shared machine.
 */
const tolerated = {
  /**
   * CPU time relative to the reference's: the most robust figure. Other load changes both alike:
   * with a third to a half of the machine in use it varied from 0.7 to 1.3, with cold code on a
   * busy machine up to 2 for a moment.
   */
  cost: 2,
  /** Rate relative to the reference's: for slow paths that do not use CPU. */
  ratio: 0.5,
  /**
   * With more other load than that rates are not compared: the scheduler favours a short reference
   * over the service.
   */
  otherLoad: 0.15,
  /** Bytes written per payload: nearly exact. */
  writeAmplification: 0.1,
}

/**
 * Scenarios that are slower than the baseline. A slow path is slow in every round and beside every
 * reference, a bad moment of the machine is not: the best round and the best reference decide.
 */
export function faultsOf(result: Result, baseline: Baseline): string[] {
  const { name } = result
  const faults: string[] = []
  if (result.errors > 0) faults.push(`${name}: ${result.errors} requests failed`)
  const kept = baseline.scenarios[name]
  if (kept === undefined) return faults
  const rounds = result.rounds.map((round) => summarise(name, result.unit, [round]))
  const cost = Math.min(...rounds.flatMap(({ costs }) => changes(costs, kept.costs)))
  if (cost > tolerated.cost) faults.push(`${name}: costs ${cost.toFixed(2)} × the baseline's CPU time`)
  const ratio = Math.max(...rounds.flatMap(({ ratios }) => changes(ratios, kept.ratios)))
  if (ratio < tolerated.ratio && result.otherLoad < tolerated.otherLoad)
    faults.push(`${name}: at ${(ratio * 100).toFixed(0)} % of the baseline's ratio`)
  const more = (result.writeAmplification ?? 0) - (kept.writeAmplification ?? Number.POSITIVE_INFINITY)
  if (more > tolerated.writeAmplification)
    faults.push(`${name}: writes ${more.toFixed(2)} bytes more for each byte than the baseline`)
  return faults
}

/** This relative to the baseline's, by reference; one neutral change when nothing is known. */
function changes(now: Record<string, number>, before: Record<string, number>): number[] {
  const known = Object.entries(before).flatMap(([reference, figure]) => {
    const own = now[reference]
    return own === undefined ? [] : [own / figure]
  })
  return known.length > 0 ? known : [1]
}

export function keptOf(results: readonly Result[]): Baseline['scenarios'] {
  return Object.fromEntries(
    results.map(({ name, ratios, costs, writeAmplification }) => [
      name,
      { ratios: short(ratios), costs: short(costs), writeAmplification },
    ]),
  )
}

/** Three digits: more is noise. */
function short(figures: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(figures).map(([name, figure]) => [name, Number(figure.toPrecision(3))]),
  )
}

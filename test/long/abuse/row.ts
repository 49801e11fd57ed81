/** From measurements to a row of the table and its verdict: all pure. */
import type { Sample } from './users.ts'

/** How much an attack may slow down the others. */
export const limits = {
  /** Others' p99 above their normal p99. */
  latencyMs: 250,
  /**
   * Where others use the machine: their load in the seconds of an attack adds more than half a
   * second.
   */
  lenientLatencyMs: 5_000,
  rssBytes: 200 * 1024 * 1024,
  recoveryMs: 5_000,
  lenientRecoveryMs: 15_000,
}

/** A descriptor or two more or less belong to stores and to the users themselves. */
const descriptorsSlack = 32

export interface ProcessSample {
  /** Unix time, milliseconds. */
  atMs: number
  rssBytes: number
  descriptors: number
  /** What the service has used since its start. */
  cpuMs: number
}

export interface Window {
  fromMs: number
  toMs: number
}

export interface AttackResult {
  attack: string
  inputs: number
  connections: number
  tally: Readonly<Record<string, number>>
  samples: readonly Sample[]
  readings: readonly ProcessSample[]
  before: Window
  /** The same attack on a listener that does nothing; undefined: it was not run. */
  reference: Window | undefined
  during: Window
  acknowledged: number
  lost: readonly string[]
  /** Unexpected answers, further faults of the attack's own judge, a generator that failed. */
  faults: readonly string[]
  restarts: number
}

export interface Row {
  attack: string
  inputs: number
  connections: number
  normalMs: number
  referenceMs: number | undefined
  duringMs: number
  refused: number
  rssBytes: number
  rssGrowthBytes: number
  descriptors: number
  /** What the service used during the attack: 1 is one core. */
  cores: number
  recoveryMs: number
  acknowledged: number
  lost: number
  restarts: number
  tally: string
  faults: readonly string[]
}

export interface JudgeOptions {
  /**
   * For shared machines. If the figure with the sink is higher than the one before the attack, it
   * counts as normal. If the normal figure exceeds what an attack may add, times are reported but
   * not judged.
   */
  lenient: boolean
  latencyJudged: boolean
}

export function rowOf(measured: AttackResult, { lenient, latencyJudged }: JudgeOptions): Row {
  const { samples, readings, before, reference, during } = measured
  const normalMs = p99Of(samples, before)
  const referenceMs = reference && p99Of(samples, reference)
  const duringMs = p99Of(samples, during)
  const calm = readings.filter(({ atMs }) => atMs >= before.fromMs && atMs < during.fromMs)
  const busy = readings.filter(({ atMs }) => atMs >= during.fromMs)
  const rssBytes = most(calm.map((reading) => reading.rssBytes))
  const rssGrowthBytes = Math.max(0, most(busy.map((reading) => reading.rssBytes)) - rssBytes)
  const recoveryMs = lastTroubleMs(measured) - during.toMs
  const judgedBy = lenient ? Math.max(normalMs, referenceMs ?? 0) : normalMs
  const timesJudged = !lenient || judgedBy <= limits.latencyMs
  const faults = [
    ...new Set(measured.lost),
    ...measured.faults,
    ...(measured.restarts > 0 ? [`the service ended ${measured.restarts} times`] : []),
    ...(rssGrowthBytes > limits.rssBytes ? [`RSS grew by ${mebibytes(rssGrowthBytes)} MiB`] : []),
  ]
  const recoveryMax = lenient ? limits.lenientRecoveryMs : limits.recoveryMs
  if (timesJudged && recoveryMs > recoveryMax)
    faults.push(
      `${tenths(recoveryMs)} s until all was as before, ${tenths(recoveryMax)} s at most: late calls ${kindsOver(samples, after(during), normalMs + limits.latencyMs)}; descriptors ${busy.filter(({ atMs }) => atMs > during.toMs).map((r) => r.descriptors)}`,
    )
  const latencyMax = judgedBy + (lenient ? limits.lenientLatencyMs : limits.latencyMs)
  if (timesJudged && latencyJudged && duringMs > latencyMax)
    faults.push(
      `others waited ${Math.round(duringMs)} ms (p99), ${Math.round(latencyMax)} ms at most: ${kindsOver(samples, during, latencyMax)}`,
    )
  const { attack, inputs, connections, acknowledged, restarts } = measured
  return {
    ...{ attack, inputs, connections, acknowledged, restarts },
    ...{ normalMs, referenceMs, duringMs, rssBytes, rssGrowthBytes, recoveryMs, faults },
    refused: sum(samples.filter((sample) => within(during, sample.dueMs)).map(({ refused }) => refused)),
    cores: coresOf(readings, during),
    descriptors: most(busy.map((reading) => reading.descriptors)),
    lost: new Set(measured.lost).size,
    tally: Object.entries(measured.tally)
      .map(([name, count]) => `${name} ${count}`)
      .join(', '),
  }
}

/**
 * The last time after the attack when something was not yet as before: a call that was late, or
 * descriptors above what they were. The end of the attack when there was none.
 */
export function lastTroubleMs({
  samples,
  readings,
  before,
  during,
}: Pick<AttackResult, 'samples' | 'readings' | 'before' | 'during'>): number {
  const limitMs = p99Of(samples, before) + limits.latencyMs
  const descriptors = most(
    readings.filter(({ atMs }) => within(before, atMs)).map((reading) => reading.descriptors),
  )
  return Math.max(
    during.toMs,
    ...samples.filter(({ dueMs, doneMs }) => doneMs - dueMs > limitMs).map(({ doneMs }) => doneMs),
    ...readings
      .filter((reading) => reading.descriptors > descriptors + descriptorsSlack)
      .map(({ atMs }) => atMs),
  )
}

/** 0 when nothing was due in the window. */
export function p99Of(samples: readonly Sample[], window: Window): number {
  const latencies = samples
    .filter(({ dueMs }) => within(window, dueMs))
    .map(({ dueMs, doneMs }) => doneMs - dueMs)
    .sort((one, other) => one - other)
  return latencies[Math.ceil(latencies.length * 0.99) - 1] ?? 0
}

/** How many calls of each kind were later than that. */
function kindsOver(samples: readonly Sample[], window: Window, limitMs: number): string {
  const late = samples.filter(({ dueMs, doneMs }) => within(window, dueMs) && doneMs - dueMs > limitMs)
  return [...Map.groupBy(late, ({ kind }) => kind)]
    .map(([kind, { length }]) => `${kind} ${length}`)
    .join(', ')
}

export function tableOf(rows: readonly Row[]): string {
  const heads = [
    'attack',
    'inputs',
    'connections',
    'p99 before',
    'p99 sink',
    'p99 during',
    'refusals',
    'RSS before',
    'RSS +',
    'descriptors',
    'cores',
    'recovery',
    'acknowledged',
    'lost',
    'restarts',
    'verdict',
  ]
  const cells = rows.map((row) => [
    row.attack,
    String(row.inputs),
    String(row.connections),
    ms(row.normalMs),
    ms(row.referenceMs),
    ms(row.duringMs),
    String(row.refused),
    `${mebibytes(row.rssBytes)} MiB`,
    `${mebibytes(row.rssGrowthBytes)} MiB`,
    String(row.descriptors),
    row.cores.toFixed(1),
    `${tenths(row.recoveryMs)} s`,
    String(row.acknowledged),
    String(row.lost),
    String(row.restarts),
    row.faults.length === 0 ? 'held' : 'FAILED',
  ])
  const widths = heads.map((head, at) => Math.max(head.length, ...cells.map((line) => width(line, at))))
  return [heads, ...cells]
    .map((line) =>
      line.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))),
    )
    .map((line) => line.join(' | '))
    .join('\n')
}

export function lineOf(row: Row): string {
  const answers = row.tally === '' ? '' : ` (${row.tally})`
  const faults = [...row.faults.slice(0, 5), ...(row.faults.length > 5 ? ['…'] : [])]
  return `${row.attack}${answers}: ${faults.length === 0 ? 'held' : faults.join('; ')}`
}

function coresOf(readings: readonly ProcessSample[], window: Window): number {
  const inside = readings.filter(({ atMs }) => within(window, atMs))
  const [first, last] = [inside[0], inside.at(-1)]
  if (first === undefined || last === undefined || last.atMs === first.atMs) return 0
  return (last.cpuMs - first.cpuMs) / (last.atMs - first.atMs)
}

function width(line: readonly string[], at: number): number {
  return line[at]?.length ?? 0
}

function after({ toMs }: Window): Window {
  return { fromMs: toMs, toMs: Infinity }
}

function within({ fromMs, toMs }: Window, atMs: number): boolean {
  return atMs >= fromMs && atMs < toMs
}

function most(values: readonly number[]): number {
  return values.reduce((largest, value) => Math.max(largest, value), 0)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

function tenths(milliseconds: number): string {
  return (milliseconds / 1_000).toFixed(1)
}

function ms(value: number | undefined): string {
  return value === undefined ? '–' : `${Math.round(value)} ms`
}

/**
 * The bench's conclusions from its figures: regressions and budgets. The figures here are invented;
 * `npm run bench` measures.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { againstTable, together } from '../bench/against.ts'
import { budgets, judged } from '../bench/budgets.ts'
import { addToHistory, drawn, readHistory } from '../bench/history.ts'
import { type Baseline, faultsOf, keptOf, type Result, type Round, summarise } from '../bench/report.ts'
import { scenarios } from '../bench/scenarios.ts'

const MiB = 2 ** 20

t.test('each run is a line of the history, and all are drawn', async (t) => {
  const folder = t.testdir()
  const run = (commit: string, cost: number) => ({
    version: 1 as const,
    time: '2026-01-02T03:04:05.000Z',
    commit,
    machine: {},
    scenarios: {
      'upload <1>': { ratios: { fastify: 2 }, costs: { fastify: cost } },
      'a list': { ratios: { md5: 0.5 }, costs: {} },
    },
  })
  addToHistory(folder, 'embedded-quick', run('aaaa', 1))
  appendFileSync(join(folder, 'embedded-quick.jsonl'), '{"version":1,"ti')
  addToHistory(folder, 'embedded-quick', run('bbbb', 4))
  const runs = readHistory(join(folder, 'embedded-quick.jsonl'))
  t.strictSame(
    runs.map(({ commit }) => commit),
    ['aaaa', 'bbbb'],
    'a line that a killed run left behind is skipped, and the next run is not',
  )
  const svg = readFileSync(join(folder, 'embedded-quick.svg'), 'utf8')
  t.match(svg, 'embedded-quick: 2 runs, 2026-01-02 aaaa to 2026-01-02 bbbb')
  t.match(svg, 'upload &lt;1&gt;')
  t.match(svg, 'points="0.0,63.0 260.0,0.0"', 'the dearer run is higher')
  t.equal(svg.match(/<polyline/g)?.length, 2)
  t.match(drawn([], 'x'), 'no runs')
})

/** 100 requests in a second at 10 ms of CPU each, beside a reference of 1,000/s at 1 ms. */
function round(
  change: { slower?: number; dearer?: number; otherLoad?: number; errors?: number; written?: number } = {},
): Round {
  const { slower = 1, dearer = 1, otherLoad = 0, errors = 0, written = 1 } = change
  const count = 100
  return {
    measured: {
      count,
      errors,
      firstError: '',
      seconds: slower,
      bytes: count * MiB,
      p50: 10 * slower,
      p99: 30 * slower,
    },
    references: {
      'node:http': { figure: 1000, cpuEach: 0.001 },
      fastify: { figure: 500, cpuEach: 0.002 },
    },
    cpuSeconds: count * 0.01 * dearer,
    cpuSecondsByKind: {},
    peakMiB: 100,
    writtenBytes: count * MiB * written,
    otherLoad,
  }
}

const usual = summarise('upload', 'requests', [round(), round(), round()])
const baseline: Baseline = { commit: '', machine: {}, scenarios: keptOf([usual]) }
const faults = (...rounds: Round[]) => faultsOf(summarise('upload', 'requests', rounds), baseline)

t.test('rounds of several starts count alike for old and new', async (t) => {
  const part = (name: string, figures: number[]) => ({ name, figures, costs: figures.map((one) => 1 / one) })
  const all = together([part('up', [1.2, 0.8]), part('down', [2]), part('up', [1, 1, 1])])
  t.strictSame(againstTable(all).split('\n').slice(2), [
    '| up | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) |',
    '| down | 2.00 (2.00–2.00) | 0.50 (0.50–0.50) |',
  ])
})

t.test('unchanged figures are no regression', async (t) => {
  t.strictSame(faults(round(), round(), round()), [])
  t.strictSame(faultsOf({ ...usual, name: 'never measured' }, baseline), [], 'nor are unknown ones')
})

t.test('a path that uses more CPU time than tolerated is a regression, also under other load', async (t) => {
  const dear = round({ dearer: 2.5, otherLoad: 0.6 })
  t.match(faults(dear, dear, dear), [/^upload: costs 2\.50 × the baseline's CPU time$/])
})

t.test('a path that waits without using CPU is a regression if the machine was idle', async (t) => {
  const slow = round({ slower: 4 })
  t.match(faults(slow, slow, slow), [/^upload: at 25 % of the baseline's ratio$/])
  const loaded = round({ slower: 4, otherLoad: 0.6 })
  t.strictSame(faults(loaded, loaded, loaded), [])
})

t.test('slow rounds or one slow reference are no regression while one round is good', async (t) => {
  const bad = round({ slower: 9, dearer: 9 })
  t.strictSame(faults(round(), bad, round()), [])
  t.strictSame(faults(bad, bad, round()), [], 'one round shows what the path can do')
  const alone: Round = {
    ...round(),
    references: { 'node:http': { figure: 9000, cpuEach: 0.0001 }, fastify: { figure: 500, cpuEach: 0.002 } },
  }
  t.strictSame(faults(alone, alone, alone), [])
})

t.test('requests that fail are one, and bytes written twice', async (t) => {
  t.match(faults(round(), round({ errors: 3 }), round()), ['upload: 3 requests failed'])
  const once = summarise('upload', 'bytes', [round()])
  const twice = summarise('upload', 'bytes', [round({ written: 2 })])
  t.match(faultsOf(twice, { ...baseline, scenarios: keptOf([once]) }), [/^upload: writes 1\.00 bytes more/])
})

t.test('every budget is of scenarios of the full form', async (t) => {
  const all = scenarios(false).map(
    ({ name, unit }): Result => ({
      ...summarise(name, unit, [round()]),
      ratios: { 'md5 of one core': 0.8, nginx: 0.7 },
      facts: { 'MiB an account': 4, 'resident MiB an account': 4 },
    }),
  )
  const judgements = judged(all)
  t.strictSame(
    judgements.map(({ name }) => name),
    budgets.map(({ name }) => name),
  )
  const verdict = (words: string) => judgements.find(({ name }) => name.includes(words))?.verdict
  t.equal(verdict('md5 rate'), 'floor')
  t.equal(verdict('256 MiB × 1 by nginx'), 'missed')
  t.equal(verdict('peak memory'), 'aim')
  t.strictSame(judged(all.slice(0, 1)), [], 'what was not measured is not judged')
})

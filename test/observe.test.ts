/**
 * Rules and dashboards: each alert fires over its series alone, and each has its entry in
 * `infra/OPERATING.md`.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { dataDir, startHere } from '../apps/standalone/test/run.ts'
import { tool } from '../infra/check/tools.ts'
import { alertRules } from '../infra/observe/alerts.ts'
import { dashboards } from '../infra/observe/dashboards.ts'
import { recordingRules } from '../infra/observe/records.ts'
import { rulesFile, runbookChapter } from '../infra/observe/rules-file.ts'
import { productionTimes, shortenedTimes } from '../infra/observe/times.ts'
import { owedDrill } from './long/day-two/owed-drill.ts'
import { faults } from './long/observed/faults.ts'
import { clusterFaults } from './long/regions/faults.ts'
import { healthy, quietCases, type RuleCase, ruleCases, watchdog } from './observe/rule-cases.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const alerts = alertRules(productionTimes)
const names = alerts.map(({ alert }) => alert)

function promtool(words: string[], input = '') {
  const { path, env } = tool('promtool')
  const { status, stdout, stderr } = spawnSync(path, words, { env, input, encoding: 'utf8' })
  return { status, said: `${stdout}${stderr}` }
}

/** Caused in the trial of regions: one machine alone never has their causes. */
const ofClusters = [
  ...['HoldfastCertificateEnds', 'HoldfastCertificateEnded', 'HoldfastClock', 'HoldfastReplicationLag'],
  ...['HoldfastNatsDown', 'HoldfastCassandraNodes', 'HoldfastBackupLag', 'HoldfastUnknownOutcomes'],
  'HoldfastCopiesLack',
]
/** The same, by series of other programs. */
const ofMonitoring = [
  ...['HoldfastProxyDown', 'HoldfastServerDown'],
  ...['HoldfastNotificationsFail', 'HoldfastAlertsUnsent', 'HoldfastAlertmanagerUnreached'],
]
/** Caused in a drill of day two. */
const ofDayTwo = [owedDrill.alert]

t.test('each alert has a fault that causes it', async (t) => {
  const caused = (all: readonly { alerts: readonly string[] }[]) => all.flatMap(({ alerts }) => alerts).sort()
  t.strictSame([...new Set(caused(clusterFaults))], [...ofClusters, ...ofMonitoring].sort())
  const rest = names.filter((name) => ![...ofClusters, ...ofMonitoring, ...ofDayTwo, watchdog].includes(name))
  t.strictSame([...new Set(caused(faults))], rest.sort())
})

t.test('OPERATING.md has an entry for each alert, and no other', async (t) => {
  const book = read('infra/OPERATING.md')
  const chapter = book.slice(book.indexOf(`## ${runbookChapter}\n`))
  const entries = [...chapter.matchAll(/^\*\*(Holdfast\w+)\*\* \((page|ticket)\)\. /gm)]
  t.strictSame(
    entries.map(([, name, severity]) => `${name} ${severity}`).sort(),
    alerts.map(({ alert, severity }) => `${alert} ${severity}`).sort(),
  )
  for (const [name] of chapter.matchAll(/\bHoldfast[A-Z]\w+/g)) t.ok(names.includes(name), name)
})

t.test('a symptom in OPERATING.md leads to each alert', async (t) => {
  const book = read('infra/OPERATING.md')
  const table = book.slice(book.indexOf('### By symptom\n'), book.indexOf('### By alert\n'))
  t.strictSame(
    names.filter((name) => !new RegExp(`\\b${name}\\b.*\\|$`, 'm').test(table)),
    [],
  )
})

t.test('rules and dashboards ask for metrics that exist', async (t) => {
  const listed = read('infra/METRICS.md')
  const queries = [
    ...alerts.map(({ expr }) => expr),
    ...recordingRules(productionTimes).map(({ expr }) => expr),
    ...dashboards.flatMap(({ panels }) => panels.flatMap((panel) => panel.queries.map(([, expr]) => expr))),
  ]
  const records = recordingRules(productionTimes).map(({ record }) => record)
  for (const expr of queries)
    for (const [name] of expr.matchAll(/[\w:]*\bholdfast[\w:]+/g)) {
      if (!name.startsWith('holdfast_') || name.includes(':')) t.ok(records.includes(name), name)
      else t.match(listed, `\`${name.replace(/_(count|bucket|sum)$/, '')}\``, name)
    }
})

t.test('shortened waits keep their order, so that what passes at once does not fire', async (t) => {
  const pending = (pendingSecondsMax?: number) => {
    const rules = alertRules(
      shortenedTimes({
        times: 20,
        windowSeconds: 20,
        ...(pendingSecondsMax === undefined ? {} : { pendingSecondsMax }),
      }),
    )
    return (name: string) => rules.find(({ alert }) => alert === name)?.for
  }
  t.equal(pending()('HoldfastProcessDown'), '1s')
  const long = pending(180)
  // Three scrapes of 2 s, and as long as a fault of the trial lasts.
  t.strictSame(
    ['HoldfastProcessDown', 'HoldfastReplicationOwed', 'HoldfastDiskFull', 'HoldfastStoreFailed'].map(long),
    ['6s', '3m', '3m', '1s'],
  )
})

t.test('promtool accepts the rules, also shortened', async (t) => {
  const folder = t.testdir({
    'rules.yml': rulesFile(),
    'short.yml': rulesFile(shortenedTimes({ times: 3_600, windowSeconds: 20 })),
  })
  for (const file of ['rules.yml', 'short.yml'])
    t.match(promtool(['check', 'rules', join(folder, file)]), { status: 0 })
})

t.test('Prometheus of one machine takes its file, also with every job', async (t) => {
  const text = read('infra/observe/prometheus.yml')
  // Sentences begin with a capital letter.
  const whole = text.replace(/^ *# [A-Z].*\n/gm, '').replace(/^( *)# /gm, '$1')
  const folder = t.testdir({
    ...{ 'holdfast.rules.yml': rulesFile(), 'metrics-token': '' },
    ...{ 'prometheus.yml': text, 'whole.yml': whole },
  })
  for (const file of ['prometheus.yml', 'whole.yml'])
    t.match(promtool(['check', 'config', join(folder, file)]), { status: 0 }, file)
  const { alerting, scrape_configs } = parse(whole)
  t.ok(alerting)
  t.strictSame(
    (scrape_configs as { job_name: string }[]).map(({ job_name }) => job_name),
    ['holdfast', 'prometheus', 'alertmanager', 'caddy'],
  )
  const { chapter } =
    /## On one machine\n(?<chapter>.*?)\n## /s.exec(read('infra/observe/README.md'))?.groups ?? {}
  for (const name of ofMonitoring) {
    t.match(text, name)
    t.match(chapter, name, 'the README says that it has no series')
  }
})

t.test('each alert fires over its series, and no other does', async (t) => {
  const tried = new Set([watchdog, ...ruleCases.map(({ alert }) => alert)])
  t.strictSame([...tried].sort(), [...names].sort())
  const folder = t.testdir({ 'rules.yml': rulesFile() })
  const wellFor: RuleCase = { alert: '', series: {}, atMinutes: 24 * 60, everyMinutes: 30 }
  const quiet = quietCases.map((one): RuleCase => ({ ...one, alert: '' }))
  const ways = new Map<number, object[]>()
  for (const one of [wellFor, ...quiet, ...ruleCases]) {
    const { alert, series, atMinutes, everyMinutes, alsoFire = [] } = one
    const samples = Math.ceil(atMinutes / everyMinutes)
    const fire = [alert, watchdog, ...alsoFire].filter(Boolean).sort()
    const tests = ways.get(everyMinutes) ?? []
    ways.set(everyMinutes, tests)
    tests.push({
      name: alert || 'all is well',
      interval: `${everyMinutes}m`,
      input_series: Object.entries({ ...healthy, ...series }).map(([one, values]) => ({
        series: one,
        values: values.replace(/x$/, `x${samples}`),
      })),
      promql_expr_test: [
        {
          expr: 'sort(count by (alertname) (ALERTS{alertstate="firing"}))',
          eval_time: `${atMinutes}m`,
          exp_samples: fire.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
        },
      ],
    })
  }
  const files = [...ways].map(([everyMinutes, tests]) => {
    const file = join(folder, `every-${everyMinutes}.yml`)
    const text = { rule_files: ['rules.yml'], evaluation_interval: `${everyMinutes}m`, tests }
    writeFileSync(file, stringify(text, { lineWidth: 0 }))
    return file
  })
  const { status, said } = promtool(['test', 'rules', ...files])
  t.equal(status, 0, said)
})

t.test('panels do not overlap, and Grafana gets each query', async (t) => {
  for (const { id, panels } of dashboards) {
    const { panels: shown } = JSON.parse(read(`infra/observe/dashboards/${id}.json`)) as {
      panels: { gridPos: Record<'x' | 'y' | 'w' | 'h', number>; targets: { expr: string }[] }[]
    }
    t.equal(shown.length, panels.length)
    const cells = shown.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    )
    t.equal(new Set(cells).size, cells.length, `${id}: no cell twice`)
    t.ok(shown.every(({ gridPos: { x, w } }) => x + w <= 24))
    t.notMatch(JSON.stringify(shown), /\$range/)
  }
})

interface ShownPanel {
  title: string
  fieldConfig: { defaults: { unit: string; min?: number } }
  targets: { expr: string }[]
}

const shownPanels = dashboards.flatMap(({ id }) => {
  const { panels } = JSON.parse(read(`infra/observe/dashboards/${id}.json`)) as { panels: ShownPanel[] }
  return panels.map((panel) => ({ ...panel, place: `${id}: ${panel.title}` }))
})

const types = new Map(
  [...read('infra/METRICS.md').matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name = '', type = '']) => [
    name,
    type,
  ]),
)

/** Whether a series only grows. Those of Node have names that say so. */
function onlyGrows(series: string): boolean {
  const histogram = series.replace(/_(count|sum|bucket)$/, '')
  if (histogram !== series) return true
  return (types.get(series) ?? (series.endsWith('_total') ? 'counter' : 'gauge')) === 'counter'
}

function calls(expr: string, functions: string): string[] {
  return [...expr.matchAll(new RegExp(`\\b(?:${functions})\\((\\w+)`, 'g'))].map(([, series = '']) => series)
}

t.test('dashboards take rates of what only grows, and slopes of what does not', async (t) => {
  for (const { place, targets } of shownPanels)
    for (const { expr } of targets) {
      for (const series of calls(expr, 'i?rate|increase')) t.ok(onlyGrows(series), `${place}: ${series}`)
      for (const series of calls(expr, 'i?delta|deriv|predict_linear'))
        t.notOk(onlyGrows(series), `${place}: ${series}`)
      // Over the time between a few scrapes a slope is noise.
      t.notMatch(expr, /(deriv|predict_linear)\([^)]*\$__rate_interval/, place)
      const counters = [...expr.matchAll(/\b\w+_total\b/g)].length
      t.equal(
        counters,
        calls(expr, 'i?rate|increase').filter((series) => /_total$/.test(series)).length,
        place,
      )
    }
})

t.test('the axis of a panel begins at 0 unless its values may be below', async (t) => {
  const below = /_(offset|jump)_seconds\b|^\S+ \* deriv\(/
  for (const { place, fieldConfig, targets } of shownPanels) {
    const mayBe = targets.some(({ expr }) => below.test(expr))
    t.equal(fieldConfig.defaults.min, mayBe ? undefined : 0, place)
  }
})

t.test('the unit of a panel is that of its queries', async (t) => {
  for (const { place, fieldConfig, targets } of shownPanels)
    for (const { expr } of targets) {
      const unit = unitOf(expr)
      if (unit !== undefined) t.equal(fieldConfig.defaults.unit, unit, `${place}: ${expr}`)
    }
})

/** Of Grafana. Undefined: the name of its series does not say it. */
function unitOf(expr: string): string | undefined {
  if (/ \/ /.test(expr)) return undefined
  if (expr.startsWith('histogram_quantile') || expr.startsWith('topk(10, histogram_quantile'))
    return /_seconds_bucket/.test(expr) ? 's' : undefined
  const [rated] = calls(expr, 'rate')
  if (rated === undefined) {
    if (expr.startsWith('time() - ')) return 's'
    const [, unit] = /_(bytes|seconds)(?:_max)?\b/.exec(expr) ?? []
    return unit === 'seconds' ? 's' : unit
  }
  if (rated.endsWith('_bytes_total')) return 'Bps'
  if (rated.endsWith('_cpu_seconds_total')) return 'short'
  return rated.endsWith('_seconds_sum') ? 'percentunit' : undefined
}

t.test('promtool accepts the metrics of a service, and its series are few', async (t) => {
  const service = await startHere(dataDir(t))
  t.teardown(() => service.close())
  const { api, admin } = service.addresses
  for (let at = 0; at < 30; at++)
    await (await fetch(`${api}/unknown-${at}`, { method: at % 2 === 0 ? 'PUT' : 'DELETE' })).text()
  const scraped = await (await fetch(`${admin}/metrics`)).text()
  t.match(promtool(['check', 'metrics'], scraped), { status: 0, said: '' })
  const label = (name: string) => [
    ...new Set([...scraped.matchAll(new RegExp(` ?[{,]${name}="([^"]*)"`, 'g'))].map(([, value]) => value)),
  ]
  t.notMatch(scraped, /unknown-\d/)
  t.ok(label('outcome').every((value) => /^[a-z ]+$/.test(value ?? '')))
  t.match(scraped, 'holdfast_refusals_total{host="api",status="error-notFound"} 30')
  t.match(
    scraped,
    'holdfast_http_request_seconds_count{host="api",method="any",route="unknown",outcome="refused"} 30',
  )
  t.match(scraped, /holdfast_ready\{check="store"\} 1/)
})

/**
 * Dashboards and alerts over a real Prometheus. First a healthy service under load: every query of
 * rules and dashboards is answered, those of one machine with series, and no alert fires. Then each
 * fault: the alerts that are for it fire, and no others than it may cause.
 */
import assert from 'node:assert/strict'
import { alertRules } from '../../../infra/observe/alerts.ts'
import { dashboards } from '../../../infra/observe/dashboards.ts'
import { recordingRules } from '../../../infra/observe/records.ts'
import { shortenedTimes } from '../../../infra/observe/times.ts'
import { drawDashboards } from './drawn-dashboard.ts'
import { type Fault, faults, startRelay } from './faults.ts'
import { later } from './prometheus.ts'
import { World } from './world.ts'

/**
 * Panels that may have no series over the healthy service, because the events that they show have
 * not happened.
 */
const silentPanels = new Set([
  'Activations that were lost',
  'Unknown outcomes',
  'Connections refused or closed',
  'Since the last backup',
  'Days until uploads end, at this pace',
  'Password checks',
  'Bytes of files sent, for each received',
])
/** Figures settle, and rules are evaluated several times. */
const healthyMs = 20_000
const fireWithinSeconds = 90

interface Row {
  fault: string
  alert: string
  seconds: number | undefined
}

export interface ObservedOptions {
  /** Words of the names of faults. */
  words: readonly string[]
  /** A file system of 320 MiB of its own. */
  disk: string
  /** Folder for the dashboards of the healthy service as pages; undefined: they are not drawn. */
  pictures: string | undefined
  report: (line: string) => void
}

/** @returns the table. @throws AssertionError with it */
export async function observedTrial({ words, disk, pictures, report }: ObservedOptions): Promise<string> {
  const lines: string[] = []
  const faultsFound: string[] = []
  if (words.includes('')) lines.push(await healthyTrial(report, pictures))
  const rows: Row[] = []
  const stopRelay = await startRelay()
  for (const fault of faults.filter(({ name }) => words.some((text) => name.includes(text)))) {
    const { found, wrong } = await tried(fault, disk)
    rows.push(...found)
    faultsFound.push(...wrong.map((text) => `${fault.name}: ${text}`))
    report(
      `  ${fault.name}: ${found.map(({ alert, seconds }) => `${alert} ${inWords(seconds)}`).join(', ')}${wrong.length === 0 ? '' : `; ${wrong.join('; ')}`}`,
    )
  }
  await stopRelay()
  lines.push('  alert                      fault                                             fires after')
  for (const { alert, fault, seconds } of rows)
    lines.push(`  ${alert.padEnd(26)} ${fault.padEnd(49)} ${inWords(seconds)}`)
  const table = lines.join('\n')
  assert.deepEqual(faultsFound, [], table)
  return table
}

function inWords(seconds: number | undefined): string {
  return seconds === undefined ? 'never' : `${seconds.toFixed(1)} s`
}

async function healthyTrial(report: (line: string) => void, pictures: string | undefined): Promise<string> {
  const world = await World.start()
  try {
    report('  a healthy service under load …')
    await later(healthyMs)
    const empty: string[] = []
    let count = 0
    const ask = async (expr: string) => {
      count++
      return (await world.prometheus.query(expr.replaceAll('$range', '30s'))).length
    }
    for (const { panels, title } of dashboards)
      for (const panel of panels) {
        const series = (await Promise.all(panel.queries.map(([, expr]) => ask(expr)))).reduce((a, b) => a + b)
        if (series === 0 && !panel.inCluster && !silentPanels.has(panel.title))
          empty.push(`${title}, ${panel.title}`)
      }
    for (const { expr } of recordingRules(shortenedTimes({ times: 1, windowSeconds: 20 }))) await ask(expr)
    for (const { expr } of alertRules(shortenedTimes({ times: 1, windowSeconds: 20 }))) await ask(expr)
    assert.deepEqual(empty, [], 'panels without series')
    if (pictures !== undefined)
      await drawDashboards(world.prometheus, {
        folder: pictures,
        seconds: healthyMs / 1000,
        scrapeSeconds: 1,
      })
    const fired = await world.prometheus.firedWithin(healthyMs / 1000)
    assert.deepEqual([...fired], [], 'alerts of a healthy service')
    return `  queries             ${count}, all answered; no alert in ${healthyMs / 1000} s without a fault`
  } finally {
    await world.stop()
  }
}

async function tried(fault: Fault, disk: string): Promise<{ found: Row[]; wrong: string[] }> {
  const world = await World.start(fault.world?.(disk))
  let end: (() => Promise<void>) | undefined
  try {
    await fault.prepare?.(world)
    // What rises is seen only after a first value. Prometheus begins some seconds after its start.
    while ((await world.prometheus.query('up == 1')).length === 0) await later(100)
    await later(4_000)
    const wrong = [...(await world.prometheus.firing())].map((alert) => `${alert} fires without a fault`)
    const since = performance.now()
    // A fault that takes its time fires on the way.
    const seen = Promise.all(
      fault.alerts.map(async (alert) => ({
        fault: fault.name,
        alert,
        seconds: await world.seconds(alert, { within: fireWithinSeconds, since }),
      })),
    )
    // If the fault cannot be made, its own error counts.
    seen.catch(() => undefined)
    end = await fault.make(world, disk)
    const found = await seen
    for (const { alert, seconds } of found) if (seconds === undefined) wrong.push(`${alert} does not fire`)
    const expected = new Set([...fault.alerts, ...(fault.besides ?? [])])
    for (const alert of await world.prometheus.firing())
      if (!expected.has(alert)) wrong.push(`${alert} fires, too`)
    return { found, wrong }
  } finally {
    await end?.()
    await world.stop()
  }
}

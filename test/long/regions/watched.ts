/**
 * The Prometheus of a region, over its rendered configuration: queries of dashboards and rules, and
 * the alerts of a cluster in their faults.
 */
import assert from 'node:assert/strict'
import { parse, stringify } from 'yaml'
import { alertRules } from '../../../infra/observe/alerts.ts'
import { dashboards } from '../../../infra/observe/dashboards.ts'
import { recordingRules } from '../../../infra/observe/records.ts'
import { rulesFile } from '../../../infra/observe/rules-file.ts'
import { productionTimes, shortenedTimes, type Times } from '../../../infra/observe/times.ts'
import { AskedPrometheus } from '../observed/asked-prometheus.ts'
import { drawDashboards } from '../observed/drawn-dashboard.ts'
import { type DeployedRegions, successful } from './deployed.ts'
import { type ClusterFault, clusterFaults } from './faults.ts'
import { Load } from './load.ts'
import { Receiver } from './receiver.ts'

/** The host with the region's Prometheus. */
const host = 'par3'
const place = '/etc/prometheus'
const scrapeSeconds = 2
const healthyMs = 60_000
const fireWithinMs = 180_000
/** Alerts of the fault before end within this. */
const calmWithinMs = 300_000
/** After a reload Prometheus finds alertmanagers within 5 s, and evaluates what was added. */
const evaluatedMs = 15_000
/**
 * Alerts with long windows or waits. When the trial shortens these to seconds, a short disturbance
 * such as a slow scrape on a busy machine makes them fire. An account is in the second region after
 * up to 45 s: ages shortened 20 times are shorter.
 */
const hasty = [
  ...['HoldfastDiskFull', 'HoldfastReplicationOwed', 'HoldfastProcessDown', 'HoldfastCopiesLack'],
  ...['HoldfastBackupLag', 'HoldfastSlowSlow'],
]
/** The receivers of the example do not exist here. The faults have a real one. */
const undelivered = 'HoldfastNotificationsFail'
/** Their events do not happen in a healthy cluster, or not yet, or are of one machine alone. */
const silentPanels = new Set([
  ...['Refusals', 'Connections refused or closed', 'Activations that were lost'],
  ...['Accounts', 'Since the last backup', 'Clock ahead of the noted time'],
])

class WatchedRegion extends AskedPrometheus {
  readonly #deployed: DeployedRegions
  /** As rendered. */
  readonly #files = new Map<string, string>()

  constructor(deployed: DeployedRegions) {
    super(async (verb, form) => {
      const fields = Object.entries(form).flatMap(([name, text]) => ['--data-urlencode', `${name}=${text}`])
      const said = await deployed.on(host, 'curl', '-sS', `http://127.0.0.1:9090/api/v1/${verb}`, ...fields)
      return successful(verb, said)
    })
    this.#deployed = deployed
  }

  /** Scrapes and evaluates every `scrapeSeconds` from now on, with these times. */
  async hurry(times: Times): Promise<void> {
    for (const name of ['prometheus.yml', 'holdfast.rules.yml'])
      if (!this.#files.has(name)) this.#files.set(name, await this.#deployed.sh(host, `cat ${place}/${name}`))
    const config = parse(this.#files.get('prometheus.yml') as string)
    const interval = `${scrapeSeconds}s`
    const pace = { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval }
    await this.#write('prometheus.yml', stringify({ ...config, global: { ...config.global, ...pace } }))
    await this.#write('holdfast.rules.yml', rulesFile(times))
    await this.#reload()
  }

  /** As rendered again. */
  async restore(): Promise<void> {
    for (const [name, text] of this.#files) await this.#write(name, text)
    await this.#reload()
  }

  #write(name: string, text: string): Promise<void> {
    return this.#deployed.write(host, `${place}/${name}`, text)
  }

  async #reload(): Promise<void> {
    await this.#deployed.sh(host, 'systemctl reload prometheus')
  }
}

/**
 * @param pictures folder for the dashboards as pages; undefined: they are not drawn
 * @returns lines of figures. @throws Error with the panels without series, and alerts
 */
export async function askAll(deployed: DeployedRegions, pictures: string | undefined): Promise<string[]> {
  const region = new WatchedRegion(deployed)
  await region.hurry(productionTimes)
  const load = await Load.start(deployed, 'eu-par')
  try {
    await later(healthyMs)
    const empty: string[] = []
    let count = 0
    const ask = async (expr: string) => {
      count++
      return (await region.query(expr.replaceAll('$range', '30s'))).length
    }
    for (const { panels, title } of dashboards)
      for (const panel of panels) {
        let series = 0
        for (const [, expr] of panel.queries) series += await ask(expr)
        if (series === 0 && !silentPanels.has(panel.title)) empty.push(`${title}, ${panel.title}`)
      }
    const times = shortenedTimes({ times: 1, windowSeconds: 30 })
    for (const { expr } of [...recordingRules(times), ...alertRules(times)]) await ask(expr)
    if (pictures !== undefined)
      await drawDashboards(region, { folder: pictures, seconds: healthyMs / 1_000, scrapeSeconds })
    assert.deepEqual(empty, [], 'panels without series')
    assert.deepEqual(await region.query('up{job=~"prometheus|alertmanager|proxy"} == 0'), [], 'observers')
    // Each alert leaves once: `test/alerts-sent.test.ts` has the page itself.
    for (const expr of ['prometheus_notifications_alertmanagers_discovered', 'alertmanager_cluster_members'])
      assert.equal((await region.query(`${expr} == 3`)).length, 1, expr)
    const fired = await region.firedWithin(healthyMs / 1_000)
    assert.deepEqual(
      [...fired].filter(([alert]) => alert !== undelivered),
      [],
      'alerts of a healthy cluster',
    )
    const { done, failed } = await load.stop()
    assert.ok(done > failed, `users: ${done} requests done, ${failed} failed`)
    return [
      `  queries                ${count}, all answered under load; no alert in ${healthyMs / 1_000} s`,
      `  load                   ${done} requests done, ${failed} failed`,
    ]
  } finally {
    try {
      await load.stop()
    } finally {
      await region.restore()
    }
  }
}

/** @param words of the names of faults @returns the table. @throws Error with it */
export async function fireAll(
  deployed: DeployedRegions,
  { words, report }: { words: readonly string[]; report: (line: string) => void },
): Promise<string[]> {
  const region = new WatchedRegion(deployed)
  const receiver = await Receiver.start(deployed, host)
  const [lines, wrong]: [string[], string[]] = [[], []]
  let load: Load | undefined
  try {
    load = await Load.start(deployed, 'eu-par')
    for (const fault of clusterFaults.filter(({ name }) => words.some((text) => name.includes(text)))) {
      const found = await tried(deployed, { region, fault })
      for (const line of [...found.lines, ...found.wrong]) report(line)
      lines.push(...found.lines)
      wrong.push(...found.wrong.map((text) => `${fault.name}: ${text}`))
    }
  } finally {
    const ended = await Promise.allSettled([load?.stop(), receiver.restore(), region.restore()])
    for (const end of ended) if (end.status === 'rejected') wrong.push(String(end.reason))
  }
  if (wrong.length > 0) throw new Error([...lines, ...wrong].join('\n'))
  return lines
}

async function tried(
  deployed: DeployedRegions,
  { region, fault }: { region: WatchedRegion; fault: ClusterFault },
): Promise<{ lines: string[]; wrong: string[] }> {
  const wrong: string[] = []
  await region.hurry(shortenedTimes(fault.times))
  await later(evaluatedMs)
  const notForIt = new Set(hasty.filter((alert) => !fault.alerts.includes(alert)))
  const left = async () => (await region.firing()).difference(notForIt)
  if ((await settled(async () => (await left()).size === 0, calmWithinMs)) === undefined)
    wrong.push(`before it there are ${[...(await left())].join(', ')}`)
  const expected = new Set([...fault.alerts, ...(fault.besides ?? []), ...notForIt])
  const sinceMs = performance.now()
  const end = await fault.make(deployed)
  const lines: string[] = []
  try {
    for (const alert of fault.alerts) {
      const leftMs = Math.max(1_000, sinceMs + fireWithinMs - performance.now())
      const fired = await settled(async () => (await region.firing()).has(alert), leftMs)
      const afterSeconds = ((performance.now() - sinceMs) / 1_000).toFixed(0)
      lines.push(
        `  ${alert.padEnd(26)} ${fault.name.padEnd(49)} ${fired === undefined ? 'never' : `${afterSeconds} s`}`,
      )
      if (fired === undefined) wrong.push(`${alert} does not fire`)
    }
    const passed = (performance.now() - sinceMs) / 1_000
    for (const [alert, where] of await region.firedWithin(passed))
      if (!expected.has(alert)) wrong.push(`${alert} (${where}) fires, too`)
  } finally {
    await end()
  }
  return { lines, wrong }
}

/** @returns milliseconds until it held; undefined: it did not */
async function settled(holds: () => Promise<boolean>, withinMs: number): Promise<number | undefined> {
  const startedMs = performance.now()
  while (!(await holds())) {
    if (performance.now() - startedMs > withinMs) return undefined
    await later(1_000)
  }
  return performance.now() - startedMs
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** What Prometheus answers, over any way to ask it. */

/** One series of an answer. */
export interface Series {
  metric: Record<string, string>
  value: [seconds: number, value: string]
}

/** One series over a time. */
export interface RangeSeries {
  metric: Record<string, string>
  values: [seconds: number, value: string][]
}

/**
 * Alerts that fire in a trial without a fault: HoldfastWatchdog always, HoldfastAlertsUnsent if
 * there is no alertmanager.
 */
const ofTrials = 'HoldfastWatchdog|HoldfastAlertsUnsent'
const firingAlerts = `ALERTS{alertstate="firing",alertname!~"${ofTrials}"}`

export class AskedPrometheus {
  readonly #ask: (expr: string) => Promise<string>

  /** @param ask sends an expression to `/api/v1/query`. @returns the body of the answer. */
  constructor(ask: (expr: string) => Promise<string>) {
    this.#ask = ask
  }

  /** @throws Error with what it says about the query */
  async query(expr: string): Promise<Series[]> {
    const { status, data, error } = JSON.parse(await this.#ask(expr)) as {
      status: string
      data: { resultType: string; result: Series[] }
      error?: string
    }
    if (status !== 'success') throw new Error(`${expr}: ${error}`)
    return data.resultType === 'vector' ? data.result : []
  }

  /** Names of the alerts that fire now. */
  async firing(): Promise<Set<string>> {
    const series = await this.query(firingAlerts)
    return new Set(series.map(({ metric }) => metric.alertname ?? ''))
  }

  /** Those that fired at any time of the last seconds, with one process or region each. */
  async firedWithin(seconds: number): Promise<Map<string, string>> {
    const series = await this.query(`max_over_time(${firingAlerts}[${Math.ceil(seconds)}s])`)
    return new Map(
      series.map(({ metric: { alertname = '', process, region } }) => [alertname, process ?? region ?? '']),
    )
  }
}

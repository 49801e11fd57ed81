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

/** Several evaluations. */
const staleSeconds = 10
/** It always fires. */
const watchdog = 'HoldfastWatchdog'

/** Sends a form to `/api/v1/<verb>`. @returns the body of the answer. */
type Ask = (verb: 'query' | 'query_range', form: Record<string, string>) => Promise<string>

interface Answer {
  status: string
  data: { resultType: string; result: unknown[] }
  error?: string
}

export class AskedPrometheus {
  readonly #ask: Ask
  /** Query for the alerts that fire. */
  readonly #firing: string

  /** @param options.ofTrial alerts that fire in the trial without a fault */
  constructor(ask: Ask, { ofTrial = [] }: { ofTrial?: readonly string[] } = {}) {
    this.#ask = ask
    this.#firing = `ALERTS{alertstate="firing",alertname!~"${[watchdog, ...ofTrial].join('|')}"}`
  }

  /** @throws Error with what it says about the query */
  async query(expr: string): Promise<Series[]> {
    const { resultType, result } = await this.#answered('query', { query: expr })
    return resultType === 'vector' ? (result as Series[]) : []
  }

  /** @param step between values, s @throws Error with what it says about the query */
  async lastSeconds(expr: string, seconds: number, step: number): Promise<RangeSeries[]> {
    const end = Date.now() / 1000
    const form = { query: expr, start: String(end - seconds), end: String(end), step: String(step) }
    return (await this.#answered('query_range', form)).result as RangeSeries[]
  }

  async #answered(...[verb, form]: Parameters<Ask>): Promise<Answer['data']> {
    const { status, data, error } = JSON.parse(await this.#ask(verb, form)) as Answer
    if (status !== 'success') throw new Error(`${form.query}: ${error}`)
    return data
  }

  /** Names of the alerts that fire now. */
  async firing(): Promise<Set<string>> {
    // A rule that was replaced leaves its last sample, which an answer shows for five minutes.
    const series = await this.query(
      `${this.#firing} and time() - timestamp(${this.#firing}) < ${staleSeconds}`,
    )
    return new Set(series.map(({ metric }) => metric.alertname ?? ''))
  }

  /** Those that fired at any time of the last seconds, with one process or region each. */
  async firedWithin(seconds: number): Promise<Map<string, string>> {
    const series = await this.query(`max_over_time(${this.#firing}[${Math.ceil(seconds)}s])`)
    return new Map(
      series.map(({ metric: { alertname = '', process, region } }) => [alertname, process ?? region ?? '']),
    )
  }
}

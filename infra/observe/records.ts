/** What Prometheus computes once, for alerts and dashboards. */
import { day, hour, minute, type Times } from './times.ts'

export interface RecordingRule {
  record: string
  expr: string
}

/** Probes are no requests of users. */
const noProbe = 'route!="/health"'
const users = `host!="admin",${noProbe}`
const count = `holdfast_http_request_seconds_count{${users}}`
const failed = `holdfast_http_request_seconds_count{${users},outcome="failed"}`
/**
 * Answers of the API have no long bodies: those of the other hosts last as long as the bytes do.
 */
const calls = `holdfast_http_request_seconds_count{host="api",${noProbe}}`
/** Prometheus 2 stores this limit as `1`, Prometheus 3 as `1.0`. */
const quickCalls = `holdfast_http_request_seconds_bucket{host="api",${noProbe},le=~"1([.]0)?"}`

const burnWindows = [5 * minute, hour, 2 * hour, day] as const
export type BurnWindow = (typeof burnWindows)[number]

/** Names have the windows of production, also where tests shorten them. */
export function errorRatio(window: BurnWindow): string {
  return `holdfast:request_errors:ratio_rate${windowName(window)}`
}

export function slowRatio(window: BurnWindow): string {
  return `holdfast:slow_api_calls:ratio_rate${windowName(window)}`
}

/** By the region of the process that says it. */
const byRegion = '* on (instance) group_left (region) holdfast_build_info'

export const regionPairLag = 'region_pair:holdfast_replication_lag_seconds:max'
export const regionBackupLag = 'region:holdfast_backup_lag_seconds:max'

export function recordingRules({ window }: Times): RecordingRule[] {
  const ratios = burnWindows.flatMap((nominal) => {
    const range = window(nominal)
    return [
      {
        record: errorRatio(nominal),
        expr: `(sum(rate(${failed}[${range}])) or vector(0)) / (sum(rate(${count}[${range}])) > 0)`,
      },
      {
        record: slowRatio(nominal),
        expr: `1 - sum(rate(${quickCalls}[${range}])) / (sum(rate(${calls}[${range}])) > 0)`,
      },
    ]
  })
  return [
    ...ratios,
    {
      record: 'host_outcome:holdfast_http_requests:rate5m',
      expr: `sum by (host, outcome) (rate(holdfast_http_request_seconds_count[${window(5 * minute)}]))`,
    },
    {
      record: regionPairLag,
      expr: `max by (region, source_region) (holdfast_replication_lag_seconds ${byRegion})`,
    },
    {
      record: regionBackupLag,
      expr: `max by (region) (holdfast_backup_lag_seconds ${byRegion})`,
    },
  ]
}

function windowName(window: BurnWindow): string {
  if (window >= day) return `${window / day}d`
  return window >= hour ? `${window / hour}h` : `${window / minute}m`
}

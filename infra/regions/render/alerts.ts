/** What wakes somebody (`page`) and what waits for the next day (`ticket`). */
export interface AlertRule {
  alert: string
  expr: string
  /** How long it must hold. */
  for: string
  severity: 'page' | 'ticket'
  summary: string
  /** Chapter of infra/OPERATING.md. */
  runbook: string
}

/** 507 says that the disk is full, which has an alert of its own. */
const errors = 'holdfast_http_request_seconds_count{code=~"5..",code!="507"}'
const requests = 'holdfast_http_request_seconds_count'
/** Of answers may fail within 30 days. */
const errorBudget = 0.001

function errorShare(window: string): string {
  return `sum(rate(${errors}[${window}])) / sum(rate(${requests}[${window}]))`
}

/** Both windows use up the budget that many times too fast: one is sure, the other current. */
function burns(times: number, [long, short]: [string, string]): string {
  const limit = Number((times * errorBudget).toFixed(6))
  return `(${errorShare(long)} > ${limit}) and (${errorShare(short)} > ${limit})`
}

function when(
  alert: string,
  [severity, pending]: ['page' | 'ticket', string],
  expr: string,
  [summary, runbook]: [string, string],
): AlertRule {
  return { alert, expr, for: pending, severity, summary, runbook }
}

const lost = 'When something is lost'
const alone = 'One machine'
const disk = 'A full disk'

export const alertRules: readonly AlertRule[] = [
  when('HoldfastProcessDown', ['page', '2m'], 'up{job="holdfast"} == 0', [
    '{{ $labels.process }} on {{ $labels.machine }} does not answer.',
    lost,
  ]),
  when('HoldfastErrorsFast', ['page', '2m'], burns(14.4, ['1h', '5m']), [
    'Errors use up two percent of the month’s budget in an hour.',
    alone,
  ]),
  when('HoldfastErrorsSlow', ['ticket', '15m'], burns(3, ['1d', '2h']), [
    'Errors use up ten percent of the month’s budget in a day.',
    alone,
  ]),
  when(
    'HoldfastApiSlow',
    ['ticket', '15m'],
    'histogram_quantile(0.99, sum by (le) (rate(holdfast_http_request_seconds_bucket{host="api"}[10m]))) > 1',
    ['One in a hundred calls of the API takes longer than 1 s.', alone],
  ),
  when('HoldfastMetadataUnwritable', ['page', '1m'], 'holdfast_metadata_writable == 0', [
    '{{ $labels.process }} cannot write metadata: all changes are refused.',
    disk,
  ]),
  when('HoldfastStoreFailed', ['page', '1m'], 'holdfast_store_failed == 1', [
    'The store of {{ $labels.process }} works again only after a restart.',
    lost,
  ]),
  when('HoldfastStoreUnwritable', ['page', '5m'], 'holdfast_store_writable == 0', [
    '{{ $labels.process }} takes no uploads.',
    disk,
  ]),
  when(
    'HoldfastDiskFull',
    ['ticket', '1h'],
    'predict_linear(holdfast_store_free_bytes[6h], 259200) < 0 and holdfast_store_free_bytes < holdfast_store_disk_bytes',
    ['The disk of {{ $labels.process }} is full within three days.', disk],
  ),
  when('HoldfastDamaged', ['ticket', '0m'], 'holdfast_store_damaged_blobs > 0', [
    '{{ $labels.process }} has damaged copies and found no whole ones.',
    lost,
  ]),
  when(
    'HoldfastScrubOld',
    ['ticket', '1h'],
    'holdfast_scrub_last_pass_timestamp_seconds > 0 and time() - holdfast_scrub_last_pass_timestamp_seconds > 3024000',
    ['{{ $labels.process }} did not verify all files within 35 days.', lost],
  ),
  when('HoldfastQuarantine', ['ticket', '5m'], 'holdfast_accounts_quarantined > 0', [
    '{{ $labels.process }} has accounts that cannot be read.',
    'A damaged account',
  ]),
  when('HoldfastUnknownOutcomes', ['ticket', '10m'], 'sum(rate(holdfast_journal_unknown_total[10m])) > 1', [
    'Many appends to journals have no known outcome: Cassandra is slow or away.',
    lost,
  ]),
  when('HoldfastCollectStandstill', ['ticket', '6h'], 'holdfast_collect_standstill_seconds > 86400', [
    'Deleted bytes of {{ $labels.process }} stay on the disk.',
    lost,
  ]),
  when('HoldfastReconcileOld', ['ticket', '1h'], 'holdfast_reconcile_age_seconds > 259200', [
    'References were not compared with accounts for three days.',
    lost,
  ]),
  when('HoldfastReplicationLag', ['ticket', '15m'], 'holdfast_replication_lag_seconds > 300', [
    '{{ $labels.process }} is behind {{ $labels.source }}.',
    lost,
  ]),
  when('HoldfastReplicationOwed', ['ticket', '1h'], 'holdfast_replication_owed > 0', [
    'Copies of {{ $labels.source }} are missing and no node has them whole.',
    lost,
  ]),
  when('HoldfastBackupLag', ['page', '10m'], 'holdfast_backup_lag_seconds > 600', [
    'Changes of accounts do not reach the second region.',
    'The second region',
  ]),
  when('HoldfastClock', ['page', '2m'], 'abs(holdfast_clock_offset_seconds) > 2', [
    'The clock of {{ $labels.process }} is wrong: no expiry fires there.',
    'Clocks',
  ]),
  when(
    'HoldfastConnectionsScarce',
    ['ticket', '10m'],
    'sum by (process, host) (holdfast_connections) / sum by (process, host) (holdfast_connections_max) > 0.8',
    ['Connections of a host of {{ $labels.process }} are nearly used up.', alone],
  ),
]

/**
 * Alerts that need somebody now (`page`) and those that can wait until the next day (`ticket`).
 * Each alert has its entry in infra/OPERATING.md, "When something is wrong".
 */
import { type BurnWindow, errorRatio, slowRatio } from './records.ts'
import { day, hour, minute, type Times } from './times.ts'

export interface AlertRule {
  alert: string
  expr: string
  /** How long it must hold. */
  for: string
  severity: 'page' | 'ticket'
  summary: string
}

/** This share of the answers may fail within 30 days. */
const errorBudget = 0.001
/** This share of the calls of the API may take longer than 1 s. */
const slowBudget = 0.01
/** How many times too fast the budget is used up: 2 % of it in an hour, 10 % in a day. */
const fast = 14.4
const slow = 3

/** What each proxy is scraped as. */
const proxyJobs = 'caddy|nginx|proxy'
/** Of processes, those that proxies show to users, and those that servers show to processes. */
const certificateEnds = `(${['', 'public_', 'server_']
  .map((shown) => `holdfast_${shown}certificate_expires_timestamp_seconds`)
  .join(' or ')})`
const certificateName =
  '{{ or $labels.host $labels.server $labels.process }} ({{ or $labels.use (and $labels.server "server") "public" }})'
const backedUp = 'holdfast_backup_last_timestamp_seconds'

/**
 * Both windows exceed the limit. The long one avoids false alarms; the short one ends the alert
 * soon.
 */
function burns(
  ratio: (window: BurnWindow) => string,
  { limit, long, short }: { limit: number; long: BurnWindow; short: BurnWindow },
): string {
  const most = Number(limit.toFixed(6))
  return `${ratio(long)} > ${most} and ${ratio(short)} > ${most}`
}

/** Addresses that a relay refuses for good, one after the other, when it takes other mails. */
const refusedAddresses = 3

/** Of the appends to journals. */
const unknownShare = 0.05
/** Within the same time. At night a single one is a large share. */
const fewUnknown = 5

/** A single failure among sent mails concerns one address. @param range a length of Prometheus */
function everyMailFails(range: string): string {
  const mails = (outcome: string) => `increase(holdfast_mails_total{outcome="${outcome}"}[${range}])`
  const fails = `(${mails('failed')} > 0 or ${mails('refused')} > ${refusedAddresses})`
  return `(${fails} unless on (instance) ${mails('sent')} > 0)`
}

/** @param range a length of Prometheus */
function manyUnknown(range: string): string {
  const unknown = (how: 'rate' | 'increase') => `sum(${how}(holdfast_journal_unknown_total[${range}]))`
  const share = `${unknown('rate')} / sum(rate(holdfast_journal_flush_seconds_count[${range}]))`
  return `${share} > ${unknownShare} and ${unknown('increase')} > ${fewUnknown}`
}

interface AlertInput {
  severity: AlertRule['severity']
  /** Seconds. */
  pending: number
  expr: string
  summary: string
}

/** @param times how long is long; tests shorten it */
export function alertRules(times: Times): AlertRule[] {
  return Object.entries({
    ...servingAlerts(times),
    ...processAlerts(times),
    ...storingAlerts(times),
    ...clusterAlerts(times),
    ...monitoringAlerts(times),
  }).map(([alert, { severity, pending, expr, summary }]) => ({
    alert,
    expr,
    for: times.pending(pending),
    severity,
    summary,
  }))
}

/** What clients notice: processes that do not answer, errors, slow calls. */
function servingAlerts({ window }: Times): Record<string, AlertInput> {
  return {
    HoldfastProcessDown: {
      severity: 'page',
      pending: 2 * minute,
      expr: 'up{job="holdfast"} == 0',
      summary: '{{ $labels.process }} on {{ $labels.machine }} does not answer.',
    },
    HoldfastRestarts: {
      severity: 'ticket',
      pending: 0,
      expr: `changes(process_start_time_seconds{job="holdfast"}[${window(hour)}]) > 2`,
      summary: '{{ $labels.process }} started more than twice within an hour.',
    },
    HoldfastNotReady: {
      severity: 'page',
      pending: 5 * minute,
      expr: 'holdfast_ready == 0',
      summary: '{{ $labels.process }} is not ready: {{ $labels.check }}.',
    },
    HoldfastErrorsFast: {
      severity: 'page',
      pending: 2 * minute,
      expr: burns(errorRatio, { limit: fast * errorBudget, long: hour, short: 5 * minute }),
      summary: 'Errors use up two percent of the month’s budget in an hour.',
    },
    HoldfastErrorsSlow: {
      severity: 'ticket',
      pending: 15 * minute,
      expr: burns(errorRatio, { limit: slow * errorBudget, long: day, short: 2 * hour }),
      summary: 'Errors use up ten percent of the month’s budget in a day.',
    },
    HoldfastSlowFast: {
      severity: 'page',
      pending: 2 * minute,
      expr: burns(slowRatio, { limit: fast * slowBudget, long: hour, short: 5 * minute }),
      summary: 'One in seven calls of the API takes longer than 1 s.',
    },
    HoldfastSlowSlow: {
      severity: 'ticket',
      pending: 15 * minute,
      expr: burns(slowRatio, { limit: slow * slowBudget, long: day, short: 2 * hour }),
      summary: 'Three in a hundred calls of the API take longer than 1 s.',
    },
  }
}

/** What a process needs: CPU, connections, its relay and scanner, a clock, a backup. */
function processAlerts({ window, age }: Times): Record<string, AlertInput> {
  return {
    HoldfastLoopSlow: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: 'nodejs_eventloop_lag_p99_seconds{job="holdfast"} > 0.5',
      summary: '{{ $labels.process }} is late by half a second: it has too little CPU.',
    },
    HoldfastRefusals: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: `sum by (process) (rate(holdfast_refusals_total{status="error-rateLimit"}[${window(5 * minute)}])) > 50`,
      summary: '{{ $labels.process }} refuses more than 50 requests a second by rate limits and bans.',
    },
    HoldfastConnectionsScarce: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: 'holdfast_connections{host!="admin"} / holdfast_connections_max > 0.8',
      summary: 'Connections of the {{ $labels.host }} host of {{ $labels.process }} are nearly used up.',
    },
    HoldfastDescriptorsScarce: {
      severity: 'page',
      pending: 5 * minute,
      expr: 'process_open_fds{job="holdfast"} / process_max_fds > 0.7',
      summary: '{{ $labels.process }} has opened 70 % of the files that it may.',
    },
    HoldfastMailsFail: {
      severity: 'ticket',
      pending: 10 * minute,
      // Soon where many mails are sent, and with gaps of hours between them.
      expr: `${everyMailFails(window(15 * minute))} or ${everyMailFails(window(6 * hour))}`,
      summary: 'The relay of {{ $labels.process }} takes no mails: people cannot sign in.',
    },
    HoldfastScannerFails: {
      severity: 'page',
      pending: 5 * minute,
      expr: 'holdfast_scanner_failing == 1',
      summary: 'The scanner of {{ $labels.process }} gives no verdicts: uploads are refused, or not scanned.',
    },
    HoldfastReportsFull: {
      severity: 'ticket',
      pending: 0,
      expr: `increase(holdfast_reports_total{outcome="full"}[${window(hour)}]) > 0`,
      summary: '{{ $labels.process }} takes no more reports of visitors: too many wait for a decision.',
    },
    HoldfastClockJump: {
      severity: 'page',
      pending: 2 * minute,
      expr: 'abs(holdfast_clock_jump_seconds) > 7200',
      summary: 'The clock of {{ $labels.process }} jumped. Nothing expires while it is far off.',
    },
    HoldfastBackupOld: {
      severity: 'ticket',
      pending: hour,
      // A cluster has one backup for all processes, of which any may have taken it.
      expr: `time() - ((max by (process, instance) (${backedUp}{role="standalone"}) or max(${backedUp}{role!="standalone"})) > 0) > ${age(2 * day)}`,
      summary: 'The last backup is older than two days.',
    },
  }
}

function storingAlerts({ window, age }: Times): Record<string, AlertInput> {
  return {
    HoldfastMetadataUnwritable: {
      severity: 'page',
      pending: minute,
      expr: 'holdfast_metadata_writable == 0',
      summary: '{{ $labels.process }} cannot write metadata: all changes are refused.',
    },
    HoldfastMetadataLost: {
      severity: 'page',
      pending: 0,
      // The data directory keeps the number: a loss is where it rises, also over a start.
      expr: `holdfast_metadata_lost_batches > min_over_time(holdfast_metadata_lost_batches[${window(day)}])`,
      summary: '{{ $labels.process }} has lost rows of accounts within the last day.',
    },
    HoldfastMetadataIncomplete: {
      severity: 'ticket',
      pending: 0,
      expr: 'holdfast_metadata_lost_batches > 0',
      summary: '{{ $labels.process }} has lost rows of accounts once: nothing is collected.',
    },
    HoldfastStoreFailed: {
      severity: 'page',
      pending: 0,
      // The process ends within a minute, so its next start would end the alert.
      expr: `max_over_time(holdfast_store_failed[${window(10 * minute)}]) == 1`,
      summary: 'The store of {{ $labels.process }} failed: the process ends and is started again.',
    },
    HoldfastStoreUnwritable: {
      severity: 'page',
      pending: 5 * minute,
      expr: 'holdfast_store_writable == 0',
      summary: '{{ $labels.process }} takes no uploads.',
    },
    HoldfastDiskFull: {
      severity: 'ticket',
      pending: hour,
      expr: `predict_linear(holdfast_store_free_bytes[${window(6 * hour)}], ${age(3 * day)}) < 0 and holdfast_store_free_bytes < 0.5 * holdfast_disk_size_bytes`,
      summary: 'The disk of {{ $labels.process }} is full within three days.',
    },
    HoldfastDamaged: {
      severity: 'ticket',
      pending: 0,
      expr: 'holdfast_store_damaged_blobs > 0',
      summary: '{{ $labels.process }} has damaged copies and found no whole ones.',
    },
    HoldfastExtentsQuarantined: {
      severity: 'ticket',
      pending: 0,
      expr: 'sum by (process, instance) (holdfast_store_quarantined_extents) > 0',
      summary: '{{ $labels.process }} has files of extents that are missing or damaged.',
    },
    HoldfastScrubOld: {
      severity: 'ticket',
      pending: hour,
      expr: `time() - (holdfast_scrub_last_pass_timestamp_seconds > 0 or holdfast_scrub_began_timestamp_seconds > 0) > ${age(35 * day)}`,
      summary: '{{ $labels.process }} did not verify all files within 35 days.',
    },
    HoldfastScrubStopped: {
      severity: 'ticket',
      pending: 0,
      expr: 'holdfast_scrub_stopped == 1',
      summary: '{{ $labels.process }} found so much damage within an hour that it verifies nothing more.',
    },
    HoldfastDiskFaults: {
      severity: 'ticket',
      pending: 0,
      expr: [
        ...['scrub_damaged', 'store_replaced_blobs', 'store_extent_failures'].map(
          (count) => `increase(holdfast_${count}_total[${window(day)}]) > 0`,
        ),
        'holdfast_scrub_unreadable > 0',
      ].join(' or '),
      summary: 'The disk of {{ $labels.process }} returned wrong bytes or an error within a day.',
    },
    HoldfastQuarantine: {
      severity: 'ticket',
      pending: 5 * minute,
      expr: 'holdfast_accounts_quarantined > 0',
      summary: '{{ $labels.process }} has accounts that cannot be read.',
    },
    HoldfastCollectPaused: {
      severity: 'ticket',
      pending: 6 * hour,
      expr: `holdfast_collect_paused_seconds > ${age(day)}`,
      summary: 'Deleted bytes of {{ $labels.process }} stay on the disk.',
    },
    HoldfastReconcileOld: {
      severity: 'ticket',
      pending: hour,
      expr: `holdfast_reconcile_age_seconds > ${age(3 * day)}`,
      summary: 'References were not compared with accounts for three days.',
    },
  }
}

function clusterAlerts({ window, age }: Times): Record<string, AlertInput> {
  return {
    HoldfastNatsDown: {
      severity: 'page',
      pending: minute,
      expr: 'holdfast_nats_up == 0',
      summary: '{{ $labels.process }} has no link to NATS: it reaches no account.',
    },
    HoldfastCassandraNodes: {
      severity: 'page',
      pending: 2 * minute,
      expr: 'holdfast_cassandra_nodes_connected < holdfast_cassandra_nodes or holdfast_cassandra_nodes == 0',
      summary: '{{ $labels.process }} does not reach every node of Cassandra in {{ $labels.region }}.',
    },
    HoldfastUnknownOutcomes: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: manyUnknown(window(10 * minute)),
      summary: 'One append to a journal in twenty had no known outcome at first: Cassandra is slow.',
    },
    HoldfastReplicationLag: {
      severity: 'ticket',
      pending: 15 * minute,
      expr: `holdfast_replication_lag_seconds > ${age(5 * minute)}`,
      summary: '{{ $labels.process }} is behind {{ $labels.source }}.',
    },
    HoldfastReplicationOwed: {
      severity: 'ticket',
      pending: hour,
      expr: 'holdfast_replication_owed > 0',
      summary: 'Copies of {{ $labels.source }} are missing and no node has them whole.',
    },
    HoldfastCopiesLack: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: 'max by (state) (holdfast_placement_groups{state=~"lacking|limited"}) > 0',
      summary: '{{ $value }} placement groups have too few copies ({{ $labels.state }}).',
    },
    HoldfastBackupLag: {
      severity: 'page',
      pending: 10 * minute,
      expr: `holdfast_backup_lag_seconds > ${age(10 * minute)}`,
      summary: 'Changes of accounts do not reach the second region.',
    },
    HoldfastClock: {
      severity: 'page',
      pending: 2 * minute,
      expr: 'abs(holdfast_clock_offset_seconds) > 2',
      summary: 'The clock of {{ $labels.process }} is wrong: no expiry fires there.',
    },
    HoldfastCertificateEnds: {
      severity: 'ticket',
      pending: hour,
      expr: `${certificateEnds} - time() < ${age(21 * day)}`,
      summary: `The certificate of ${certificateName} ends within three weeks.`,
    },
    HoldfastCertificateEnded: {
      severity: 'page',
      pending: 0,
      expr: `${certificateEnds} - time() < ${age(2 * day)}`,
      summary: `The certificate of ${certificateName} ends within two days or has ended.`,
    },
  }
}

/** Alerts on proxies and on the monitoring itself. */
function monitoringAlerts({ window }: Times): Record<string, AlertInput> {
  type Unsent = 'errors' | 'dropped'
  const unsent = (what: Unsent) => `increase(prometheus_notifications_${what}_total[${window(10 * minute)}])`
  // Newer releases of Prometheus count dropped alerts for each alertmanager, too.
  const unsentToAll = (what: Unsent) => `min by (instance) (${unsent(what)}) > 0`
  return {
    HoldfastWatchdog: {
      severity: 'ticket',
      pending: 0,
      expr: 'vector(1)',
      summary: 'Always fires. Somebody outside misses it when alerts do not come through.',
    },
    HoldfastProxyDown: {
      severity: 'page',
      pending: 2 * minute,
      expr: `up{job=~"${proxyJobs}"} == 0`,
      summary: 'The proxy of {{ $labels.machine }} does not answer: no user reaches this host.',
    },
    HoldfastServerDown: {
      severity: 'ticket',
      pending: 5 * minute,
      expr: `up{job!~"holdfast|${proxyJobs}"} == 0`,
      summary: '{{ $labels.job }} of {{ $labels.machine }} does not answer.',
    },
    HoldfastNotificationsFail: {
      severity: 'page',
      pending: 10 * minute,
      expr: `sum by (instance, integration) (increase(alertmanager_notifications_failed_total[${window(10 * minute)}])) > 0`,
      summary: 'Alertmanager cannot deliver alerts by {{ $labels.integration }}.',
    },
    HoldfastAlertsUnsent: {
      severity: 'page',
      pending: 10 * minute,
      expr: `${unsentToAll('errors')} or ${unsentToAll('dropped')} or prometheus_notifications_alertmanagers_discovered < 1`,
      summary: 'Prometheus at {{ $labels.instance }} reaches no alertmanager: no alert is sent.',
    },
    HoldfastAlertmanagerUnreached: {
      severity: 'ticket',
      pending: 10 * minute,
      expr: `${unsent('errors')} > 0 unless on (instance) ${unsentToAll('errors')}`,
      summary: 'Prometheus at {{ $labels.instance }} does not reach {{ $labels.alertmanager }}.',
    },
  }
}

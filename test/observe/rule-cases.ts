/**
 * Series that make an alert fire, and what else fires with it. promtool computes the rules of
 * production over them. `0x10` is eleven times 0, `0+60x10` rises by 60.
 */
export interface RuleCase {
  alert: string
  /** Name and labels, and its samples. */
  series: Record<string, string>
  /** Minutes after the first sample. */
  atMinutes: number
  /** Between samples, and between evaluations. Long cases have few of them. */
  everyMinutes: number
  /** That fire then, too. */
  alsoFire?: string[]
}

const of = 'process="p", instance="i", job="holdfast"'
const ownCertificate = `${of}, use="nats", certificate="own"`
const publicCertificate = `holdfast_public_certificate_expires_timestamp_seconds{${of}, host="h"}`
const serverCertificate = `holdfast_server_certificate_expires_timestamp_seconds{${of}, server="nats://10.0.0.1:4222"}`
const api = `${of}, host="api", method="GET", route="/x"`
const requests = (outcome: string) => `holdfast_http_request_seconds_count{${api}, outcome="${outcome}"}`
const quickUnder = (le: string) => `holdfast_http_request_seconds_bucket{${api}, outcome="ok", le="${le}"}`
const quick = quickUnder('1')
const mails = (outcome: string) => `holdfast_mails_total{${of}, outcome="${outcome}"}`
const unknown = `holdfast_journal_unknown_total{${of}, outcome="in"}`
const flushes = `holdfast_journal_flush_seconds_count{${of}}`
const backup = (process: string, role: string) =>
  `holdfast_backup_last_timestamp_seconds{process="${process}", instance="${process}", role="${role}"}`
const unsent = (to: string) => `prometheus_notifications_errors_total{instance="o", alertmanager="${to}"}`
const days = (count: number) => count * 86_400
const minutesOfDay = 24 * 60

/** Of a process that starts: a proxy asks it for its health. */
const probes = `holdfast_http_request_seconds_count{${of}, host="api", method="GET", route="/health", outcome="failed"}`

/** Nothing fires over these; each lasts as long as its case. Cases replace some of them. */
export const healthy: Record<string, string> = {
  [`up{${of}}`]: '1x',
  'up{instance="c", job="caddy", machine="m"}': '1x',
  'up{instance="a", job="alertmanager", machine="m"}': '1x',
  'alertmanager_notifications_failed_total{instance="a", integration="webhook"}': '0x',
  [unsent('a')]: '0x',
  [unsent('b')]: '0x',
  'prometheus_notifications_dropped_total{instance="o"}': '0x',
  'prometheus_notifications_alertmanagers_discovered{instance="o"}': '1x',
  [`process_start_time_seconds{${of}}`]: '1x',
  [`holdfast_ready{${of}, check="store"}`]: '1x',
  [probes]: '0+600x',
  [`holdfast_metadata_writable{${of}}`]: '1x',
  [`holdfast_metadata_lost_batches{${of}}`]: '0x',
  [`holdfast_store_writable{${of}}`]: '1x',
  [`holdfast_store_failed{${of}}`]: '0x',
  [`holdfast_store_damaged_blobs{${of}}`]: '0x',
  [`holdfast_store_quarantined_extents{${of}, reason="missing"}`]: '0x',
  [`holdfast_accounts_quarantined{${of}}`]: '0x',
  [`holdfast_collect_paused_seconds{${of}}`]: '0x',
  [`holdfast_placement_groups{${of}, state="lacking"}`]: '0x',
  [`holdfast_placement_groups{${of}, state="limited"}`]: '0x',
  // One region alone.
  [`holdfast_placement_groups{${of}, state="regional"}`]: '4x',
  [`holdfast_reconcile_age_seconds{${of}}`]: '0x',
  [`holdfast_scrub_last_pass_timestamp_seconds{${of}}`]: '0x',
  [`holdfast_scrub_began_timestamp_seconds{${of}}`]: '0x',
  [`holdfast_scrub_stopped{${of}}`]: '0x',
  [`holdfast_scrub_unreadable{${of}}`]: '0x',
  [`holdfast_scrub_damaged_total{${of}}`]: '0x',
  [`holdfast_store_replaced_blobs_total{${of}}`]: '0x',
  [`holdfast_store_extent_failures_total{${of}}`]: '0x',
  [`holdfast_disk_size_bytes{${of}}`]: '1000000x',
  [`holdfast_store_free_bytes{${of}}`]: '400000x',
  [`holdfast_connections{${of}, host="api"}`]: '10x',
  [`holdfast_connections_max{${of}, host="api"}`]: '100x',
  [`process_open_fds{${of}}`]: '10x',
  [`process_max_fds{${of}}`]: '100x',
  [mails('sent')]: '0x',
  [mails('refused')]: '0x',
  [mails('failed')]: '0x',
  [`holdfast_refusals_total{${of}, host="api", status="error-rateLimit"}`]: '0+60x',
  [`holdfast_scanner_failing{${of}}`]: '0x',
  [`holdfast_clock_jump_seconds{${of}}`]: '0x',
  [`holdfast_clock_offset_seconds{${of}}`]: '0x',
  [`holdfast_backup_last_timestamp_seconds{${of}}`]: '0x',
  [`holdfast_backup_lag_seconds{${of}}`]: '1x',
  [`holdfast_replication_lag_seconds{${of}, source="q", source_region="r"}`]: '1x',
  [`holdfast_replication_owed{${of}, source="q", source_region="r"}`]: '0x',
  [unknown]: '0x',
  [flushes]: '0+600x',
  [`holdfast_certificate_expires_timestamp_seconds{${ownCertificate}}`]: `${days(1_000)}x`,
  [publicCertificate]: `${days(1_000)}x`,
  [serverCertificate]: `${days(1_000)}x`,
  [`holdfast_nats_up{${of}}`]: '1x',
  [`holdfast_cassandra_nodes{${of}, region="r"}`]: '3x',
  [`holdfast_cassandra_nodes_connected{${of}, region="r"}`]: '3x',
  [`nodejs_eventloop_lag_p99_seconds{${of}}`]: '0.01x',
  [requests('ok')]: '0+600x',
  [quick]: '0+600x',
}

/** Nothing fires over these, though it may look so. */
export const quietCases: readonly Omit<RuleCase, 'alert'>[] = [
  {
    // The last pass counts, not the first one.
    series: {
      [`holdfast_scrub_began_timestamp_seconds{${of}}`]: '1x200',
      [`holdfast_scrub_last_pass_timestamp_seconds{${of}}`]: `${days(20)}x200`,
    },
    atMinutes: 50 * minutesOfDay,
    everyMinutes: 360,
  },
  {
    // Another process of the cluster takes the backups now.
    series: { [backup('a', 'storage-node')]: '1x', [backup('b', 'storage-node')]: '0+1800x' },
    atMinutes: 5 * minutesOfDay,
    everyMinutes: 30,
  },
  // Few of very many appends, and few of few.
  { series: { [unknown]: '0+120x60', [flushes]: '0+6000x' }, atMinutes: 30, everyMinutes: 1 },
  { series: { [unknown]: '0+0.4x60', [flushes]: '0+1x' }, atMinutes: 30, everyMinutes: 1 },
  // The server of one address takes nothing; other mails are sent.
  {
    series: { [mails('failed')]: '0 2 5 8x60', [mails('sent')]: '0x5 1x60' },
    atMinutes: 30,
    everyMinutes: 1,
  },
  // No other mails are sent, and three addresses were typed that do not exist.
  { series: { [mails('refused')]: '0 1 2 3x60' }, atMinutes: 30, everyMinutes: 1 },
]

/** Fires in each case. */
export const watchdog = 'HoldfastWatchdog'

export const ruleCases: readonly RuleCase[] = [
  one('HoldfastProcessDown', `up{${of}}`, '0x10', 3),
  one('HoldfastProxyDown', 'up{instance="c", job="caddy", machine="m"}', '0x10', 3),
  one('HoldfastServerDown', 'up{instance="a", job="alertmanager", machine="m"}', '0x10', 6),
  one(
    'HoldfastNotificationsFail',
    'alertmanager_notifications_failed_total{instance="a", integration="webhook"}',
    '0+1x40',
    15,
  ),
  {
    alert: 'HoldfastAlertsUnsent',
    series: { [unsent('a')]: '0+1x40', [unsent('b')]: '0+1x40' },
    atMinutes: 15,
    everyMinutes: 1,
  },
  one('HoldfastAlertmanagerUnreached', unsent('a'), '0+1x40', 15),
  one('HoldfastAlertsUnsent', 'prometheus_notifications_dropped_total{instance="o"}', '0+1x40', 15),
  one('HoldfastAlertsUnsent', 'prometheus_notifications_alertmanagers_discovered{instance="o"}', '0x40', 15),
  one('HoldfastRestarts', `process_start_time_seconds{${of}}`, '1 2 2 3 3 4 4 4', 7),
  one('HoldfastNotReady', `holdfast_ready{${of}, check="store"}`, '0x10', 6),
  {
    alert: 'HoldfastErrorsFast',
    series: {
      [requests('failed')]: '0+60x100',
      [`holdfast_http_request_seconds_bucket{${api}, outcome="failed", le="1"}`]: '0+60x100',
    },
    atMinutes: 70,
    everyMinutes: 1,
    alsoFire: ['HoldfastErrorsSlow'],
  },
  one('HoldfastErrorsSlow', requests('failed'), '0+3x200', 180, 5),
  {
    alert: 'HoldfastSlowFast',
    series: { [quick]: '0+400x100' },
    atMinutes: 70,
    everyMinutes: 1,
    alsoFire: ['HoldfastSlowSlow'],
  },
  one('HoldfastSlowSlow', quick, '0+570x200', 180, 5),
  {
    // As Prometheus 3 stores it.
    alert: 'HoldfastSlowFast',
    series: { [quick]: '_x100', [quickUnder('1.0')]: '0+400x100' },
    atMinutes: 70,
    everyMinutes: 1,
    alsoFire: ['HoldfastSlowSlow'],
  },
  one('HoldfastLoopSlow', `nodejs_eventloop_lag_p99_seconds{${of}}`, '0.7x20', 12),
  one(
    'HoldfastRefusals',
    `holdfast_refusals_total{${of}, host="api", status="error-rateLimit"}`,
    '0+6000x30',
    20,
  ),
  one('HoldfastConnectionsScarce', `holdfast_connections{${of}, host="api"}`, '90x20', 12),
  one('HoldfastDescriptorsScarce', `process_open_fds{${of}}`, '90x20', 6),
  // One mail alone: it is given up after 8 attempts. It still counts hours later.
  one('HoldfastMailsFail', mails('failed'), '0 2 5 8x300', 12),
  one('HoldfastMailsFail', mails('failed'), '0 2 5 8x300', 240),
  one('HoldfastMailsFail', mails('refused'), '0 2 5 8x300', 12),
  {
    // Many mails, and the relay takes none of them from the 60th minute on.
    alert: 'HoldfastMailsFail',
    series: { [mails('sent')]: '0+5x60 300x60', [mails('failed')]: '0x60 0+5x60' },
    atMinutes: 90,
    everyMinutes: 1,
  },
  one('HoldfastScannerFails', `holdfast_scanner_failing{${of}}`, '1x10', 6),
  one('HoldfastReportsFull', `holdfast_reports_total{${of}, outcome="full"}`, '0 0 1 1 1 1', 5),
  one('HoldfastClockJump', `holdfast_clock_jump_seconds{${of}}`, '-9000x10', 3),
  // 51 days without another backup; the process restarts on the way.
  one('HoldfastBackupOld', backup('a', 'standalone'), '1x20 _x4 1x200', 51 * minutesOfDay, 360),
  one('HoldfastMetadataUnwritable', `holdfast_metadata_writable{${of}}`, '0x10', 2),
  {
    // Found at a start; there was another loss years ago.
    alert: 'HoldfastMetadataLost',
    series: { [`holdfast_metadata_lost_batches{${of}}`]: '1x10 _x3 2x10' },
    atMinutes: 18,
    everyMinutes: 1,
    alsoFire: ['HoldfastMetadataIncomplete'],
  },
  // A day after the loss, and after another start.
  one('HoldfastMetadataIncomplete', `holdfast_metadata_lost_batches{${of}}`, '0x2 1x30 _ 1x30', 26 * 60, 30),
  // Seen twice, then the process was started again.
  one('HoldfastStoreFailed', `holdfast_store_failed{${of}}`, '0 1 1 _ 0 0 0 0 0', 7),
  one('HoldfastStoreUnwritable', `holdfast_store_writable{${of}}`, '0x10', 6),
  one('HoldfastDiskFull', `holdfast_store_free_bytes{${of}}`, '400000-2500x100', 400, 5),
  one('HoldfastDamaged', `holdfast_store_damaged_blobs{${of}}`, '1x10', 1),
  one('HoldfastExtentsQuarantined', `holdfast_store_quarantined_extents{${of}, reason="missing"}`, '1x10', 1),
  one(
    'HoldfastScrubOld',
    `holdfast_scrub_last_pass_timestamp_seconds{${of}}`,
    '1x200',
    36 * minutesOfDay,
    360,
  ),
  // No pass has ended yet.
  one('HoldfastScrubOld', `holdfast_scrub_began_timestamp_seconds{${of}}`, '1x200', 36 * minutesOfDay, 360),
  one('HoldfastScrubStopped', `holdfast_scrub_stopped{${of}}`, '1x10', 1),
  one('HoldfastDiskFaults', `holdfast_scrub_damaged_total{${of}}`, '0 1x10', 5),
  // Found by readers, and mended.
  one('HoldfastDiskFaults', `holdfast_store_replaced_blobs_total{${of}}`, '0 1x10', 5),
  one('HoldfastDiskFaults', `holdfast_store_extent_failures_total{${of}}`, '0 1x10', 5),
  one('HoldfastDiskFaults', `holdfast_scrub_unreadable{${of}}`, '1x10', 1),
  one('HoldfastQuarantine', `holdfast_accounts_quarantined{${of}}`, '1x10', 6),
  one('HoldfastCollectPaused', `holdfast_collect_paused_seconds{${of}}`, `${days(2)}x400`, 365, 5),
  one('HoldfastReconcileOld', `holdfast_reconcile_age_seconds{${of}}`, `${days(4)}x100`, 65),
  one('HoldfastNatsDown', `holdfast_nats_up{${of}}`, '0x10', 2),
  one('HoldfastCassandraNodes', `holdfast_cassandra_nodes_connected{${of}, region="r"}`, '2x10', 3),
  one('HoldfastUnknownOutcomes', unknown, '0+40x40', 25),
  // Of a few accounts.
  {
    alert: 'HoldfastUnknownOutcomes',
    series: { [unknown]: '0+1x40', [flushes]: '0+2x40' },
    atMinutes: 25,
    everyMinutes: 1,
  },
  one(
    'HoldfastReplicationLag',
    `holdfast_replication_lag_seconds{${of}, source="q", source_region="r"}`,
    '400x20',
    16,
  ),
  one(
    'HoldfastReplicationOwed',
    `holdfast_replication_owed{${of}, source="q", source_region="r"}`,
    '1x100',
    62,
  ),
  one('HoldfastCopiesLack', `holdfast_placement_groups{${of}, state="lacking"}`, '1x20', 11),
  one('HoldfastCopiesLack', `holdfast_placement_groups{${of}, state="limited"}`, '1x20', 11),
  one('HoldfastBackupLag', `holdfast_backup_lag_seconds{${of}}`, '700x20', 12),
  one('HoldfastClock', `holdfast_clock_offset_seconds{${of}}`, '3x10', 3),
  one(
    'HoldfastCertificateEnds',
    `holdfast_certificate_expires_timestamp_seconds{${ownCertificate}}`,
    `${days(20)}x100`,
    62,
  ),
  one('HoldfastCertificateEnds', publicCertificate, `${days(20)}x100`, 62),
  one('HoldfastCertificateEnds', serverCertificate, `${days(20)}x100`, 62),
  {
    ...one('HoldfastCertificateEnded', publicCertificate, `${days(1)}x100`, 62),
    alsoFire: ['HoldfastCertificateEnds'],
  },
  {
    ...one('HoldfastCertificateEnded', serverCertificate, `${days(1)}x100`, 62),
    alsoFire: ['HoldfastCertificateEnds'],
  },
  one(
    'HoldfastCertificateEnded',
    `holdfast_certificate_expires_timestamp_seconds{${ownCertificate}}`,
    `${days(1)}x10`,
    1,
  ),
]

function one(alert: string, series: string, samples: string, atMinutes: number, everyMinutes = 1): RuleCase {
  return { alert, series: { [series]: samples }, atMinutes, everyMinutes }
}

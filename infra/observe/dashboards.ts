/**
 * The content of the dashboards. `grafana.ts` turns this into Grafana's files; a test asks a real
 * Prometheus every query.
 *
 * A query is `[legend, expression]`; `$range` is the length over which rates are taken.
 */
import { errorRatio, regionBackupLag, regionPairLag, slowRatio } from './records.ts'
import { day, hour, minute } from './times.ts'

export interface Dashboard {
  /** Also the name of its file. */
  id: string
  title: string
  panels: Panel[]
}

export interface Panel {
  title: string
  /** A unit of Grafana: `s`, `bytes`, `reqps` and so on. */
  unit: string
  kind: 'lines' | 'now'
  /** Values below 0 mean something: the axis does not begin there. */
  signed: boolean
  queries: [legend: string, expr: string][]
  /** Embedded services have no such series. */
  inCluster: boolean
}

export const dashboards: readonly Dashboard[] = [
  {
    id: 'overview',
    title: 'Holdfast: overview',
    panels: [
      now('Processes that answer', 'short', ['up', 'sum(up{job="holdfast"})']),
      now('Not ready', 'short', ['not ready', 'count(holdfast_ready == 0) or vector(0)']),
      now('Alerts', 'short', [
        'firing',
        'count(ALERTS{alertstate="firing",alertname=~"Holdfast.*"}) or vector(0)',
      ]),
      now('Free for uploads', 'bytes', ['free', 'sum(holdfast_store_free_bytes)']),
      now('Accounts', 'short', ['{{tier}}', 'sum by (tier) (holdfast_accounts)']),
      now('Versions', 'short', ['{{version}} {{role}}', 'count by (version, role) (holdfast_build_info)']),
      lines('Requests by outcome', 'reqps', [
        '{{host}} {{outcome}}',
        'host_outcome:holdfast_http_requests:rate5m{host!="admin"}',
      ]),
      lines(
        'Part of answers that fail',
        'percentunit',
        ['5 min', errorRatio(5 * minute)],
        ['1 h', errorRatio(hour)],
        ['1 d', errorRatio(day)],
      ),
      lines(
        'Part of API calls over 1 s',
        'percentunit',
        ['5 min', slowRatio(5 * minute)],
        ['1 h', slowRatio(hour)],
        ['1 d', slowRatio(day)],
      ),
      lines(
        'Bytes of files',
        'Bps',
        ['sent: {{traffic}}', 'sum by (traffic) (rate(holdfast_download_bytes_total[$range]))'],
        ['received: {{outcome}}', 'sum by (outcome) (rate(holdfast_upload_bytes_total[$range]))'],
      ),
      lines('Uploads that ended', 'ops', [
        '{{outcome}}',
        'sum by (outcome) (rate(holdfast_uploads_total[$range]))',
      ]),
      lines('Refusals', 'reqps', [
        '{{host}} {{status}}',
        'topk(12, sum by (host, status) (rate(holdfast_refusals_total[$range])))',
      ]),
      lines(
        'Kept out',
        'short',
        ['bans in force', 'sum(holdfast_bans)'],
        ['blocked: {{list}}', 'max by (list) (holdfast_blocked_names)'],
      ),
      lines('Accounts made', 'ops', ['made', 'sum(rate(holdfast_accounts_made_total[$range]))']),
      lines(
        'Mails',
        'short',
        ['waiting', 'sum(holdfast_mails_waiting)'],
        ['{{outcome}} a minute', '60 * sum by (outcome) (rate(holdfast_mails_total[$range]))'],
      ),
    ],
  },
  {
    id: 'hot-paths',
    title: 'Holdfast: hot paths',
    panels: [
      lines('First byte, p99', 's', ['{{host}}', quantile(0.99, 'holdfast_http_first_byte_seconds', 'host')]),
      lines('First byte, median', 's', [
        '{{host}}',
        quantile(0.5, 'holdfast_http_first_byte_seconds', 'host'),
      ]),
      lines('Slowest routes, p99', 's', [
        '{{host}} {{method}} {{route}}',
        `topk(10, ${quantile(0.99, 'holdfast_http_request_seconds', 'host, method, route')})`,
      ]),
      lines('Busiest routes', 'reqps', [
        '{{host}} {{method}} {{route}}',
        'topk(10, sum by (host, method, route) (rate(holdfast_http_request_seconds_count[$range])))',
      ]),
      lines('Wait for a turn at an account', 's', ...quantiles('holdfast_account_mailbox_wait_seconds')),
      lines('Appends to journals', 's', ...quantiles('holdfast_journal_flush_seconds')),
      lines('Changes an append', 'short', [
        'mean',
        'sum(rate(holdfast_journal_changes_total[$range])) / sum(rate(holdfast_journal_flush_seconds_count[$range]))',
      ]),
      lines('Password checks', 's', ...quantiles('holdfast_password_check_seconds')),
      lines(
        'Uploads under way',
        'short',
        ['uploads', 'sum(holdfast_uploads_in_flight)'],
        ['with a stage', 'sum(holdfast_uploads_in_flight_stages)'],
      ),
      lines('Uploads without a place', 'ops', [
        '{{reason}}',
        'sum by (reason) (rate(holdfast_uploads_without_place_total[$range]))',
      ]),
      lines(
        'Answers under way',
        'bytes',
        ['held', 'sum(holdfast_answer_bytes)'],
        ['limit', 'sum(holdfast_answer_bytes_max)'],
      ),
      lines('Event loop is late, p99', 's', [
        '{{process}}',
        'nodejs_eventloop_lag_p99_seconds{job="holdfast"}',
      ]),
    ],
  },
  {
    id: 'storage',
    title: 'Holdfast: storage',
    panels: [
      lines(
        'Disk',
        'bytes',
        ['size {{process}}', 'holdfast_disk_size_bytes'],
        ['free {{process}}', 'holdfast_disk_free_bytes'],
        ['reserve {{process}}', 'holdfast_disk_reserve_bytes'],
        ['free for uploads {{process}}', 'holdfast_store_free_bytes'],
      ),
      lines(
        'Store',
        'bytes',
        ['on the disk {{process}}', 'holdfast_store_disk_bytes'],
        ['live {{process}}', 'holdfast_store_live_bytes'],
        ['staged {{process}}', 'holdfast_store_staged_bytes'],
      ),
      lines('Blobs', 'short', ['{{process}}', 'holdfast_store_blobs']),
      lines(
        'State (1 is good)',
        'short',
        ['takes uploads {{process}}', 'holdfast_store_writable'],
        ['metadata writable {{process}}', 'holdfast_metadata_writable'],
        ['not failed {{process}}', '1 - holdfast_store_failed'],
      ),
      lines(
        'Damage',
        'short',
        ['damaged copies {{process}}', 'holdfast_store_damaged_blobs'],
        ['extents: {{reason}} {{process}}', 'holdfast_store_quarantined_extents'],
        ['lost batches {{process}}', 'holdfast_metadata_lost_batches'],
        ['accounts in quarantine {{process}}', 'holdfast_accounts_quarantined'],
      ),
      lines('Scrub', 'Bps', ['read {{process}}', 'rate(holdfast_scrub_verified_bytes_total[$range])']),
      lines('Since the last whole scrub', 's', [
        '{{process}}',
        'time() - (holdfast_scrub_last_pass_timestamp_seconds > 0)',
      ]),
      lines('Collection', 'Bps', ['freed {{process}}', 'rate(holdfast_collect_freed_bytes_total[$range])']),
      lines('Copies that wait for deletion', 'short', ['{{process}}', 'holdfast_collect_waiting_blobs']),
      lines(
        'Collection: since',
        's',
        ['last pass {{process}}', 'time() - (holdfast_collect_last_success_timestamp_seconds > 0)'],
        ['paused {{process}}', 'holdfast_collect_paused_seconds'],
      ),
      lines('References compared with accounts', 'short', [
        '{{figure}}',
        'max by (figure) (holdfast_reconcile_last{figure=~"missing|orphaned|mended|failed"})',
      ]),
      lines('Since the last backup', 's', [
        '{{process}}',
        'time() - (holdfast_backup_last_timestamp_seconds > 0)',
      ]),
    ],
  },
  {
    id: 'one-machine',
    title: 'Holdfast: one machine',
    panels: [
      lines('CPU', 'short', ['cores {{process}}', 'rate(process_cpu_seconds_total{job="holdfast"}[$range])']),
      lines(
        'Memory',
        'bytes',
        ['resident {{process}}', 'process_resident_memory_bytes{job="holdfast"}'],
        ['heap {{process}}', 'nodejs_heap_size_used_bytes{job="holdfast"}'],
        ['accounts {{process}}', 'holdfast_accounts_memory_bytes'],
      ),
      lines(
        'Open files',
        'short',
        ['open {{process}}', 'process_open_fds{job="holdfast"}'],
        ['limit {{process}}', 'process_max_fds{job="holdfast"}'],
      ),
      lines(
        'Connections',
        'short',
        ['{{host}}', 'sum by (host) (holdfast_connections)'],
        ['limit {{host}}', 'sum by (host) (holdfast_connections_max)'],
      ),
      lines(
        'Connections refused or closed',
        'ops',
        [
          'refused {{host}} {{reason}}',
          'sum by (host, reason) (rate(holdfast_connections_refused_total[$range]))',
        ],
        [
          'closed {{host}} {{reason}}',
          'sum by (host, reason) (rate(holdfast_connections_evicted_total[$range]))',
        ],
      ),
      lines('Part of the time in garbage collection', 'percentunit', [
        '{{process}}',
        'sum by (process) (rate(nodejs_gc_duration_seconds_sum{job="holdfast"}[$range]))',
      ]),
      lines('Up since', 's', ['{{process}}', 'time() - process_start_time_seconds{job="holdfast"}']),
      signed(lines('Clock ahead of the noted time', 's', ['{{process}}', 'holdfast_clock_jump_seconds'])),
      lines('Ready, by check', 'short', ['{{process}} {{check}}', 'holdfast_ready']),
    ],
  },
  {
    id: 'actors',
    title: 'Holdfast: accounts as actors',
    panels: [
      lines('Accounts in memory', 'short', ['{{process}}', 'holdfast_accounts_active']),
      lines('Requests to accounts', 'reqps', [
        '{{process}}',
        'rate(holdfast_account_requests_total[$range])',
      ]),
      lines('Refused: mailbox or host full', 'reqps', [
        '{{process}}',
        'rate(holdfast_account_overloaded_total[$range])',
      ]),
      lines('Activations', 'ops', ['{{process}}', 'rate(holdfast_account_activation_seconds_count[$range])']),
      lines('Time of an activation', 's', ...quantiles('holdfast_account_activation_seconds')),
      lines('Activations that were lost', 'ops', [
        '{{reason}}',
        'sum by (reason) (rate(holdfast_account_lost_total[$range]))',
      ]),
      lines('Left memory', 'ops', ['{{process}}', 'rate(holdfast_account_passivations_total[$range])']),
      lines('Wait for a turn', 's', ...quantiles('holdfast_account_mailbox_wait_seconds')),
      lines('Flushes', 'ops', ['{{process}}', 'rate(holdfast_journal_flush_seconds_count[$range])']),
      lines('Changes a flush (group commit)', 'short', ...quantiles('holdfast_journal_flush_changes')),
      lines('Bytes a flush', 'bytes', [
        '{{process}}',
        'rate(holdfast_journal_bytes_total[$range]) / rate(holdfast_journal_flush_seconds_count[$range])',
      ]),
      lines('Unknown outcomes', 'ops', [
        '{{outcome}}',
        'sum by (outcome) (rate(holdfast_journal_unknown_total[$range]))',
      ]),
      lines('Checkpoints', 's', ...quantiles('holdfast_account_checkpoint_seconds')),
      lines('Effects that are owed', 'short', ['{{process}}', 'holdfast_effects_pending']),
    ],
  },
  inCluster({
    id: 'replication',
    title: 'Holdfast: replication of bytes',
    panels: [
      lines('Lag, by regions', 's', ['{{source_region}} to {{region}}', regionPairLag]),
      lines('Lag, by nodes', 's', ['{{source}} to {{process}}', 'holdfast_replication_lag_seconds']),
      lines('Entries behind', 'short', ['{{source}} to {{process}}', 'holdfast_replication_entries_behind']),
      lines('Placement groups', 'short', ['{{state}}', 'max by (state) (holdfast_placement_groups)']),
      lines('Copies owed', 'short', ['{{source}} to {{process}}', 'holdfast_replication_owed']),
      lines('Since inventories were compared', 's', [
        '{{source}} to {{process}}',
        'holdfast_replication_compared_age_seconds',
      ]),
      lines('Replaced copies', 'ops', ['{{process}}', 'rate(holdfast_store_replaced_blobs_total[$range])']),
      lines('Calls of other nodes', 'short', ['{{process}}', 'holdfast_peer_calls']),
      lines('Bytes between nodes, in memory', 'bytes', ['{{process}}', 'holdfast_peer_held_bytes']),
      lines('Refused to other nodes', 'ops', [
        '{{reason}}',
        'sum by (reason) (rate(holdfast_peer_refusals_total[$range]))',
      ]),
    ],
  }),
  inCluster({
    id: 'regions',
    title: 'Holdfast: regions',
    panels: [
      now('Processes by region and role', 'short', [
        '{{region}} {{role}}',
        'count by (region, role) (holdfast_build_info)',
      ]),
      lines('Oldest change not in the second region', 's', ['{{region}}', regionBackupLag]),
      lines('Accounts with such changes', 'short', ['{{process}}', 'holdfast_backup_accounts']),
      lines('Link to NATS', 'short', ['{{process}}', 'holdfast_nats_up']),
      lines('Requests over NATS', 'reqps', [
        '{{outcome}}',
        'sum by (outcome) (rate(holdfast_nats_requests_total[$range]))',
      ]),
      lines('Waiting for an answer over NATS', 'short', ['{{process}}', 'holdfast_nats_requests_waiting']),
      lines('Losses of the link to NATS', 'short', [
        '{{process}}',
        'increase(holdfast_nats_link_losses_total[$range])',
      ]),
      lines('Cassandra, p99', 's', [
        '{{region}}',
        quantile(0.99, 'holdfast_cassandra_request_seconds', 'region'),
      ]),
      lines('Requests to Cassandra', 'reqps', [
        '{{region}} {{outcome}}',
        'sum by (region, outcome) (rate(holdfast_cassandra_request_seconds_count[$range]))',
      ]),
      lines(
        'Nodes of Cassandra',
        'short',
        ['known in {{region}}', 'max by (region) (holdfast_cassandra_nodes)'],
        ['reached in {{region}}, at least', 'min by (region) (holdfast_cassandra_nodes_connected)'],
      ),
      signed(lines('Clock beside the others', 's', ['{{process}}', 'holdfast_clock_offset_seconds'])),
    ],
  }),
  {
    id: 'capacity',
    title: 'Holdfast: capacity',
    panels: [
      lines('Used part of the disk', 'percentunit', [
        '{{process}}',
        '1 - holdfast_disk_free_bytes / holdfast_disk_size_bytes',
      ]),
      signed(
        lines('Growth a day, at the pace of the last 6 h', 'bytes', [
          '{{process}}',
          '86400 * deriv(holdfast_store_live_bytes[6h])',
        ]),
      ),
      lines('Days until uploads end, at this pace', 'd', [
        '{{process}}',
        'holdfast_store_free_bytes / (-86400 * deriv(holdfast_store_free_bytes[6h]) > 0)',
      ]),
      lines('Space that is held by deleted bytes', 'bytes', [
        '{{process}}',
        'clamp_min(holdfast_store_disk_bytes - holdfast_store_live_bytes, 0)',
      ]),
      lines('CPU cores in use', 'short', [
        '{{process}}',
        'rate(process_cpu_seconds_total{job="holdfast"}[$range])',
      ]),
      lines('Used part of connections', 'percentunit', [
        '{{process}} {{host}}',
        'holdfast_connections / holdfast_connections_max',
      ]),
      lines('Used part of open files', 'percentunit', [
        '{{process}}',
        'process_open_fds{job="holdfast"} / process_max_fds',
      ]),
      lines('Memory of accounts, each', 'bytes', [
        '{{process}}',
        'holdfast_accounts_memory_bytes / (holdfast_accounts_active > 0)',
      ]),
      lines('Bytes of files sent, for each received', 'short', [
        'ratio',
        'sum(rate(holdfast_download_bytes_total[$range])) / (sum(rate(holdfast_upload_bytes_total[$range])) > 0)',
      ]),
    ],
  },
]

type Query = Panel['queries'][number]

function lines(title: string, unit: string, ...queries: Query[]): Panel {
  return { title, unit, kind: 'lines', signed: false, queries, inCluster: false }
}

function now(title: string, unit: string, ...queries: Query[]): Panel {
  return { title, unit, kind: 'now', signed: false, queries, inCluster: false }
}

function signed(panel: Panel): Panel {
  return { ...panel, signed: true }
}

function inCluster(dashboard: Dashboard): Dashboard {
  return { ...dashboard, panels: dashboard.panels.map((panel) => ({ ...panel, inCluster: true })) }
}

/** @param by labels that stay, beside the limit of the bucket */
function quantile(part: number, histogram: string, by?: string): string {
  const labels = by === undefined ? 'le' : `le, ${by}`
  return `histogram_quantile(${part}, sum by (${labels}) (rate(${histogram}_bucket[$range])))`
}

function quantiles(histogram: string): Query[] {
  return [
    ['median', quantile(0.5, histogram)],
    ['p99', quantile(0.99, histogram)],
  ]
}

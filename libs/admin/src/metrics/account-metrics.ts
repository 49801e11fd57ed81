/** Figures of a host of accounts, for Prometheus. No account is ever a label. */
import { appendOutcomes, type HostMetrics, mailOutcomes } from '@holdfast/actor-runtime'
import { Counter, Histogram, type Registry } from 'prom-client'
import { readMetrics } from './read-metrics.ts'

const seconds = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]

/** Figures that are also shown to the operator. */
export interface AccountFigures {
  active: number
  memoryBytes: number
  effectsPending: number
  /** Accounts in quarantine because of damage or a bug. */
  quarantined: number
  /**
   * Accounts with data that may be missing in the second region, and since when for the one that
   * waits longest.
   */
  backupAccounts: number
  backupLagMs: number
}

/** @returns the observer for the host, and its current figures. */
export function accountMetrics(registry: Registry): { observer: HostMetrics; figures: () => AccountFigures } {
  const figures: AccountFigures = {
    active: 0,
    memoryBytes: 0,
    effectsPending: 0,
    quarantined: 0,
    backupAccounts: 0,
    backupLagMs: 0,
  }
  let mailsWaiting = 0
  accountGauges(registry, { figures, mailsWaiting: () => mailsWaiting })
  const counters = accountCounters(registry)
  const histograms = accountHistograms(registry)
  const observer: HostMetrics = {
    requested: () => counters.requests.inc(),
    overloaded: () => counters.overloaded.inc(),
    waited: ({ ms }) => histograms.wait.observe(ms / 1000),
    made: () => counters.made.inc(),
    mailed: ({ outcome }) => counters.mails.inc({ outcome }),
    mailsWaiting(change) {
      mailsWaiting += change
    },
    activated: ({ ms }) => histograms.activation.observe(ms / 1000),
    lost: ({ reason }) => counters.lost.inc({ reason }),
    passivated: () => counters.passivated.inc(),
    flushed({ ms, bytes, changes }) {
      histograms.flush.observe(ms / 1000)
      histograms.flushChanges.observe(changes)
      counters.flushBytes.inc(bytes)
      counters.changes.inc(changes)
    },
    unknown: ({ outcome }) => counters.unknown.inc({ outcome }),
    checkpointed: ({ ms }) => histograms.checkpoint.observe(ms / 1000),
    checkpointFailed: ({ what }) => counters.checkpointFailures.inc({ what }),
    effectsPending(change) {
      figures.effectsPending += change
    },
    passwordChecked: ({ ms }) => histograms.password.observe(ms / 1000),
    swept: ({ why, contents }) => counters.swept.inc({ why }, contents),
    quarantined({ accounts }) {
      figures.quarantined = accounts
    },
    backupLag({ accounts, ms }) {
      figures.backupAccounts = accounts
      figures.backupLagMs = ms
    },
    memory({ accounts, bytes }) {
      figures.active = accounts
      figures.memoryBytes = bytes
    },
  }
  return { observer, figures: () => ({ ...figures }) }
}

function accountCounters(registry: Registry) {
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers: [registry] })
  const counters = {
    requests: counter('holdfast_account_requests_total', 'Requests that reached an account.'),
    overloaded: counter(
      'holdfast_account_overloaded_total',
      'Requests refused because a mailbox or the host was full.',
    ),
    made: counter('holdfast_accounts_made_total', 'Accounts that were made here.'),
    mails: counter(
      'holdfast_mails_total',
      'Attempts to send mails: sent, refused (for good), failed (tried again).',
      ['outcome'],
    ),
    lost: counter(
      'holdfast_account_lost_total',
      'Activations that failed or ended other than by passivation.',
      ['reason'],
    ),
    passivated: counter('holdfast_account_passivations_total', 'Accounts that left memory cleanly.'),
    flushBytes: counter('holdfast_journal_bytes_total', 'Bytes appended to journals.'),
    changes: counter(
      'holdfast_journal_changes_total',
      'Changes made durable; with the flushes, what group commit saves.',
    ),
    unknown: counter(
      'holdfast_journal_unknown_total',
      'Appends with an unknown outcome, which a read then settled.',
      ['outcome'],
    ),
    checkpointFailures: counter(
      'holdfast_account_checkpoint_failures_total',
      'Checkpoints that could not be written; they are tried again.',
      ['what'],
    ),
    swept: counter(
      'holdfast_swept_contents_total',
      'Files and folders that timers deleted: expired folders, the end of the bin, idle files.',
      ['why'],
    ),
  }
  // A rate does not see the first event of a series that begins with it.
  for (const outcome of mailOutcomes) counters.mails.inc({ outcome }, 0)
  for (const outcome of appendOutcomes) counters.unknown.inc({ outcome }, 0)
  return counters
}

function accountHistograms(registry: Registry) {
  const histogram = (name: string, help: string, buckets = seconds) =>
    new Histogram({ name, help, buckets, registers: [registry] })
  return {
    wait: histogram(
      'holdfast_account_mailbox_wait_seconds',
      'From the arrival of a request at its account to its turn; includes the activation, if there is one.',
    ),
    activation: histogram('holdfast_account_activation_seconds', 'Time to load an account into memory.'),
    flush: histogram('holdfast_journal_flush_seconds', 'Time until an append to a journal was durable.'),
    flushChanges: histogram(
      'holdfast_journal_flush_changes',
      'Changes that one append made durable: above 1 group commit saves writes.',
      [1, 2, 4, 8, 16, 32, 64, 128, 256],
    ),
    checkpoint: histogram('holdfast_account_checkpoint_seconds', 'Time to write a checkpoint.'),
    password: histogram('holdfast_password_check_seconds', 'Time of a slow password check.'),
  }
}

function accountGauges(
  registry: Registry,
  { figures, mailsWaiting }: { figures: AccountFigures; mailsWaiting: () => number },
): void {
  const { gauge } = readMetrics(registry)
  gauge('holdfast_accounts_active', 'Accounts in memory.', () => figures.active)
  gauge(
    'holdfast_accounts_memory_bytes',
    'Estimated bytes of the accounts in memory.',
    () => figures.memoryBytes,
  )
  gauge(
    'holdfast_effects_pending',
    'Pending effects of accounts: mails, rows and releases of blobs.',
    () => figures.effectsPending,
  )

  gauge('holdfast_mails_waiting', 'Mails of accounts in memory that no relay has accepted yet.', mailsWaiting)
  gauge(
    'holdfast_accounts_quarantined',
    'Accounts in quarantine because of damage or a bug; `ctl status` names them.',
    () => figures.quarantined,
  )

  gauge(
    'holdfast_backup_lag_seconds',
    'Age of the oldest change that is not known to be in the second region.',
    () => figures.backupLagMs / 1000,
  )
  gauge(
    'holdfast_backup_accounts',
    'Accounts with changes that are not known to be in the second region.',
    () => figures.backupAccounts,
  )
}

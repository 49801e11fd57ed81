/** Figures of a host of accounts, for Prometheus. No account is ever a label. */
import { type HostMetrics, mailOutcomes } from '@holdfast/actor-runtime'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

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
  const registers = [registry]
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const duration = (name: string, help: string) => new Histogram({ name, help, buckets: seconds, registers })

  const requests = counter('holdfast_account_requests_total', 'Requests that reached an account.')
  const overloaded = counter(
    'holdfast_account_overloaded_total',
    'Requests refused because a mailbox or the host was full.',
  )
  const wait = duration(
    'holdfast_account_mailbox_wait_seconds',
    'From the arrival of a request at its account to its turn; includes the activation, if there is one.',
  )
  const made = counter('holdfast_accounts_made_total', 'Accounts that were made here.')
  const mails = counter(
    'holdfast_mails_total',
    'Attempts at mails: sent, refused (the relay never takes this one), failed (tried again).',
    ['outcome'],
  )
  for (const outcome of mailOutcomes) mails.inc({ outcome }, 0)
  const activation = duration('holdfast_account_activation_seconds', 'Time to bring an account into memory.')
  const lost = counter(
    'holdfast_account_lost_total',
    'Activations that failed or ended other than by passivation.',
    ['reason'],
  )
  const passivated = counter('holdfast_account_passivations_total', 'Accounts that left memory cleanly.')
  const flush = duration('holdfast_journal_flush_seconds', 'Time until an append to a journal was durable.')
  const flushChanges = new Histogram({
    name: 'holdfast_journal_flush_changes',
    help: 'Changes that one append made durable: above 1 group commit saves writes.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers,
  })
  const flushBytes = counter('holdfast_journal_bytes_total', 'Bytes appended to journals.')
  const changes = counter(
    'holdfast_journal_changes_total',
    'Changes made durable; with the flushes, what group commit saves.',
  )
  const unknown = counter('holdfast_journal_unknown_total', 'Appends whose outcome had to be read again.', [
    'outcome',
  ])
  const checkpoint = duration('holdfast_account_checkpoint_seconds', 'Time to write a checkpoint.')
  const checkpointFailures = counter(
    'holdfast_account_checkpoint_failures_total',
    'Checkpoints that could not be written; they are tried again.',
    ['what'],
  )
  const swept = counter(
    'holdfast_swept_contents_total',
    'Files and folders that timers deleted: expired folders, the end of the bin, idle files.',
    ['why'],
  )
  const password = duration('holdfast_password_check_seconds', 'Time of a slow password check.')
  const gauge = (name: string, help: string, read: (now: AccountFigures) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read(figures))
      },
    })
  gauge('holdfast_accounts_active', 'Accounts in memory.', ({ active }) => active)
  gauge(
    'holdfast_accounts_memory_bytes',
    'Estimated bytes of the accounts in memory.',
    ({ memoryBytes }) => memoryBytes,
  )
  gauge(
    'holdfast_effects_pending',
    'Mails, rows and releases that accounts still owe.',
    ({ effectsPending }) => effectsPending,
  )

  gauge(
    'holdfast_mails_waiting',
    'Mails of accounts in memory that no relay has accepted yet.',
    () => mailsWaiting,
  )
  gauge(
    'holdfast_accounts_quarantined',
    'Accounts in quarantine because of damage or a bug; `ctl status` names them.',
    ({ quarantined }) => quarantined,
  )

  gauge(
    'holdfast_backup_lag_seconds',
    'How long ago the oldest change was made that is not known to be in the second region.',
    ({ backupLagMs }) => backupLagMs / 1000,
  )
  gauge(
    'holdfast_backup_accounts',
    'Accounts with changes that are not known to be in the second region.',
    ({ backupAccounts }) => backupAccounts,
  )

  const observer: HostMetrics = {
    requested: () => requests.inc(),
    overloaded: () => overloaded.inc(),
    waited: ({ ms }) => wait.observe(ms / 1000),
    made: () => made.inc(),
    mailed: ({ outcome }) => mails.inc({ outcome }),
    mailsWaiting(change) {
      mailsWaiting += change
    },
    activated: ({ ms }) => activation.observe(ms / 1000),
    lost: ({ reason }) => lost.inc({ reason }),
    passivated: () => passivated.inc(),
    flushed({ ms, bytes, changes: count }) {
      flush.observe(ms / 1000)
      flushChanges.observe(count)
      flushBytes.inc(bytes)
      changes.inc(count)
    },
    unknown: ({ outcome }) => unknown.inc({ outcome }),
    checkpointed: ({ ms }) => checkpoint.observe(ms / 1000),
    checkpointFailed: ({ what }) => checkpointFailures.inc({ what }),
    effectsPending(change) {
      figures.effectsPending += change
    },
    passwordChecked: ({ ms }) => password.observe(ms / 1000),
    swept: ({ why, contents }) => swept.inc({ why }, contents),
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

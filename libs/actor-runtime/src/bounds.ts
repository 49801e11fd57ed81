import { writesPerEpochMax } from '@holdfast/journal'

/** An account is loaded whole by its actor; this is the maximum number of contents in one. */
export const accountContentsMax = 1_000_000

/** Every bound of the runtime, with its name and reason. */
export interface RuntimeBounds {
  /**
   * Pending requests of one account, undecided or waiting for a flush; beyond it the mailbox
   * overflows.
   */
  mailboxMax: number
  /** Pending requests of all accounts of a host. */
  requestsMax: number
  /**
   * Pending visitors' requests: of one account, so that its owner finds the mailbox at most half
   * full.
   */
  visitorsPerAccountMax: number
  /**
   * Requests of one network to all accounts of a host: more than a large office has at one time.
   */
  visitorsPerNetworkMax: number
  /** Requests of all visitors: half of `requestsMax`. */
  visitorsMax: number
  /**
   * Bytes of replies that one account holds back until their flush is durable; beyond it nothing
   * more is decided.
   */
  heldReplyBytesMax: number
  /** Accounts being read at one time: a host's death must not read all of them at once. */
  activationsAtOnceMax: number
  /** Accounts in memory. */
  activeAccountsMax: number
  /** Estimated bytes of all accounts in memory; the least recently used leave first. */
  memoryBytesMax: number
  /** An account without requests for this long leaves memory. */
  idleMs: number
  /**
   * An account that was loaded only to compare its references leaves memory after this time. It
   * lasts until the next page of them.
   */
  lookedAfterMs: number
  /** Passivations at one time. */
  passivationsAtOnceMax: number
  /** How long one account decides before the loop may turn. */
  turnMs: number

  /**
   * A checkpoint is due when the journal's tail is large against what it would write, but not
   * before this.
   */
  checkpointBytesMin: number
  /**
   * A tail of these bytes, or this many flushes, forces a checkpoint; at twice of it nothing more
   * is decided until one is there. Where the last checkpoint is larger, both bounds grow with it.
   */
  tailBytesMax: number
  tailFlushesMax: number
  /** Pages being written or read at one time, per account. */
  pagesAtOnceMax: number

  /**
   * How often an append that certainly was not written is retried before the activation is
   * abandoned.
   */
  appendAttemptsMax: number
  /** Between attempts at anything that the stores refused. */
  retryFirstMs: number
  retryMaxMs: number

  /**
   * Finished effects are journaled with the next flush or when the account leaves, alone only after
   * this time. A crash before that repeats them.
   */
  effectsIdleMs: number
  /**
   * Changes that may wait, counts of downloads, are journaled with the next row of their account,
   * or after this time, or when they take this many bytes. A crash before that loses them.
   */
  waitingMs: number
  waitingBytesMax: number
  /** Rows in one write to the lookups. */
  lookupRowsMax: number
  /**
   * Writes of rows beside the journal by one activation: what its write times can order. Beyond it
   * the activation ends and the next one continues.
   */
  rowWritesMax: number
  /** Attempts at a mail per activation; then it waits for the account's next one. */
  mailAttemptsMax: number
  mailRetryFirstMs: number
  mailRetryMaxMs: number
  /** Mails being handed over at one time, per host. */
  mailsAtOnceMax: number
  /** An account that left with an effect undone is woken again after this time. */
  effectsWakeMs: number
  /** Places of wake rows in each hour. Every host of an installation must use the same value. */
  wakeBuckets: number
  /**
   * Active rows in one segment of a host, far below the deleted rows that Cassandra reads at one
   * time.
   */
  activeRowsPerSegment: number
  /** An active row that stays longer than this many segments moves along. */
  activeSegmentsBack: number
  /**
   * The row `hosts/…` of a host says in which segments its active rows are. It stays this long
   * after the host's last sign of life.
   */
  goneHostSeconds: number
  /**
   * A host that has not read its own `hosts/…` row for this time reads it before it relies on it.
   */
  segmentsTrustMs: number
  /**
   * Dead hosts are looked for, and timers read again, after this time: it finds accounts whose host
   * died or lost them.
   */
  relistMs: number

  /** Counters of share codes that a host draws at one time, whole blocks; its end loses them. */
  codesDrawn: number
  /** Counters one request may ask for. */
  codesPerRequestMax: number

  /** Password checks running at one time: each takes 50 ms of a thread and 16 MiB. */
  passwordChecksAtOnceMax: number
  /**
   * Waiting checks, some 6 s of work, shorter than any deadline; beyond it one of those that have
   * most waiting is refused with `error-rateLimit`.
   */
  passwordChecksQueuedMax: number
  /** Slow checks per request; further passwords count as wrong. */
  passwordChecksPerRequestMax: number
  verdictsKeptMax: number
  verdictsKeptMs: number

  /** Refusals that copies of their commands are given, too, per host: some 5 MB. */
  refusalsKeptMax: number
  /** How often one request is decided again because something was missing. */
  decisionsPerRequestMax: number

  /** A fenced host returns no sooner than this, and up to twice as late. */
  fencedPauseMs: number
  /**
   * How long a host that has an account in memory is awaited to release it, before it is taken
   * over.
   */
  releaseWaitMs: number
  /**
   * Takeovers of one account by this host within a minute; beyond it the account is unavailable
   * here.
   */
  takeoversPerMinuteMax: number
  /** An account with a bug or damage is not opened for this long, doubling up to the maximum. */
  quarantineFirstMs: number
  quarantineMaxMs: number
  /** Bugs in decisions before an account is not opened for a while. */
  bugsBeforeQuarantine: number
  /** Accounts whose faults are remembered. */
  failingAccountsMax: number
  /** How long an account is known not to exist. */
  absentMs: number
  absentAccountsMax: number

  /** Remembered accounts that changed and are not known to be in the second region yet. */
  unarrivedAccountsMax: number
  /** Between checks for them. */
  arrivalsMs: number

  /** Timers kept in memory; the later ones are read again when their time comes. */
  dueAccountsMax: number
  /** Accounts whose timers fire at one time, and accounts woken at one time after a start. */
  ticksAtOnceMax: number
  wakesAtOnceMax: number
}

const KiB = 1024
const MiB = 1024 * KiB

export const defaultRuntimeBounds: RuntimeBounds = {
  mailboxMax: 1024,
  requestsMax: 16_384,
  visitorsPerAccountMax: 512,
  visitorsPerNetworkMax: 256,
  visitorsMax: 8192,
  heldReplyBytesMax: 16 * MiB,
  activationsAtOnceMax: 16,
  activeAccountsMax: 50_000,
  memoryBytesMax: 512 * MiB,
  idleMs: 60_000,
  lookedAfterMs: 5_000,
  passivationsAtOnceMax: 16,
  turnMs: 2,

  checkpointBytesMin: 64 * KiB,
  tailBytesMax: 8 * MiB,
  tailFlushesMax: 4096,
  pagesAtOnceMax: 4,

  appendAttemptsMax: 8,
  retryFirstMs: 50,
  retryMaxMs: 2000,

  effectsIdleMs: 60_000,
  waitingMs: 60_000,
  waitingBytesMax: 64 * KiB,
  lookupRowsMax: 1024,
  rowWritesMax: writesPerEpochMax,
  mailAttemptsMax: 8,
  mailRetryFirstMs: 1000,
  mailRetryMaxMs: 5 * 60_000,
  mailsAtOnceMax: 4,
  effectsWakeMs: 10 * 60_000,
  wakeBuckets: 64,
  activeRowsPerSegment: 256,
  activeSegmentsBack: 8,
  goneHostSeconds: 7 * 86_400,
  segmentsTrustMs: 10 * 60_000,
  relistMs: 60_000,

  codesDrawn: 4096,
  codesPerRequestMax: 1_000_000,

  passwordChecksAtOnceMax: 2,
  passwordChecksQueuedMax: 256,
  passwordChecksPerRequestMax: 3,
  verdictsKeptMax: 10_000,
  verdictsKeptMs: 10 * 60_000,

  refusalsKeptMax: 16_384,
  decisionsPerRequestMax: 12,

  fencedPauseMs: 50,
  releaseWaitMs: 1000,
  takeoversPerMinuteMax: 20,
  quarantineFirstMs: 1000,
  quarantineMaxMs: 5 * 60_000,
  bugsBeforeQuarantine: 3,
  failingAccountsMax: 10_000,
  absentMs: 1000,
  absentAccountsMax: 10_000,

  unarrivedAccountsMax: 200_000,
  arrivalsMs: 15_000,

  dueAccountsMax: 200_000,
  ticksAtOnceMax: 16,
  wakesAtOnceMax: 4,
}

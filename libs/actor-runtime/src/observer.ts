/** The events that a host reports. */

/** A child logger: constant messages, details as fields. `pino` fits. */
export interface RuntimeLog {
  isLevelEnabled(level: 'debug'): boolean
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export const mailOutcomes = ['sent', 'refused', 'failed'] as const
export type MailOutcome = (typeof mailOutcomes)[number]

/** What a read found after an append without an answer: written, not, or another owner. */
export const appendOutcomes = ['in', 'out', 'fenced'] as const
export type AppendOutcome = (typeof appendOutcomes)[number]

/** Called as things happen; must not throw, must not wait. */
export interface HostMetrics {
  /** A request arrived; `depth` pending requests of its account, including it. */
  requested(figures: { depth: number }): void
  /** A request was refused because the mailbox or the host was full. */
  overloaded(): void
  /** A request got its turn, after this time since it arrived. */
  waited(figures: { ms: number }): void
  activated(figures: { ms: number; rows: number; bytes: number }): void
  /** An activation failed or ended other than by passivation. */
  lost(figures: { reason: 'fenced' | 'unavailable' | 'corrupt' | 'bug' }): void
  passivated(figures: { pendingEffects: boolean }): void
  /** The first row of an account became durable. */
  made(): void
  /** One append became durable. */
  flushed(figures: { ms: number; bytes: number; changes: number; replies: number }): void
  /** The outcome of an append was unknown, and then settled: it was written, or not. */
  unknown(figures: { outcome: AppendOutcome }): void
  checkpointed(figures: { ms: number; bytes: number; pages: number }): void
  /** A checkpoint could not be written and is retried. */
  checkpointFailed(figures: { what: 'pages' | 'root' | 'too large' }): void
  /** The number of waiting effects changed by this. */
  effectsPending(change: number): void
  /** The number of mails that are not accepted yet changed by this. */
  mailsWaiting(change: number): void
  /**
   * An attempt at a mail ended: accepted; refused for good; failed, which is tried again.
   */
  mailed(figures: { outcome: MailOutcome }): void
  passwordChecked(figures: { ms: number }): void
  /** A timer deleted contents of a folder. */
  swept(figures: { why: 'expired' | 'bin' | 'idle'; contents: number }): void
  /** Accounts in quarantine because of damage or a bug, now, each second. */
  quarantined(figures: { accounts: number }): void
  /** Maximum lag of the second region, now, each second. */
  backupLag(figures: { accounts: number; ms: number }): void
  /** Now, each second. */
  memory(figures: { accounts: number; bytes: number }): void
}

export const noMetrics: HostMetrics = {
  requested() {},
  overloaded() {},
  waited() {},
  activated() {},
  lost() {},
  passivated() {},
  made() {},
  flushed() {},
  unknown() {},
  checkpointed() {},
  checkpointFailed() {},
  effectsPending() {},
  mailsWaiting() {},
  mailed() {},
  passwordChecked() {},
  swept() {},
  quarantined() {},
  backupLag() {},
  memory() {},
}

/** What a host reports about itself. */

/** A child logger: constant messages, facts as fields. `pino` fits. */
export interface RuntimeLog {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export const silentLog: RuntimeLog = { info() {}, warn() {}, error() {} }

/** Called as things happen; must not throw, must not wait. */
export const mailOutcomes = ['sent', 'refused', 'failed'] as const
export type MailOutcome = (typeof mailOutcomes)[number]

export interface HostMetrics {
  /** A request arrived; `depth` pending requests of its account, including it. */
  requested(facts: { depth: number }): void
  /** A request was refused because the mailbox or the host was full. */
  overloaded(): void
  /** A request got its turn, after this time since it arrived. */
  waited(facts: { ms: number }): void
  activated(facts: { ms: number; rows: number; bytes: number }): void
  /** An activation failed or ended other than by passivation. */
  lost(facts: { reason: 'fenced' | 'unavailable' | 'corrupt' | 'bug' }): void
  passivated(facts: { pendingEffects: boolean }): void
  /** The first row of an account became durable. */
  made(): void
  /** One append became durable. */
  flushed(facts: { ms: number; bytes: number; changes: number; replies: number }): void
  /** The outcome of an append was unknown, and then settled: it was written, or not. */
  unknown(facts: { outcome: 'in' | 'out' | 'fenced' }): void
  checkpointed(facts: { ms: number; bytes: number; pages: number }): void
  /** A checkpoint could not be written and is retried. */
  checkpointFailed(facts: { what: 'pages' | 'root' | 'too large' }): void
  /** The number of waiting effects changed by this. */
  effectsPending(change: number): void
  /** The number of mails that are not accepted yet changed by this. */
  mailsWaiting(change: number): void
  /**
   * An attempt at a mail ended: accepted; refused for good; failed, which is tried again.
   */
  mailed(facts: { outcome: MailOutcome }): void
  passwordChecked(facts: { ms: number }): void
  /** A timer deleted contents of a folder. */
  swept(facts: { why: 'expired' | 'bin' | 'idle'; contents: number }): void
  /** Accounts in quarantine because of damage or a bug, now, each second. */
  quarantined(facts: { accounts: number }): void
  /** Maximum lag of the second region, now, each second. */
  backupLag(facts: { accounts: number; ms: number }): void
  /** Now, each second. */
  memory(facts: { accounts: number; bytes: number }): void
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

/**
 * Counts of downloads and traffic for the accounts they belong to.
 *
 * Deltas gather per account and are sent every two seconds at most, so that they show within five.
 * A report carries this process' incarnation and a rising sequence; an account ignores what is not
 * newer than the last it saw. So a report with an unknown outcome is sent again unchanged, and the
 * next one of that account waits for it. Unsent counts are lost when the process dies: counts have
 * no promise of durability.
 */
import { randomBytes } from 'node:crypto'
import { type AccountClient, ask, asSystem } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import type { Clock } from '@holdfast/kernel'
import type { ReportDownloads } from '@holdfast/wire'
import type { Logger } from 'pino'

const everyMs = 2_000
/** Accounts with something to report; beyond it new ones are not counted, and the log says so. */
const accountsMax = 100_000
/** Contents of one account in one report; the rest follows in the next. */
const contentsPerReport = 5_000
const reportsAtATime = 16
const timeoutMs = 5_000

interface PendingReport {
  counts: Map<string, number>
  trafficDirect: number
  trafficWeb: number
  /** Sent, and not known to have arrived. */
  unsettled: ReportDownloads | undefined
}

export type Traffic = 'direct' | 'web'

export class DownloadReports {
  readonly #accounts: AccountClient
  readonly #clock: Clock
  readonly #log: Logger
  readonly #source = randomBytes(16)
  readonly #pending = new Map<string, PendingReport>()
  readonly #timer: NodeJS.Timeout
  #sequence = 0
  #flushing: Promise<void> | undefined

  constructor({ accounts, clock, log }: { accounts: AccountClient; clock: Clock; log: Logger }) {
    this.#accounts = accounts
    this.#clock = clock
    this.#log = log
    this.#timer = setInterval(() => void this.flush(), everyMs)
    this.#timer.unref()
  }

  countDownload(accountId: string, contentId: string): void {
    const pending = this.#of(accountId)
    pending?.counts.set(contentId, (pending.counts.get(contentId) ?? 0) + 1)
  }

  /** Notes an archive of a folder: its files count no download, but all count as used. */
  noteArchive(accountId: string, folderId: string): void {
    const counts = this.#of(accountId)?.counts
    counts?.set(folderId, counts.get(folderId) ?? 0)
  }

  countTraffic(accountId: string, traffic: Traffic, bytes: number): void {
    const pending = this.#of(accountId)
    if (pending === undefined) return
    if (traffic === 'direct') pending.trafficDirect += bytes
    else pending.trafficWeb += bytes
  }

  /** Sends what has gathered; resolves after one attempt for every account. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  /** A last attempt for everything. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#flushing
    await this.flush()
    if (this.#pending.size > 0) {
      this.#log.warn({ accounts: this.#pending.size }, 'download counts were lost at shutdown')
    }
  }

  #of(accountId: string): PendingReport | undefined {
    const known = this.#pending.get(accountId)
    if (known !== undefined) return known
    if (this.#pending.size >= accountsMax) {
      this.#log.warn({ accounts: accountsMax }, 'too many accounts to count downloads for')
      return undefined
    }
    const fresh = { counts: new Map(), trafficDirect: 0, trafficWeb: 0, unsettled: undefined }
    this.#pending.set(accountId, fresh)
    return fresh
  }

  async #flush(): Promise<void> {
    const accountIds = this.#pending.keys().toArray().values()
    const worker = async () => {
      for (const accountId of accountIds) await this.#report(accountId)
    }
    await Promise.all(Array.from({ length: reportsAtATime }, worker))
  }

  async #report(accountId: string): Promise<void> {
    const pending = this.#pending.get(accountId)
    if (pending === undefined) return
    for (;;) {
      pending.unsettled ??= this.#take(pending)
      if (pending.unsettled === undefined) break
      if (!(await this.#send(accountId, pending.unsettled))) return
      pending.unsettled = undefined
    }
    this.#pending.delete(accountId)
  }

  #take(pending: PendingReport): ReportDownloads | undefined {
    const { trafficDirect, trafficWeb } = pending
    const counts = pending.counts.entries().take(contentsPerReport).toArray()
    if (counts.length === 0 && trafficDirect === 0 && trafficWeb === 0) return undefined
    for (const [contentId] of counts) pending.counts.delete(contentId)
    pending.trafficDirect = 0
    pending.trafficWeb = 0
    this.#sequence += 1
    return {
      source: this.#source,
      sequence: this.#sequence,
      counts: counts.map(([contentId, count]) => ({ contentId, count })),
      trafficDirect,
      trafficWeb,
    }
  }

  /** True when it need not be sent again: accepted, or permanently refused. */
  async #send(accountId: string, report: ReportDownloads): Promise<boolean> {
    try {
      await ask(
        { accounts: this.#accounts, clock: this.#clock },
        { accountId, who: asSystem, operation: { $case: 'reportDownloads', value: report }, timeoutMs },
      )
      return true
    } catch (error) {
      if (error instanceof RefusalError) {
        this.#log.debug({ accountId, status: error.status }, 'download counts were refused')
        return true
      }
      this.#log.debug({ accountId, err: error }, 'download counts wait')
      return false
    }
  }
}

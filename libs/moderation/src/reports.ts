/**
 * What visitors report, as a queue for the operator: `new`, then `accepted` or `rejected`.
 *
 * Keys are `reports/<state>/<id>`; ids begin with the time counted backwards, so the newest come
 * first. Closed reports are removed after 180 days. A decision is an act in the log before the
 * report changes its state.
 *
 * The queue is bounded, and so are the parts of it that one content, one account and one large
 * network can have. So repeated reports do not displace those of others, even from many addresses.
 */
import { randomBytes } from 'node:crypto'
import type { LookupStore } from '@holdfast/journal'
import { type Clock, hex } from '@holdfast/kernel'
import { aboutNothingElse, type OperatorActs } from './acts.ts'
import type { Attribution } from './block-lists.ts'
import { ModerationFault } from './fault.ts'
import { idPattern, newestFirst } from './newest-first.ts'

export const reportStates = ['new', 'accepted', 'rejected'] as const
export type ReportState = (typeof reportStates)[number]

export const reportCategories = ['illegal', 'copyright', 'malware', 'personal', 'other'] as const
export type ReportCategory = (typeof reportCategories)[number]

/** Characters of the text. In every script it fits into a row. */
export const reportTextMax = 1_000

export interface NewReport {
  content: string
  account: string
  category: ReportCategory
  text: string
  /** A mail address; empty: none was given. */
  contact: string
  /** The client's address. */
  address: string
}

export interface Report extends NewReport {
  id: string
  state: ReportState
  /** Unix seconds. */
  time: number
  /** The act of the decision; empty while it is new. */
  act: string
  /** Acts by which accepting it blocked, deleted, suspended. Absent: none, or an older release. */
  takedown: string[] | undefined
}

export interface ReportsPage {
  reports: Report[]
  next: string | undefined
}

export const reportOutcomes = ['added', 'repeated', 'full'] as const
/** `repeated`: content, account or network has its share already; `full`: the queue takes none. */
export type ReportOutcome = (typeof reportOutcomes)[number]

/** Reports that wait for the operator. */
const newMax = 5_000
/** How many of them may be about one content, about one account, and from one large network. */
const sharesMax = { content: 20, account: 250, network: 500 }
/** How long a count of them is used. */
const countedMs = 10_000
const closedMs = 180 * 24 * 60 * 60 * 1000
const removedPerDecision = 200
/** A folder of 20,000 contents is blocked by seven acts. */
const takedownMax = 32
const reportsPerPage = 100

export interface ReportsDeps {
  lookups: LookupStore
  clock: Clock
  acts: OperatorActs
  /** The large network of an address. */
  networkOf: (address: string) => string
}

/** New reports, and how many of them each content, account and network has. */
interface Queue {
  count: number
  shares: Map<string, number>
  readMs: number
}

type Share = readonly [key: string, max: number]

export class Reports {
  readonly #lookups: LookupStore
  readonly #clock: Clock
  readonly #acts: OperatorActs
  readonly #networkOf: (address: string) => string
  #queue: Queue | undefined
  /** By this process, for metrics. */
  readonly counts: Record<ReportOutcome, number> = { added: 0, repeated: 0, full: 0 }
  #counting: Promise<Queue> | undefined
  /** Shares of reports whose rows a count under way may not see. */
  readonly #unseen = new Set<readonly Share[]>()

  constructor({ lookups, clock, acts, networkOf }: ReportsDeps) {
    this.#lookups = lookups
    this.#clock = clock
    this.#acts = acts
    this.#networkOf = networkOf
  }

  /** Durable when it resolves. @throws ModerationFault FULL */
  async add(report: NewReport): Promise<Report> {
    const shares = this.#sharesOf(report)
    const queue = await this.#counted()
    if (queue.count >= newMax) {
      this.counts.full++
      throw new ModerationFault('FULL', `${newMax} reports wait for the operator`)
    }
    if (shares.some(([key, max]) => (queue.shares.get(key) ?? 0) >= max)) {
      this.counts.repeated++
      throw new ModerationFault('FULL', 'reports like this one wait for the operator already')
    }
    // Counted before the write, so that concurrent reports do not pass the bounds.
    enter(queue, shares)
    this.#unseen.add(shares)
    const nowMs = this.#clock.now()
    const id = `${backwards(nowMs)}-${hex(randomBytes(8))}`
    const row: Report = {
      ...report,
      id,
      state: 'new',
      time: Math.floor(nowMs / 1000),
      act: '',
      takedown: undefined,
    }
    try {
      await this.#lookups.write([{ put: reportKey('new', id), value: encodedReport(row) }])
    } finally {
      // A count that began before the write may not see this row. The callers of the count handle
      // its faults.
      await Promise.allSettled([this.#counting])
      this.#unseen.delete(shares)
    }
    this.counts.added++
    return row
  }

  /** At most ten seconds old. Reports that were written during the count may count twice in it. */
  async #counted(): Promise<Queue> {
    const queue = this.#queue
    if (queue !== undefined && this.#clock.monotonic() - queue.readMs < countedMs) return queue
    this.#counting ??= this.#count().finally(() => {
      this.#counting = undefined
    })
    return this.#counting
  }

  async #count(): Promise<Queue> {
    const queue: Queue = { count: 0, shares: new Map(), readMs: this.#clock.monotonic() }
    for await (const { value } of this.#lookups.scan(reportKey('new', ''), { limit: newMax }))
      enter(queue, this.#sharesOf(parse(value)))
    for (const shares of this.#unseen) enter(queue, shares)
    this.#queue = queue
    return queue
  }

  #sharesOf({ content, account, address }: NewReport): Share[] {
    return [
      [`content ${content}`, sharesMax.content],
      [`account ${account}`, sharesMax.account],
      [`network ${this.#networkOf(address)}`, sharesMax.network],
    ]
  }

  /** The newest first. @param after the `next` of the previous page. */
  async page(
    state: ReportState,
    { after = '', limit = reportsPerPage }: { after?: string; limit?: number } = {},
  ): Promise<ReportsPage> {
    const reports: Report[] = []
    const prefix = reportKey(state, '')
    for await (const { value } of this.#lookups.scan(prefix, { after: prefix + after, limit: limit + 1 }))
      reports.push(parse(value))
    const next = reports.length > limit ? reports[limit - 1]?.id : undefined
    return { reports: reports.slice(0, limit), next }
  }

  /** In any state. @throws ModerationFault NOT_FOUND */
  async get(id: string): Promise<Report> {
    for (const state of idPattern.test(id) ? reportStates : []) {
      const value = await this.#lookups.get(reportKey(state, id))
      if (value !== undefined) return parse(value)
    }
    throw new ModerationFault('NOT_FOUND', `there is no report ${id}`)
  }

  /**
   * Closes a report, or decides a closed one again.
   * @param done the acts that accepting it took.
   * @throws ModerationFault NOT_FOUND
   */
  async decide(
    id: string,
    state: 'accepted' | 'rejected',
    asked: Attribution,
    done: readonly string[] = [],
  ): Promise<Report> {
    const report = await this.get(id)
    const what = `report ${id} of content ${report.content} of account ${report.account}`
    const act = await this.#acts.add({
      ...asked,
      kind: state === 'accepted' ? 'accept' : 'reject',
      what,
      ...aboutNothingElse,
    })
    const decided: Report = { ...withActs(report, done), state, act: act.id }
    await this.#lookups.write([{ put: reportKey(state, id), value: encodedReport(decided) }])
    if (report.state !== state) await this.#lookups.write([{ delete: reportKey(report.state, id) }])
    this.#queue = undefined
    await this.#removeOld(state)
    return decided
  }

  /** Notes the acts of an accept that failed half-way: a later rejection names what still holds. */
  async took(id: string, done: readonly string[]): Promise<void> {
    const report = await this.get(id)
    await this.#lookups.write([
      { put: reportKey(report.state, id), value: encodedReport(withActs(report, done)) },
    ])
  }

  async #removeOld(state: ReportState): Promise<void> {
    const prefix = reportKey(state, '')
    const after = prefix + backwards(this.#clock.now() - closedMs)
    const old: { delete: string }[] = []
    for await (const { key } of this.#lookups.scan(prefix, { after, limit: removedPerDecision }))
      old.push({ delete: key })
    if (old.length > 0) await this.#lookups.write(old)
  }
}

function withActs(report: Report, done: readonly string[]): Report {
  const takedown = [...(report.takedown ?? []), ...done].slice(-takedownMax)
  return takedown.length > 0 ? { ...report, takedown } : report
}

function enter(queue: Queue, shares: readonly Share[]): void {
  queue.count++
  for (const [key] of shares) queue.shares.set(key, (queue.shares.get(key) ?? 0) + 1)
}

function reportKey(state: ReportState, id: string): string {
  return `reports/${state}/${id}`
}

function backwards(ms: number): string {
  return newestFirst(ms)
}

function encodedReport(report: Report): Buffer {
  return Buffer.from(JSON.stringify(report))
}

function parse(value: Uint8Array): Report {
  return JSON.parse(Buffer.from(value).toString()) as Report
}

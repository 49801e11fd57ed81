/**
 * Compares a run's history with the content tree as its model.
 *
 * The rows in the order in which they became durable are the order of all changes of an account.
 * Every answer must be the one that the model gives at a state between the request and the answer.
 * Every acknowledged change is among the rows once, between its request and its answer. No refused
 * change is there, no unrequested one, and none twice.
 *
 * Reports of downloads are the exception: they are answered before their row, and show before it.
 * So counts in answers are compared only when no report can wait any more.
 */

import type { AccountState, DecideContext, Outcome } from '@holdfast/content-tree'
import { hex } from '@holdfast/kernel'
import { AccountReply, type AccountRequest, type Change, Flush } from '@holdfast/wire'
import { states } from './cluster.ts'
import { type AskedRequest, type History, isRefused, statusOf } from './history.ts'
import type { DecisionTimes } from './observed-states.ts'
import type { AppendedRow } from './stores.ts'

interface PlacedChange {
  change: Change
  id: string
  step: number
  row: AppendedRow
}

/** Queries and their answers are compared at the states `from` … `to`, counted in changes. */
interface OpenQuery {
  asked: AskedRequest
  from: number
  to: number
  /** The change is among the rows: its kept answer is compared. */
  done: boolean
}

export interface CheckResult {
  /** The state of each account after all its changes. */
  states: Map<string, AccountState>
  changes: number
}

/** They wait for a row, and may be lost after their answer: `checkReports` has their rules. */
const mayWait = new Set(['reportDownloads'])
/**
 * These statuses say nothing about a change: the request may have been executed before it was
 * repeated.
 */
const saysNothing = new Set([
  'error-unavailable',
  'error-token',
  'error-idempotencyKey',
  'error-alreadyDone',
  'error-rateLimit',
  'error-internal',
])

/** All calls of an attempt, 7 s each at most, and how far clocks of frontends are apart. */
const refusalMsMax = 3 * 7_000 + 4_000

export function check(
  history: History,
  appended: readonly AppendedRow[],
  decided: DecisionTimes,
): CheckResult {
  const byAccount = Map.groupBy(history.asked, ({ account }) => account)
  const rowsByAccount = Map.groupBy(appended, ({ account }) => account)
  const result: CheckResult = { states: new Map(), changes: 0 }
  for (const [account, asked] of byAccount) {
    const placed = (rowsByAccount.get(account) ?? []).flatMap(changesOf)
    result.changes += placed.length
    checkRows(history, rowsByAccount.get(account) ?? [])
    checkPlaces(history, asked, placed)
    result.states.set(account, checkAnswers(history, { account, asked, placed, decided }))
  }
  return result
}

function changesOf(row: AppendedRow): PlacedChange[] {
  const { changes, paged } = Flush.decode(row.bytes)
  if (paged.length > 0) throw new Error('paged changes are not simulated')
  return changes.map((change) => ({
    change,
    id: hex(change.requestId),
    step: row.step,
    row,
  }))
}

/** One writer: epochs only rise, and no row is overwritten. */
function checkRows(history: History, rows: readonly AppendedRow[]): void {
  let before: AppendedRow | undefined
  for (const row of rows) {
    if (row.seq !== (before?.seq ?? 0) + 1)
      history.violated(`${row.account}: row ${row.seq} was written after row ${before?.seq ?? 0}`)
    if (row.epoch < (before?.epoch ?? 0))
      history.violated(
        `${row.account}: row ${row.seq} is of epoch ${row.epoch}, behind one of ${before?.epoch}`,
      )
    before = row
  }
}

function checkPlaces(
  history: History,
  asked: readonly AskedRequest[],
  placed: readonly PlacedChange[],
): void {
  const byId = Map.groupBy(
    placed.filter(({ id }) => id !== ''),
    ({ id }) => id,
  )
  const known = Map.groupBy(asked, ({ id }) => id)
  for (const [id, places] of byId) {
    const [{ change, step }] = places as [PlacedChange]
    const askers = known.get(id)
    const [first] = askers ?? []
    if (askers === undefined || first === undefined) {
      if (change.operation !== tickNumber) history.violated(`a change of request ${id} that no client sent`)
      continue
    }
    const name = first.request.operation?.$case ?? ''
    const what = `${name} ${id.slice(-6)}`
    if (places.length > 1) history.violated(`${what} was executed ${places.length} times`)
    if (step < first.invoked) history.violated(`${what} was executed before it was requested`)
    for (const { reply, responded } of mayWait.has(name) ? [] : askers)
      if (step > responded && reply !== undefined && !isRefused(reply))
        history.violated(`${what} was acknowledged before it was durable`)
    for (const status of contradicting(askers, step))
      history.violated(`${what} was refused with ${status}, and is there`)
  }
}

/**
 * Refusals that prove that a change did not happen. A key may be refused, and accepted the next
 * time.
 */
function contradicting(askers: readonly AskedRequest[], step: number): string[] {
  const later = (one: AskedRequest) =>
    askers.some(({ invoked, reply }) => invoked > one.responded && invoked < step && !isRefusal(reply))
  return askers
    .filter((one) => isRefusal(one.reply) && !later(one))
    .map(({ reply }) => statusOf(reply as AccountReply))
    .filter((status) => !saysNothing.has(status))
}

function isRefusal(reply: AccountReply | undefined): boolean {
  return reply !== undefined && isRefused(reply)
}

export const tickNumber = 45

function checkAnswers(
  history: History,
  {
    account,
    asked,
    placed,
    decided,
  }: {
    account: string
    asked: readonly AskedRequest[]
    placed: readonly PlacedChange[]
    decided: DecisionTimes
  },
): AccountState {
  const steps = placed.map(({ step }) => step)
  const placeOf = new Map(placed.map(({ id }, at) => [id, at + 1]))
  const attempts = Map.groupBy(asked, ({ id }) => id)
  const open: OpenQuery[] = []
  for (const one of asked) {
    if (one.reply === undefined || statusOf(one.reply) === 'error-unavailable') continue
    if (mayWait.has(one.request.operation?.$case ?? '') && !isRefused(one.reply)) continue
    const place = placeOf.get(one.id)
    const done = place !== undefined && !isRefused(one.reply)
    open.push({
      asked: one,
      from: done ? place : countUpTo(steps, refusedSince(one, attempts.get(one.id) ?? [])),
      to: countUpTo(steps, one.responded),
      done,
    })
  }
  open.sort((one, other) => one.from - other.from)
  const model = states.empty(account)
  let next = 0
  let now: OpenQuery[] = []
  for (let at = 0; at <= placed.length; at++) {
    if (at > 0) {
      try {
        model.apply((placed[at - 1] as PlacedChange).change)
      } catch (error) {
        history.violated(`${account}: change ${at} does not apply: ${(error as Error).message}`)
        return model
      }
    }
    for (let one = open[next]; one !== undefined && one.from <= at; one = open[++next]) now.push(one)
    now = now.filter((one) => {
      const counts = one.asked.invoked >= history.settledFrom
      if (one.to >= at && agrees(model, one, { decided, counts })) return false
      if (one.to > at) return true
      history.violated(
        `${account.slice(0, 4)}: ${one.asked.request.operation?.$case} ${one.asked.id.slice(-6)} was answered ${shown(one.asked.reply as AccountReply)}; no state from ${one.from} to ${one.to} answers so, the last one ${lastAnswer(model, one, decided)}`,
      )
      return false
    })
  }
  return model
}

/**
 * The earliest step at which a state may have refused this attempt. Until the deadline of an
 * earlier attempt has passed, this one may get the refusal of the earlier one. Clocks of frontends
 * differ, so deadlines do not show which attempt was the first.
 */
function refusedSince(
  { invoked, invokedMs, reply }: AskedRequest,
  attempts: readonly AskedRequest[],
): number {
  if (!isRefusal(reply)) return invoked
  const status = statusOf(reply as AccountReply)
  const earlier = attempts.filter(
    (other) =>
      other.invoked < invoked &&
      invokedMs - other.invokedMs <= refusalMsMax &&
      (other.reply === undefined || statusOf(other.reply) === status),
  )
  return Math.min(invoked, ...earlier.map((other) => other.invoked))
}

/** The number of steps at or before this one; the steps are ascending. */
function countUpTo(steps: readonly number[], step: number): number {
  let low = 0
  let high = steps.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((steps[middle] as number) <= step) low = middle + 1
    else high = middle
  }
  return low
}

function agrees(
  model: AccountState,
  { asked, done }: OpenQuery,
  { decided, counts }: { decided: DecisionTimes; counts: boolean },
): boolean {
  const shown = (reply: AccountReply) => AccountReply.encode(counts ? reply : withoutCounts(reply)).finish()
  const wanted = shown(asked.reply as AccountReply)
  for (const answer of answers(model, { asked, done }, decided))
    if (answer.kind === 'reply' && Buffer.compare(shown(answer.reply), wanted) === 0) return true
  return false
}

/** As a reply without downloads and traffic. */
function withoutCounts({ result }: AccountReply): AccountReply {
  return { result: uncounted(result) as AccountReply['result'] }
}

const counted = new Set(['downloads', 'trafficDirect', 'trafficWeb'])

function uncounted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(uncounted)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, counted.has(name) ? zeroOf(part) : uncounted(part)]),
  )
}

function zeroOf(counts: unknown): unknown {
  if (counts instanceof Uint8Array) return Buffer.alloc(0)
  return counts === undefined ? undefined : 0
}

function* answers(
  model: AccountState,
  { asked, done }: Pick<OpenQuery, 'asked' | 'done'>,
  decided: DecisionTimes,
): Generator<Outcome> {
  // The owner gets the kept result of a change, even after a token reset.
  const request: AccountRequest = done
    ? { ...asked.request, caller: { who: { $case: 'operator', value: {} } } }
    : asked.request
  for (const nowMs of decided.get(asked.id) ?? [asked.invokedMs]) yield outcomeOf(model, request, nowMs)
}

function outcomeOf(model: AccountState, request: AccountRequest, nowMs: number): Outcome {
  const context: DecideContext = {
    nowMs,
    seed: Buffer.alloc(16),
    newId: () => '',
    codes: { next: 0, end: 1_000_000 },
    legacyCodes: { next: 0, end: 1_000_000 },
    verdict: (verifier, password) => Buffer.from(verifier.hash).toString() === password,
  }
  let outcome = model.decide(request, context)
  while (outcome.kind === 'slices') {
    const steps = outcome.steps
    let step = steps.next()
    while (!step.done) step = steps.next()
    outcome = step.value
  }
  return outcome
}

function lastAnswer(model: AccountState, one: OpenQuery, decided: DecisionTimes): string {
  const [last] = [...answers(model, one, decided)]
  return last?.kind === 'reply' ? shown(last.reply) : (last?.kind ?? 'nothing')
}

function shown(reply: AccountReply): string {
  const text = JSON.stringify(reply.result, (_, value) => (typeof value === 'bigint' ? Number(value) : value))
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}

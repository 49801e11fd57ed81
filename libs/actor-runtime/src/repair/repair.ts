/**
 * An account whose journal cannot be read is made readable again from everything valid.
 *
 * The base is the checkpoint that the root names, or the empty account when every row still exists.
 * Rows behind it are applied in order up to the first that is damaged, missing or cannot be
 * applied. Of later rows only what is safe without it is applied (`AccountState.salvage`). The
 * result is written as a new checkpoint through the last known row. Damaged data, and every row
 * behind the base, is first kept beside it, in pages that are never swept.
 *
 * Without a base nothing is written, because no state is certain.
 */

import type { AccountState } from '@holdfast/content-tree'
import {
  firstChain,
  JournalFault,
  type JournalOwnership,
  type JournalRemain,
  type JournalRepair,
  maxEventBytes,
} from '@holdfast/journal'
import { equalBytes } from '@holdfast/kernel'
import { type Change, CheckpointRoot } from '@holdfast/wire'
import { encodeRoot, pagesOf } from '../account/rows/checkpoints.ts'
import { decodeFlushRow, pageDigestOf } from '../account/rows/flush-row.ts'
import { forEachAtMost } from '../queues/semaphore.ts'
import type { ReadingServices, Services } from '../services.ts'
import { inTurns } from '../timers.ts'

export interface RepairReport {
  account: string
  dryRun: boolean
  /**
   * `whole`: nothing is damaged, nothing was done. `repaired`, `repairable`: the latter by a dry
   * run. `lost`: no checkpoint and not every row is left; nothing was done. `absent`: nothing is
   * stored, and nothing was lost.
   */
  outcome: 'whole' | 'repaired' | 'repairable' | 'lost' | 'absent'
  /** The damage of the stored data, as text. */
  damage: string[]
  /** The last row of the base checkpoint; 0: the empty account. */
  checkpointThrough: number
  /** The last known row. */
  lastRow: number
  changesKept: number
  /** The losses, as text; the first `wordsMax`. */
  lost: string[]
  /** Number of texts omitted above. */
  more: number
  /** Pages of the account with this prefix hold the originals. */
  keptAside: string | null
}

/** Losses named in a report; the others are counted. */
const wordsMax = 200
/** States rebuilt because a change could not be applied; beyond it the rest is dropped. */
const rebuildsMax = 16
/** Pages of originals; the sweep of dead pages skips this prefix. */
export const asidePrefix = 'kept-'

type Row = Extract<JournalRemain, { kind: 'row' }>

interface Remains {
  damage: string[]
  statics: { head: number; chain: Uint8Array } | undefined
  root: CheckpointRoot | undefined
  rows: Map<number, Row>
  /** Names of pages, without those kept aside. */
  pages: Set<string>
  aside: { name: string; stored: Uint8Array }[]
  newestPageEpoch: number
  lastRow: number
}

interface RepairPlan {
  state: AccountState
  through: number
  changesKept: number
  lost: string[]
}

export async function repair(
  services: Services,
  journal: JournalRepair,
  { account, dryRun }: { account: string; dryRun: boolean },
): Promise<RepairReport> {
  const found = await look(journal, account)
  const report = (details: Partial<RepairReport> & Pick<RepairReport, 'outcome'>): RepairReport => {
    const { lost = [], ...others } = details
    return {
      account,
      dryRun,
      damage: found.damage,
      checkpointThrough: 0,
      lastRow: found.lastRow,
      changesKept: 0,
      keptAside: null,
      ...others,
      lost: lost.slice(0, wordsMax),
      more: Math.max(0, lost.length - wordsMax),
    }
  }
  if (found.lastRow === 0 && found.pages.size === 0)
    return report({ outcome: found.damage.length === 0 ? 'absent' : 'lost' })
  const plan = await planOf(services, journal, { account, found })
  if (plan === undefined || (!plan.state.exists && plan.lost.length > 0))
    return report({
      outcome: 'lost',
      lost: ['all of it: no checkpoint is whole, and rows before it are gone'],
    })
  const { through: checkpointThrough, changesKept, lost } = plan
  const reported = { checkpointThrough, changesKept, lost }
  if (found.damage.length === 0 && lost.length === 0) return report({ outcome: 'whole', ...reported })
  if (dryRun) return report({ outcome: 'repairable', ...reported })
  const ownership = await journal.seize(account, {
    owner: services.hostId,
    aboveEpoch: found.newestPageEpoch,
  })
  const prefix = `${asidePrefix}${ownership.epoch}-`
  await keepAside(services, account, { prefix, found })
  await replace(services, ownership, { state: plan.state, found })
  services.log.warn(
    { account, damage: found.damage, lost: lost.length, keptAside: prefix },
    'an account was repaired',
  )
  return report({ outcome: 'repaired', keptAside: prefix, ...reported })
}

/**
 * The state that a repair would make of the account, without writing anything; undefined where it
 * would make nothing.
 * @throws JournalFault `UNAVAILABLE`.
 */
export async function readableState(
  services: ReadingServices,
  journal: JournalRepair,
  account: string,
): Promise<{ state: AccountState; isWhole: boolean } | undefined> {
  const found = await look(journal, account)
  const plan = await planOf(services, journal, { account, found })
  if (plan === undefined || !plan.state.exists) return undefined
  return { state: plan.state, isWhole: found.damage.length === 0 && plan.lost.length === 0 }
}

async function look(journal: JournalRepair, account: string): Promise<Remains> {
  const found: Remains = {
    damage: [],
    statics: undefined,
    root: undefined,
    rows: new Map(),
    pages: new Set(),
    aside: [],
    newestPageEpoch: 0,
    lastRow: 0,
  }
  for await (const remain of journal.remains(account)) {
    if (remain.kind === 'page' && remain.name.startsWith(asidePrefix)) continue
    if (remain.damage !== undefined) found.damage.push(remain.damage)
    switch (remain.kind) {
      case 'statics':
        found.statics = remain.statics
        found.lastRow = remain.lastRow
        found.aside.push({ name: 'facts', stored: remain.stored })
        break
      case 'root':
        found.root = rootOf(remain.bytes, found.damage)
        found.aside.push({ name: 'root', stored: remain.stored })
        break
      case 'row':
        found.rows.set(remain.seq, remain)
        found.aside.push({ name: `row-${remain.seq}`, stored: remain.stored })
        break
      case 'page':
        found.pages.add(remain.name)
        found.newestPageEpoch = Math.max(found.newestPageEpoch, Number.parseInt(remain.name, 10) || 0)
        if (remain.damage !== undefined)
          found.aside.push({ name: `page-${remain.name}`, stored: remain.stored })
    }
  }
  const last = Math.max(0, ...found.rows.keys())
  if (found.statics !== undefined && last > found.statics.head)
    found.damage.push(`rows lie behind row ${found.statics.head}, the last one by the statics`)
  found.lastRow = Math.max(found.lastRow, found.root?.through ?? 0, last)
  return found
}

function rootOf(bytes: Uint8Array | undefined, damage: string[]): CheckpointRoot | undefined {
  if (bytes === undefined) return undefined
  try {
    return CheckpointRoot.decode(bytes)
  } catch (error) {
    damage.push(`the root cannot be read: ${(error as Error).message}`)
    return undefined
  }
}

/** Undefined without a base. */
async function planOf(
  services: ReadingServices,
  journal: JournalRepair,
  { account, found }: { account: string; found: Remains },
): Promise<RepairPlan | undefined> {
  const base = await baseOf(services, journal, { account, found })
  if (base === undefined) return undefined
  const entries = await changesBehind(journal, account, { found, through: base.through })
  for (let rebuilds = 0; ; rebuilds++) {
    const plan = await applyEntries(services, await base.state(), entries)
    if (plan !== undefined) return { ...plan, through: base.through }
    if (rebuilds === rebuildsMax) dropBehindRefused(entries)
  }
}

function dropBehindRefused(entries: readonly Entry[]): void {
  const last = entries.findLastIndex(({ refused }) => refused !== undefined)
  for (const entry of entries.slice(last + 1))
    entry.refused ??= `row ${entry.seq}: a change after ${rebuildsMax} that cannot be applied`
}

/** The state that the rows are applied to, made on each call. */
async function baseOf(
  services: ReadingServices,
  journal: JournalRepair,
  { account, found: { root, rows, damage } }: { account: string; found: Remains },
): Promise<{ through: number; state: () => Promise<AccountState> } | undefined> {
  const { states, clock, timers, bounds } = services
  const turns = { clock, timers, turnMs: bounds.turnMs }
  if (root !== undefined) {
    const pages: Uint8Array[] = []
    for (const [at, name] of root.pages.entries()) {
      const page = await wholePage(journal, account, { name, digest: root.digests[at] })
      if (page === undefined) damage.push(`page ${name} of the checkpoint is missing or damaged`)
      else pages.push(page)
    }
    const state = () => inTurns(states.load(account, pages), turns)
    if (pages.length === root.pages.length) {
      try {
        await state()
        return { through: root.through, state }
      } catch (error) {
        damage.push(`the checkpoint cannot be loaded: ${(error as Error).message}`)
      }
    }
  }
  return rows.has(1) ? { through: 0, state: async () => states.empty(account) } : undefined
}

async function wholePage(
  journal: JournalRepair,
  account: string,
  { name, digest }: { name: string; digest: Uint8Array | undefined },
): Promise<Uint8Array | undefined> {
  if (digest === undefined) return undefined
  for await (const bytes of journal.copiesOfPage(account, name))
    if (pageDigestOf(bytes).equals(digest)) return bytes
  return undefined
}

/** A change, or why it is missing. */
interface Entry {
  seq: number
  change: Change | undefined
  lost: string | undefined
  /** It could not be applied: it is skipped. */
  refused: string | undefined
}

async function changesBehind(
  journal: JournalRepair,
  account: string,
  { found, through }: { found: Remains; through: number },
): Promise<Entry[]> {
  const { rows, statics, damage, lastRow } = found
  const entries: Entry[] = []
  const lose = (seq: number, what: string, isReported = false) => {
    entries.push({ seq, change: undefined, lost: what, refused: undefined })
    if (!isReported) damage.push(what)
  }
  const pageOf = async (name: string, digest: Uint8Array) => {
    const page = await wholePage(journal, account, { name, digest })
    if (page === undefined) throw new Error(`page ${name} of a large change is missing or damaged`)
    return page
  }
  let seq = through
  for (const at of [...[...rows.keys()].filter((one) => one > through).sort(byNumber), lastRow + 1]) {
    if (at > seq + 1) lose(at - 1, `rows ${seq + 1} to ${at - 1} are missing`)
    seq = at
    const row = rows.get(seq)
    if (row === undefined) break
    const why = rowDamage(seq, { rows, statics })
    if (row.row === undefined || why !== undefined) {
      lose(seq, `row ${seq}: ${why}`, row.damage !== undefined)
      continue
    }
    try {
      const { changes } = await decodeFlushRow(row.row.bytes, pageOf)
      for (const change of changes) entries.push({ seq, change, lost: undefined, refused: undefined })
    } catch (error) {
      lose(seq, `row ${seq} cannot be read: ${(error as Error).message}`)
    }
  }
  return entries
}

function byNumber(one: number, other: number): number {
  return one - other
}

/** A row is the one that was written when its successor, or the statics, name it. */
function rowDamage(
  seq: number,
  { rows, statics }: { rows: Map<number, Row>; statics: Remains['statics'] },
): string | undefined {
  const row = rows.get(seq)
  if (row?.row === undefined) return row?.damage ?? 'missing'
  const { checksum, predecessor } = row.row
  const next = rows.get(seq + 1)?.row
  if (next !== undefined && !equalBytes(next.predecessor, checksum)) return 'the next row names another one'
  if (statics?.head === seq && !equalBytes(statics.chain, checksum)) return 'the statics name another one'
  return seq === 1 && !equalBytes(predecessor, firstChain) ? 'it is not the first' : undefined
}

/**
 * @returns undefined when a change was found that cannot be applied: it is marked, and the state is
 *   unusable.
 */
async function applyEntries(
  services: ReadingServices,
  state: AccountState,
  entries: readonly Entry[],
): Promise<Omit<RepairPlan, 'through'> | undefined> {
  const { clock, timers, bounds } = services
  const turns = { clock, timers, turnMs: bounds.turnMs }
  const lost: string[] = []
  let changesKept = 0
  let isGap = false
  for (const entry of entries) {
    const { seq, change } = entry
    const why = entry.lost ?? entry.refused
    if (change === undefined || why !== undefined) {
      isGap = true
      lost.push(why ?? `row ${seq}`)
      continue
    }
    const { change: safe, left } = isGap ? state.salvage(change) : { change, left: [] }
    for (const words of left) lost.push(`row ${seq}: ${words}`)
    if (safe === undefined) continue
    try {
      await inTurns(state.applying(safe), turns)
      // Ends of effects belong to the runtime.
      if (safe.requestId.length > 0) changesKept++
    } catch (error) {
      entry.refused = `row ${seq}: a change cannot be applied: ${(error as Error).message}`
      return undefined
    }
  }
  return { state, changesKept, lost }
}

/** Before anything is replaced. */
async function keepAside(
  { journal, bounds }: Services,
  account: string,
  { prefix, found }: { prefix: string; found: Remains },
): Promise<void> {
  const parts = found.aside.flatMap(({ name, stored }) => {
    const count = Math.max(1, Math.ceil(stored.length / maxEventBytes))
    return Array.from({ length: count }, (_, part) => ({
      name: `${prefix}${name}-${part}`,
      bytes: stored.subarray(part * maxEventBytes, (part + 1) * maxEventBytes),
    }))
  })
  await forEachAtMost(bounds.pagesAtOnceMax, parts, ({ name, bytes }) =>
    journal.putPage(account, name, bytes),
  )
}

async function replace(
  { journal, clock, timers, bounds, log, arrivals }: Services,
  ownership: JournalOwnership,
  { state, found }: { state: AccountState; found: Remains },
): Promise<void> {
  const { account, epoch, head } = ownership
  state.forgetCodes()
  const cut = await inTurns(state.checkpoint(), { clock, timers, turnMs: bounds.turnMs })
  const { pages, fresh } = pagesOf(cut, { before: [], prefix: `${epoch}-0` })
  await forEachAtMost(bounds.pagesAtOnceMax, fresh, ({ name, bytes }) =>
    journal.putPage(account, name, bytes),
  )
  const root = encodeRoot({ through: head, pages })
  await journal.setRoot(ownership, { root, through: head })
  try {
    await journal.trim(ownership, head)
    await journal.deletePages(ownership, [...found.pages])
    // Otherwise the next activation continues: the second region lacks some of it.
    const sendRoutes = () =>
      Promise.reject(new JournalFault('UNAVAILABLE', 'the next activation of this account sends its routes'))
    if (await arrivals.confirm(account, sendRoutes)) await journal.release(ownership)
  } catch (error) {
    // The new checkpoint is set. An activation sweeps what stays; rows behind the root are not
    // read.
    log.warn(
      { account, err: error },
      'what a repair replaced could not be removed; the next activation removes it',
    )
  }
}

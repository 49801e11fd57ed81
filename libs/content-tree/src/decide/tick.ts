/** What time does to an account: expiries, and the end of the bin's 30 days. */
import type { Event } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import type { Outcome } from '../contract.ts'
import { duePerTickMax, recycledSecondsMax } from '../limits.ts'
import { none } from '../tree/columns.ts'
import { answer, type Deciding, done, refuse } from './deciding.ts'

export function tick(deciding: Deciding): Outcome {
  if (deciding.viewer.kind !== 'system' && deciding.viewer.kind !== 'operator')
    return refuse('error-notOwner')
  const events = dueEvents(deciding)
  const garbage = deciding.tree.garbage.length > 0
  return events.length === 0 && !garbage ? answer(done) : deciding.changed(events, done)
}

/**
 * Folders whose expiry is over, by the current tier and consent: deleted with everything in them
 * now, or closed permanently. At most a bounded number; the rest stays due.
 */
export function dueEvents(deciding: Deciding): NonNullable<Event['event']>[] {
  const { tree, now } = deciding
  const gone: string[] = []
  const events: NonNullable<Event['event']>[] = []
  for (const folder of tree.timers.due(now, duePerTickMax)) {
    if (deciding.isPremium && !tree.deletesAfterExpiry(folder))
      events.push({ $case: 'folderClosed', value: { id: tree.idOf(folder) } })
    else gone.push(tree.idOf(folder))
  }
  gone.push(...overInBin(deciding, duePerTickMax - gone.length))
  // Closed first: a closed folder may be inside a deleted one.
  if (gone.length > 0)
    events.push({ $case: 'contentsDeleted', value: { ids: gone, toBin: false, time: now } })
  return events
}

function overInBin({ tree, now }: Deciding, max: number): string[] {
  const ids: string[] = []
  for (const row of tree.children(tree.bin)) {
    if (ids.length >= max) break
    const recycled = tree.recycled.get(row)
    if (recycled !== undefined && now >= recycled.time + recycledSecondsMax) ids.push(tree.idOf(row))
  }
  return ids
}

/** Unix seconds; undefined: nothing will ever be due. */
export function nextDue({ tree, facts }: Account): number | undefined {
  if (facts === undefined) return undefined
  if (tree.garbage.length > 0) return 0
  const expiry = tree.timers.next()
  const bin = nextInBin(tree)
  if (expiry === undefined || bin === undefined) return expiry ?? bin
  return Math.min(expiry, bin)
}

/** Content comes into the bin in the order of time, files and folders each. */
function nextInBin(tree: Account['tree']): number | undefined {
  let least: number | undefined
  for (const rows of [tree.fileRows(tree.bin), tree.folderRows(tree.bin)])
    for (const row of rows) {
      const due = (tree.recycled.get(row)?.time ?? 0) + recycledSecondsMax
      if (least === undefined || due < least) least = due
      break
    }
  return least === undefined || tree.bin === none ? undefined : least
}

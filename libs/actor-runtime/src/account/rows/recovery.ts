/**
 * Reads an account: the root's pages, then every row behind it.
 *
 * The hold was acquired before, so no other host can change what is read here any more. Missing
 * data means that a newer host fenced this one meanwhile, which the serial head shows, or damage.
 * An incomplete state is never used.
 */
import type { AccountState } from '@holdfast/content-tree'
import { JournalFault, type JournalOwnership } from '@holdfast/journal'
import { CheckpointRoot } from '@holdfast/wire'
import type { Services } from '../../services.ts'
import { inTurns } from '../../timers.ts'
import type { CurrentCheckpoint, TailRow } from './checkpoints.ts'
import { decodeFlushRow, pageDigestOf } from './flush-row.ts'

export interface RecoveredAccount {
  state: AccountState
  snapshot: CurrentCheckpoint
  tail: TailRow[]
}

/**
 * @throws JournalFault `FENCED`, `CORRUPT`, `UNAVAILABLE`; what the core throws on an invalid
 *   change.
 */
export async function recover(services: Services, ownership: JournalOwnership): Promise<RecoveredAccount> {
  const root = ownership.root && CheckpointRoot.decode(ownership.root)
  const pages = root === undefined ? [] : await readPages(services, ownership, root)
  const { states, clock, timers, bounds } = services
  const turns = { clock, timers, turnMs: bounds.turnMs }
  const state =
    root === undefined
      ? states.empty(ownership.account)
      : await inTurns(states.load(ownership.account, pages), turns)
  const weight = state.bytes
  const tail: TailRow[] = []
  let seq = root?.through ?? 0
  let turnEndsMs = clock.monotonic() + bounds.turnMs
  for await (const row of services.journal.rows(ownership, seq)) {
    if (row.seq !== ++seq) throw damageFault(ownership, `row ${row.seq} came where ${seq} was due`)
    const read = await decodeFlushRow(row.bytes, (name, digest) =>
      readPage(services, ownership, name, digest),
    )
    for (const change of read.changes) await inTurns(state.applying(change), turns)
    tail.push({ seq, bytes: row.bytes.length, pages: read.pages })
    if (clock.monotonic() < turnEndsMs) continue
    await timers.turn()
    turnEndsMs = clock.monotonic() + bounds.turnMs
  }
  if (seq !== ownership.head) throw damageFault(ownership, `the rows end at ${seq} of ${ownership.head}`)
  const rootPages = (root?.pages ?? []).map((name, at) => ({
    name,
    digest: root?.digests[at] ?? new Uint8Array(),
    part: root?.parts[at],
    bytes: pages[at]?.length ?? 0,
  }))
  const bytes = pages.reduce((sum, page) => sum + page.length, 0)
  return { state, snapshot: { pages: rootPages, bytes, mark: 0, weight }, tail }
}

/** A bounded number at a time. */
async function readPages(
  services: Services,
  ownership: JournalOwnership,
  root: CheckpointRoot,
): Promise<Uint8Array[]> {
  const pages: Uint8Array[] = []
  const atOnce = services.bounds.pagesAtOnceMax
  for (let start = 0; start < root.pages.length; start += atOnce) {
    const names = root.pages.slice(start, start + atOnce)
    const read = names.map((name, at) =>
      readPage(services, ownership, name, root.digests[start + at] ?? new Uint8Array()),
    )
    pages.push(...(await Promise.all(read)))
  }
  return pages
}

async function readPage(
  services: Services,
  ownership: JournalOwnership,
  name: string,
  digest: Uint8Array,
): Promise<Uint8Array> {
  const bytes = await services.journal.page(ownership.account, name)
  if (bytes !== undefined && pageDigestOf(bytes).equals(digest)) return bytes
  const { epoch } = await services.journal.head(ownership.account)
  if (epoch !== ownership.epoch)
    throw new JournalFault('FENCED', `${ownership.account} was taken over while it was read`)
  throw damageFault(ownership, `page ${name} is ${bytes === undefined ? 'missing' : 'not what was written'}`)
}

function damageFault(ownership: JournalOwnership, what: string): JournalFault {
  return new JournalFault('CORRUPT', `journal of ${ownership.account}: ${what}`)
}

/** Removes unnamed pages that dead epochs left behind. */
export async function sweepPages(
  services: Services,
  ownership: JournalOwnership,
  recovered: RecoveredAccount,
): Promise<void> {
  const named = new Set([
    ...recovered.snapshot.pages.map(({ name }) => name),
    ...recovered.tail.flatMap((row) => row.pages),
  ])
  const dead: string[] = []
  for await (const name of services.journal.pageNames(ownership.account)) {
    const epoch = Number(name.split('-', 1)[0])
    if (epoch < ownership.epoch && !named.has(name)) dead.push(name)
  }
  if (dead.length > 0) await services.journal.deletePages(ownership, dead)
}

/**
 * Deletions by operators, of contents and of accounts, and their undo. Deleted content is kept for
 * 30 days, unless the call is final. The act is in the log before the deletion, with the list of
 * contents.
 */
import { RefusalError } from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import { type Act, type ActResult, type Attribution, aboutNothingElse, undoMs } from '@holdfast/moderation'
import { blank, SetAccount } from '@holdfast/wire'
import { askAsOperator } from '../calls.ts'
import { unlessFault } from '../moderation/moderation.ts'
import { showAccount } from './accounts.ts'
import { type ContentDeps, type OwnedContent, read } from './contents.ts'

export const heldSeconds = undoMs / 1000
/** An undo of a deletion continues in another call after this time. */
const pieceMs = 5_000

export interface Deletion extends Attribution {
  /** At once and for good. */
  final: boolean
}

/** The part of a new act that describes its deletions. */
export function deletedAs({ clock }: Pick<ContentDeps, 'clock'>, final: boolean): Pick<Act, 'heldUntil'> {
  return final ? { heldUntil: undefined } : { heldUntil: Math.floor(clock.now() / 1000) + heldSeconds }
}

/** @throws RefusalError error-content */
export async function deleteContent(
  deps: ContentDeps,
  place: OwnedContent,
  { final, ...asked }: Deletion,
): Promise<Act> {
  const { item } = await read(deps, place)
  const { accountId, contentId } = place
  const what = `content ${contentId} of account ${accountId}: ${item.name}`
  const { acts } = deps.lists
  const act = await acts.add({
    ...asked,
    kind: 'delete',
    what,
    ...aboutNothingElse,
    ...deletedAs(deps, final),
  })
  if (!final) await acts.noteDeleted(act.id, { account: accountId, contents: [contentId] })
  const value = {
    contentIds: [contentId],
    representation: undefined,
    heldSeconds: final ? 0 : heldSeconds,
  }
  await askAsOperator(deps, accountId, { $case: 'deleteContents', value })
  return act
}

/**
 * Suspends the account. It is emptied when the deletion can no longer be undone.
 * @throws RefusalError
 */
export async function deleteAccount(
  deps: ContentDeps,
  account: AccountId,
  { final, ...asked }: Deletion,
): Promise<{ act: Act; endTime: number }> {
  const { email } = await showAccount(deps, account)
  const as = {
    kind: 'delete',
    what: `account ${account}: ${email}`,
    undoes: undefined,
    account,
    ...deletedAs(deps, final),
  }
  const { act } = await unlessFault(deps.lists.block('account', [account], asked, as))
  const endTime = act.heldUntil ?? act.time
  await setEnd(deps, account, { endTime })
  return { act, endTime }
}

async function setEnd(
  deps: ContentDeps,
  account: AccountId,
  change: Partial<Pick<SetAccount, 'endTime' | 'clearEndTime'>>,
): Promise<void> {
  const value = { ...blank(SetAccount), ...change }
  await askAsOperator(deps, account, { $case: 'setAccount', value })
}

/**
 * Undoes an act: its changes of the lists, and its deletions. @param after the `next` of the
 * previous call, which continues with the deletions.
 */
export async function undo(
  deps: ContentDeps,
  id: string,
  asked: Attribution,
  after?: string,
): Promise<ActResult & { next: string | null }> {
  const { lists, clock } = deps
  const end = clock.monotonic() + pieceMs
  const [by, place = ''] = after?.split(' ') ?? []
  const done = by === undefined ? await unlessFault(lists.undo(id, asked)) : await goingOn(deps, id, by)
  const act = await unlessFault(lists.acts.get(id))
  if (by === undefined && act.account !== undefined) {
    await setEnd(deps, act.account as AccountId, { clearEndTime: true })
    done.changed++
  }
  let at = place
  for await (const { account, contents, place } of lists.acts.deleted(id, { after: at })) {
    if (at !== '' && clock.monotonic() >= end) return { ...done, next: `${done.act.id} ${at}` }
    const changed = await takeBack(deps, account as AccountId, contents)
    done.changed += changed
    done.unchanged += contents.length - changed
    at = place
  }
  return { ...done, next: null }
}

async function goingOn({ lists }: ContentDeps, id: string, by: string): Promise<ActResult> {
  const act = await unlessFault(lists.acts.get(by))
  if (act.undoes !== id) throw new RefusalError('error-act')
  return { act, changed: 0, unchanged: 0 }
}

/** @returns how many; others were restored before, or were never deleted. */
async function takeBack(deps: ContentDeps, account: AccountId, contentIds: string[]): Promise<number> {
  try {
    await askAsOperator(deps, account, { $case: 'undoSweeps', value: { contentIds } })
    return contentIds.length
  } catch (error) {
    if (!(error instanceof RefusalError) || error.status !== 'error-notFound') throw error
  }
  if (contentIds.length === 1) return 0
  let changed = 0
  for (const id of contentIds) changed += await takeBack(deps, account, [id])
  return changed
}

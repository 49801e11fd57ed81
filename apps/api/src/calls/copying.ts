/**
 * Copy and import over several accounts: each source account answers with a manifest of what the
 * caller may read, then the caller's account makes all copies in one change. A blob may disappear
 * between the two (its owner deleted it and it was collected); then the manifests are requested
 * once more.
 */

import { viewOf } from '@holdfast/accounts'
import { RefusalError } from '@holdfast/http-kit'
import type { AccountId } from '@holdfast/kernel'
import type { CopySource, CopyView, Manifest } from '@holdfast/wire'
import type { Call } from './call.ts'

/** Source accounts asked at a time. */
const accountsAtOnceMax = 8

export interface CopyOrder {
  contentIds: readonly string[]
  /** Undefined: the root. */
  folderId: string | undefined
  password: string | undefined
  /** Omit children that the caller may not read, instead of failing. */
  skipUnreadable: boolean
}

export async function copy(call: Call, order: CopyOrder): Promise<CopyView> {
  const foreign = order.contentIds.filter((id) => !call.owns(id))
  if (foreign.length === 0) return await commit(call, order, new Map())
  await call.authenticate()
  // The answer does not show which items were omitted because of a wrong password. So each such
  // call counts as a wrong guess.
  if (order.skipUnreadable && order.password !== undefined) {
    await call.guesses.wrong('password')
  }
  try {
    return await commit(call, order, await manifestsOf(call, foreign, order))
  } catch (error) {
    if (!sourceVanished(error)) throw error
    return await commit(call, order, await manifestsOf(call, foreign, order))
  }
}

async function commit(call: Call, order: CopyOrder, manifests: Map<string, Manifest>): Promise<CopyView> {
  const sources: CopySource[] = order.contentIds.map((contentId) => ({
    contentId,
    manifest: manifests.get(contentId),
  }))
  const { folderId, password, skipUnreadable } = order
  const result = await call.askOwn({
    $case: 'copyContents',
    value: { sources, folderId, password, skipUnreadable },
  })
  return viewOf(result, 'copy')
}

/** Manifests by source id. All or nothing: the first refusal fails the call. */
async function manifestsOf(
  call: Call,
  contentIds: readonly string[],
  order: CopyOrder,
): Promise<Map<string, Manifest>> {
  const byAccount = groupByAccount(call, contentIds)
  const manifests = new Map<string, Manifest>()
  for (let at = 0; at < byAccount.length; at += accountsAtOnceMax) {
    const some = byAccount.slice(at, at + accountsAtOnceMax)
    await Promise.all(
      some.map(async ({ accountId, ids }) => {
        const { password, skipUnreadable } = order
        const result = await call.askVisitor(accountId, {
          $case: 'takeManifest',
          value: { contentIds: ids, password, skipUnreadable },
        })
        for (const [index, manifest] of viewOf(result, 'manifest').manifests.entries()) {
          manifests.set(ids[index] ?? '', manifest)
        }
      }),
    )
  }
  if (contentIds.some((id) => !manifests.has(id))) throw new Error('a manifest is missing')
  return manifests
}

/** @throws RefusalError error-notFound for an id without an account */
function groupByAccount(
  call: Call,
  contentIds: readonly string[],
): { accountId: AccountId; ids: string[] }[] {
  const byAccount = new Map<AccountId, string[]>()
  for (const id of contentIds) {
    const accountId = call.context.ids.accountOf(id)
    if (accountId === undefined) throw new RefusalError('error-notFound')
    const ids = byAccount.get(accountId) ?? []
    ids.push(id)
    byAccount.set(accountId, ids)
  }
  return [...byAccount].map(([accountId, ids]) => ({ accountId, ids }))
}

function sourceVanished(error: unknown): boolean {
  const { category } = (error ?? {}) as { category?: unknown }
  return category === 'not-found'
}

/** The files of an account that use a copy, and their owner. */
import { blank, type Copy, FindContents } from '@holdfast/wire'
import { type AskDeps, ask, asOperator, viewOf } from './ask.ts'

export interface CopyUses {
  account: string
  /** A guest's address is made of the account's id. */
  email: string
  /**
   * Newest first, `usesMax` at most. An empty list: the files are deleted, and held for an undo.
   */
  files: { id: string; path: string; inBin: boolean }[]
  /** Without the bound. */
  count: number
}

const usesMax = 100

/** @throws what `ask` throws. */
export async function usesOfCopy(
  deps: AskDeps,
  account: string,
  { id, incarnation }: Record<keyof Copy, Uint8Array>,
): Promise<CopyUses> {
  const asked = { accountId: account, who: asOperator }
  const known = await ask(deps, { ...asked, operation: { $case: 'getAccount', value: {} } })
  const copy: Copy = { id: Buffer.from(id), incarnation: Buffer.from(incarnation) }
  const by = { $case: 'copy', value: copy } as const
  const value = { ...blank(FindContents), by, page: 1, pageSize: usesMax }
  const found = await ask(deps, { ...asked, operation: { $case: 'findContents', value } })
  const { hits, page } = viewOf(found, 'search')
  return {
    account,
    email: viewOf(known, 'account').email,
    files: hits.map(({ id, path, inBin }) => ({ id, path, inBin })),
    count: page?.totalCount ?? 0,
  }
}

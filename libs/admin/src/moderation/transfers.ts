/** The operator's search in the record of uploads and downloads. */
import { RefusalError } from '@holdfast/http-kit'
import { listedName, type TransferLog, type TransferQuestion, transferKinds } from '@holdfast/moderation'
import type { FastifyInstance } from 'fastify'
import { accountNamed, type OperatorDeps } from '../calls.ts'

export interface TransferQuery {
  address?: string
  account?: string
  content?: string
  name?: string
  hash?: string
  after?: string
}

const textCharactersMax = 255

/** @param accounts undefined: accounts are named by id alone. */
export function transferRoutes(
  host: FastifyInstance,
  log: TransferLog,
  accounts: OperatorDeps | undefined,
): void {
  for (const kind of transferKinds)
    host.get<{ Querystring: TransferQuery }>(`/admin/${kind}s`, async ({ query }) => {
      const { rows, next } = await log.find(kind, await questionOf(query, accounts), { after: query.after })
      return { status: 'ok', data: { [`${kind}s`]: rows, next: next ?? null } }
    })
}

/** @throws RefusalError naming the parameter. */
export async function questionOf(
  { address, account, content, name, hash }: TransferQuery,
  accounts: OperatorDeps | undefined,
): Promise<TransferQuestion> {
  const given = (value: string | undefined) => (value === '' ? undefined : value)
  if (given(address) !== undefined && listedName('network', address as string) === undefined)
    throw new RefusalError('error-address')
  if ((name ?? '').length > textCharactersMax) throw new RefusalError('error-name')
  const hashed = given(hash)
  const known = hashed === undefined ? undefined : listedName('content', hashed)
  if (hashed !== undefined && known === undefined) throw new RefusalError('error-hash')
  const named = given(account)
  return {
    address: given(address),
    account: named === undefined || accounts === undefined ? named : await accountNamed(accounts, named),
    content: given(content)?.toLowerCase(),
    name: given(name),
    hash: known,
  }
}

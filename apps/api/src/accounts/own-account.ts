import { RefusalError } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import type { Call } from '../calls/call.ts'

export const accountPath = {
  accountId: Type.String({ format: 'uuid', description: 'The account of the token' }),
}

/**
 * @throws RefusalError error-accountId when the path names another account than the token, after
 *   the token was checked
 */
export async function refuseOtherAccount(call: Call, accountId: string): Promise<void> {
  if (accountId.toLowerCase() === call.caller.accountId) return
  await call.authenticate()
  throw new RefusalError('error-accountId')
}

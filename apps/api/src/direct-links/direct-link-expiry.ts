import { parseExpiry, RefusalError } from '@holdfast/http-kit'
import type { Call } from '../calls/call.ts'

/**
 * A link that expires before it begins is a mistake. 0 is none. @throws RefusalError
 *   error-expireTime
 */
export async function refusePastExpiry(call: Call, expireTime: number | undefined): Promise<void> {
  if (!expireTime || parseExpiry(expireTime, call.nowSeconds) !== undefined) return
  await call.authenticate()
  throw new RefusalError('error-expireTime')
}

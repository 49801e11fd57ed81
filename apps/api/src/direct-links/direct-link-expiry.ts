import { parseExpiry, RefusalError } from '@holdfast/http-kit'
import type { Call } from '../calls/call.ts'

/**
 * Refuses an expiry that is not in the future: such a link would never work. 0 means no expiry.
 * @throws RefusalError error-expireTime
 */
export async function refusePastExpiry(call: Call, expireTime: number | undefined): Promise<void> {
  if (!expireTime || parseExpiry(expireTime, call.nowSeconds) !== undefined) return
  await call.authenticate()
  throw new RefusalError('error-expireTime')
}

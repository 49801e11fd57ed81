/**
 * `Idempotency-Key`: a repeated upload has one effect.
 *
 * Without a token the key also decides which guest account is made, and the answer to a repeat
 * holds that account's token. Clients choose keys, sometimes badly. So the account also depends on
 * the uploaded bytes and, with a key that could be guessed, on the client's network.
 */
import { createHmac } from 'node:crypto'
import { networkOf } from '@holdfast/http-kit'
import { type AccountId, type IdCodec, type RegionCode, requestIdOfKey } from '@holdfast/kernel'

/** A shorter key may collide with another client's. */
const strongKeyLength = 16

export function uploadRequestId(key: string): Buffer {
  return requestIdOfKey(`uploadfile ${key}`)
}

/**
 * The guest account of this upload; the same one for a repeat.
 * @param founders regions with which the installation was made, in one order everywhere: with more
 *   of them a repeat would find another account
 */
export function guestOf(
  upload: { key: string; blobId: Uint8Array; name: string; address: string },
  { ids, founders, secret }: { ids: IdCodec; founders: readonly RegionCode[]; secret: Uint8Array },
): AccountId {
  const hmac = createHmac('sha256', secret)
    .update(`guest upload\0${upload.key}\0${upload.name}\0`)
    .update(upload.blobId)
  if (upload.key.length < strongKeyLength) hmac.update(networkOf(upload.address))
  const digest = hmac.digest()
  // A repeat may come through another region's host: only the key decides where the guest account
  // is created.
  const region = founders[digest.readUInt32BE(28) % founders.length] as RegionCode
  return ids.account(region, digest)
}

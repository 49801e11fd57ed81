/**
 * Account tokens: base64url(account id: 16 bytes ‖ HMAC-SHA-256(key, account id ‖ counter): 32
 * bytes). A token yields its account without a lookup. The account verifies it in the turn that
 * uses it, and can derive it again for a repeated answer. A token expires the moment the counter
 * moves. Only key id and counter are stored.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { type AccountId, bytesOfUuid, uuidOfBytes } from '../ids/ids.ts'
import { RecentMap } from '../recent-map.ts'

/** New tokens are made with this key; tokens of older keys stay valid. */
export const tokenKeyId = 1

const tokenBytes = 48
/** Tokens remembered, some 250 bytes each: a busy account sends its own with every request. */
const rememberedTokensMax = 8_192

export class TokenCodec {
  readonly #keyOf: (keyId: number) => KeyObject
  readonly #tokens = new RecentMap<string, Buffer>({ max: rememberedTokensMax })

  /**
   * @param keyOf the 32-byte key of an id; ids rotate, old keys stay until no account uses them.
   */
  constructor(keyOf: (keyId: number) => Uint8Array) {
    const keys = new Map<number, KeyObject>()
    this.#keyOf = (keyId) => {
      const key = keys.get(keyId) ?? createSecretKey(keyOf(keyId))
      keys.set(keyId, key)
      return key
    }
  }

  token(account: AccountId, { keyId, counter }: { keyId: number; counter: number }): string {
    return this.#bytes(account, keyId, counter).toString('base64url')
  }

  /**
   * True when these 48 bytes are the account's token for that counter; compares in constant time.
   */
  verify(
    token: Uint8Array,
    account: AccountId,
    { keyId, counter }: { keyId: number; counter: number },
  ): boolean {
    return token.length === tokenBytes && timingSafeEqual(token, this.#bytes(account, keyId, counter))
  }

  #bytes(account: AccountId, keyId: number, counter: number): Buffer {
    const name = `${account} ${keyId} ${counter}`
    const token = this.#tokens.get(name) ?? this.#derive(account, keyId, counter)
    this.#tokens.set(name, token)
    return token
  }

  #derive(account: AccountId, keyId: number, counter: number): Buffer {
    const id = bytesOfUuid(account)
    const count = Buffer.alloc(4)
    count.writeUInt32BE(counter)
    return Buffer.concat([id, createHmac('sha256', this.#keyOf(keyId)).update(id).update(count).digest()])
  }
}

/** Splits a token as sent; undefined when it cannot be one. Does not check its validity. */
export function parseToken(text: string): { account: string; bytes: Buffer } | undefined {
  if (!/^[A-Za-z0-9_-]{64}$/.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  return bytes.length === tokenBytes ? { account: uuidOfBytes(bytes), bytes } : undefined
}

/**
 * Account and content ids.
 *
 * Both are UUIDs (version 4 in form). The 122 free bits of a content id are a keyed permutation of
 * (account locator: 62, random: 60); those of an account id, under another key, of (locator: 62,
 * zero: 60). A locator is (region number: 4, random: 58). So a content id yields its account and an
 * account id its birth region without any lookup, forged ids are detected, and the ids reveal
 * nothing.
 */
import { randomBytes } from 'node:crypto'
import { RecentMap } from '../recent-map.ts'
import { Permutation } from './permutation.ts'

/** md5 and BLAKE3 of the bytes. */
export const blobIdBytes = 48
/** Distinguishes the copies of a blob. */
export const incarnationBytes = 16

export type AccountId = string & { readonly kind: 'AccountId' }
export type ContentId = string & { readonly kind: 'ContentId' }

/** A UUID of any version, for patterns without flags: those of OpenAPI have none. */
export const uuidPattern = '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'
const uuidForm = new RegExp(`^${uuidPattern}$`)
/** An id whose bytes do so in base64url. */
const beginsWithDash = /^f[89ab]/
const mask58 = (1n << 58n) - 1n
const mask60 = (1n << 60n) - 1n
const mask62 = (1n << 62n) - 1n

/** True for anything written as a UUID, ours or not. */
export function isUuid(text: string): boolean {
  return uuidForm.test(text)
}

/** The eight regions of the contract; their numbers are part of every account id. */
export const regionCodes = [
  'eu-par',
  'na-phx',
  'na-nyc',
  'ap-sgp',
  'ap-hkg',
  'ap-tyo',
  'ap-syd',
  'sa-sao',
] as const
export type RegionCode = (typeof regionCodes)[number]

/**
 * Parsed ids in the cache: some 200 bytes each. A request names the same account and folder several
 * times, and so does the next one.
 */
const rememberedAccountsMax = 4_096
const rememberedContentsMax = 16_384

export class IdCodec {
  readonly #contents: Permutation
  readonly #accounts: Permutation
  /** Account id → plain bits. Text that is not one of our ids is not kept. */
  readonly #plainOf = new RecentMap<string, bigint>({ max: rememberedAccountsMax })
  /** Content id → its account. */
  readonly #accountOf = new RecentMap<string, AccountId>({ max: rememberedContentsMax })

  /** @param keys 32 bytes each; made once per installation, never rotated. */
  constructor(keys: { contentKey: Uint8Array; accountKey: Uint8Array }) {
    this.#contents = new Permutation(keys.contentKey, { halfBits: 61, rounds: 6 })
    this.#accounts = new Permutation(keys.accountKey, { halfBits: 61, rounds: 6 })
  }

  /**
   * Its token begins with the id, and command lines take what begins with `-` for an option: one id
   * of 64 is passed over.
   * @param random at least 8 bytes; the same bytes give the same account.
   */
  account(region: RegionCode, random: Uint8Array = randomBytes(8)): AccountId {
    const number = BigInt(regionCodes.indexOf(region)) << 58n
    for (let drawn = Buffer.from(random).readBigUInt64BE(0) >> 6n; ; drawn = (drawn + 1n) & mask58) {
      const id = uuidOfBits(this.#accounts.forward((number | drawn) << 60n))
      if (!beginsWithDash.test(id)) return id as AccountId
    }
  }

  /** A new content id of this account. @param random at least 8 bytes, of which 60 bits count. */
  content(account: AccountId, random: Uint8Array = randomBytes(8)): ContentId {
    const bits = (this.#locatorOf(account) << 60n) | (Buffer.from(random).readBigUInt64BE(0) & mask60)
    return uuidOfBits(this.#contents.forward(bits)) as ContentId
  }

  /** New content ids of this account, each at a tenth of the cost of `content`. */
  contents(account: AccountId, randoms: readonly Uint8Array[]): ContentId[] {
    const locator = this.#locatorOf(account) << 60n
    const bits = randoms.map((random) => locator | (Buffer.from(random).readBigUInt64BE(0) & mask60))
    return this.#contents.forwardAll(bits).map((value) => uuidOfBits(value) as ContentId)
  }

  /** The id in canonical form, or undefined when this installation cannot have made it. */
  parseAccount(text: string): AccountId | undefined {
    if (!uuidForm.test(text)) return undefined
    const id = text.toLowerCase() as AccountId
    if (this.#plainOf.get(id) !== undefined) return id
    const bits = bitsOfUuid(id)
    if (bits === undefined) return undefined
    const plain = this.#accounts.backward(bits)
    if ((plain & mask60) !== 0n || Number(plain >> 118n) >= regionCodes.length) return undefined
    this.#plainOf.set(id, plain)
    return id
  }

  birthRegion(account: AccountId): RegionCode {
    return regionCodes[Number(this.#locatorOf(account) >> 58n)] as RegionCode
  }

  /**
   * The account a content id belongs to; undefined when the text is no id that an installation with
   * this key makes.
   */
  accountOf(contentId: string): AccountId | undefined {
    if (!uuidForm.test(contentId)) return undefined
    const id = contentId.toLowerCase()
    const known = this.#accountOf.get(id)
    if (known !== undefined) return known
    const bits = bitsOfUuid(id)
    if (bits === undefined) return undefined
    const locator = (this.#contents.backward(bits) >> 60n) & mask62
    if (Number(locator >> 58n) >= regionCodes.length) return undefined
    const account = uuidOfBits(this.#accounts.forward(locator << 60n)) as AccountId
    this.#accountOf.set(id, account)
    return account
  }

  #locatorOf(account: AccountId): bigint {
    const known = this.#plainOf.get(account)
    if (known !== undefined) return known >> 60n
    const bits = bitsOfUuid(account)
    if (bits === undefined) throw new RangeError(`not an account id: ${account}`)
    const plain = this.#accounts.backward(bits)
    if ((plain & mask60) === 0n) this.#plainOf.set(account, plain)
    return plain >> 60n
  }
}

function uuidOfBits(bits: bigint): string {
  const high = bits >> 62n
  const hex = ((high >> 12n) & 0xffffffffffffn).toString(16).padStart(12, '0')
  const middle = (high & 0xfffn).toString(16).padStart(3, '0')
  const low = ((bits & mask62) | (2n << 62n)).toString(16).padStart(16, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-4${middle}-${low.slice(0, 4)}-${low.slice(4)}`
}

function bitsOfUuid(uuid: string): bigint | undefined {
  const hex = uuid.replaceAll('-', '')
  const low = BigInt(`0x${hex.slice(16)}`)
  if (hex[12] !== '4' || low >> 62n !== 2n) return undefined
  return (BigInt(`0x${hex.slice(0, 12)}${hex.slice(13, 16)}`) << 62n) | (low & mask62)
}

/** 16 bytes of a canonical UUID. */
export function bytesOfUuid(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}

/** Canonical UUID of 16 bytes. */
export function uuidOfBytes(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, 16).toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

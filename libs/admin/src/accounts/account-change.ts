/** The body of `POST /admin/accounts/<id>`: its fields, and the command for each. */
import { accountContentsMax } from '@holdfast/actor-runtime'
import { RefusalError } from '@holdfast/http-kit'
import { isTier } from '@holdfast/kernel'
import type { SetAccount } from '@holdfast/wire'

const premiumTypeCharactersMax = 64

/**
 * Everything is checked before anything is changed. Unknown names are refused, so that a mistyped
 * one does not pass for done.
 *
 * @returns undefined for an empty change.
 * @throws RefusalError naming the field.
 */
export function commandOf(body: unknown): SetAccount | undefined {
  const { tier, premiumType, recycleBin, limits, ...others } = objectOf(body, 'body')
  refuseOthers(others)
  const set: SetAccount = {
    tier: tier === undefined ? undefined : tierOf(tier),
    premiumType: premiumType === undefined ? undefined : premiumTypeOf(premiumType),
    recycleBin: recycleBin === undefined ? undefined : switchOf(recycleBin),
    ...limitsOf(limits),
    // Each has a flag of its own.
    clearLimits: false,
    idleFrom: undefined,
    endTime: undefined,
    clearEndTime: false,
  }
  const { clearLimits, clearLimitContents, clearLimitStorage, clearEndTime, ...values } = set
  const isSet = Object.values(values).some((value) => value !== undefined)
  return isSet || clearLimitContents || clearLimitStorage ? set : undefined
}

/** A number sets the limit, null restores the tier's. */
function limitsOf(limits: unknown) {
  const { contents, storage, ...others } = objectOf(limits, 'limits')
  refuseOthers(others)
  const clearLimitContents = contents === null
  const clearLimitStorage = storage === null
  const limitContents =
    contents === undefined || clearLimitContents ? undefined : countOf(contents, 'contents')
  if (limitContents !== undefined && limitContents > accountContentsMax)
    throw new RefusalError('error-contents')
  const limitStorage = storage === undefined || clearLimitStorage ? undefined : countOf(storage, 'storage')
  return { limitContents, limitStorage, clearLimitContents, clearLimitStorage }
}

export function objectOf(value: unknown, name: string): Record<string, unknown> {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value)) throw new RefusalError(`error-${name}`)
  return value as Record<string, unknown>
}

function refuseOthers(others: Record<string, unknown>): void {
  const [name] = Object.keys(others)
  if (name !== undefined)
    throw new RefusalError(/^[A-Za-z]{1,40}$/.test(name) ? `error-${name}` : 'error-body')
}

function tierOf(value: unknown): string {
  if (typeof value !== 'string' || !isTier(value)) throw new RefusalError('error-tier')
  return value
}

function premiumTypeOf(value: unknown): string {
  if (typeof value !== 'string' || value === '' || value.length > premiumTypeCharactersMax)
    throw new RefusalError('error-premiumType')
  return value
}

function switchOf(value: unknown): boolean {
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  throw new RefusalError('error-recycleBin')
}

function countOf(value: unknown, name: string): number {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0)
    throw new RefusalError(`error-${name}`)
  return number
}

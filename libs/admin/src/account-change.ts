/** The body of `POST /admin/accounts/<id>`: its fields, and the command for each. */
import { accountContentsMax } from '@holdfast/actor-runtime'
import { Refusal } from '@holdfast/http-kit'
import type { SetAccount } from '@holdfast/wire'

const tiers = ['guest', 'standard', 'premium']
const premiumTypeCharactersMax = 64

/**
 * Everything is checked before anything is changed. Unknown names are refused, so that a mistyped
 * one does not pass for done.
 *
 * @returns undefined for an empty change.
 * @throws Refusal naming the field.
 */
export function commandOf(body: unknown): SetAccount | undefined {
  const { tier, premiumType, recycleBin, limits, ...others } = objectOf(body, 'body')
  refuseOthers(others)
  const set: SetAccount = { clearLimits: false, clearLimitContents: false, clearLimitStorage: false }
  const fields = Object.keys(set).length
  if (tier !== undefined) set.tier = tierOf(tier)
  if (premiumType !== undefined) set.premiumType = premiumTypeOf(premiumType)
  if (recycleBin !== undefined) set.recycleBin = switchOf(recycleBin)
  if (limits !== undefined) applyLimits(set, limits)
  const clears = set.clearLimitContents || set.clearLimitStorage
  return clears || Object.keys(set).length > fields ? set : undefined
}

/** A number sets the limit, null restores the tier's. */
function applyLimits(set: SetAccount, limits: unknown): void {
  const { contents, storage, ...others } = objectOf(limits, 'limits')
  refuseOthers(others)
  if (contents === null) set.clearLimitContents = true
  else if (contents !== undefined) {
    set.limitContents = countOf(contents, 'contents')
    if (set.limitContents > accountContentsMax) throw new Refusal('error-contents')
  }
  if (storage === null) set.clearLimitStorage = true
  else if (storage !== undefined) set.limitStorage = countOf(storage, 'storage')
}

export function objectOf(value: unknown, name: string): Record<string, unknown> {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value)) throw new Refusal(`error-${name}`)
  return value as Record<string, unknown>
}

function refuseOthers(others: Record<string, unknown>): void {
  const [name] = Object.keys(others)
  if (name !== undefined) throw new Refusal(/^[A-Za-z]{1,40}$/.test(name) ? `error-${name}` : 'error-body')
}

function tierOf(value: unknown): string {
  if (typeof value !== 'string' || !tiers.includes(value)) throw new Refusal('error-tier')
  return value
}

function premiumTypeOf(value: unknown): string {
  if (typeof value !== 'string' || value === '' || value.length > premiumTypeCharactersMax)
    throw new Refusal('error-premiumType')
  return value
}

function switchOf(value: unknown): boolean {
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  throw new Refusal('error-recycleBin')
}

function countOf(value: unknown, name: string): number {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0)
    throw new Refusal(`error-${name}`)
  return number
}

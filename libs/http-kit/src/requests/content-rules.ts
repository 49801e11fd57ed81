/**
 * What names, tags, descriptions, times, passwords and lists of ids may be. Pure; every function
 * returns undefined for what is refused.
 */
import {
  codePoints,
  controlCharacters,
  idsPerListMax,
  isDescription,
  isName,
  isTag,
  isTime,
  isUuid,
  nameCodePointsMax,
  sentTagsCodePointsMax,
  tagsMax,
  timeMax,
} from '@holdfast/kernel'

const everyControlCharacter = new RegExp(`[${controlCharacters}]`, 'g')

export const passwordLengthMin = 4
export const passwordLengthMax = 100

/** Exactly as sent. */
export function parseName(name: string): string | undefined {
  return isName(name) ? name : undefined
}

/**
 * The name that an upload gets for any sent one: the last path part, without control characters,
 * shortened before its extension, `file` if nothing is left. The result always passes `parseName`.
 */
export function cleanUploadName(sent: string): string {
  const last = sent.toWellFormed().split(/[/\\]/).at(-1) ?? ''
  const clean = last.replace(everyControlCharacter, '')
  if (clean.trim() === '' || clean === '.' || clean === '..') return 'file'
  return cutBeforeExtension(clean)
}

function cutBeforeExtension(name: string): string {
  const points = [...name]
  if (points.length <= nameCodePointsMax) return name
  const dot = points.lastIndexOf('.')
  const extension = dot > 0 && points.length - dot <= 32 ? points.slice(dot) : []
  return [...points.slice(0, nameCodePointsMax - extension.length), ...extension].join('')
}

/**
 * Normalised: spaces around commas and empty tags are dropped, duplicates merged, order kept. Empty
 * when no tag is left.
 */
export function parseTags(sent: string): string | undefined {
  if (codePoints(sent) > sentTagsCodePointsMax) return undefined
  const tags = new Set<string>()
  for (const part of sent.split(',')) {
    const tag = part.trim()
    if (tag === '') continue
    if (!isTag(tag)) return undefined
    if (tags.add(tag).size > tagsMax) return undefined
  }
  return [...tags].join(',')
}

/** Empty removes it. */
export function parseDescription(sent: string): string | undefined {
  return isDescription(sent) ? sent : undefined
}

/** 4–100 code points. What an owner stores: the plaintext or its SHA-256 hex. */
export function parseFolderPassword(sent: string): string | undefined {
  const length = codePoints(sent)
  return sent.isWellFormed() && length >= passwordLengthMin && length <= passwordLengthMax ? sent : undefined
}

/** Unix seconds in the future, up to the year 9999. */
export function parseExpiry(value: number, nowSeconds: number): number | undefined {
  return value > nowSeconds && value <= timeMax ? value : undefined
}

/** Unix seconds from the year 0 to 9999. */
export function parseModTime(value: number): number | undefined {
  return isTime(value) ? value : undefined
}

/** Comma-separated UUIDs in canonical form, duplicates merged; 1–1,000. */
export function parseIds(sent: string): string[] | undefined {
  if (sent.length > idsPerListMax * 64) return undefined
  const ids = new Set<string>()
  for (const part of sent.split(',')) {
    const id = part.trim()
    if (!isUuid(id)) return undefined
    ids.add(id.toLowerCase())
  }
  return ids.size <= idsPerListMax ? [...ids] : undefined
}

/** A UUID in canonical form. */
export function parseUuid(sent: string): string | undefined {
  return isUuid(sent) ? sent.toLowerCase() : undefined
}

/**
 * An address as sent, if mail can be sent to it safely: one `@`, ASCII, a domain with a dot, not a
 * guest's address.
 */
export function parseEmail(sent: string): string | undefined {
  const email = sent.trim()
  if (email.length > 254) return undefined
  const parts = /^([A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64})@([A-Za-z0-9.-]+)$/.exec(email)
  const [, local = '', domain = ''] = parts ?? []
  if (local === '' || local.startsWith('.') || local.endsWith('.') || local.includes('..')) return undefined
  const labels = domain.toLowerCase().split('.')
  if (labels.length < 2 || !labels.every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(label))) {
    return undefined
  }
  return domain.toLowerCase() === 'guest.invalid' ? undefined : email
}

/** @param domains of which addresses may have new accounts, in lower case; none: of any */
export function isOfDomains(email: string, domains: readonly string[]): boolean {
  return domains.length === 0 || domains.includes(email.slice(email.lastIndexOf('@') + 1).toLowerCase())
}

/**
 * One name for the spellings of a mailbox, for budgets: without case and without `+tag`, which most
 * providers deliver alike. Dots are dropped where they are known to mean nothing; elsewhere they
 * distinguish mailboxes. Two mailboxes under one name share a budget, nothing else.
 *
 * @param email what `parseEmail` accepted.
 */
export function mailboxOf(email: string): string {
  const at = email.lastIndexOf('@')
  const domain = email.slice(at + 1).toLowerCase()
  const name = email.slice(0, at).toLowerCase()
  const [plain = ''] = name.split('+', 1)
  const mailbox = plain === '' ? name : plain
  if (domain === 'gmail.com' || domain === 'googlemail.com') return `${mailbox.replaceAll('.', '')}@gmail.com`
  return `${mailbox}@${domain}`
}

/**
 * What names, tags, descriptions, times, passwords and lists of ids may be. Pure; every function
 * returns undefined for what is refused.
 */
import { isUuid } from '@holdfast/kernel'

export const nameLengthMax = 255
export const descriptionLengthMax = 2_000
export const tagLengthMax = 25
export const tagsMax = 50
export const idsMax = 1_000
export const passwordLengthMin = 4
export const passwordLengthMax = 100
/** The last second of the year 9999: anything later was meant as milliseconds. */
export const timeMax = 253_402_300_799
/** The first second of the year 0. */
export const timeMin = -62_167_219_200

/**
 * Exactly as sent: 1–255 code points, well-formed, no `/`, no control characters, not `.` or `..`.
 */
export function parseName(name: string): string | undefined {
  if (name === '' || name === '.' || name === '..' || !name.isWellFormed()) return undefined
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the rule looks for them
  if (/[/\u0000-\u001f\u007f-\u009f]/.test(name)) return undefined
  return codePoints(name) <= nameLengthMax ? name : undefined
}

/**
 * The name an upload gets, whatever was sent: the last path part, without control characters,
 * shortened before its extension, `file` if nothing is left. The result always passes `parseName`.
 */
export function cleanUploadName(sent: string): string {
  const last = sent.toWellFormed().split(/[/\\]/).at(-1) ?? ''
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the rule removes them
  const clean = last.replace(/[\u0000-\u001f\u007f-\u009f]/g, '')
  if (clean.trim() === '' || clean === '.' || clean === '..') return 'file'
  return cutBeforeExtension(clean)
}

function cutBeforeExtension(name: string): string {
  const points = [...name]
  if (points.length <= nameLengthMax) return name
  const dot = points.lastIndexOf('.')
  const extension = dot > 0 && points.length - dot <= 32 ? points.slice(dot) : []
  return [...points.slice(0, nameLengthMax - extension.length), ...extension].join('')
}

/**
 * Normalised: spaces around commas and empty tags are dropped, duplicates merged, order kept. Empty
 * when no tag is left.
 */
export function parseTags(sent: string): string | undefined {
  const tags = new Set<string>()
  for (const part of sent.split(',')) {
    const tag = part.trim()
    if (tag === '') continue
    if (!/^[\p{L}\p{Nd}_-]+$/u.test(tag) || codePoints(tag) > tagLengthMax) return undefined
    if (tags.add(tag).size > tagsMax) return undefined
  }
  return [...tags].join(',')
}

/** Markdown of at most 2,000 code points; empty removes. */
export function parseDescription(sent: string): string | undefined {
  return sent.isWellFormed() && codePoints(sent) <= descriptionLengthMax ? sent : undefined
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

/** Unix seconds from the year 0 to 9999: files older than 1970 exist. */
export function parseModTime(value: number): number | undefined {
  return value >= timeMin && value <= timeMax ? value : undefined
}

/** Comma-separated UUIDs in canonical form, duplicates merged; 1–1,000. */
export function parseIds(sent: string): string[] | undefined {
  if (sent.length > idsMax * 64) return undefined
  const ids = new Set<string>()
  for (const part of sent.split(',')) {
    const id = part.trim()
    if (!isUuid(id)) return undefined
    ids.add(id.toLowerCase())
  }
  return ids.size <= idsMax ? [...ids] : undefined
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

function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

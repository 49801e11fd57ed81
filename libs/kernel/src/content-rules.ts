/**
 * What names, descriptions, tags and times of contents may be. Frontends refuse the rest with its
 * status; the core of an account asserts the same before it changes anything.
 */
import { hex } from './bytes/hex.ts'
import { sha256 } from './bytes/sha256.ts'

export const nameCodePointsMax = 255
export const descriptionCodePointsMax = 2_000
export const tagsMax = 50
export const tagCodePointsMax = 25
/** Tags as clients send them, with any spaces and commas between. */
export const sentTagsCodePointsMax = 10_000
export const idsPerListMax = 1_000
/** Chosen contents of an archive: the address of its link has them all, in 4.3 kB. */
export const archiveContentsMax = 200
/** Items of a page of a listing; a larger size is cut. */
export const pageSizeMax = 1_000
/** The last second of the year 9999; larger values are milliseconds by mistake. */
export const timeMax = 253_402_300_799
/** The first second of the year 0: files older than 1970 exist. */
export const timeMin = -62_167_219_200

/** Inside the brackets of a character class. */
export const controlCharacters = '\\u0000-\\u001f\\u007f-\\u009f'
/** Inside the brackets of a character class, of a pattern with the flag u. */
export const tagCharacters = '\\p{L}\\p{Nd}_-'

const refusedInNames = new RegExp(`[/${controlCharacters}]`)
const tagForm = new RegExp(`^[${tagCharacters}]+$`, 'u')
const mediaTypeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/
const passwordDigestForm = /^[0-9a-f]{64}$/

/** 1–255 code points, well-formed, no `/`, no control characters, not `.` or `..`. */
export function isName(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    name.isWellFormed() &&
    !refusedInNames.test(name) &&
    codePoints(name) <= nameCodePointsMax
  )
}

/** In lower case, without parameters; undefined when it is malformed. */
export function mediaType(text: string): string | undefined {
  const type = text.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return mediaTypeForm.test(type) ? type : undefined
}

/** Markdown; empty: none. */
export function isDescription(text: string): boolean {
  return text.isWellFormed() && codePoints(text) <= descriptionCodePointsMax
}

/** Letters, digits, `_` and `-`. */
export function isTag(tag: string): boolean {
  return tagForm.test(tag) && codePoints(tag) <= tagCodePointsMax
}

/** Unix seconds. */
export function isTime(seconds: number): boolean {
  return Number.isSafeInteger(seconds) && seconds >= timeMin && seconds <= timeMax
}

/** What readers send as the password of a folder: its SHA-256 in lower-case hex. */
export function isPasswordDigest(text: string): boolean {
  return passwordDigestForm.test(text)
}

/** @param typed the plaintext, or its SHA-256 hex in any case. */
export function passwordDigest(typed: string): string {
  const lower = typed.toLowerCase()
  return isPasswordDigest(lower) ? lower : hex(sha256([Buffer.from(typed)]))
}

export function codePoints(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit >= 0xd800 && unit < 0xdc00) at++
    count++
  }
  return count
}

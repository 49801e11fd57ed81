/**
 * Assertions on what frontends have already validated: the state never accepts what would break its
 * own rules.
 */

import {
  descriptionCodePointsMax,
  idsPerListMax,
  nameCodePointsMax,
  tagCodePointsMax,
  tagsMax,
  timeMax,
  timeMin,
} from '../limits.ts'
import { codePoints } from '../text.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the rule looks for control characters
const refusedInNames = /[/\u0000-\u001f\u007f-\u009f]/
const tagForm = /^[\p{L}\p{N}_-]+$/u

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

export function isDescription(text: string): boolean {
  return text.isWellFormed() && codePoints(text) <= descriptionCodePointsMax
}

/** `a,b`, or empty. */
export function areTags(text: string): boolean {
  if (text === '') return true
  const tags = text.split(',')
  return (
    tags.length <= tagsMax && tags.every((tag) => tagForm.test(tag) && codePoints(tag) <= tagCodePointsMax)
  )
}

export function isTime(seconds: number): boolean {
  return Number.isSafeInteger(seconds) && seconds >= timeMin && seconds <= timeMax
}

export function isList(ids: readonly string[]): boolean {
  return ids.length > 0 && ids.length <= idsPerListMax
}

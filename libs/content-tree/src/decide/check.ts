/**
 * Assertions on what frontends have already validated: the state never accepts what would break its
 * own rules.
 */
import { idsPerListMax, isTag, tagsMax } from '@holdfast/kernel'

/** `a,b`, or empty. */
export function areTags(text: string): boolean {
  if (text === '') return true
  const tags = text.split(',')
  return tags.length <= tagsMax && tags.every(isTag)
}

export function isList(ids: readonly string[]): boolean {
  return ids.length > 0 && ids.length <= idsPerListMax
}

/**
 * The texts that few contents have. All code that keeps, counts, saves, copies or shows them
 * uses this list, or a record with all its names: a new note cannot be forgotten in one of these
 * places.
 */
import type { ContentNote, Item, ManifestEntry } from '@holdfast/wire'

export const noteNames = ['description', 'tags'] as const satisfies readonly (keyof Item &
  keyof ManifestEntry &
  keyof ContentNote)[]

export type NoteName = (typeof noteNames)[number]

/** The notes of one content; undefined: it has none of this name. */
export type Notes = Record<NoteName, string | undefined>

export function hasNotes(notes: Notes): boolean {
  return noteNames.some((name) => notes[name] !== undefined)
}

/** The notes in a message that has other fields too. */
export function notesIn(message: Notes): Notes {
  return { description: message.description, tags: message.tags }
}

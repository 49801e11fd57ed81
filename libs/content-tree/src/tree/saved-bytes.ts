/**
 * Sizes in a checkpoint, slightly overestimated. Pages are cut by these numbers, and an account's
 * metadata is counted in them.
 */
import { DirectLink } from '@holdfast/wire'
import { type Notes, noteNames } from './notes.ts'

export const savedRowBytes = {
  /** Columns alone; name and mimetype come on top. */
  content: 80,
  blob: 48 + 16 + 8 + 4 + 4 + 8,
  password: 60,
  /** Without its texts. */
  note: 60,
  keyDigest: 12 + 8 + 4 + 1,
}

/** As UTF-8. */
export function savedTextBytes(text: string): number {
  return Buffer.byteLength(text)
}

/** A description or tags. */
export function savedNoteBytes(text: string | undefined): number {
  return text === undefined || text === '' ? 0 : savedRowBytes.note + savedTextBytes(text)
}

export function savedLinkBytes(link: DirectLink): number {
  return savedRowBytes.note + DirectLink.encode(link).finish().length
}

export function savedNotesBytes(notes: Notes): number {
  let bytes = 0
  for (const name of noteNames) bytes += savedNoteBytes(notes[name])
  return bytes
}

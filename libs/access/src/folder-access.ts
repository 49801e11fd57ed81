/**
 * The one rule for reading, for the whole system.
 *
 * Its owner reads a folder until it is deleted. Others read it when it is public, neither it nor
 * any folder above it is expired, it is not in the bin, and its password, if it has one, matches. A
 * file follows its parent folder.
 *
 * Whoever asks (API, page, link, search, import, copy) brings the facts and acts on the answer;
 * nothing else may open content.
 */

/** What the rule needs to know of a folder. `Password` is whatever stands for its password. */
export interface FolderFacts<Password> {
  isPublic: boolean
  /** It lies in the bin, or is the bin. */
  recycled: boolean
  /**
   * The earliest expiry of it and of all folders above, Unix seconds; undefined: none of them has
   * one.
   */
  ends: number | undefined
  /** Undefined: none is set. */
  password: Password | undefined
}

export interface Reader<Password> {
  isOwner: boolean
  /** Unix seconds. */
  now: number
  /** What became of the password this reader sent, tried on this folder's. */
  tryPassword(password: Password): PasswordVerdict
}

/** `unknown`: the slow check has not been made yet. */
export type PasswordVerdict = 'right' | 'wrong' | 'missing' | 'unknown'

export type FolderAccess =
  | 'open'
  | 'notFound'
  | 'notOwner'
  | 'passwordRequired'
  | 'passwordWrong'
  /** Ask again when the password was checked. */
  | 'unknown'

export function accessTo<Password>(folder: FolderFacts<Password>, reader: Reader<Password>): FolderAccess {
  if (reader.isOwner) return 'open'
  if (folder.recycled || isOver(folder.ends, reader.now)) return 'notFound'
  if (!folder.isPublic) return 'notOwner'
  if (folder.password === undefined) return 'open'
  switch (reader.tryPassword(folder.password)) {
    case 'right':
      return 'open'
    case 'wrong':
      return 'passwordWrong'
    case 'missing':
      return 'passwordRequired'
    case 'unknown':
      return 'unknown'
  }
}

/** From the second of its expiry on a folder is over. */
export function isOver(ends: number | undefined, now: number): boolean {
  return ends !== undefined && now >= ends
}

/**
 * Whether a folder is listed at all for a visitor who may read its parent: locked ones show
 * themselves, others do not exist.
 */
export function isShown(access: FolderAccess): boolean {
  return access === 'open' || access === 'passwordRequired' || access === 'passwordWrong'
}

/** The contract's status for a folder that does not open. */
export function accessRefusal(access: Exclude<FolderAccess, 'open' | 'unknown'>): string {
  return `error-${access}`
}

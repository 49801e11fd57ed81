/**
 * The one rule for reading, for the whole system.
 *
 * The owner can read a folder until it is deleted. A visitor can read a folder when it is public,
 * is not in the bin, has no expired folder at or above it, and its password, if any, matches. A
 * file follows its parent folder.
 *
 * Each caller (API, page, link, search, import, copy) supplies the folder's attributes and applies
 * the answer. Nothing else may open content.
 */

/**
 * The attributes of a folder that the rule needs. `Password` is the type that represents its
 * password.
 */
export interface FolderInfo<Password> {
  isPublic: boolean
  /** It is in the bin, or is the bin. */
  recycled: boolean
  /**
   * The earliest expiry of this folder and all folders above it, Unix seconds. Undefined: none has
   * one.
   */
  ends: number | undefined
  /** Undefined: no password is set. */
  password: Password | undefined
}

export interface Reader<Password> {
  isOwner: boolean
  /** Unix seconds. */
  now: number
  /** The result of checking this reader's password against this folder's. */
  tryPassword(password: Password): PasswordVerdict
}

/** `unknown`: the slow check has not run yet. */
export type PasswordVerdict = 'right' | 'wrong' | 'missing' | 'unknown'

export type FolderAccess =
  | 'open'
  | 'notFound'
  | 'notOwner'
  | 'passwordRequired'
  | 'passwordWrong'
  /** Check the password, then ask again. */
  | 'unknown'

export function accessTo<Password>(folder: FolderInfo<Password>, reader: Reader<Password>): FolderAccess {
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

/** A folder is expired from the second of its expiry. */
export function isOver(ends: number | undefined, now: number): boolean {
  return ends !== undefined && now >= ends
}

/**
 * Whether a folder is listed for a visitor who may read its parent. Password-protected folders are
 * listed; other unreadable folders are not.
 */
export function isShown(access: FolderAccess): boolean {
  return access === 'open' || access === 'passwordRequired' || access === 'passwordWrong'
}

/** The contract's status for a folder that cannot be opened. */
export function accessRefusal(access: Exclude<FolderAccess, 'open' | 'unknown'>): string {
  return `error-${access}`
}

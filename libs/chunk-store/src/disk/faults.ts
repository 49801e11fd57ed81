/** Which errors of the disk mean what: the blob store's faults for them. */
import { constants } from 'node:os'
import { BlobFault } from '@holdfast/blob-store'
import { isShortage, isUnreadable } from '@holdfast/kernel'

/** As `isUnreadable`, of an engine that only has the system's text. */
export function isUnreadableMessage(message: string): boolean {
  return /input\/output error/i.test(message)
}

const unopenableCodes = new Set(['EACCES', 'EPERM', 'EISDIR', 'ELOOP', 'ENOENT'])

/**
 * The file under its name cannot be opened, while others can: wrong permissions, a directory, a
 * dangling link.
 */
export function isUnopenable(error: unknown, path: string): boolean {
  const { code, path: of = path } = error as NodeJS.ErrnoException
  return isUnreadable(error) || (of === path && unopenableCodes.has(code ?? ''))
}

/**
 * The blob store's fault for an error of the disk. Node has no name for EDQUOT, its code is
 * `Unknown system error -122`.
 */
export function faultOfDisk(error: unknown, doing: string): BlobFault {
  if (error instanceof BlobFault) return error
  const { code, errno, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || errno === -constants.errno.EDQUOT
  return new BlobFault(full ? 'FULL' : 'IO', `${doing}: ${message}`, { cause: error })
}

/** The fault for an error of a read. A shortage of the process is no fault of the disk. */
export function readFaultOf(error: unknown, doing: string): BlobFault {
  if (!isShortage(error)) return faultOfDisk(error, doing)
  return new BlobFault('UNAVAILABLE', `${doing}: ${(error as Error).message}`, { cause: error })
}

/**
 * The file could not be opened for lack of a descriptor: the disk was not asked, and a retry is
 * possible.
 */
export function didNotBegin(error: unknown): boolean {
  return error instanceof BlobFault && error.code === 'UNAVAILABLE'
}

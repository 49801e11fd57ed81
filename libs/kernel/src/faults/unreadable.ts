import { constants } from 'node:os'

const { EIO, ENODATA, EILSEQ, EBADMSG } = constants.errno
/** `EUCLEAN` and `EREMOTEIO`, which Node has no names for, are Linux's. */
const unreadableErrnos = new Set([EIO, ENODATA, EILSEQ, EBADMSG, 117, 121])

/** The disk cannot read what was written there; other places may be intact. */
export function isUnreadable(error: unknown): boolean {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException
  return code === 'EIO' || (errno !== undefined && unreadableErrnos.has(-errno))
}

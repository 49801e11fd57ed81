/** What one moment of a backup consists of. */
import { BackupFault } from './errors.ts'

export interface Snapshot {
  /** Unix ms: everything acknowledged before is there. */
  takenMs: number
  /** Digests of the segments with the rows, in the order of the rows' keys. */
  rows: string[]
  /** Digests of the segments that list the copies, in the order of their ids. */
  copies: string[]
  figures: { rows: number; copies: number; bytes: number }
  /** Copies that the store had and could not read, as `<id>/<incarnation>` in hex. */
  unreadable: string[]
  /** The regions of a cluster in their order. Absent: it is a backup of one machine. */
  regions: string[] | undefined
}

export function parseSnapshot(bytes: Uint8Array, name: string): Snapshot & { digest: string } {
  try {
    return JSON.parse(Buffer.from(bytes).toString())
  } catch (error) {
    throw new BackupFault('DAMAGED', `${name} cannot be read`, { cause: error })
  }
}

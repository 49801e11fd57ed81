/** What a catalogue row says about an entry of a group: after its commit, and after a recovery. */
import { type Copy, type ExtentGeneration, neverVerified, noHomes } from '../catalogue/rows.ts'
import type { ExtentTable } from '../extents/extent-table.ts'
import { type DeletedEntry, entryBytes, type GroupEntry } from '../format.ts'

/**
 * The row's view of a commit entry in this place.
 * @param before the copy that it replaces, if there was one
 */
export function copyOf(
  entry: GroupEntry & { kind: 'inline' | 'staged' },
  at: { extent: { number: number }; generation: number; offset: number; sequence: number },
  before: Copy | undefined,
  extents: Pick<ExtentTable, 'get'>,
): Copy {
  return {
    incarnation: entry.incarnation,
    size: entry.size,
    crc32: entry.crc32,
    createdMs: entry.createdMs,
    placementGroup: entry.placementGroup,
    quarantined: false,
    sequence: at.sequence,
    commitExtent: at.extent.number,
    commitGeneration: at.generation,
    earlierHomes:
      before === undefined
        ? noHomes
        : [homeOf(before), ...before.earlierHomes].filter(
            (home) => home.generation !== at.generation && extents.get(home) !== undefined,
          ),
    entryBytes: entryBytes(entry),
    inlineOffset: entry.kind === 'inline' ? at.offset + entry.payloadOffset : undefined,
    runs: entry.kind === 'staged' ? entry.runs : [],
    verifiedAt: neverVerified,
  }
}

export function homeOf({ commitExtent, commitGeneration }: Copy | DeletedEntry): ExtentGeneration {
  return { extent: commitExtent, generation: commitGeneration }
}

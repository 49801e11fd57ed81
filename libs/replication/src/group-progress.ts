/** Whether this node has, for each of its groups, what the nodes it follows have. */
import type { Clock } from '@holdfast/kernel'
import type { LocalNode } from './local-node.ts'
import type { Replicator } from './replicator.ts'

/** An older mark says nothing about now. */
const currentMs = 15_000

export interface GroupProgress {
  number: number
  /** What is missing; undefined: nothing. */
  behind: string | undefined
}

export async function groupProgress({
  node,
  replicator,
  clock,
}: {
  node: LocalNode
  replicator: Replicator
  clock: Clock
}): Promise<GroupProgress[]> {
  const sources = replicator.sources()
  return Promise.all(
    node.groups.own().map(async ({ number }): Promise<GroupProgress> => {
      for (const [source, groups] of sources) {
        if (!groups.includes(number)) continue
        const mark = await replicator.watermarks.of(source)
        if (mark === undefined || !mark.groups.includes(number))
          return { number, behind: `has not followed ${source} yet` }
        const owed = mark.owed.filter((copy) => copy.placementGroup === number).length
        if (owed > 0) return { number, behind: `lacks ${owed} copies that no node gives whole` }
        const ageMs = clock.now() - mark.coveredMs
        if (ageMs > currentMs) return { number, behind: `is ${Math.round(ageMs / 1000)} s behind ${source}` }
      }
      return { number, behind: undefined }
    }),
  )
}

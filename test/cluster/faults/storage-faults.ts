/** Faults of the disks of storage nodes. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Fault, home, livesIn } from './fault.ts'
import { filesOf, flipBit } from './node-files.ts'
import type { Stage } from './stage.ts'

/** Its disk is small. */
export const smallNode = `${home}-storage-2`
/** Its disk gets damaged and is lost. */
const bad = `${home}-storage-1`

export const storageFaults: readonly Fault[] = [
  {
    name: 'a storage node’s disk full',
    touches: livesIn(home),
    recovers: 'repaired',
    impossible: (stage) =>
      stage.smallDisk(smallNode) === undefined ? 'mounting a file system is not permitted here' : undefined,
    async run(stage) {
      const disk = stage.smallDisk(smallNode)
      const filled = async () => {
        disk?.fill()
        return !(await stage.isReady(smallNode))
      }
      disk?.fill()
      stage.began()
      try {
        // It first releases its own reserve, and that is filled, too.
        await stage.until(`${smallNode} reports that it accepts nothing more`, filled)
        await stage.pause(stage.long ? 20_000 : 3_000)
      } finally {
        disk?.free()
        stage.ended()
      }
      await stage.until(`${smallNode} accepts uploads again by itself`, () => stage.isReady(smallNode))
    },
  },
  {
    name: 'a flipped bit in every kind of file of a storage node',
    touches: livesIn(home),
    recovers: 'repaired',
    async run(stage) {
      stage.began()
      const directory = join(stage.cluster.dataDir, bad, 'blobs')
      // Content read from now on was damaged under the running node.
      for (const path of filesOf(directory).get('extent') ?? []) flipBit(path)
      await stage.pause(2_000)
      const kinds = stage.long ? [...filesOf(directory).keys()] : ['write-ahead log', 'manifest']
      for (const kind of kinds) {
        await stage.kill(bad)
        for (const path of filesOf(directory).get(kind) ?? []) flipBit(path)
        // A node may refuse to start on damaged files; then its disk counts as lost.
        await stage.restart(bad).catch(() => renewed(stage, bad))
      }
      stage.ended()
    },
  },
  lostDisk(),
]

async function renewed(stage: Stage, name: string): Promise<void> {
  rmSync(join(stage.cluster.dataDir, name, 'blobs'), { recursive: true, force: true })
  await stage.restart(name)
}

function lostDisk(): Fault {
  let wanted = 0
  return {
    name: 'a storage node lost with its disk, and rebuilt',
    touches: livesIn(home),
    recovers: 'itself',
    async run(stage) {
      wanted = await stage.blobsOf(bad)
      await stage.kill(bad)
      await stage.pause(1_000)
      await renewed(stage, bad)
      await stage.pause(stage.long ? 30_000 : 5_000)
    },
    // The users use the whole machine, so the speed of copies beside them means nothing.
    async atRest(stage) {
      await stage.untilReached(`blobs that ${bad} has again`, wanted, () => stage.blobsOf(bad))
      await stage.until('every group has all its copies', () => stage.allGroupsFull())
    },
  }
}

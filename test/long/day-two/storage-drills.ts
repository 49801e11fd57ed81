/** Storage nodes that come, go and lose their disks. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Drill } from './drill.ts'
import { gbPerMinute, type Office, seconds } from './office.ts'
import { underLoad } from './users.ts'

/** About 400 MB. */
const filled = { files: 50, bytesEach: 8 * 1024 * 1024 }

export const storageDrills: readonly Drill[] = [
  {
    name: 'a storage node’s disk is replaced by an empty one',
    run: (office, seed) => rebuilt(office, seed, { isEmptied: true }),
  },
  {
    name: 'a storage node is added, another one drained and removed',
    changesCluster: true,
    async run(office, seed) {
      const [leaving = '', staying = ''] = office.namesOf('storage-node', office.home)
      const coming = `${office.home.code}-storage-3`
      await office.fill(filled)
      const lines: string[] = []
      const users = await underLoad(office, { seed }, async () => {
        const addedMs = performance.now()
        const admin = await office.addStorageNode(coming, leaving)
        await office.until('it holds copies', async () => (await office.groupsOf(coming)) > 0)
        await office.until('it has all of them', () => office.isFull())
        // What is there stays where it is: a new node is in new groups.
        lines.push(
          `added: in ${await office.groupsOf(coming)} placement groups after ${seconds(performance.now() - addedMs)}`,
        )
        const before = await office.storeOf(admin)
        const kept = await office.storeOf(staying)
        const drainedMs = performance.now()
        await office.ctl('node', 'drain', leaving)
        await office.until(
          'it is in no group',
          async () => (await office.groupsOf(leaving)) === 0 && (await office.isFull()),
        )
        const tookMs = performance.now() - drainedMs
        const after = await office.storeOf(admin)
        const keeps = await office.storeOf(staying)
        const gained = (of: 'blobs' | 'liveBytes') => after[of] - before[of] + keeps[of] - kept[of]
        lines.push(moved('drained', { blobs: gained('blobs'), liveBytes: gained('liveBytes') }, tookMs))
        process.kill(await office.cluster.pidOf(leaving), 'SIGTERM')
        await office.until('it is gone', async () => {
          const { nodes } = await office.status()
          return !nodes.some(({ id }) => id === leaving)
        })
        await office.ctl('node', 'remove', leaving)
      })
      return [...lines, users]
    },
  },
  {
    name: 'a storage node is lost for good and another one takes its place',
    changesCluster: true,
    run: (office, seed) => rebuilt(office, seed, { isEmptied: false }),
  },
]

async function rebuilt(
  office: Office,
  seed: number,
  { isEmptied }: { isEmptied: boolean },
): Promise<string[]> {
  const [lost = ''] = office.namesOf('storage-node', office.home)
  await office.fill(filled)
  const lines: string[] = []
  const users = await underLoad(office, { seed }, async () => {
    const had = await office.storeOf(lost)
    process.kill(await office.cluster.pidOf(lost), 'SIGKILL')
    rmSync(join(office.cluster.dataDir, lost, 'blobs'), { recursive: true, force: true, maxRetries: 5 })
    if (!isEmptied)
      await office.until('its loss is seen', async () => {
        const { nodes } = await office.status()
        return !nodes.some(({ id }) => id === lost)
      })
    const startedMs = performance.now()
    let node = lost
    if (isEmptied) await office.cluster.restart(lost)
    else {
      await office.ctl('node', 'remove', lost)
      node = await office.addStorageNode(`${office.home.code}-storage-3`, lost)
    }
    await office.until(
      'it has what the node had',
      async () => (await office.storeOf(node)).blobs >= had.blobs && (await office.isFull()),
    )
    lines.push(moved('rebuilt', await office.storeOf(node), performance.now() - startedMs))
  })
  return [...lines, users]
}

function moved(what: string, { blobs, liveBytes }: { blobs: number; liveBytes: number }, ms: number): string {
  return `${what}: ${blobs} blobs, ${Math.round(liveBytes / 2 ** 20)} MB in ${seconds(ms)}, ${gbPerMinute(liveBytes, ms)}`
}
